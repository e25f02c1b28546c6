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


def test_sizes_too_far_apart_for_one_engine_go_to_the_next() -> None:
    """The small storage fits neither beside the large one nor into the small pool, which CP-SAT's units cannot tell."""
    large = 2**40 + 1
    problem = ow.MemoryLayout(
        lifetimes=[ow.Lifetime(id="a", begin=0, end=2, bytes=large), ow.Lifetime(id="b", begin=1, end=3, bytes=24)],
        pools=[ow.Pool(name="small", bytes=6), ow.Pool(name="large", bytes=large)],
    )
    assert best_layout(problem)[0] is None
    assert ow.solve(problem, time_limit=5).status is ow.Status.INFEASIBLE


def test_storages_that_make_room_do_not_meet_what_they_must_stand_apart_from() -> None:
    """Three storages in three pools: one that leaves a pool must not join another of them."""
    lifetimes = [
        ow.Lifetime(id=name, begin=begin, end=end, bytes=size, alignment=step, traffic=traffic)
        for name, begin, end, size, step, traffic in (
            ("s0", 1, 3, 4, 2, None), ("s1", 2, 5, 2, 8, 1), ("s2", 0, 2, 1, 1, 1), ("s3", 1, 4, 8, 2, None),
            ("s4", 1, 6, 2, 4, None), ("s5", 4, 5, 4, 1, 200), ("s6", 4, 9, 1, 1, 200),
        )
    ]  # fmt: skip
    own = [
        ow.Pool(name="p0", bytes=20, alignment=4, speed=1000.0),
        ow.Pool(name="p1", bytes=20, speed=1.0),
        ow.Pool(name="p2", speed=1000.0),
    ]
    problem = ow.MemoryLayout(
        lifetimes=lifetimes,
        pools=own,
        objective="traffic",
        fixed={"s0": 12},
        in_place=[["s6", "s4"]],
        together=[["s0", "s4"]],
        apart=[["s3", "s5", "s6"]],
    )
    assert ow.solve(problem, time_limit=10.0).objective == pytest.approx(16.414)
