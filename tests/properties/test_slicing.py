"""Three ways to judge a plan agree: the referee's masks, the oracle's sets, the compiled evaluator's intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing.instance import lower
from opweave.solvers.slicing.arrays import arrays_of, judge
from tests.oracles.slicing import fits, operator_seconds
from tests.strategies.slicing import planned_slicings

CASES = planned_slicings(max_operators=5, max_devices=3, most_rows=6, most_channels=4)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(case=CASES)
def test_referee_and_oracle_agree(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    said = problem.evaluate(plan)
    slices = dict(plan.slices)
    total = sum(operator_seconds(problem, op, slices) or 0.0 for op in problem.graph.operators)
    assert said.objective == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert fits(problem, plan.order, slices) == all(violation.rule != "memory" for violation in said.violations)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(case=CASES)
def test_referee_and_evaluator_agree(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    said = problem.evaluate(plan)
    try:
        instance = lower(problem, plan.order)
    except ContradictionError:
        assume(False)
    mode, cuts = instance.plan(plan)
    assert instance.solution(mode, cuts) == plan
    found = judge(arrays_of(instance), mode[None], cuts[None], memory=True)
    assume(bool(np.isfinite(found.seconds[0])))  # pins and forbids are infinite there, side constraints here
    assert found.seconds[0] == pytest.approx(said.objective, rel=1e-9, abs=1e-12)
    assert found.peaks[0].tolist() == list(said.details.memory_bytes.values())
    over = any(violation.rule in ("memory", "parts") for violation in said.violations)
    assert (found.excess[0] > 0) == over
