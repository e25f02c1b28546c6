"""How the exact search chooses: several ways, because none is best on all instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.memory_layout.sections import Space, live_bytes

BY_SECTION, BY_STORAGE = 0, 1
"""What the search branches on: which storage lies lowest in a section, or whether a storage lies on the ground."""

PORTFOLIO = (
    (BY_STORAGE, "TWA"),
    (BY_STORAGE, "OTW"),
    (BY_SECTION, "WTU"),
    (BY_STORAGE, "ATW"),
    (BY_STORAGE, "UW"),
    (BY_SECTION, "TO"),
    (BY_SECTION, "TWI"),
    (BY_STORAGE, "WTU"),
    (BY_SECTION, "UW"),
    (BY_SECTION, "OI"),
    (BY_SECTION, "TWA"),
    (BY_STORAGE, "UTW"),
)
"""Branching and sorting keys, of which the first one decides: *T* most live bytes in one of its sections, *W* number of
sections, *A* bytes times sections, *O* number of storages that are live together with it, *L* early first section, *U*
late last section, *I* position in the problem."""

PLAIN_TURNS = 3
"""Turns in which the portfolio is used as it is."""

NOISE = (0.005, 0.02, 0.06, 0.15)
"""Standard deviations of the positions in later orders, as shares of the number of storages."""


class Choice(NamedTuple):
    """How a search chooses.

    Attributes
    ----------
    branching
        What it branches on.
    rank
        Storages of the least rank come first. Shape (storages,).
    blame
        How often every section has refuted a state; such sections come first. Choices of the portfolio have their own,
        and disturbed ones share theirs, so that they learn from each other. Shape (sections,).
    """

    branching: int
    rank: FloatArray
    blame: FloatArray


def choices(space: Space, seed: int) -> Iterator[Choice]:
    """Endless choices: those of the portfolio, in some turns, then disturbed ones."""
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
    for branching, name in PORTFOLIO:
        rank = np.empty(count)
        rank[np.lexsort([-keys[key] for key in reversed(name)])] = np.arange(count)
        plain.append((branching, rank))
    for _ in range(PLAIN_TURNS):
        for branching, rank in plain:
            yield Choice(branching, rank, np.ones(space.sections))
    noise, blame = np.random.default_rng(seed), np.ones(space.sections)
    while True:
        for share in NOISE:
            for branching, rank in plain:
                yield Choice(branching, rank + share * count * noise.standard_normal(count), blame)


def _most(live: IntArray, space: Space) -> IntArray:
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


def _company(space: Space) -> IntArray:
    """Number of storages that are ever live together with each."""
    begun = np.searchsorted(np.sort(space.first), space.after, side="left").astype(np.int64)
    ended = np.searchsorted(np.sort(space.after), space.first, side="right").astype(np.int64)
    return begun - ended
