"""Types and places together: against every mix in every place, and against types that are chosen first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass, whole_layers
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload, parts
from opweave.solvers.language.joint import fastest_mix, in_types, smallest_mix
from opweave.solvers.language.mix import quantised_mix
from tests.oracles.chain import best_chain
from tests.solvers.language.models import DENSE, EXPERTS, model_of

WORK = Workload(context=4)


def rig_of(memory: list[int], speed: list[float], *, link: float = 1e3) -> Rig:
    devices = [
        ow.Device(name=f"d{k}", memory_bytes=size, flops_per_second=1e12, memory_bandwidth=rate)
        for k, (size, rate) in enumerate(zip(memory, speed, strict=True))
    ]
    return Rig(cluster=ow.Cluster(devices=devices, shared=link))


@st.composite
def questions(draw: st.DrawFn) -> tuple[LanguageModel, Rig, dict[str, dict[str, float]], float]:
    roles = draw(st.sampled_from([DENSE, EXPERTS]))
    sizes = {role: draw(st.integers(1, 40)) for role in ("embedding", *roles, "head")}
    model = model_of([roles] * draw(st.integers(1, 2)), sizes, hidden=draw(st.integers(1, 40)))
    memory = [draw(st.integers(20, 300)), draw(st.integers(60, 500))]
    rig = rig_of(memory, [draw(st.sampled_from([10.0, 40.0])), draw(st.sampled_from([1.0, 5.0]))])
    loss = {role: {kind: float(draw(st.integers(0, 4))) for kind in ("i8", "f16")} for role in roles}
    if draw(st.booleans()):
        loss["head"] = {"i8": 1.0, "f32": 0.0}
    return model, rig, loss, float(draw(st.integers(0, 8)))


def best_mix(model: LanguageModel, rig: Rig, loss: dict[str, dict[str, float]], budget: float) -> float | None:
    """The fewest seconds of all mixes in all places."""
    rows = {part.id: loss[part.role] for part in parts(model, WORK) if part.role in loss}
    known = []
    for mix in product(*(row.items() for row in rows.values())):
        if sum(lost for _, lost in mix) <= budget:
            types = {name: kind for name, (kind, _) in zip(rows, mix, strict=True)}
            seconds = best_chain(fastest_pass(in_types(model, types), rig, WORK))
            known += [] if seconds is None else [seconds]
    return min(known, default=None)


@settings(max_examples=4, deadline=None)
@given(question=questions())
def test_every_mix_in_every_place_agrees(
    question: tuple[LanguageModel, Rig, dict[str, dict[str, float]], float],
) -> None:
    model, rig, loss, budget = question
    optimum, found = best_mix(*question), fastest_mix(model, rig, WORK, loss, budget, time_limit=20)
    if optimum is None:
        assert found.result is None
        assert found.reason
        return
    assert found.result is not None
    assert found.result.verified
    assert found.lost <= budget * (1 + 1e-9)
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.result.objective == pytest.approx(optimum, rel=1e-6)
    assert found.proved


def least_bytes(
    model: LanguageModel, rig: Rig, loss: dict[str, dict[str, float]], budget: float, most: float
) -> int | None:
    """The fewest bytes of weights of all mixes that have places in which a pass takes at most so many seconds."""
    rows = {part.id: loss[part.role] for part in parts(model, WORK) if part.role in loss}
    known = []
    for mix in product(*(row.items() for row in rows.values())):
        if sum(lost for _, lost in mix) <= budget:
            typed = in_types(model, {name: kind for name, (kind, _) in zip(rows, mix, strict=True)})
            seconds = best_chain(fastest_pass(typed, rig, WORK))
            known += [typed.parameter_bytes] if seconds is not None and seconds <= most * (1 + 1e-9) else []
    return min(known, default=None)


@settings(max_examples=4, deadline=None)
@given(question=questions(), factor=st.sampled_from([None, 1.0, 1.3]))
def test_the_smallest_mix_agrees_with_every_mix(
    question: tuple[LanguageModel, Rig, dict[str, dict[str, float]], float], factor: float | None
) -> None:
    model, rig, loss, budget = question
    fastest = best_mix(*question)
    most = None if factor is None or fastest is None else factor * fastest
    optimum = least_bytes(*question, np.inf if most is None else most)
    found = smallest_mix(model, rig, WORK, loss, budget, seconds=most, time_limit=20)
    if optimum is None:
        assert found.result is None
        assert found.reason
        return
    assert found.result is not None
    assert found.result.verified
    assert found.lost <= budget * (1 + 1e-9)
    assert most is None or found.result.objective <= most * (1 + 1e-6)
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.model.parameter_bytes == optimum
    assert found.proved


def test_types_that_are_chosen_first_are_slower() -> None:
    """The smallest mix squeezes what saves most bytes; the fastest squeezes so that the card holds everything."""
    model = model_of([DENSE] * 4, {"attention": 64, "feed_forward": 64, "head": 64}, cache=0)
    rig = rig_of([700, 10_000], [100.0, 1.0])
    loss = {"attention": {"i8": 1.0, "f16": 0.0}, "feed_forward": {"i8": 1.0, "f16": 0.0}, "head": {"f16": 0.0}}
    rules = whole_layers(model, WORK)
    joint = fastest_mix(model, rig, WORK, loss, 4.0, constraints=rules, time_limit=20)
    rows = loss | {"embedding": {"f16": 0.0}}
    first = ow.solve(quantised_mix(model, rows, 4.0), time_limit=20)
    then = ow.solve(
        fastest_pass(in_types(model, dict(first.solution.types)), rig, WORK, constraints=rules), solver="layers"
    )
    assert joint.proved
    assert joint.result.objective <= then.objective * (1 + 1e-9)


def test_what_is_tied_or_has_no_row_stays_as_it_is() -> None:
    model = model_of([DENSE] * 2, {"embedding": 32, "attention": 8, "feed_forward": 8, "head": 32}, tied=32)
    loss = {"embedding": {"i8": 0.0}, "head": {"i8": 0.0}, "attention": {"i8": 1.0, "f16": 0.0}}
    found = fastest_mix(model, rig_of([1000, 1000], [10.0, 1.0]), WORK, loss, 5.0)
    assert set(found.types) == {"layers.0.attention", "layers.1.attention"}
    assert found.model.tied_bytes == 32


def test_a_budget_below_the_least_loss_is_one_sentence() -> None:
    model = model_of([DENSE] * 2, {"attention": 8, "feed_forward": 8})
    found = fastest_mix(model, rig_of([100, 100], [10.0, 1.0]), WORK, {"attention": {"i8": 2.0}}, 3.0)
    assert found.reason == "the groups lose at least 4, more than the budget of 3"
    with pytest.raises(ow.InvalidInputError, match="no role of tiny; did you mean 'attention'"):
        fastest_mix(model, rig_of([100, 100], [10.0, 1.0]), WORK, {"attentoin": {"i8": 1.0}}, 3.0)
    with pytest.raises(ow.InvalidInputError, match="a loss is a number from 0"):
        fastest_mix(model, rig_of([100, 100], [10.0, 1.0]), WORK, {"attention": {"i8": -1.0}}, 3.0)
