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


def test_sizes_too_far_apart_for_one_engine_go_to_the_next() -> None:
    """The small storage fits neither beside the large one nor into the small pool, which CP-SAT's units cannot tell."""
    large = 2**40 + 1
    problem = ow.MemoryLayout(
        lifetimes=[ow.Lifetime(id="a", begin=0, end=2, bytes=large), ow.Lifetime(id="b", begin=1, end=3, bytes=24)],
        pools=[ow.Pool(name="small", bytes=6), ow.Pool(name="large", bytes=large)],
    )
    assert best_layout(problem)[0] is None
    assert ow.solve(problem, time_limit=5).status is ow.Status.INFEASIBLE
