"""Exact layouts: against brute force, and the search on small spaces at every height."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.memory_layout.search import FOUND, REFUTED, pack
from opweave.solvers.memory_layout.sections import (
    BY_SECTION,
    BY_STORAGE,
    Choice,
    Space,
    live_bytes,
    sections_of,
    space_of,
)
from opweave.solvers.run import Run
from tests.oracles.memory_layout import best_layout
from tests.strategies.memory_layout import memory_layouts


def lifetimes(*rows: tuple[int, int, int]) -> list[ow.Lifetime]:
    return [ow.Lifetime(id=f"s{k}", begin=b, end=e, bytes=size) for k, (b, e, size) in enumerate(rows)]


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    count = draw(st.integers(1, 6))
    whole = st.integers(0, 7)
    begin = np.asarray(draw(st.lists(whole, min_size=count, max_size=count)))
    length = np.asarray(draw(st.lists(st.integers(1, 5), min_size=count, max_size=count)))
    size = np.asarray(draw(st.lists(st.integers(1, 7), min_size=count, max_size=count)))
    step = np.asarray(draw(st.lists(st.sampled_from([1, 1, 1, 2, 4]), min_size=count, max_size=count)))
    fixed = np.asarray(draw(st.lists(st.sampled_from([-1, -1, -1, -1, 0, 4]), min_size=count, max_size=count)))
    return space_of(begin, begin + length, size, step, fixed)


def overlaps_of(space: Space) -> Adjacency:
    """For every storage, the storages that are ever live together with it, in rising order."""
    count = len(space.size)
    by_first = np.argsort(space.first, kind="stable")
    reach = np.searchsorted(space.first[by_first], space.after[by_first], side="left")
    later = reach - np.arange(count) - 1
    early = np.repeat(np.arange(count), later)
    begun = np.repeat(np.cumsum(later) - later, later)
    late = early + 1 + np.arange(len(early)) - begun
    one, other = by_first[early], by_first[late]
    return Adjacency.from_pairs(count, np.concatenate([one, other]), np.concatenate([other, one]))


def least_height(space: Space) -> int | None:
    """Stack the storages in every order."""
    meets = overlaps_of(space).lists()
    found: list[int] = []

    def stack(placed: dict[int, int], height: int) -> None:
        if len(placed) == len(space.size):
            found.append(height)
        for k in set(range(len(space.size))) - placed.keys():
            below = max((placed[j] + int(space.size[j]) for j in meets[k] if j in placed), default=0)
            step = int(space.alignment[k])
            at = -(-below // step) * step if space.fixed[k] < 0 else int(space.fixed[k])
            if at >= max(below, *placed.values(), 0):
                stack({**placed, k: at}, max(height, at + int(space.size[k])))

    stack({}, 0)
    return min(found, default=None)


@pytest.mark.parametrize("branching", [BY_SECTION, BY_STORAGE])
@settings(max_examples=50)
@given(space=spaces(), seed=st.integers(0, 9))
def test_search_at_every_height_agrees_with_every_order(branching: int, space: Space, seed: int) -> None:
    least, noise = least_height(space), np.random.default_rng(seed)
    lowest = int(live_bytes(space.size, space.first, space.after, space.sections).max())
    for height in range(lowest - 1, (least or lowest) + 2):
        rank, blame = noise.standard_normal(len(space.size)), 1.0 + noise.random(space.sections)
        decision = pack(space, height, Choice(branching, rank, blame), 10**6, Run().should_stop)
        assert decision.answer == (FOUND if least is not None and height >= least else REFUTED)
        if decision.offset is not None:
            _check(space, decision.offset, height)


def _check(space: Space, offset: np.ndarray, height: int) -> None:
    top = offset + space.size
    assert top.max() <= height
    assert (offset % space.alignment == 0).all()
    assert ((space.fixed < 0) | (space.fixed == offset)).all()
    meets = overlaps_of(space)
    one, other = meets.heads(), meets.items
    assert ((top[one] <= offset[other]) | (top[other] <= offset[one])).all()


@settings(max_examples=40)
@given(problem=memory_layouts(most=6))
@pytest.mark.parametrize("solver", ["exact", "auto"])
def test_one_arena_agrees_with_brute_force(solver: str, problem: ow.MemoryLayout) -> None:
    least, _ = best_layout(problem)
    result = ow.solve(problem, solver=solver)
    if least is None:
        assert result.status is ow.Status.INFEASIBLE
        return
    assert (result.status, result.objective, result.bound) == (ow.Status.OPTIMAL, least, least)


def test_sections_are_the_largest_sets() -> None:
    begin, end = np.asarray([0, 0, 2, 3, 9]), np.asarray([4, 2, 4, 5, 10])
    first, after, count = sections_of(begin, end)
    assert (first.tolist(), after.tolist(), count) == ([0, 0, 1, 1, 2], [2, 1, 2, 2, 3], 3)


def test_fixed_offsets_that_overlap_are_named() -> None:
    problem = ow.MemoryLayout(lifetimes=lifetimes((0, 2, 4), (1, 3, 4)), fixed={"s0": 0, "s1": 2})
    result = ow.solve(problem)
    assert result.status is ow.Status.INFEASIBLE
    assert "the fixed offsets of 's0' and 's1' overlap" in (result.reason or "")


def test_an_arena_that_is_too_small_says_how_much_is_needed() -> None:
    problem = ow.MemoryLayout(lifetimes=lifetimes((0, 2, 4), (1, 3, 4)), pools=[ow.Pool(name="sram", bytes=7)])
    result = ow.solve(problem)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason == "every layout needs at least 8 bytes; pool 'sram' has 7"


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
