"""Heuristics under rules that they know only by simpler ones, judged by brute force and the referee."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise, product

import pytest

import opweave as ow
from opweave.formulations.expressions import express
from opweave.problems.constraints import Constraint
from opweave.problems.solution import Violation
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.placement import best_placement
from tests.solvers.narrowing.instances import batched_with_rules, placement_with_rules, slicing_with_rules, with_rules
from tests.solvers.placement.instances import layered_problem
from tests.tiny import PROBLEMS

RELATIVE = 1e-9


def best_whole_slicing(problem: ow.Slicing) -> float | None:
    """Ask the referee about every choice of devices for operators that stay whole."""
    names, ops = [device.name for device in problem.cluster.devices], [op.id for op in problem.graph.operators]
    found = []
    for devices in product(range(len(names)), repeat=len(ops)):
        cuts = [(0,) + (0,) * k + (1,) * (len(names) - k) for k in devices]
        slices = {op: ow.Slice(dimension="whole", cuts=cut) for op, cut in zip(ops, cuts, strict=True)}
        judged = problem.evaluate(ow.Slices(devices=names, slices=slices, order=ops))
        found += [judged.objective] if judged.feasible else []
    return min(found, default=None)


@dataclass(frozen=True)
class Subject:
    """A family of instances, its oracle, its heuristics, and the most that the best of them may lose."""

    make: Callable[[int], ow.Problem]
    optimum: Callable[[ow.Problem], float | None]
    solvers: tuple[str, ...]


PLACEMENT = Subject(
    placement_with_rules,
    lambda problem: best_placement(problem)[0],
    ("heft", "cpop", "peft", "etf", "fill", "fill_even", "msct", "getf", "one_device"),
)
BATCHED = Subject(
    batched_with_rules,
    lambda problem: best_batched_mapping(problem)[0],
    ("met", "met_whole", "greedy", "heft", "heft_whole", "best_device", "data_parallel"),
)
SLICING = Subject(
    slicing_with_rules, best_whole_slicing, ("one_device", "uniform", "proportional", "all_channels", "by_memory")
)
CASES = [
    *((PLACEMENT, seed) for seed in range(50)),
    *((BATCHED, seed) for seed in range(30)),
    *((SLICING, seed) for seed in range(20)),
]
"""A hundred instances."""

SINGLE = {"one_device", "best_device", "data_parallel"}
"""Heuristics that use single devices for the whole model, so that they have no plan for Separate."""


@pytest.mark.parametrize(("subject", "seed"), CASES)
def test_list_schedulers_obey_and_find_a_plan_where_there_is_one(subject: Subject, seed: int) -> None:
    problem = subject.make(seed)
    optimum = subject.optimum(problem)
    for solver in subject.solvers:
        result = ow.solve(problem, solver=solver)
        if optimum is None:
            assert result.solution is None
            assert result.reason
            continue
        assert result.status is not ow.Status.INFEASIBLE
        assert result.bound is None or result.bound <= optimum * (1 + RELATIVE)
        if result.solution is None:
            assert solver in SINGLE
            assert result.reason
        else:
            assert problem.evaluate(result.solution).feasible
            assert result.objective >= optimum * (1 - RELATIVE)


@pytest.mark.parametrize("solver", ["search", "decompose", "intervals", "units"])
@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_searches_claim_nothing_that_holds_for_a_narrower_problem_only(solver: str, seed: int) -> None:
    problem = placement_with_rules(seed)
    optimum = best_placement(problem)[0]
    result = ow.solve(problem, solver=solver, time_limit=1.0)
    if optimum is None:
        assert result.solution is None
        return
    assert result.status is not ow.Status.INFEASIBLE
    assert result.bound is None or result.bound <= optimum * (1 + RELATIVE)
    assert result.objective is None or result.objective >= optimum * (1 - RELATIVE)
    assert solver == "units" or result.verified, result.reason


@pytest.mark.parametrize("kind", ["placement", "batched_mapping", "slicing"])
def test_local_search_is_no_worse_than_its_start(kind: str) -> None:
    problem = with_rules(PROBLEMS[kind], [ow.Separate(ops=["a", "b"])])
    best = ow.solve(problem, solver="highs")
    result = ow.solve(problem, solver="local", time_limit=0.3, start=best.solution)
    assert result.objective == pytest.approx(best.objective)

    def reached(now: ow.Progress) -> bool:
        return now.objective is not None and now.objective <= best.objective * (1 + RELATIVE)

    found = ow.solve(problem, solver="local", time_limit=30.0, callback=reached)  # a busy machine needs seconds
    assert found.objective == pytest.approx(best.objective)


def test_auto_is_no_worse_than_the_heuristics_that_obey() -> None:
    rules = [ow.Separate(ops=["l0.in", "l3.h1"]), ow.MaxDevices(count=2)]
    problem = with_rules(layered_problem(8, 4), rules)
    best = ow.solve(problem, time_limit=1.0)
    for solver in ("heft", "cpop", "peft", "etf", "fill"):
        assert best.objective <= ow.solve(problem, solver=solver).objective


def test_a_run_whose_time_is_up_gets_a_plan_that_obeys() -> None:
    bare = layered_problem(40, 4)
    problem = with_rules(bare, [ow.Separate(ops=["l0.in", "l3.h1"]), ow.Colocate(ops=["l1.in", "l2.h0"])])
    ow.solve(problem, solver="fill")  # imports take longer than the whole limit
    for solver in ("highs", "fill"):
        assert ow.solve(problem, solver=solver, time_limit=1e-3).verified


def test_a_contradiction_of_what_is_known_is_still_a_proof() -> None:
    rules = [ow.Pin(op="a", device="d"), ow.Forbid(op="a", device="d"), ow.Separate(ops=["a", "b"])]
    problem = with_rules(PROBLEMS["placement"], rules)
    for solver in ("heft", "local", "search"):
        assert ow.solve(problem, solver=solver).status is ow.Status.INFEASIBLE


def test_a_plan_that_obeys_by_itself_is_kept() -> None:
    """HEFT uses both devices, which is what is asked; it must not be replaced by a worse plan."""
    bare = PROBLEMS["placement"]
    free = ow.solve(bare, solver="heft")
    assert ow.solve(with_rules(bare, [ow.MaxDevices(count=2)]), solver="heft").objective == free.objective


class Neighbours(Constraint):
    """Two operators run on devices that follow each other in the cluster."""

    ops: tuple[str, str]

    def violations(self, problem: ow.Placement, solution: ow.Schedule) -> Iterable[Violation]:
        place = {device.name: k for k, device in enumerate(problem.cluster.devices)}
        first, second = (place[solution.device[op]] for op in self.ops)
        if second != first + 1:
            yield self.broken(f"{self.ops} are no neighbours")


@express(Neighbours, "narrowed")
def _neighbours(problem: ow.Placement, rule: Neighbours) -> Iterable[tuple[ow.Constraint, ...]]:
    names = [device.name for device in problem.cluster.devices]
    for pair in pairwise(names):
        yield tuple(ow.Pin(op=op, device=device) for op, device in zip(rule.ops, pair, strict=True))


def test_a_rule_of_ones_own_reaches_every_heuristic_by_simpler_ones() -> None:
    problem = with_rules(PROBLEMS["placement"], [Neighbours(ops=("b", "a"))])
    for solver in ("heft", "etf", "fill", "local"):
        result = ow.solve(problem, solver=solver, time_limit=0.5)
        assert (result.solution.device["b"], result.solution.device["a"]) == ("d", "e")


def test_greedy_orders_take_precede() -> None:
    bare = PROBLEMS["memory_ordering"]
    for before, after in (("a", "b"), ("b", "a")):
        problem = with_rules(bare, [ow.Precede(before=before, after=after)])
        for solver in ("definition", "rpo", "lpmf", "bfs", "dfs"):
            assert ow.solve(problem, solver=solver).solution.order == (before, after, "c")
