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
