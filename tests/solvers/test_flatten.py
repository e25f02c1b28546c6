"""Loops whose records are taken apart do what they did, and take only what they use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from opweave.problems.arrays import IntArray
from opweave.solvers.compiling.flatten import Flattener, NotFlatError, entry_of
from opweave.solvers.compiling.warm import all_kernels

PLAIN = Flattener(lambda helper: helper)


class Inner(NamedTuple):
    values: IntArray
    unused: IntArray


class Outer(NamedTuple):
    inner: Inner
    factor: int


def made(count: int, factor: int) -> Outer:
    return Outer(inner=Inner(np.arange(count), np.zeros(count, dtype=np.int64)), factor=factor)


def scaled(outer: Outer, i: int) -> int:
    return int(outer.inner.values[i] * outer.factor)


def total(outer: Outer, extra: int) -> int:
    inner, more = outer.inner, made(extra, 7)
    found = 0
    for i in range(len(inner.values)):
        found += scaled(outer, i)
    for i in range(extra):
        found += scaled(more, i=i)
    return found


def whole(outer: Outer) -> int:
    return len(outer)


def test_the_result_is_the_same_and_what_is_not_used_is_not_taken() -> None:
    outer = made(4, 3)
    flat = PLAIN.loop(total)
    assert flat.paths == ((0, ("inner", "values")), (0, ("factor",)), (1, ()))
    assert entry_of(total, flat.paths, flat.function)(outer, 5) == total(outer, 5) == 3 * 6 + 7 * 10


def counted(start: int, stop: int) -> int:
    found, i = 0, -100
    for i in range(start, stop, 3):
        if i % 2:
            continue
        for j in range(stop, start, -2):
            found += i * j
            if j < i:
                break
        i += 1000  # noqa: PLW2901  the next round must not see it
    for _ in range(stop):
        stop += 1
    return found * 10_000 + i + stop


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (-3, 8), (5, 5), (9, 2), (0, 1)])
def test_ranges_become_loops_that_count_alike(start: int, stop: int) -> None:
    assert PLAIN.loop(counted).function(start, stop) == counted(start, stop)


def test_a_record_that_is_used_as_a_whole_is_refused() -> None:
    with pytest.raises(NotFlatError, match="as a whole"):
        PLAIN.loop(whole)


@pytest.mark.parametrize("each", all_kernels(), ids=lambda each: each.name)
def test_every_loop_can_be_taken_apart(each: object) -> None:
    assert PLAIN.loop(each.plain).paths  # type: ignore[attr-defined]
