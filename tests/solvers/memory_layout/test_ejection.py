"""Local search within a height: what it finds is a layout, and it finds one where there is room."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.memory_layout.ejection import crowd_of, eject, ejected
from opweave.solvers.memory_layout.exact import Arena
from opweave.solvers.memory_layout.sections import Space, overlaps_of
from opweave.solvers.run import Run
from tests.solvers.memory_layout.test_exact import least_height, lifetimes, spaces


def is_packed(space: Space, offset: np.ndarray, height: int) -> bool:
    top = offset + space.size
    meets = overlaps_of(space).lists()
    apart = all(top[i] <= offset[j] or top[j] <= offset[i] for j in range(len(top)) for i in meets[j])
    given_ones = space.fixed >= 0
    aligned = not (offset % space.alignment)[~given_ones].any() and (offset == space.fixed)[given_ones].all()
    return bool(apart and aligned and offset.min() >= 0 and top.max() <= height)


@settings(max_examples=60)
@given(space=spaces(), seed=st.integers(0, 9), more=st.integers(-1, 40))
def test_what_it_finds_is_a_layout(space: Space, seed: int, more: int) -> None:
    least = least_height(space)
    if least is None:
        return  # given offsets collide: it is not asked then
    height = least + more
    found = list(ejected(space, None, height + 1, max(1, least - 2), seed, 400))
    assert all(is_packed(space, each, height) for each in found)
    heights = [int((each + space.size).max()) for each in found]
    assert heights == sorted(set(heights), reverse=True)
    assert found or more < 40 or (space.fixed >= 0).any()


def after_one_step(space: Space, offset: np.ndarray, height: int) -> np.ndarray | None:
    """Offsets after the best single step; None if something still waits."""
    now = crowd_of(space, offset, height, 1)
    return now.lowest if eject.plain(space, now, height, 1e-3, 1) == 0 else None


def test_it_goes_on_from_a_layout() -> None:
    """What stands too high is put back at once, and pushes the others instead of driving them out."""
    problem = ow.MemoryLayout(lifetimes=lifetimes((0, 4, 2), (0, 2, 3), (2, 4, 3), (5, 6, 9)))
    space = Arena(problem, Run()).space
    found = after_one_step(space, np.asarray([0, 2, 7, 0]), 9)
    assert found is not None and is_packed(space, found, 9)


def test_a_place_between_others_needs_no_second_step() -> None:
    """Free bytes above and below a storage are joined: it moves, and stays."""
    problem = ow.MemoryLayout(lifetimes=lifetimes((0, 3, 2), (0, 1, 1), (2, 3, 1), (1, 2, 3)))
    space = Arena(problem, Run()).space
    standing = np.asarray([2, 0, 0, 99])  # two free bytes below the first storage in section 1, and one above it
    found = after_one_step(space, standing, 5)
    assert found is not None and is_packed(space, found, 5)


def test_a_layout_is_lowered_to_the_live_peak() -> None:
    """Seven storages in a staircase: each waits for a place that others have to make."""
    steps = [(k, k + 3, 3 + k % 3) for k in range(7)]
    problem = ow.MemoryLayout(lifetimes=lifetimes(*steps))
    space = Arena(problem, Run()).space
    high = np.cumsum(space.size) - space.size
    *_, found = ejected(space, high, int(space.size.sum()), problem.live_peak, 0, 4000)
    assert is_packed(space, found, problem.live_peak)
