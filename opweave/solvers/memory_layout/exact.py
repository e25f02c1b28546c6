"""The smallest arena with proof: an exact search at several heights, in many orders, with growing budgets.

At the lower bound first, then between it and the best layout, the search is tried in all orders of a portfolio with a
few states each, and then again with more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import lower
from opweave.problems.arrays import IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.result import Termination
from opweave.solvers.memory_layout.baselines import solve_baselines
from opweave.solvers.memory_layout.bounds import height_bound
from opweave.solvers.memory_layout.ejection import ejected, steps_of
from opweave.solvers.memory_layout.plans import Places, report
from opweave.solvers.memory_layout.search import FOUND, REFUTED, UNDECIDED, Packing, pack
from opweave.solvers.memory_layout.sections import (
    PLAIN_TURNS,
    PORTFOLIO,
    Choice,
    Space,
    choices,
    live_bytes,
    sections_of,
    space_in,
    window_of,
)
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

FIRST_SHARES = (1.3, 2.0, 1.25, 1.5, 1.2, 1.1)
"""Storages of the first window, by those at the peak, in the turns in which a layout is grown."""

WIDENED = 1.12
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


def grown(space: Space, height: int, seed: int, share: float, tries: int, should_stop: Callable[[], bool]) -> Packing:
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
                return Packing(decision.answer, None, states)
            offset[rows] = decision.offset
        elif new:
            steps = STEPS * max(new, LEAST_NEW)
            states += steps
            window = window_of(space, rows, low, high, members=False)
            found = ejected(window, offset[rows], height, seed, steps, should_stop)
            if found is None:
                return Packing(UNDECIDED, None, states)
            offset[rows] = found
        if at == last:
            return Packing(FOUND, offset, states)
        most = WIDENED * counts[at]
        at = min(last, max(at + 1, int(np.searchsorted(counts, most, side="right")) - 1))


def _packed(
    space: Space,
    rows: IntArray,
    window: tuple[int, int],
    height: int,
    seed: int,
    tries: int,
    should_stop: Callable[[], bool],
) -> Packing:
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
        return Packing(REFUTED, None, 0) if base > height else Packing(FOUND, stand, 0)
    inside, states = window_of(space, rest, low, high), 0
    for choice in islice(_various(inside, seed), tries):
        decision = pack(inside, height - base, choice, len(rest) + BACKTRACKS, should_stop)
        states += decision.states
        if decision.offset is not None:
            stand[~through] = base + decision.offset
            return Packing(FOUND, stand, states)
        if decision.answer == REFUTED or should_stop():
            return Packing(decision.answer, None, states)
    return Packing(UNDECIDED, None, states)


def _various(space: Space, seed: int) -> Iterator[Choice]:
    """The choices of the portfolio once, then disturbed ones."""
    source = choices(space, seed)
    return chain(islice(source, len(PORTFOLIO)), islice(source, (PLAIN_TURNS - 1) * len(PORTFOLIO), None))


FIRST_STATES, GROWTH = 4, 4
"""States of a first search, per storage, and the factor by which each further turn has more."""

SHARES = (1.0, 0.5, 0.2, 0.05)
"""Shares of its distance from the bound by which local search lowers a layout."""

LARGE = 1_500
"""Storages above which heights in the middle come before the lower bound, which takes long."""

FIRST_STEPS = 7_000_000
"""Steps of local search times storages, per state of a storage, that come first in a turn where storages are many."""

LEAST_GROWN, MOST_GROWN = 500, 6_000
"""Storages between which layouts are grown: fewer are packed as a whole, and with more, single steps take long."""

MOST_MEMBERS = 20_000_000
"""Most storages of all sections together that are searched; beyond that, only rules are used."""

UNTIMED_STATES = 3_000_000
"""States after which a run without a time limit ends."""


class Arena:
    """One arena under construction, in units of the sizes' common divisor.

    Parameters
    ----------
    problem
        A problem with one pool.
    run
        Receives layouts and bounds; its best layout is where the search begins.

    Attributes
    ----------
    offset, height
        The best layout, None at first, and how high it is; at first, one more than what matters.
    bound
        No layout is lower.
    """

    def __init__(self, problem: MemoryLayout, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.grain = self.instance.grain
        self.rows = np.flatnonzero(self.instance.solid)
        self.space = space_in(self.instance, self.rows, 0)
        self.states = self.turns = 0
        self.capacity = int(self.instance.capacity[0]) // self.grain
        self.height = min(self.capacity, self.instance.height // self.grain) + 1
        self.offset: IntArray | None = None
        self.known: Layout | None = None
        self.bound = 0
        self._raise(height_bound(self.space), "live bytes")

    def settled(self) -> bool:
        """Whether nothing is left to do, or no time; takes over the run's best layout."""
        stop = self.run.should_stop()
        if isinstance(self.run.best, Layout) and self.run.best is not self.known:
            self.known = self.run.best
            self._take(self.instance.places(self.known)[0][self.rows] // self.grain)
        return stop or self.bound >= self.height or self.bound > self.capacity

    def search(self) -> bool:
        """Search until the arena is proved; False if the budget of states ends before."""
        self.run.enter("stacking")
        count, per_storage = len(self.rows), FIRST_STATES
        if LEAST_GROWN < count <= MOST_GROWN:
            self._grow_within(self.bound, FIRST_SHARES[0], len(PORTFOLIO))
        source = choices(self.space, self.run.seed)
        while not self.settled():
            if count > LARGE:
                self._grow(per_storage)
                self._eject(per_storage * FIRST_STEPS // count)
            before = self.states
            self._narrow(list(islice(source, len(PORTFOLIO))), per_storage)
            spent = max(self.states - before, per_storage * count) // 2
            self._eject(spent)
            per_storage *= GROWTH
            if self.run.time_limit is None and self.states > UNTIMED_STATES:
                return False
        return True

    def _narrow(self, orders: list[Choice], per_storage: int) -> None:
        """Search at the bound, then in the middle between what failed and the best layout."""
        failed, budget = self.bound - 1, per_storage * len(self.rows)
        if per_storage == FIRST_STATES and self.height > self.bound and len(self.rows) <= LARGE:
            self._try(self.bound, orders, len(self.rows) + BACKTRACKS)
        target = self.bound if len(self.rows) <= LARGE else (self.bound + self.height) // 2
        while self.height > self.bound and not self.settled():
            if self._try(target, orders, budget):
                if self.bound > target:
                    failed = target
            else:
                failed = target
                if target == self.bound:
                    self._grow(per_storage)
            failed = max(failed, self.bound - 1)
            if self.height - failed <= 1:
                return
            target = self.height - 1 if self.offset is None else min((failed + self.height) // 2 + 1, self.height - 1)

    def _try(self, target: int, orders: list[Choice], budget: int) -> bool:
        """Search at one height in several orders; return whether it was decided."""
        for choice in orders:
            decision = pack(self.space, target, choice, budget, self.run.should_stop)
            self.states += decision.states
            if decision.offset is not None:
                self._take(decision.offset)
                return True
            if decision.answer == REFUTED:
                self._raise(target + 1, "stacking")
                return True
            if self.run.should_stop():
                break
        return False

    def _grow(self, per_storage: int) -> None:
        """Lay out from its peak outward, at its bound and in the middle between that and its best layout."""
        tries = len(PORTFOLIO) * per_storage // FIRST_STATES
        for share in FIRST_SHARES if LEAST_GROWN < len(self.rows) <= MOST_GROWN else ():
            for halves in (0, 1):
                target = self.bound + halves * (self.height - self.bound) // 2
                if self.settled() or target >= self.height:
                    return
                self._grow_within(target, share, tries)

    def _grow_within(self, target: int, share: float, tries: int) -> None:
        """Lay out from its peak outward within a height."""
        self.turns += 1
        decision = grown(self.space, target, self.run.seed + self.turns, share, tries, self.run.should_stop)
        self.states += decision.states
        self._take(decision.offset)
        if decision.answer == REFUTED:
            self._raise(target + 1, "windows of time")

    def _eject(self, budget: int) -> None:
        """Lower the layout by local search, by several shares of what it lies above its bound."""
        for share in SHARES:
            while self.height > self.bound and not self.settled():
                height = self.height - max(1, int((self.height - self.bound) * share))
                if not self._lower(height, budget):
                    break

    def _lower(self, height: int, budget: int) -> bool:
        """Look for a layout within a height by local search; return whether there was one."""
        self.turns += 1
        self.states += budget
        seed, steps = self.run.seed + self.turns, steps_of(self.space, budget)
        offset = ejected(self.space, self.offset, height, seed, steps, self.run.should_stop)
        self._take(offset)
        return offset is not None

    def _take(self, offset: IntArray | None) -> None:
        """Keep and report a lower layout, if this is one."""
        height = self.height if offset is None else int((offset + self.space.size).max(initial=0))
        if offset is not None and height < self.height:
            self.offset, self.height = offset, height
            whole = np.maximum(self.instance.fixed, 0)
            whole[self.rows] = offset * self.grain
            report(self.problem, self.instance, Places(whole, np.zeros_like(whole)), self.run)

    def _raise(self, bound: int, source: str) -> None:
        """Report that no layout is lower."""
        self.bound = max(self.bound, bound)
        self.run.proved(self.bound * self.grain, source)


@named_solver(
    MemoryLayout,
    "exact",
    "stacking with inference on sections, in many orders; proves the smallest arena",
    proves="optimum",
    supports=(VIOLATIONS,),
)
def solve_exact(problem: MemoryLayout, run: Run) -> Outcome:
    """Minimise one arena to proven optimality; solver "exact".

    Raises
    ------
    UnsupportedFeatureError
        With several pools, or for traffic.
    """
    if len(problem.pools) > 1 or problem.objective != "arena":
        raise UnsupportedFeatureError("solver 'exact' lays out one arena; for pools and traffic use 'auto'")
    if run.best is None:
        outcome = solve_baselines(problem, run)
        if outcome.infeasible:
            return outcome
    instance = lower(problem)
    first, after, _ = sections_of(instance.begin[instance.solid], instance.end[instance.solid])
    if int((after - first).sum()) > MOST_MEMBERS or run.closed():
        return Outcome(run.termination())
    arena = Arena(problem, run)
    if not arena.settled() and not arena.search():
        return Outcome(Termination.BUDGET)
    if arena.bound > arena.capacity:
        needed, size = arena.bound * arena.grain, int(instance.capacity[0])
        reason = f"every layout needs at least {needed:,} bytes; pool {problem.pools[0].name!r} has {size:,}"
        return Outcome(infeasible=True, reason=reason)
    return Outcome(run.termination())
