"""Solvers of slicing: bounds below the optimum, searches no worse than floors, chromosomes, chains, fronts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.slicing.instance import lower
from opweave.problems.slicing_shortage import shortage
from opweave.solvers.slicing.bounds.blocks import blocks_of
from opweave.solvers.slicing.bounds.instant import instant
from opweave.solvers.slicing.bounds.program import relax
from opweave.solvers.slicing.genes import decode, encode, gene_count
from opweave.solvers.slicing.net import net_of
from opweave.solvers.slicing.pareto import pareto_front
from tests.brute_force_slicing import best_slicing
from tests.problems.test_slicing import chain
from tests.strategies_slicing import planned_slicings, slicings

FLOORS = ("one_device", "uniform", "proportional", "all_rows", "all_channels", "by_memory")


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(problem=slicings(3, 2, constraints=False))
def test_bounds_lie_below_the_optimum(problem: ow.Slicing) -> None:
    optimum, _ = best_slicing(problem)
    if optimum is None:
        return
    blocks = blocks_of(lower(problem))
    alone = float(instant(blocks).sum())
    relaxed = relax(blocks)
    assert relaxed is not None
    assert alone <= optimum * (1 + 1e-9) + 1e-12
    assert relaxed.value <= optimum * (1 + 1e-6) + 1e-9


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(problem=slicings(3, 3, limits=True))
def test_shortage_is_only_claimed_where_nothing_fits(problem: ow.Slicing) -> None:
    if shortage(problem) is not None and len(problem.cluster.devices) < 3:
        assert best_slicing(problem)[0] is None


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(problem=slicings(4, 3, most_rows=6, most_channels=4))
def test_searches_are_never_worse_than_a_floor(problem: ow.Slicing) -> None:
    floors = [ow.solve(problem, solver=name) for name in FLOORS]
    known = [result.objective for result in floors if result.objective is not None]
    for name in ("auto", "local", "genetic"):
        options = {"generations": 5, "population": 20} if name == "genetic" else {}
        result = ow.solve(problem, solver=name, options=options)
        assert not known or result.objective <= min(known) * (1 + 1e-9)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(case=planned_slicings(max_operators=4, constraints=False))
def test_genes_stand_for_their_plan(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    instance = lower(problem, plan.order)
    mode, cuts = instance.plan(plan)
    modes, decoded = mode[None].copy(), cuts[None].copy()
    decoded[0, instance.first : instance.first + len(instance.names), 1:-1] = 0
    genes = encode(instance, mode, cuts)[None]
    decode.plain(net_of(instance), instance.first, genes, modes, decoded)
    assert instance.solution(modes[0], decoded[0]) == plan


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(problem=slicings(4, 3, constraints=False), seed=st.integers(0, 99))
def test_any_genes_are_a_plan(problem: ow.Slicing, seed: int) -> None:
    instance = lower(problem)
    genes = np.random.default_rng(seed).random((1, gene_count(instance)))
    modes = np.zeros((1, instance.operators), dtype=np.int64)
    cuts = np.zeros((1, instance.operators, len(instance.devices) + 1), dtype=np.int64)
    decode.plain(net_of(instance), instance.first, genes, modes, cuts)
    assert problem.evaluate(instance.solution(modes[0], cuts[0])).objective is not None


def test_the_paper_s_chromosome_finds_legal_plans_only() -> None:
    options = {"chromosome": "paper", "seeded": False, "generations": 60, "population": 40}
    result = ow.solve(chain(dimension="rule"), solver="genetic", options=options)
    assert result.objective is None or result.verified


def test_generations_only_get_better() -> None:
    result = ow.solve(chain(), solver="genetic", options={"generations": 30, "seeded": False}, seed=3)
    found = [point.objective for point in result.incumbents if point.objective is not None]
    assert found == sorted(found, reverse=True)
    assert result.objective == pytest.approx(9.0)


def test_chains_are_solved_on_a_grid_and_branches_refused() -> None:
    assert ow.solve(chain(), solver="chain", options={"grid": 8}).objective == pytest.approx(9.0)
    graph = chain().graph
    reader = graph.operators[1].model_copy(update={"inputs": ("x",)})
    branched = chain(graph=graph.model_copy(update={"operators": (graph.operators[0], reader)}))
    last = ow.Operator(id="r", kind="Add", inputs=["y", "z"], outputs=["u"])
    tensors = (*branched.graph.tensors, ow.Tensor(id="u", bytes=32, shape=[1, 4, 8, 1]))
    joined = ow.OpGraph(tensors=tensors, operators=(*branched.graph.operators, last), parameters=graph.parameters)
    costs = ow.Costs.from_table({op: {"a": 8.0, "b": 8.0} for op in "pqr"})
    with pytest.raises(ow.UnsupportedFeatureError, match="without branches"):
        ow.solve(chain(graph=joined, costs=costs), solver="chain")


def test_fronts_trade_latency_against_memory() -> None:
    costs = ow.Costs.from_table({op: {"a": 2.0, "b": 6.0} for op in "pq"})
    problem = chain(costs=costs)
    front = pareto_front(problem, generations=30, population=40)
    assert len(front) > 1
    assert front[0].seconds == pytest.approx(ow.solve(problem).objective)
    for before, after in pairwise(front):
        assert before.seconds < after.seconds
        assert before.peak_bytes > after.peak_bytes
    for plan in front:
        judged = problem.evaluate(plan.solution)
        assert judged.feasible
        assert judged.objective == pytest.approx(plan.seconds)
        assert max(judged.details.memory_bytes.values()) == plan.peak_bytes


def test_a_start_is_improved_on() -> None:
    start = ow.solve(chain(), solver="one_device").solution
    assert ow.solve(chain(), solver="local", start=start).objective == pytest.approx(9.0)
