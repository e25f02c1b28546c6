"""The smallest arena with proof: an exact search at several heights, in many orders, with growing budgets.

At the lower bound first, then between it and the best layout, the search is tried in all orders of a portfolio with a
few states each, and then again with more.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import lower
from opweave.problems.arrays import IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.result import Termination
from opweave.solvers.memory_layout.baselines import solve_baselines
from opweave.solvers.memory_layout.bounds import height_bound
from opweave.solvers.memory_layout.ejection import COOLING, WEIGHING, Temper, ejected, steps_of
from opweave.solvers.memory_layout.greedy import Places
from opweave.solvers.memory_layout.growing import BACKTRACKS, FIRST_SHARES, grown
from opweave.solvers.memory_layout.plans import report
from opweave.solvers.memory_layout.ranks import PORTFOLIO, Choice, choices
from opweave.solvers.memory_layout.search import REFUTED, pack
from opweave.solvers.memory_layout.sections import live_bytes, part_of, sections_of, space_in
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

FIRST_STATES, GROWTH = 4, 4
"""States of a first search, per storage, and the factor by which each further turn has more."""

SHARES = (1.0, 0.5, 0.2, 0.05)
"""Shares of its distance from the bound by which local search lowers a layout."""

WINDOW, WINDOWS = 2, 8
"""Sections on either side of a peak in a first window, which grows by turns, and number of peaks."""

COOLED = 300
"""Least budget of states, per storage, with which layouts are annealed: with less, they only melt."""

LARGE = 1_500
"""Storages above which heights in the middle come before the lower bound, and nothing is annealed: both take long."""

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
            rounds = list(islice(source, len(PORTFOLIO)))
            if count > LARGE:
                self._grow(per_storage)
                self._eject(per_storage * FIRST_STEPS // count)
            before = self.states
            self._narrow_windows(next(source), per_storage)
            self._narrow(rounds, per_storage)
            spent = max(self.states - before, per_storage * count) // 2
            if COOLED * count <= spent and count <= LARGE:
                self._cool(spent)
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

    def _narrow_windows(self, choice: Choice, per_storage: int) -> None:
        """Raise the bound by sections around its peak that cannot be packed, whatever lies elsewhere."""
        if per_storage == FIRST_STATES or len(self.rows) < 2 * WINDOW:
            return
        space = self.space
        live = live_bytes(space.size, space.first, space.after, space.sections)
        width = WINDOW * per_storage // FIRST_STATES
        for peak in np.argsort(-live, kind="stable")[:WINDOWS].tolist():
            while self.bound < self.height and not self.settled():
                inside = (space.first <= peak + width) & (space.after > peak - width)
                if inside.all():
                    return
                window = part_of(space, inside)
                rank = Choice(choice.branching, choice.rank[inside], np.ones(window.sections))
                decision = pack(window, self.bound, rank, per_storage * len(window.size), self.run.should_stop)
                self.states += decision.states
                if decision.answer != REFUTED:
                    break
                self._raise(self.bound + 1, "windows of time")

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
                if not self._lower(height, WEIGHING, budget):
                    break

    def _cool(self, budget: int) -> None:
        """Lower the layout by annealing, each time in the middle of what failed and the layout."""
        failed = self.bound - 1
        while self.height - failed > 1 and not self.settled():
            target = (failed + self.height) // 2
            if not self._lower(target, COOLING, budget):
                failed = target

    def _lower(self, height: int, temper: Temper, budget: int) -> bool:
        """Look for a layout within a height by local search; return whether there was one."""
        self.turns += 1
        self.states += budget
        seed, steps = self.run.seed + self.turns, steps_of(self.space, budget)
        offset = ejected(self.space, self.offset, height, seed, steps, temper, self.run.should_stop)
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
