"""Order and offsets together: brute force, limits, time, and graphs whose first best order does not pack."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.generators import layered_dag
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.ordered_layout import program
from opweave.solvers.memory_layout.interleaved import Interleaved
from opweave.solvers.memory_layout.search import FOUND, REFUTED
from opweave.solvers.run import Run
from tests.oracles.memory_layout import best_ordered_layout, packs
from tests.oracles.memory_ordering import best_ordering_by_states, bytes_while_running
from tests.strategies.memory_layout import ordered_layouts
from tests.tiny import GRAPH, NotNext


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


def test_an_order_too_large_for_a_program_is_refused_before_its_storages_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(program, "storages_of", listed)
    problem = ow.OrderedLayout(graph=layered_dag(300, 6, seed=0))
    with pytest.raises(ow.LimitExceededError, match="9,000,000 rows"):
        ow.build_model(problem)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(both=ordered_layouts(4), below=st.integers(-4, 3), seed=st.integers(0, 9))
def test_every_height_is_decided_as_by_brute_force(both: ow.OrderedLayout, below: int, seed: int) -> None:
    """A search that was refuted at one height does not remember too much at the next one."""
    arena, taken = best_ordered_layout(both), []

    def take(order: list[int], offset: dict[int, int]) -> bool:
        names = [each.id for each in both.graph.tensors if each.alias_of is None]
        names += [f"{op.id} (workspace)" for op in both.graph.operators]
        plan = ow.OrderedOffsets(
            order=[both.graph.operators[v].id for v in order], offset={names[s]: at for s, at in offset.items()}
        )
        taken.append(both.evaluate(plan))
        return True

    try:
        instance = lower(both.ordering)
    except ContradictionError:
        assert arena is None
        return
    search = Interleaved(instance, both.alignment, take, Run(seed=seed))
    for height in ((arena or 8) + below, (arena or 8) - 1, arena or 8):
        if both.limit_bytes is not None and height > both.limit_bytes:
            continue
        answer = search.decide(height, 10**6)
        assert answer == (FOUND if arena is not None and arena <= height else REFUTED)
        if answer == FOUND:
            assert taken[-1].feasible and taken[-1].objective <= height


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


def drawn(seed: int, count: int) -> ow.OpGraph:
    """A random graph of so many operators that read up to three earlier results."""
    noise = random.Random(seed)
    names = [f"o{k}" for k in range(count)]
    operators = [
        ow.Operator(
            id=name,
            inputs=noise.sample(["x", *names[:k]], min(noise.randint(1, 3), k + 1)),
            outputs=[name],
            workspace_bytes=noise.choice([0, 0, 0, 5]),
        )
        for k, name in enumerate(names)
    ]
    tensors = [ow.Tensor(id=name, bytes=noise.randint(1, 12)) for name in ["x", *names]]
    return ow.OpGraph(tensors=tensors, operators=operators, outputs=noise.sample(names, 2))


def orders_within(problem: ow.MemoryOrdering, peak: int) -> Iterator[tuple[str, ...]]:
    """All orders whose peak is at most so many bytes."""
    writer = {tensor: op.id for op in problem.graph.operators for tensor in op.outputs}
    needs = {op.id: {writer[name] for name in op.inputs if name in writer} for op in problem.graph.operators}

    @cache
    def ways(done: frozenset[str]) -> tuple[str, ...]:
        """The operators that may run next such that all others can run after them."""
        ready = [name for name, before in needs.items() if name not in done and before <= done]
        fits = [name for name in ready if max(bytes_while_running(problem, done, name)) <= peak]
        return tuple(name for name in fits if len(done) + 1 == len(needs) or ways(done | {name}))

    def listed(order: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(order) == len(needs):
            yield order
        for name in ways(frozenset(order)) if len(order) < len(needs) else ():
            yield from listed((*order, name))

    return listed(())


MOST_ORDERS = 150
"""Orders with the least peak whose packing is decided by brute force."""


@pytest.mark.parametrize("seed", range(7))
def test_the_arena_equals_the_least_peak_where_some_order_can_be_packed_at_it(seed: int) -> None:
    problem = ow.OrderedLayout(drawn(seed, 10 + seed))
    peak, _ = best_ordering_by_states(problem.ordering)
    listed = list(islice(orders_within(problem.ordering, peak), MOST_ORDERS))
    can = any(packs(problem.layout(ow.Ordering(order=order)), peak) for order in listed)
    result = ow.solve(problem, time_limit=10.0)
    if can:
        assert (result.status, result.objective) == (ow.Status.OPTIMAL, peak)
    elif len(listed) < MOST_ORDERS:
        assert result.objective > peak
    assert result.bound >= peak


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(both=ordered_layouts(3))  # a program of four operators can take HiGHS a minute
def test_engines_agree_with_brute_force(both: ow.OrderedLayout) -> None:
    arena = best_ordered_layout(both)
    try:
        result = ow.solve(both, solver="highs", options={"head_start": False})
    except ow.UnsupportedFeatureError:
        assert both.in_place != "none"
        return
    if arena is None:
        assert result.status is ow.Status.INFEASIBLE, result.reason
        return
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, arena), result.reason
    assert result.bound <= arena


@pytest.mark.parametrize("seed", range(2))
def test_constraint_programs_agree_with_brute_force(seed: int) -> None:
    pytest.importorskip("ortools")
    problem = ow.OrderedLayout(drawn(seed, 5), alignment=4 if seed else 1)
    result = ow.solve(problem, solver="cp-sat", options={"head_start": False})
    arena = best_ordered_layout(problem)
    assert (result.status, result.objective, result.bound) == (ow.Status.OPTIMAL, arena, arena)


@pytest.mark.parametrize("solver", ["auto", "highs", "cp-sat"])
def test_rows_of_a_users_own_speak_of_orders_and_offsets(solver: str) -> None:
    """The result of c at 20 or higher makes an arena of 21 bytes."""
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    problem = ow.OrderedLayout(graph=GRAPH)

    def extend(model, problem) -> None:
        model.add(model.offset("c") >= 20)
        model.add(model.before("b", "a") >= 1)
        model.add(model.position("c") >= 2)

    result = ow.solve(problem, solver=solver, extend=extend)
    assert (result.status, result.objective, result.solution.order) == (ow.Status.OPTIMAL, 21, ("b", "a", "c"))
    assert result.solution.offset["c"] == 20
    with pytest.raises(ow.InvalidInputError, match="no storage 'z'"):
        ow.solve(problem, solver="highs", extend=lambda model, _: model.add(model.offset("z") <= 1))


def test_a_limit_that_is_up_at_once_still_gives_the_plan_of_the_listed_order() -> None:
    graph = ow.load("tests/data/MobileNetV2.json.gz")
    result = ow.solve(ow.OrderedLayout(graph), time_limit=1e-3)
    assert result.verified
    assert result.objective >= 9_720_192


def test_a_rule_about_the_order_leaves_the_order_that_it_allows() -> None:
    """Three of four orders are refused, whatever the offsets."""
    reads = {"a": ("x",), "b": ("x", "a"), "c": ("x", "b"), "d": ("x",)}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=1000 + step % 2) for step, name in enumerate("xabc")],
        operators=[
            ow.Operator(
                id=f"o{name}",
                inputs=inputs,
                outputs=[] if name == "d" else [name],
                workspace_bytes=999 * (name == "d"),
            )
            for name, inputs in reads.items()
        ],
        outputs=["b"],
    )
    result = ow.solve(ow.OrderedLayout(graph=graph, constraints=[NotNext(op="ob", other="oc")]))
    assert result.verified, result.reason
    assert result.solution.order == ("oa", "ob", "od", "oc")


@pytest.mark.parametrize("size", [9, 900_000])
def test_rows_of_ones_own_may_ask_for_any_height(size: int) -> None:
    """The gap is many times as high as everything that is stored, and pushing down must not close it."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="a", bytes=size)], operators=[ow.Operator(id="p", outputs=["a"])], outputs=["a"]
    )
    problem = ow.OrderedLayout(graph)
    result = ow.solve(problem, solver="highs", extend=lambda model, _: model.add(model.offset("a") >= 100 * size))
    assert result.objective == 101 * size
    assert result.bound is None or result.bound <= 101 * size
