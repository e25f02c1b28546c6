"""Order and offsets together: brute force, limits, time, and graphs whose first best order does not pack."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.memory_ordering.instance import lower
from opweave.solvers.memory_layout.ordered import Orders
from tests.oracles.memory_layout import best_ordered_layout
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.strategies.memory_layout import ordered_layouts
from tests.strategies.specs import memory_orderings
from tests.tiny import GRAPH


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(both=ordered_layouts(4))
def test_it_agrees_with_brute_force(both: ow.OrderedLayout) -> None:
    arena, result = best_ordered_layout(both), ow.solve(both)
    if arena is None:
        assert result.status is ow.Status.INFEASIBLE
        assert result.reason
        return
    assert (result.status, result.objective, result.bound) == (ow.Status.OPTIMAL, arena, arena), result.reason
    assert ow.MemoryOrdering.evaluate(both.ordering, ow.Ordering(order=result.solution.order)).objective <= arena


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(5, limits=False, precedes=True), slack=st.integers(0, 6))
def test_all_orders_under_a_cap_are_listed_once(problem: ow.MemoryOrdering, slack: int) -> None:
    peak, _ = best_ordering_by_states(problem)
    if problem.objective == "total" or peak is None:
        return
    listed = [tuple(order) for order in Orders(lower(problem), peak + slack, seed=1)]
    assert len(listed) == len(set(listed))
    names = [op.id for op in problem.graph.operators]
    peaks = [problem.evaluate(ow.Ordering(order=[names[v] for v in order])).objective for order in listed]
    assert peak in peaks
    if problem.in_place == "none":
        assert max(peaks) <= peak + slack


def test_the_referee_judges_order_and_offsets() -> None:
    problem = ow.OrderedLayout(graph=GRAPH)
    order, offset = ("a", "b", "c"), {"x": 0, "a": 2, "b": 10, "c": 0}
    judged = problem.evaluate(ow.OrderedOffsets(order=order, offset=offset))
    assert (judged.objective, judged.violations, judged.details.live_peak) == (14, (), 14)
    broken = [
        (("a", "c", "b"), offset, "precedence"),
        (("a", "b"), offset, "missing"),
        (order, {**offset, "b": 9}, "overlap"),
        (order, {"x": 0, "a": 2, "b": 10}, "missing"),
        (order, {**offset, "y": 0}, "unknown"),
    ]
    for names, places, rule in broken:
        rules = [each.rule for each in problem.evaluate(ow.OrderedOffsets(order=names, offset=places)).violations]
        assert rule in rules, rule
    small = ow.OrderedLayout(graph=GRAPH, limit_bytes=13)
    assert "memory" in [each.rule for each in small.evaluate(ow.OrderedOffsets(order=order, offset=offset)).violations]
    assert ow.solve(small).status is ow.Status.INFEASIBLE


def test_what_a_result_overwrites_is_at_its_place() -> None:
    tensors = [ow.Tensor(id=name, bytes=4) for name in "xyz"]
    operators = [
        ow.Operator(id=op, inputs=[read], outputs=[made], inplace_ok=True)
        for op, read, made in (("p", "x", "y"), ("q", "y", "z"))
    ]
    graph = ow.OpGraph(tensors=tensors, operators=operators, outputs=["z"])
    result = ow.solve(ow.OrderedLayout(graph, in_place="any"))
    assert (result.status, result.objective, set(result.solution.offset.values())) == (ow.Status.OPTIMAL, 4, {0})
    assert ow.solve(ow.OrderedLayout(graph)).objective == 8


@pytest.mark.parametrize("limit", [1e-6, 0.3])
def test_the_time_limit_holds_and_leaves_a_plan(limit: float) -> None:
    names = [f"t{k}" for k in range(60)]
    tensors = [ow.Tensor(id=name, bytes=1 + 7 * k % 23) for k, name in enumerate(names)]
    operators = [
        ow.Operator(id=f"op{k}", inputs=[names[max(0, k - step)] for step in (1, 4, 9) if k], outputs=[name])
        for k, name in enumerate(names)
    ]
    problem = ow.OrderedLayout(ow.OpGraph(tensors=tensors, operators=operators))
    began = time.perf_counter()
    result = ow.solve(problem, time_limit=limit)
    assert time.perf_counter() - began < 1.05 * limit + 3.0  # compiling included, on a busy machine
    assert result.solution is None or result.verified


def test_a_limit_that_is_up_at_once_still_gives_the_plan_of_the_listed_order() -> None:
    graph = ow.load("tests/data/MobileNetV2.json.gz")
    result = ow.solve(ow.OrderedLayout(graph), time_limit=1e-3)
    assert result.verified
    assert result.objective >= 9_720_192
