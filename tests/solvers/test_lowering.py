"""Loops compiled with less text give what Python gives, and lose no memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.compiled import kernel


def grown(values: IntArray, wanted: int) -> IntArray:
    """The argument itself, or a longer array."""
    if len(values) >= wanted:
        return values
    longer = np.zeros(wanted, dtype=np.int64)
    for i in range(len(values)):
        longer[i] = values[i]
    return longer


def ends(values: IntArray, i: int) -> int:
    """An element counted from the end."""
    return int(values[-1 - i] + values[-1])


@kernel
def everything(values: IntArray, table: FloatMatrix, out: FloatArray, rounds: int) -> float:
    """Arguments that are returned and replaced, indices from the end, variables that are set in loops alone."""
    found, last = 0.0, -1
    kept = values
    for r in range(rounds):
        kept = grown(kept, len(values) + r // 2)
        kept[r % len(kept)] += r
        if r % 3 == 0:
            last = r
            halves = table[r % table.shape[0]] * 0.5
            found += halves[0] + halves[-1]
        for i in range(table.shape[0] - 1, -1, -1):
            if table[i, -1] < 0.0:
                break
            table[-1 - i, i % table.shape[1]] += 0.25 * ends(kept, i % len(kept))
        values = kept
    for x in values:
        found += x
    out[-1] = last
    return found + values[0]


def parts(table: FloatMatrix, wide: bool) -> tuple[FloatMatrix, FloatMatrix]:
    """Two tables: the argument and a new one, or the new one twice."""
    made = np.zeros((len(table), table.shape[1] + 2)) if wide else np.ones((1, len(table)))
    return (table, made) if wide else (made, made)


@kernel
def places(table: FloatMatrix, rounds: int) -> float:
    """Places that are kept while their numbers change, and lengths of arrays that come from anywhere."""
    found, i = 0.0, 0
    for r in range(rounds):
        left, right = parts(table, r % 3 != 0)
        j = r % table.shape[1]
        there = (i, j)
        i = (i + 1) % len(table)
        j = -1
        table[there] += 1.0
        table[i, j] += table[there] / 2.0
        here = (0, -1) if r % 2 == 0 else (r % len(right), 0)
        right[here] += r
        column = table[:, j]
        found += 100.0 * len(left) + 10.0 * right.shape[1] + right[here] + len(column) * column.shape[0] + left.shape[0]
    return found


@pytest.mark.parametrize("rounds", [0, 1, 2, 40])
def test_places_and_lengths_are_what_python_finds(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPWEAVE_CACHE_DIR", str(tmp_path.parent / "lowering"))
    tables = np.arange(24.0).reshape(2, 4, 3)
    tables[1] = tables[0]
    assert places.plain(tables[0], rounds) == places.compiled(tables[1], rounds)
    assert tables[0].tolist() == tables[1].tolist()


@pytest.mark.parametrize("rounds", [0, 1, 2, 40])
def test_a_loop_gives_what_python_gives(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPWEAVE_CACHE_DIR", str(tmp_path.parent / "lowering"))
    rng = np.random.default_rng(rounds)
    values, table = rng.integers(0, 9, 5), rng.uniform(0.0, 1.0, (4, 3))
    results = []
    for loop in (everything.plain, everything.compiled):
        given = values.copy(), table.copy(), np.zeros(2)
        results.append((loop(*given, rounds), *(each.tolist() for each in given)))
    assert results[0] == results[1]


def test_arrays_are_released_as_often_as_they_are_taken() -> None:
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    everything.compiled(np.arange(5), np.ones((4, 3)), np.zeros(2), 9)
    before = rtsys.get_allocation_stats()
    for rounds in range(200):
        everything.compiled(np.arange(5), np.ones((4, 3)), np.zeros(2), rounds % 7)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
