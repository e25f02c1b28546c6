"""Several pools and traffic: against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from tests.oracles.memory_layout import best_layout
from tests.strategies.memory_layout import memory_layouts


@settings(max_examples=10)
@given(problem=memory_layouts(most=5, pools=3))
def test_pools_agree_with_brute_force(problem: ow.MemoryLayout) -> None:
    least, _ = best_layout(problem)
    result = ow.solve(problem)
    if least is None:
        assert result.solution is None
        return
    assert result.bound is None or result.bound <= least + 1e-6 * abs(least)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(least)
