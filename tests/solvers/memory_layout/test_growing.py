"""Layouts that grow from the peak outward: windows of time, and what they lead to."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.memory_layout.exact import grown
from opweave.solvers.memory_layout.search import REFUTED
from opweave.solvers.memory_layout.sections import Space, live_bytes, space_of
from tests.solvers.memory_layout.test_ejection import NEVER, is_packed
from tests.solvers.memory_layout.test_exact import least_height, spaces


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
