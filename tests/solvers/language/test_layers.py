"""Counts of equal layers give the best plan of a chain, and its proof."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.problems.placement.spec import Placement
from tests.oracles.chain import best_chain
from tests.solvers.language.models import DENSE, hostile_problems, model_of, placed, small_problems

FAST, SLOW = 10.0, 1.0


def test_a_fast_and_a_slow_device_by_hand() -> None:
    """Three of the four layers of 10 bytes fit the fast device; the link takes 1 s each way.

    Head and last layers on the fast device: 1 layer for 10 s, a transfer, and 3 layers for 1 s each.
    """
    model = model_of([DENSE] * 4, {"attention": 4, "feed_forward": 6}, cache=0, hidden=8)
    problem = placed(model, [30, 100], [FAST, SLOW], [[0, 8], [8, 0]])
    result = ow.solve(problem, solver="layers")
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(10.0 + 1.0 + 3.0)


@settings(max_examples=20, deadline=None)
@given(problem=small_problems())
def test_brute_force_agrees(problem: Placement) -> None:
    optimum, result = best_chain(problem), ow.solve(problem, solver="layers")
    if optimum is None:
        assert result.status is ow.Status.INFEASIBLE
        return
    assert result.verified
    assert result.bound <= optimum * (1 + 1e-9) + 1e-12
    assert result.objective == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    assert result.status is ow.Status.OPTIMAL


@settings(max_examples=25, deadline=None)
@given(problem=hostile_problems())
def test_no_bound_is_false_with_extreme_numbers(problem: Placement) -> None:
    optimum, result = best_chain(problem), ow.solve(problem, solver="layers", time_limit=10)
    if optimum is None:
        assert result.solution is None
        return
    assert result.status is not ow.Status.INFEASIBLE
    assert result.bound is None or result.bound <= optimum * (1 + 1e-9)
    if result.objective is not None:
        assert result.verified
        assert result.objective >= optimum * (1 - 1e-9)
