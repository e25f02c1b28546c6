"""Moirai's own way: coarsened plans hold for the whole problem, and it proves no more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import opweave as ow
from tests.formulations.placement.instances import fork
from tests.oracles.placement import best_placement
from tests.strategies.specs import placements

KINDS = ("Conv", "BatchNormalization", "Relu", "Add", "Pool")
RELATIVE = 1e-6


def chain(kinds: tuple[str, ...], seconds: dict[str, tuple[float, float]]) -> ow.Placement:
    """One operator after the other on two devices, a second to send anything."""
    names = list(seconds)
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"{name}.out", bytes=10) for name in names],
        operators=[
            ow.Operator(id=name, kind=kind, inputs=[f"{before}.out"] if before else [], outputs=[f"{name}.out"])
            for name, before, kind in zip(names, [None, *names], kinds, strict=False)
        ],
    )
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, 10], [10, 0]])
    costs = ow.Costs.from_table({name: dict(zip("ab", row, strict=True)) for name, row in seconds.items()})
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, transfers="one_port_edge")


@st.composite
def with_kinds(draw: st.DrawFn) -> ow.Placement:
    """A small placement whose operators may be fused."""
    problem = draw(placements(5, precedes=True))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=5, max_size=5))
    operators = [op.model_copy(update={"kind": kind}) for op, kind in zip(problem.graph.operators, kinds, strict=False)]
    graph = problem.graph.model_copy(update={"operators": tuple(operators)})
    return problem.model_copy(update={"graph": graph, "transfers": "one_port_edge"})


WHOLE: SearchStrategy[ow.Placement] = with_kinds()


def test_a_fused_pair_that_would_be_better_apart_by_hand() -> None:
    """Fused, both run on one device: 1 + 9 or 9 + 1 seconds. Apart they take 1 + 1 (sending) + 1."""
    problem = chain(("Conv", "Relu"), {"conv": (1.0, 9.0), "relu": (9.0, 1.0)})
    assert ow.solve(problem).objective == pytest.approx(3.0)
    result = ow.solve(problem, solver="moirai")
    assert result.objective == pytest.approx(10.0)
    assert result.bound <= 3.0
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.results.Termination.COMPLETED)


def test_where_nothing_is_fused_its_proof_is_one_of_the_whole() -> None:
    problem = chain(("Pool", "Relu"), {"pool": (1.0, 9.0), "relu": (9.0, 1.0)})
    result = ow.solve(problem, solver="moirai")
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(3.0)
    result = ow.solve(fork(transfers="one_port_edge"), solver="moirai")
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(6.0))


@settings(max_examples=20)
@given(problem=WHOLE)
def test_plans_hold_and_bounds_are_true(problem: ow.Placement) -> None:
    optimum = best_placement(problem)[0]
    result = ow.solve(problem, solver="moirai")
    if result.status is ow.Status.INFEASIBLE:
        assert optimum is None
        assert result.reason
    if optimum is None:
        assert result.solution is None
        return
    if result.solution is None:  # what was fused fits nowhere, or may not share a device
        assert result.reason
        return
    assert result.verified
    assert result.objective >= optimum * (1 - RELATIVE)
    assert result.bound <= optimum * (1 + RELATIVE)
    if result.status is ow.Status.OPTIMAL:
        assert result.objective == pytest.approx(optimum, rel=RELATIVE)


def test_it_refuses_what_the_paper_does_not_know() -> None:
    with pytest.raises(ow.UnsupportedFeatureError, match="transfers='one_port_edge'"):
        ow.solve(fork(), solver="moirai")
    with pytest.raises(ow.InvalidInputError, match="it must be one of 'default', 'onnxruntime', 'pointwise'"):
        ow.solve(fork(transfers="one_port_edge"), solver="moirai", options={"rules": "tvm"})
