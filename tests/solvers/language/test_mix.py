"""The smallest mix of types: by hand, against every mix, and counted groups of a model."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.language.mix import QuantisedMix, Types, quantised_mix
from tests.solvers.language.test_questions import model_of


def posed(rows: list[dict[str, tuple[int, float]]], budget: float) -> QuantisedMix:
    names = [f"op{number}" for number in range(len(rows))]
    return QuantisedMix(
        graph=ow.OpGraph(tensors=[], operators=[ow.Operator(id=name) for name in names]),
        bytes={name: {kind: size for kind, (size, _) in row.items()} for name, row in zip(names, rows, strict=True)},
        loss={name: {kind: lost for kind, (_, lost) in row.items()} for name, row in zip(names, rows, strict=True)},
        budget=budget,
    )


def smallest(problem: QuantisedMix) -> int | None:
    ops = list(problem.bytes)
    mixes = itertools.product(*(problem.bytes[op] for op in ops))
    judged = [problem.evaluate(Types(types=dict(zip(ops, mix, strict=True)))) for mix in mixes]
    return min((each.objective for each in judged if each.feasible), default=None)


ROWS = st.dictionaries(
    st.sampled_from(["q2", "q4", "q8"]),
    st.tuples(st.integers(0, 50), st.integers(0, 8).map(float)),
    min_size=1,
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROWS, max_size=4), budget=st.integers(0, 20).map(float))
def test_every_mix_agrees(rows: list[dict[str, tuple[int, float]]], budget: float) -> None:
    problem = posed(rows, budget)
    optimum, result = smallest(problem), ow.solve(problem)
    if optimum is None:
        assert result.status is ow.Status.INFEASIBLE
        return
    assert (result.objective, result.bound, result.status) == (optimum, optimum, ow.Status.OPTIMAL)


def test_equal_layers_are_counted() -> None:
    """Of 40 layers, 10 may lose 1 each."""
    loss = {role: {"q4_k": 1.0, "q8_0": 0.0} for role in ("attention", "feed_forward")}
    loss |= {role: {"q8_0": 0.0} for role in ("embedding", "head")}
    model = model_of(40).model_copy(update={"layers": tuple(big(layer) for layer in model_of(40).layers)})
    result = ow.solve(quantised_mix(model, loss, 10.0), time_limit=20)
    assert result.status is ow.Status.OPTIMAL
    chosen = [op for op, kind in result.solution.types.items() if kind == "q4_k"]
    assert len(chosen) == 10
    assert all("feed_forward" in op for op in chosen)  # the larger groups save more for the same loss
    assert ow.solve(quantised_mix(model, loss, 10.0), solver="uniform").objective > result.objective


def big(layer: object) -> object:
    sizes = {"attention": 10 * 2**20, "feed_forward": 40 * 2**20}
    groups = tuple(group.model_copy(update={"elements": sizes[group.role]}) for group in layer.groups)
    return layer.model_copy(update={"groups": groups})


def test_what_cannot_be_is_said() -> None:
    assert "lose at least 3" in ow.solve(posed([{"q4": (1, 3.0)}], 1.0)).reason
    with pytest.raises(ow.InvalidInputError, match="needs bytes and a loss"):
        quantised_mix(model_of(2), {"attention": {"q8_0": 0.0}}, 1.0)
