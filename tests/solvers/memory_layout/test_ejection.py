"""Local search within a height: what it finds is a layout, and it finds one where there is room."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.memory_layout.instance import lower
from opweave.solvers.memory_layout.ejection import ejected
from opweave.solvers.memory_layout.sections import Space, space_in
from opweave.solvers.run import Run
from tests.solvers.memory_layout.test_exact import least_height, lifetimes, overlaps_of, spaces

NEVER = Run().should_stop


def whole(problem: ow.MemoryLayout) -> Space:
    instance = lower(problem)
    return space_in(instance, np.flatnonzero(instance.solid), 0)


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
    found = ejected(space, None, least + more, seed, 400, NEVER)
    assert found is None or (more >= 0 and is_packed(space, found, least + more))
    assert found is not None or more < 40 or (space.fixed >= 0).any()


def test_it_goes_on_from_a_layout() -> None:
    """What stands too high is put back at once, and pushes the others instead of driving them out."""
    problem = ow.MemoryLayout(lifetimes=lifetimes((0, 4, 2), (0, 2, 3), (2, 4, 3), (5, 6, 9)))
    space = whole(problem)
    found = ejected(space, np.asarray([0, 2, 7, 0]), 9, 1, 1, NEVER)
    assert found is not None and is_packed(space, found, 9)
