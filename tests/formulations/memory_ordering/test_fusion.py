from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.formulations.expressions import express
from opweave.formulations.memory_ordering.fusion import fuse
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.memory_ordering.nodes import NodeGraph, fuse_group, single_nodes
from opweave.problems.constraints import Constraint, Precede
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from tests.formulations.memory_ordering.nets import Net, net_problems
from tests.oracles.memory_ordering import all_orders, best_ordering_by_states
from tests.strategies.specs import memory_orderings


def fused(graph: OpGraph, **fields: object) -> dict[str, int]:
    """Workspace of every operator of the smaller graph."""
    return {op.id: op.workspace_bytes for op in fuse(MemoryOrdering(graph=graph, **fields)).problem.graph.operators}


def check_exact(problem: MemoryOrdering) -> int:
    """The smaller problem has the same optimum, and its best order lifts to one that reaches it. Returns its size."""
    reduction = fuse(problem)
    assert reduction.exact
    optimum, _ = best_ordering_by_states(problem)
    value, order = best_ordering_by_states(reduction.problem)
    assert value == optimum
    if order is not None:
        lifted = reduction.lift(Ordering(order=order))
        judged = problem.evaluate(lifted)
        assert judged.feasible
        assert judged.objective == value
        assert reduction.problem.evaluate(Ordering(order=order)).objective == value
    return len(reduction.problem.graph.operators)


# Examples that can be checked by hand


@pytest.mark.parametrize(
    ("sizes", "workspace", "more"),
    [
        ((8, 4, 2, 1), 0, 3),  # falling: 8 + 4 live in the first step, 3 more than x and c
        ((1, 2, 4, 8), 0, 3),  # rising: 4 + 8 live in the last step
        ((1, 10, 10, 2), 5, 22),  # over a hill: 10 + 10 + 5 live in the middle
    ],
)
def test_a_chain_is_one_operator_with_its_hill_as_workspace(sizes: tuple[int, ...], workspace: int, more: int) -> None:
    net = Net(x=sizes[0])
    for source, size in zip("xab", sizes[1:], strict=True):
        net.op(source, size, workspace=workspace if source == "a" else 0)
    assert fused(net.graph("c")) == {"a..c": more}


def test_the_inner_order_is_the_best_one() -> None:
    net = Net(x=4)
    net.op("x", 6, "medium")
    net.op("x", 20, "large")
    net.op("large", 4, "small")
    net.op("medium small", 4, "join")
    reduction = fuse(MemoryOrdering(graph=net.graph("join")))
    (only,) = reduction.problem.graph.operators
    assert reduction.lift(Ordering(order=[only.id])).order == ("large", "small", "medium", "join")
    assert only.workspace_bytes == 4 + 20 + 4 - 4 - 4


def test_an_input_that_others_may_still_need_stops_the_rise() -> None:
    """x dies with a only if other has run before; then the chain's peak is lower, which no operator could express."""
    net = Net(x=4)
    net.op("x", 6)
    net.op("a", 8)
    net.op("x", 3, "other", workspace=30)
    assert "a..b" not in fused(net.graph("b other"))


def test_two_sources_do_not_fall_together() -> None:
    """b lets drop free 12 bytes before a needs its 20, so b must not wait for a, however little b itself holds."""
    net = Net(x=4, large=12)
    net.op("x", 4, "a", workspace=20)
    net.op("x", 0, "b")
    net.op("b large", 1, "drop")
    net.op("a drop", 1, "join")
    problem = MemoryOrdering(graph=net.graph("join"))
    graph = NodeGraph(single_nodes(problem, lower(problem)), lower(problem), "none")
    assert [graph.nodes[k].members for k in (0, 1)] == [(0,), (1,)]
    assert fuse_group(graph, [0, 1], 100) is None
    check_exact(problem)


# The conditions are all needed


def _beside(first: tuple[int, int, int], second: tuple[int, int], hill: tuple[int, int, int]) -> MemoryOrdering:
    """A chain x -> a -> b with workspaces, beside a chain over a hill. ``first``: bytes of x, a, b."""
    net = Net(x=first[0], y=hill[0])
    net.op("x", first[1], "a", second[0])
    net.op("a", first[2], "b", second[1])
    net.op("y", hill[1], "c")
    net.op("c", hill[2], "d")
    return MemoryOrdering(graph=net.graph("b d"))


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(_beside((2, 4, 9), (14, 0), (0, 10, 3)), id="after the first hill of a rising chain"),
        pytest.param(_beside((9, 4, 2), (0, 14), (3, 10, 0)), id="before the last hill of a falling chain"),
    ],
)
def test_a_monotone_chain_may_be_interrupted_when_the_wrong_end_is_its_peak(problem: MemoryOrdering) -> None:
    optimum, _ = best_ordering_by_states(problem)
    together = min(
        problem.evaluate(Ordering(order=order)).objective
        for order in all_orders(problem.graph)
        if "ab" in "".join(order)
    )
    assert optimum < together
    check_exact(problem)


# When the reduction stands back


class _Unheard(Constraint):
    def violations(self, problem, solution):
        return ()


class _AsArc(Constraint):
    early: str
    late: str

    def violations(self, problem, solution):
        when = solution.intervals()
        if when[self.early] > when[self.late]:
            yield self.broken("wrong way round")


@express(_AsArc, "order_arcs")
def _as_arc(problem, constraint):
    return [(constraint.early, constraint.late)]


def _chain(length: int, **fields: object) -> MemoryOrdering:
    net = Net(x=9)
    source = "x"
    for index in range(length):
        source = net.op(source, 8, f"o{index}")
    return MemoryOrdering(graph=net.graph(source), **fields)


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(_chain(4, objective="total"), id="total"),
        pytest.param(_chain(4, constraints=[_Unheard()]), id="constraint of unknown meaning"),
        pytest.param(
            _chain(4, constraints=[Precede(before="o0", after="o1"), Precede(before="o1", after="o0")]),
            id="contradiction",
        ),
    ],
)
def test_the_problem_comes_back_unchanged(problem: MemoryOrdering) -> None:
    assert fuse(problem).problem is problem


@pytest.mark.parametrize("constraint", [Precede(before="o1", after="o3"), _AsArc(early="o1", late="o3")])
def test_operators_that_constraints_name_stay_alone(constraint: Constraint) -> None:
    reduction = fuse(_chain(7, constraints=[constraint]))
    assert [op.id for op in reduction.problem.graph.operators] == ["o0", "o1", "o2", "o3", "o4..o6"]
    assert reduction.problem.constraints == (Precede(before="o1", after="o3"),)


# Against brute force


@given(net_problems())
@settings(max_examples=50)
def test_networks_keep_their_optimum(problem: MemoryOrdering) -> None:
    check_exact(problem)


@given(memory_orderings(max_operators=7))
@settings(max_examples=50)
def test_odd_graphs_limits_and_precedences_keep_their_optimum(problem: MemoryOrdering) -> None:
    check_exact(problem)


@given(net_problems(max_operators=12), st.data())
def test_any_order_lifts_to_one_of_the_same_peak(problem: MemoryOrdering, data: st.DataObject) -> None:
    reduction = fuse(problem)
    instance = lower(reduction.problem)
    order = instance.ordering(topological_order(instance.after))
    lifted = problem.evaluate(reduction.lift(order))
    assert lifted.feasible
    assert lifted.objective == reduction.problem.evaluate(order).objective


# Size


def test_long_chains_shrink_quickly() -> None:
    rng = random.Random(1)
    net = Net(x=9)
    source = "x"
    for index in range(3000):
        source = net.op(source, rng.randint(1, 1000), f"o{index}")
    assert len(fused(net.graph(source))) < 20
