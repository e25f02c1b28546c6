"""Which storages the exact search places first: several orders, because none is best on all instances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.memory_layout.sections import Space, live_bytes

PORTFOLIO = ("TWI", "WTU", "UW", "TO", "TWA", "OI", "LW", "WTL")
"""Sorting keys, the first one decides: *T* most live bytes in one of its sections, *W* number of sections, *A* bytes
times sections, *O* number of storages that are live together with it, *L* early first section, *U* late last section,
*I* position in the problem."""

NOISE = (0.005, 0.02, 0.06, 0.15)
"""Standard deviations of the positions in later orders, as shares of the number of storages."""


def ranks(space: Space, seed: int) -> Iterator[FloatArray]:
    """Endless orders of the storages: those of the portfolio, then disturbed ones. Each of shape (storages,)."""
    count = len(space.size)
    width = space.after - space.first
    live = live_bytes(space.size, space.first, space.after, space.sections)
    keys = {
        "T": _most(live, space),
        "W": width,
        "A": width * space.size.astype(np.float64),
        "O": _company(space),
        "L": -space.first,
        "U": space.after,
        "I": -np.arange(count),
    }
    plain = []
    for name in PORTFOLIO:
        rank = np.empty(count)
        rank[np.lexsort([-keys[key] for key in reversed(name)])] = np.arange(count)
        plain.append(rank)
        yield rank
    noise = np.random.default_rng(seed)
    while True:
        for share in NOISE:
            for rank in plain:
                yield rank + share * count * noise.standard_normal(count)


def _most(live: FloatArray, space: Space) -> FloatArray:
    """The most live bytes in one of the sections of every storage, by a sparse table of maxima."""
    table = [live]
    while 2 ** len(table) <= len(live):
        half = 2 ** (len(table) - 1)
        table.append(np.maximum(table[-1][:-half], table[-1][half:]))
    level = np.frexp((space.after - space.first).astype(np.float64))[1] - 1
    found = np.zeros(len(space.size), dtype=np.int64)
    for number, maxima in enumerate(table):
        rows = np.flatnonzero(level == number)
        found[rows] = np.maximum(maxima[space.first[rows]], maxima[space.after[rows] - 2**number])
    return found


def _company(space: Space) -> FloatArray:
    """Number of storages that are ever live together with each."""
    begun = np.searchsorted(np.sort(space.first), space.after, side="left")
    ended = np.searchsorted(np.sort(space.after), space.first, side="right")
    return begun - ended
