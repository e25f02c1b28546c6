"""Layouts that grow from the peak outward: windows of time, and what they lead to."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.memory_layout.exact import grown, widening
from opweave.solvers.memory_layout.search import REFUTED
from opweave.solvers.memory_layout.sections import Space, live_bytes, space_of, window_of
from tests.solvers.memory_layout.test_ejection import NEVER, is_packed
from tests.solvers.memory_layout.test_exact import least_height, spaces


@settings(max_examples=30)
@given(space=spaces())
def test_windows_are_widened_by_one_section_from_the_peak_to_the_whole(space: Space) -> None:
    lows, highs, counts = widening(space)
    live = live_bytes(space.size, space.first, space.after, space.sections)
    assert live[lows[0]] == live.max() and highs[0] == lows[0] + 1
    assert (highs - lows == np.arange(1, space.sections + 1)).all()
    for low, high, count in zip(lows.tolist(), highs.tolist(), counts.tolist(), strict=True):
        rows = np.flatnonzero((space.first < high) & (space.after > low))
        window = window_of(space, rows, low, high)
        assert len(rows) == count and window.sections <= high - low
        assert live_bytes(window.size, window.first, window.after, window.sections).max() == live[low:high].max()


@settings(max_examples=30)
@given(space=spaces(), seed=st.integers(0, 9), more=st.integers(-3, 30), share=st.sampled_from([1.0, 1.5, 3.0]))
def test_what_is_grown_is_a_layout_and_what_is_refuted_has_none(
    space: Space, seed: int, more: int, share: float
) -> None:
    least = least_height(space)
    if least is None:
        return  # given offsets collide: it is not asked then
    decision = grown(space, least + more, seed, share, 12, NEVER)
    assert decision.offset is None or (more >= 0 and is_packed(space, decision.offset, least + more))
    assert decision.answer != REFUTED or more < 0


def test_hundreds_of_storages_are_packed_at_their_live_peak() -> None:
    """Every storage lives through the middle or on one side of it, with a bit to spare there."""
    noise, count = np.random.default_rng(3), 400
    size = noise.choice([2, 3, 4, 8, 16, 31], count).astype(np.int64)
    through, side = noise.random(count) < 0.5, noise.integers(0, 2, count) * 100
    begin = np.where(through, noise.integers(0, 90, count), side + noise.integers(0, 60, count))
    end = np.where(through, noise.integers(110, 200, count), begin + noise.integers(1, 30, count))
    space = space_of(begin, end, size, np.ones(count, dtype=np.int64), np.full(count, -1))
    peak = int(live_bytes(space.size, space.first, space.after, space.sections).max())
    decision = grown(space, peak, 0, 1.3, 12, NEVER)
    assert decision.offset is not None and is_packed(space, decision.offset, peak)


def test_the_default_solver_proves_what_it_grows() -> None:
    noise = np.random.default_rng(1)
    begin, size = noise.integers(0, 400, 700).tolist(), noise.integers(1, 90, 700).tolist()
    length = noise.integers(1, 60, 700).tolist()
    rows = zip(begin, length, size, strict=True)
    problem = ow.MemoryLayout(
        lifetimes=[ow.Lifetime(id=f"s{k}", begin=b, end=b + w, bytes=s) for k, (b, w, s) in enumerate(rows)]
    )
    result = ow.solve(problem, time_limit=20.0)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, problem.live_peak)


def test_what_lives_through_the_first_window_may_have_alignment_or_a_given_offset() -> None:
    """Such storages are searched like all others; those without both lie at the bottom, the longest one lowest."""
    begin, end = np.asarray([0, 1, 2, 3, 3]), np.asarray([9, 8, 7, 4, 5])
    size, one, free = np.asarray([4, 3, 2, 1, 5]), np.ones(5, dtype=np.int64), np.full(5, -1)
    plain = grown(space_of(begin, end, size, one, free), 15, 0, 1.0, 12, NEVER)
    assert plain.offset is not None and plain.offset[:3].tolist() == [0, 4, 7]
    given = grown(space_of(begin, end, size, one, np.asarray([-1, -1, 13, -1, -1])), 15, 0, 1.0, 12, NEVER)
    assert given.offset is not None and given.offset[2] == 13
    aligned = space_of(begin, end, size, np.asarray([1, 8, 1, 1, 1]), free)
    decision = grown(aligned, 15, 0, 1.0, 12, NEVER)
    assert decision.offset is not None and is_packed(aligned, decision.offset, 15)


def test_outlines_are_windows_without_members() -> None:
    noise, count = np.random.default_rng(2), 30
    begin = noise.integers(0, 20, count)
    space = space_of(
        begin, begin + noise.integers(1, 9, count), noise.integers(1, 9, count), np.ones(count, dtype=np.int64),
        np.full(count, -1),
    )  # fmt: skip
    for low, high in ((0, space.sections), (2, 5), (4, 9)):
        rows = np.flatnonzero((space.first < high) & (space.after > low))
        whole, outline = (window_of(space, rows, low, high, members=each) for each in (True, False))
        assert outline.sections == whole.sections and not len(outline.members)
        for name in ("first", "after", "size", "alignment", "fixed"):
            assert (getattr(outline, name) == getattr(whole, name)).all()
