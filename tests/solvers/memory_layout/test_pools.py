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


def test_ten_storages_in_three_pools_are_proved() -> None:
    """Odd sizes and alignments, of which a linear program says too little."""
    sizes, steps = (1, 2, 3, 5, 7, 8, 12, 16, 4, 5), (1, 2, 8, 1, 4)
    lifetimes = [
        ow.Lifetime(id=f"s{k}", begin=k % 4, end=k % 4 + 1 + k % 3, bytes=size, alignment=steps[k % 5])
        for k, size in enumerate(sizes)
    ]
    own = [ow.Pool(name="a", bytes=12, speed=9.0), ow.Pool(name="b", bytes=20, speed=3.0), ow.Pool(name="c", speed=1.0)]
    for objective in ("arena", "traffic"):
        result = ow.solve(ow.MemoryLayout(lifetimes=lifetimes, pools=own, objective=objective))
        assert result.status is ow.Status.OPTIMAL
