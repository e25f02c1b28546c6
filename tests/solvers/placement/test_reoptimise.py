"""Windows that are decided anew, against brute force and the referee."""

from __future__ import annotations

import math
import random
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import IntArray
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement import auto, cooling, reoptimise
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.local import empty_search, list_plans
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.placement.plans import Plan, fits, plan_of, solution_of
from opweave.solvers.placement.reoptimisation.child import Times, Work
from opweave.solvers.placement.reoptimisation.choice import LEAST_SIZE, Choice, blocks_of
from opweave.solvers.placement.reoptimisation.timed import Timed, network_of, timed_from
from opweave.solvers.placement.reoptimisation.window import Window
from opweave.solvers.placement.situation import Situation
from opweave.solvers.run import Progress, Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import MODELS, layered_problem, small_problem
from tests.solvers.placement.reoptimised_child import Task, decide_all, decide_blocks

needs_cp_sat = pytest.mark.skipif(not available(), reason="CP-SAT is not installed")


def two_at_once() -> Placement:
    """Two operators of 1 s each, on two equal devices: 2 s one after the other, 1 s side by side."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=1) for name in "xy"],
        operators=[ow.Operator(id=name, outputs=[name]) for name in "xy"],
    )
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0.0, 1.0], [1.0, 0.0]])
    costs = ow.Costs.from_table({name: {"a": 1.0, "b": 1.0} for name in "xy"})
    return Placement(graph=graph, cluster=cluster, costs=costs)


def first_plan(problem: Placement, seed: int) -> Times | None:
    """A plan on devices at random; None if none of 60 fits and can run."""
    instance = lower(problem)
    arrays, rng = arrays_of(instance, problem), np.random.default_rng(seed)
    order = operator_order(arrays)
    leader = np.unique(instance.cluster, return_index=True)[1]
    for _ in range(60):
        device: IntArray = rng.integers(0, arrays.seconds.shape[1], len(order))[leader][instance.cluster]
        if fits(arrays, device) and np.isfinite(arrays.seconds[np.arange(len(order)), device]).all():
            plan = plan_of(arrays, order, device)
            if 0.0 < plan.makespan < np.inf:
                return Times(plan.makespan, plan.device, plan.start, plan.begins)
    return None


def tied(problem: Placement) -> Placement:
    """The same problem, with its first and its last operator on one device."""
    ends = (problem.graph.operators[0].id, problem.graph.operators[-1].id)
    return Placement(
        graph=problem.graph,
        cluster=problem.cluster,
        costs=problem.costs,
        transfers=problem.transfers,
        constraints=[ow.Colocate(ops=ends)],
    )


def one_way(problem: Placement) -> Placement:
    """The same problem, with links from earlier to later devices only."""
    devices = problem.cluster.devices
    bandwidth = np.triu(np.ones((len(devices), len(devices))), 1).tolist()
    return Placement(
        graph=problem.graph,
        cluster=ow.Cluster(devices=devices, bandwidth=bandwidth),
        costs=problem.costs,
        transfers=problem.transfers,
    )


def _problem(seed: int) -> Placement:
    problem = small_problem(seed, most_operators=5, memory=seed % 2 == 0, scale=10.0 ** (seed % 5 - 2))
    if seed % 7 == 3:
        return one_way(problem)
    return tied(problem) if seed % 4 == 1 and len(problem.graph.operators) > 2 else problem


def _begun(seeds: range) -> list[tuple[Placement, Times, random.Random]]:
    begun = []
    for seed in seeds:
        problem = _problem(seed)
        try:
            plan = first_plan(problem, seed)
        except ow.InvalidInputError:
            continue
        if plan is not None:
            begun.append((problem, plan, random.Random(seed)))
    return begun


BEGUN = _begun(range(45))


def _task(problem: Placement, plan: Times, windows: list[list[int]]) -> Task:
    instance = lower(problem)
    return arrays_of(instance, problem), instance.cluster, plan, windows


def _answers(function: Any, tasks: list[Task]) -> list[Times]:
    found: list[Times] = []
    name = f"tests.solvers.placement.reoptimised_child:{function.__name__}"
    run_in_child("cp-sat", name, tasks, ChildLimits(), hear=found.append)
    return found


def _judge(problem: Placement, plan: Times) -> float:
    """The makespan of a plan, which the referee accepts."""
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    order = np.arange(instance.operators)
    solution = solution_of(instance, arrays, Plan(order, plan.device, plan.start, plan.begins, plan.makespan))
    judged = problem.evaluate(solution)
    assert judged.violations == ()
    assert judged.objective == pytest.approx(plan.makespan)
    return plan.makespan


@needs_cp_sat
def test_a_window_of_both_operators_runs_them_side_by_side() -> None:
    problem = two_at_once()
    plan = Times(2.0, np.array([0, 0]), np.array([0.0, 1.0]), np.zeros(0))
    (found,) = _answers(decide_all, [_task(problem, plan, [[0, 1]])])
    assert sorted(found.device.tolist()) == [0, 1]
    assert _judge(problem, found) == 1.0


@needs_cp_sat
def test_windows_of_all_operators_reach_the_optimum() -> None:
    whole = [list(range(len(problem.graph.operators))) for problem, _, _ in BEGUN]
    tasks = [_task(problem, plan, [each] * 3) for (problem, plan, _), each in zip(BEGUN, whole, strict=True)]
    assert {problem.transfers for problem, _, _ in BEGUN} == set(MODELS)
    for (problem, _, _), found in zip(BEGUN, _answers(decide_all, tasks), strict=True):
        optimum, _ = best_placement(problem)
        assert optimum is not None
        assert optimum * (1 - 1e-9) <= _judge(problem, found) <= optimum * (1 + 2e-5)


@needs_cp_sat
@pytest.mark.parametrize("decide", [decide_all, decide_blocks])
def test_windows_of_some_operators_keep_all_rules_and_are_never_longer(decide: Any) -> None:
    tasks = []
    for problem, plan, draw in BEGUN:
        count = len(problem.graph.operators)
        windows = [draw.sample(range(count), draw.randint(1, count)) for _ in range(6)]
        tasks.append(_task(problem, plan, windows))
    shorter = 0
    for (problem, plan, _), found in zip(BEGUN, _answers(decide, tasks), strict=True):
        shorter += _judge(problem, found) < plan.makespan
        assert found.makespan <= plan.makespan * (1 + 1e-12)
    assert shorter > len(BEGUN) // 3


def _timed(problem: Placement, plan: Times) -> Timed:
    instance = lower(problem)
    return timed_from(network_of(arrays_of(instance, problem), instance.cluster), plan.device, plan.start, plan.begins)


@pytest.mark.parametrize("number", range(len(BEGUN)))
def test_a_plan_of_the_list_scheduler_stays_as_it_is(number: int) -> None:
    problem, plan, _ = BEGUN[number]
    again = _timed(problem, plan)
    assert again.makespan == pytest.approx(plan.makespan)
    assert max(start + again.tail[activity] for activity, start in again.start.items()) == pytest.approx(plan.makespan)
    _judge(problem, Times(again.makespan, *again.arrays()))


@pytest.mark.parametrize("number", range(len(BEGUN)))
def test_what_is_early_does_not_wait_for_what_is_late(number: int) -> None:
    problem, plan, draw = BEGUN[number]
    again = _timed(problem, plan)
    window = Window(again, tuple((v,) for v in draw.sample(range(len(plan.device)), 1)))
    kinds = [window.inside, window.early, window.late, frozenset(window.middle)]
    assert sum(map(len, kinds)) == len(again.start) == len(frozenset.union(*kinds))
    for activity, waits in again.waits_for.items():
        for other, _ in waits:
            assert activity not in window.early or other not in window.late


def test_blocks_are_cut_where_a_device_waits_or_changes() -> None:
    """x runs on a, y after it on a; with a break, or on b, they are two blocks."""
    problem = two_at_once()

    def cut(device: list[int], start: list[float], trees: list[int]) -> list[tuple[int, ...]]:
        return blocks_of(_timed(problem, Times(2.0, np.array(device), np.array(start), np.zeros(0))), trees)

    assert cut([0, 0], [0.0, 1.0], [7, 7]) == [(0, 1)]
    assert cut([0, 0], [0.0, 1.0], [7, 8]) == [(0,), (1,)]
    assert cut([0, 1], [0.0, 0.0], [7, 7]) == [(0,), (1,)]


def test_windows_hold_blocks_of_one_time_and_lie_apart() -> None:
    problem = layered_problem(10, 3)
    plan = first_plan(problem, 0)
    assert plan is not None
    again, choice = _timed(problem, plan), Choice(list(range(len(plan.device))), 0)
    choice.size = 5.0
    blocks = blocks_of(again, choice.trees)
    firsts = []
    for _ in range(8):
        window = choice.window(again)
        firsts.append(blocks.index(window[0]))
        assert list(window) == blocks[firsts[-1] : firsts[-1] + 5]
    assert len(set(firsts)) == 8
    choice.size = 1000.0
    assert list(choice.window(again)) == blocks


def test_windows_grow_while_they_are_easy_and_shrink_when_they_are_hard() -> None:
    choice = Choice((), 0)
    first = choice.size
    choice.learn(settled=True, improved=False, share=0.1)
    assert choice.size > first
    grown = choice.size
    choice.learn(settled=True, improved=True, share=0.9)
    assert choice.size == grown
    for _ in range(50):
        choice.learn(settled=False, improved=False, share=1.0)
    assert choice.size == LEAST_SIZE


@needs_cp_sat
@pytest.mark.parametrize("transfers", MODELS)
def test_the_solver_is_not_behind_its_cooling_and_repeats_itself(
    transfers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = layered_problem(2, 6, transfers=transfers)
    monkeypatch.setattr(cooling, "UNTIMED_CHUNKS", 5)
    monkeypatch.setattr(reoptimise, "UNTIMED_WINDOWS", 6)
    found = [ow.solve(problem, solver="reoptimise", seed=3) for _ in range(2)]
    cooled = ow.solve(problem, solver="cooling", seed=3)
    assert found[0].verified
    assert found[0].objective == found[1].objective <= cooled.objective


@needs_cp_sat
def test_the_solver_obeys_rules_of_a_users_own() -> None:
    problem = layered_problem(4, 4)
    first, last = (problem.graph.operators[v].id for v in (1, -2))
    ruled = Placement(
        graph=problem.graph,
        cluster=problem.cluster,
        costs=problem.costs,
        transfers=problem.transfers,
        constraints=[ow.Separate(ops=(first, last))],
    )
    result = ow.solve(ruled, solver="reoptimise", time_limit=6.0)
    assert result.verified
    assert result.solution.device[first] != result.solution.device[last]


@needs_cp_sat
def test_windows_begin_with_the_best_plan_of_the_run_transfers_included() -> None:
    problem = layered_problem(3, 3)
    run = Run()
    search = empty_search(problem, run)
    plan = first_plan(problem, 1)
    assert plan is not None
    search.consider(np.argsort(plan.start, kind="stable"), plan.device)
    best = reoptimise._best(search)
    assert best is not None
    assert best.makespan == pytest.approx(run.objective)
    assert (best.begins >= 0).sum() == len(run.best.transfers)


def test_without_cp_sat_cooling_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reoptimise, "available", lambda: False)
    result = ow.solve(layered_problem(4, 4), solver="reoptimise", time_limit=0.5)
    assert result.verified


@needs_cp_sat
def test_a_callback_ends_the_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reoptimise, "COOLING_SHARE", 0.1)
    seen: list[str] = []

    def stop(progress: Progress) -> bool:
        seen.append(progress.stage)
        return progress.stage == "windows decided anew"

    result = ow.solve(layered_problem(6, 6), solver="reoptimise", time_limit=10.0, callback=stop)
    assert result.verified
    assert result.termination == "interrupted"
    assert seen[-1] == "windows decided anew"


@needs_cp_sat
def test_the_last_search_of_wide_networks_decides_windows_anew() -> None:
    problem, stages = layered_problem(6, 6), set[str]()
    run = Run(time_limit=6.0, progress=lambda progress: stages.add(progress.stage))
    run.kept["coolings"] = 1
    search = empty_search(problem, run)
    list_plans(search)
    first = search.makespan
    now = Situation(**{each.name: each.name in ("timed", "wide") for each in fields(Situation)})
    auto._search_last(search, now, settled=True, annealed=False)
    assert "windows decided anew" in stages
    assert run.objective is not None
    assert run.objective <= first
    assert problem.evaluate(run.best).objective == pytest.approx(run.objective)


def _improved(problem: Placement, plan: Times) -> list[Times]:
    """The plans that the child sends, which ends by itself."""
    instance, found = lower(problem), list[Times]()
    work = Work(
        arrays_of(instance, problem), instance.cluster, np.arange(instance.operators), plan, 0, 1_000_000, math.inf
    )
    run_in_child(
        "cp-sat", "opweave.solvers.placement.reoptimisation.child:improve", work, ChildLimits(), hear=found.append
    )
    return found


@needs_cp_sat
def test_the_child_ends_when_no_window_is_left() -> None:
    plan = Times(1.0, np.array([0, 1]), np.zeros(2), np.zeros(0))
    assert _improved(two_at_once(), plan) == []


@needs_cp_sat
def test_a_device_may_be_far_too_slow() -> None:
    """On c, an operator takes more ticks of the plan than 64 bits hold."""
    problem = two_at_once()
    devices = [ow.Device(name=name) for name in "abc"]
    slow = Placement(
        graph=problem.graph,
        cluster=ow.Cluster(devices=devices, shared=1e-9),
        costs=ow.Costs.from_table({name: {"a": 1e-9, "b": 1e-9, "c": 1e14} for name in "xy"}),
    )
    found = _improved(slow, Times(2e-9, np.array([0, 0]), np.array([0.0, 1e-9]), np.zeros(0)))
    assert sorted(found[-1].device.tolist()) == [0, 1]
    assert _judge(slow, found[-1]) == pytest.approx(1e-9)


def test_windows_do_not_grow_without_end() -> None:
    problem = layered_problem(3, 3)
    plan = first_plan(problem, 0)
    assert plan is not None
    again, choice = _timed(problem, plan), Choice(list(range(len(plan.device))), 0)
    for _ in range(10_000):
        choice.window(again)
        choice.learn(settled=True, improved=False, share=0.0)
    assert choice.window(again) == tuple(blocks_of(again, choice.trees))
