"""Layouts that grow from the section with the most live bytes: the stretch of time that binds is packed first.

Around the peak, little or nothing is to spare, and the storages there can hardly be packed once others stand in their
way. Elsewhere there is room. So the exact search packs a window of time around the peak, in which storages that live
through all of it may lie in any order. Then the window is widened, each time towards more live bytes, and local search
adds what is new; it may move what stands. Most of thousands of storages are then placed only once.

Source: decomposition in time, as in the rolling horizons of production planning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.memory_layout.ejection import WEIGHING, ejected
from opweave.solvers.memory_layout.ranks import PLAIN_TURNS, PORTFOLIO, Choice, choices
from opweave.solvers.memory_layout.search import FOUND, REFUTED, UNDECIDED, Decision, pack
from opweave.solvers.memory_layout.sections import Space, live_bytes, outline_of, window_of

FIRST_SHARES = (1.3, 2.0, 1.25, 1.5, 1.2, 1.1)
"""Storages of the first window, by those at the peak, in the turns in which a layout is grown."""

GROWTH = 1.12
"""Factor by which the number of storages grows from one window to the next."""

STEPS, LEAST_NEW = 10, 50
"""Steps of local search for each new storage of a window, and the least number that is counted. More do not help: where
new storages do not find their places at once, it is because of how the first window was packed."""

BACKTRACKS = 200
"""States of the exact search in the first window, beyond its storages."""

OUTSIDE = 1 << 60
"""Offset of a storage that has no place yet: above every height."""


def widening(space: Space) -> tuple[IntArray, IntArray, IntArray]:
    """The windows around the peak, each with one section more: from, to before, and their numbers of storages.

    The next section is the neighbour with more live bytes.
    """
    live = live_bytes(space.size, space.first, space.after, space.sections).tolist()
    low = live.index(max(live))
    high = low + 1
    windows = [(low, high)]
    while high - low < len(live):
        before, behind = live[low - 1] if low else -1, live[high] if high < len(live) else -1
        low, high = (low - 1, high) if before >= behind else (low, high + 1)
        windows.append((low, high))
    lows, highs = np.asarray(windows, dtype=np.int64).T
    begun = np.searchsorted(np.sort(space.first), highs, side="left")
    ended = np.searchsorted(np.sort(space.after), lows, side="right")
    return lows, highs, begun - ended


def grown(space: Space, height: int, seed: int, share: float, tries: int, should_stop: Callable[[], bool]) -> Decision:
    """Look for offsets within a height, from a window around the peak outward.

    Parameters
    ----------
    space
        The storages.
    height
        Bytes.
    seed
        Of the choices and of the local search.
    share
        Storages of the first window, by those at the peak.
    tries
        Number of choices with which the first window is searched.
    should_stop
        Asked now and then.

    Returns
    -------
    Decision
        FOUND, REFUTED if the first window cannot be packed, or UNDECIDED.
    """
    lows, highs, counts = widening(space)
    offset = np.full(len(space.size), OUTSIDE)
    last, states, most = len(counts) - 1, 0, share * counts[0]
    at = int(np.searchsorted(counts, most, side="right")) - 1
    while True:
        low, high = int(lows[at]), int(highs[at])
        rows = np.flatnonzero((space.first < high) & (space.after > low))
        new = int((offset[rows] == OUTSIDE).sum())
        if new == len(rows):
            decision = _packed(space, rows, (low, high), height, seed, tries, should_stop)
            states += decision.states
            if decision.offset is None:
                return Decision(decision.answer, None, states)
            offset[rows] = decision.offset
        elif new:
            steps = STEPS * max(new, LEAST_NEW)
            states += steps
            window = outline_of(space, rows, low, high)
            found = ejected(window, offset[rows], height, seed, steps, WEIGHING, should_stop)
            if found is None:
                return Decision(UNDECIDED, None, states)
            offset[rows] = found
        if at == last:
            return Decision(FOUND, offset, states)
        most = GROWTH * counts[at]
        at = min(last, max(at + 1, int(np.searchsorted(counts, most, side="right")) - 1))


def _packed(
    space: Space,
    rows: IntArray,
    window: tuple[int, int],
    height: int,
    seed: int,
    tries: int,
    should_stop: Callable[[], bool],
) -> Decision:
    """Pack some sections from ``low`` to before ``high``, by a number of choices, with little going back.

    What lives through all of them may as well lie at the bottom: the gaps between such storages may be joined to one.
    The one that lives longest lies lowest.
    """
    low, high = window
    free = (space.fixed[rows] < 0).all() and (space.alignment[rows] == 1).all()
    through = (space.first[rows] <= low) & (space.after[rows] >= high) if free else np.zeros(len(rows), dtype=bool)
    bottom, rest = rows[through], rows[~through]
    longest = np.argsort(space.first[bottom] - space.after[bottom], kind="stable")
    stand = np.zeros(len(rows), dtype=np.int64)
    stand[np.flatnonzero(through)[longest]] = np.cumsum(space.size[bottom][longest]) - space.size[bottom][longest]
    base = int(space.size[bottom].sum())
    if base > height or not len(rest):
        return Decision(REFUTED, None, 0) if base > height else Decision(FOUND, stand, 0)
    inside, states = window_of(space, rest, low, high), 0
    for choice in islice(_various(inside, seed), tries):
        decision = pack(inside, height - base, choice, len(rest) + BACKTRACKS, should_stop)
        states += decision.states
        if decision.offset is not None:
            stand[~through] = base + decision.offset
            return Decision(FOUND, stand, states)
        if decision.answer == REFUTED or should_stop():
            return Decision(decision.answer, None, states)
    return Decision(UNDECIDED, None, states)


def _various(space: Space, seed: int) -> Iterator[Choice]:
    """The choices of the portfolio once, then disturbed ones."""
    source = choices(space, seed)
    return chain(islice(source, len(PORTFOLIO)), islice(source, (PLAIN_TURNS - 1) * len(PORTFOLIO), None))
