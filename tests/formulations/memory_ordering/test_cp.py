"""Orderings for CP-SAT: every order is a point of the model, at its own objective; the engine finds the optimum."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.memory_ordering.cp import PairSteps
from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.errors import InfeasibleError
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.strategies.specs import memory_orderings, topological_orders

pytest.importorskip("ortools")


@given(memory_orderings(6, precedes=True), st.data(), st.booleans())
def test_orders_are_points_of_the_model(problem: ow.MemoryOrdering, data: st.DataObject, extended: bool) -> None:
    order = ow.Ordering(order=data.draw(topological_orders(problem.graph)))
    judged = problem.evaluate(order)
    assume(judged.feasible)
    formulation = PairSteps(BuildContext(extended=extended))
    model = formulation.build(problem)
    values = formulation.start(model, order)
    assert model.broken([int(value) for value in values]) is None
    reached = problem.evaluate(formulation.extract(model, values))
    assert reached.feasible
    assert reached.objective <= judged.objective  # groups may be regrouped, which does not raise the peak
    assert values[model.goal] * lower(problem).granularity() >= reached.objective
    if extended or problem.objective == "total":
        assert values[model.goal] * lower(problem).granularity() == judged.objective


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(memory_orderings(5, limits=True, precedes=True))
def test_the_engine_agrees_with_brute_force(problem: ow.MemoryOrdering) -> None:
    optimum = best_ordering_by_states(problem)[0]
    result = ow.solve(problem, solver="cp-sat", options={"head_start": False, "workers": 1})
    assert result.status is (ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL)
    assert result.objective == optimum


def test_rows_of_ones_own() -> None:
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 4), ("a", 8), ("b", 2), ("c", 2))],
        operators=[ow.Operator(id=f"make_{name}", inputs=["x"], outputs=[name]) for name in "abc"],
        outputs=["a", "b", "c"],
    )

    def extend(model, _problem) -> None:
        model.add(model.position("make_a") <= 1)
        PairSteps().add_row(model, model.before("make_c", "make_a") + model.before("make_b", "make_a") >= 1)

    result = ow.solve(ow.MemoryOrdering(graph=graph), solver="cp-sat", extend=extend)
    assert result.status is ow.Status.OPTIMAL
    assert result.solution.order[1] == "make_a"


def test_sizes_beyond_whole_numbers_are_refused() -> None:
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=2**52 - i) for i in range(6)],
        operators=[ow.Operator(id=f"o{i}", inputs=["t0"], outputs=[f"t{i}"]) for i in range(1, 6)],
        outputs=["t5"],
    )
    with pytest.raises(ow.LimitExceededError, match="too many"):
        PairSteps().build(ow.MemoryOrdering(graph=graph))


def test_a_limit_below_a_settled_footprint() -> None:
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)],
        operators=[ow.Operator(id="copy", inputs=["x"], outputs=["y"])],
        outputs=["y"],
    )
    with pytest.raises(InfeasibleError, match="more than the limit"):
        PairSteps().build(ow.MemoryOrdering(graph=graph, objective="total", limit_bytes=7))
