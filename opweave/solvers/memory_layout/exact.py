"""The smallest arena with proof: an exact search at several heights, in many orders, with growing budgets.

Storages that are never live together, not even through others, are laid out apart. At the lower bound first, then
between it and the best layout, the search is tried in all orders of a portfolio with a few states each, and then again
with more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.result import Termination
from opweave.solvers.memory_layout.baselines import QUICK
from opweave.solvers.memory_layout.bounds.best import height_bound
from opweave.solvers.memory_layout.ejection import COOLING, WEIGHING, Temper, ejected, steps_of
from opweave.solvers.memory_layout.greedy import Places, Taste, allocated
from opweave.solvers.memory_layout.growing import BACKTRACKS, FIRST_SHARES, grown
from opweave.solvers.memory_layout.plans import LISTENING, contradiction, report
from opweave.solvers.memory_layout.ranks import PORTFOLIO, Choice, choices
from opweave.solvers.memory_layout.search import REFUTED, pack
from opweave.solvers.memory_layout.sections import Space, components, live_bytes, part_of, sections_of, space_in
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import NoPlanError, plans_of
from opweave.solvers.run import Outcome, Run

FIRST_STATES, GROWTH = 4, 4
"""States of a first search, per storage, and the factor by which each further turn has more."""

UNTIMED_TASTES = 4
"""Tastes of allocators that are tried without a time limit."""

WASTES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""What waste counts for different allocators."""

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

MOST_PARTS = 500
"""Most parts that are laid out apart."""

MOST_MEMBERS = 20_000_000
"""Most storages of all sections together that are searched; beyond that, only rules are used."""

UNTIMED_STATES = 3_000_000
"""States after which a run without a time limit ends."""


@dataclass(eq=False)
class Part:
    """Storages that are connected through time, their lowest layout, and a lower bound of their height.

    Attributes
    ----------
    rows
        Positions of the storages in the whole. Shape (storages,).
    offset, height
        The best layout, None at first, and how high it is; at first, one more than what matters.
    bound
        No layout is lower.
    """

    space: Space
    rows: IntArray
    bound: int
    height: int
    offset: IntArray | None = None


class Arena:
    """One arena under construction, in units of the sizes' common divisor.

    Parameters
    ----------
    instance
        A problem with one pool.
    run
        Receives layouts and bounds.
    """

    def __init__(self, problem: MemoryLayout, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.grain = self.instance.grain
        self.rows = np.flatnonzero(self.instance.solid)
        self.space = space_in(self.instance, self.rows, 0, run.halt)
        self.states = self.turns = 0
        self.capacity = int(self.instance.capacity[0]) // self.grain
        self.parts: list[Part] = []

    @property
    def bound(self) -> int:
        """No arena is lower."""
        return max((part.bound for part in self.parts), default=0)

    @property
    def height(self) -> int:
        """The best arena."""
        return max((part.height for part in self.parts), default=0)

    def settled(self) -> bool:
        """Whether nothing is left to do, or no time."""
        return self.bound >= self.height or self.bound > self.capacity or self.run.should_stop()

    def start(self) -> None:
        """Lay out by the quick rules, and find the parts and their bounds."""
        self.run.enter("greedy rules")
        most = min(self.capacity, self.instance.height // self.grain) + 1
        component = components(self.space)
        if component.max(initial=0) >= MOST_PARTS:
            component = np.zeros_like(component)
        for number in range(int(component.max(initial=-1)) + 1):
            chosen = component == number
            space = part_of(self.space, chosen)
            self.parts.append(Part(space, np.flatnonzero(chosen), height_bound(space), most))
        self.parts.sort(key=lambda part: -part.bound)
        self.run.proved(self.bound * self.grain, "live bytes")
        for turn, places in enumerate(plans_of(partial(rule, self.instance) for rule in QUICK)):
            if places is not None:
                self.consider(places.offset[self.rows] // self.grain)
                self._report()  # of tens of thousands of storages, a rule takes a second
            if turn == 0 and not self.settled():
                self._grow_at_once()
            if self.settled():
                break

    def _grow_at_once(self) -> None:
        """Grow every part of hundreds of storages once at its bound: mostly, this is faster than other rules."""
        for part in self.parts:
            there = LEAST_GROWN < len(part.rows) <= MOST_GROWN and part.bound < part.height
            if there and not self.run.should_stop():
                self._grow_within(part, part.bound, FIRST_SHARES[0], len(PORTFOLIO))

    def consider(self, offset: IntArray) -> None:
        """Keep the offsets of every part of which they are the lowest layout."""
        for part in self.parts:
            height = int((offset[part.rows] + part.space.size).max())
            if height < part.height:
                part.offset, part.height = offset[part.rows], height

    def _report(self) -> None:
        """Report the best layouts of all parts as one, if there is one of each."""
        offset = np.maximum(self.instance.fixed, 0)
        for part in self.parts:
            if part.offset is None:
                return
            offset[self.rows[part.rows]] = part.offset * self.grain
        report(self.problem, self.instance, Places(offset, np.zeros(len(offset), dtype=np.int64)), self.run)

    def search(self) -> bool:
        """Search until the arena is proved; False if the budget of states ends before."""
        self.run.enter("stacking")
        per_storage = FIRST_STATES
        orders = [choices(part.space, self.run.seed) for part in self.parts]
        while not self.settled():
            for part, source in zip(self.parts, orders, strict=True):
                rounds = [next(source) for _ in PORTFOLIO]
                if len(part.rows) > LARGE:
                    self._grow(part, per_storage)
                    self._eject(part, per_storage * FIRST_STEPS // len(part.rows))
                before = self.states
                self._narrow_windows(part, next(source), per_storage)
                self._narrow(part, rounds, per_storage)
                self._round_up(part, rounds, per_storage * len(part.rows))
                spent = max(self.states - before, per_storage * len(part.rows)) // 2
                if spent >= COOLED * len(part.rows) and len(part.rows) <= LARGE:
                    self._cool(part, spent)
                self._eject(part, spent)
            per_storage *= GROWTH
            if self.run.time_limit is None and self.states > UNTIMED_STATES:
                return False
        return True

    def _round_up(self, part: Part, orders: list[Choice], budget: int) -> None:
        """Remove less than a power of two from a layout: with sizes rounded up to it, where that raises no bound."""
        space, size, step = part.space, part.space.size, 1
        while step < self.bound:
            rounded = np.where(space.fixed < 0, -(-space.size // (2 * step)) * (2 * step), space.size)
            if live_bytes(rounded, space.first, space.after, space.sections).max() > self.bound:
                break
            size, step = rounded, 2 * step
        for choice in orders:
            if not 0 < part.height - self.bound < step or self.settled():
                return
            decision = pack(space._replace(size=size), self.bound, choice, budget)
            self.states += decision.states
            self._take(part, decision.offset)

    def _narrow(self, part: Part, orders: list[Choice], per_storage: int) -> None:
        """Search at the bound, then in the middle between what failed and the best layout."""
        failed, budget = self.bound - 1, per_storage * len(part.rows)
        if per_storage == FIRST_STATES and part.height > self.bound and len(part.rows) <= LARGE:
            self._try(part, self.bound, orders, len(part.rows) + BACKTRACKS)
        target = self.bound if len(part.rows) <= LARGE else (self.bound + part.height) // 2
        while part.height > self.bound and not self.settled():
            if self._try(part, target, orders, budget):
                if part.bound > target:
                    failed = target
            else:
                failed = target
                if target == self.bound:
                    self._grow(part, per_storage)
            failed = max(failed, self.bound - 1)
            if part.height - failed <= 1:
                return
            target = part.height - 1 if part.offset is None else min((failed + part.height) // 2 + 1, part.height - 1)

    def _grow(self, part: Part, per_storage: int) -> None:
        """Lay out a part from its peak outward, at its bound and in the middle between that and its best layout."""
        tries = len(PORTFOLIO) * per_storage // FIRST_STATES
        for share in FIRST_SHARES if LEAST_GROWN < len(part.rows) <= MOST_GROWN else ():
            for halves in (0, 1):
                target = part.bound + halves * (part.height - part.bound) // 2
                if self.settled() or target >= part.height:
                    return
                self._grow_within(part, target, share, tries)

    def _grow_within(self, part: Part, target: int, share: float, tries: int) -> None:
        """Lay out a part from its peak outward within a height."""
        self.turns += 1
        decision = grown(part.space, target, self.run.seed + self.turns, share, tries)
        self.states += decision.states
        self._take(part, decision.offset)
        if decision.answer == REFUTED:
            part.bound = target + 1
            self.run.proved(self.bound * self.grain, "windows of time")

    def _eject(self, part: Part, budget: int) -> None:
        """Lower the layout of a part by local search, by several shares of what it lies above its bound."""
        for share in SHARES:
            while part.height > self.bound and not self.settled():
                height = part.height - max(1, int((part.height - self.bound) * share))
                if not self._lower(part, height, WEIGHING, budget):
                    break

    def _cool(self, part: Part, budget: int) -> None:
        """Lower the layout of a part by annealing, each time in the middle of what failed and the layout."""
        failed = self.bound - 1
        while part.height - failed > 1 and not self.settled():
            target = (failed + part.height) // 2
            if not self._lower(part, target, COOLING, budget):
                failed = target

    def _lower(self, part: Part, height: int, temper: Temper, budget: int) -> bool:
        """Look for a layout of a part within a height by local search; return whether there was one."""
        self.turns += 1
        self.states += budget
        steps = steps_of(part.space, budget)
        offset = ejected(part.space, part.offset, height, self.run.seed + self.turns, steps, temper)
        self._take(part, offset)
        return offset is not None

    def _take(self, part: Part, offset: IntArray | None) -> None:
        """Report a lower layout of a part, if there is one."""
        if offset is not None:
            part.offset, part.height = offset, int((offset + part.space.size).max())
            self._report()

    def _narrow_windows(self, part: Part, choice: Choice, per_storage: int) -> None:
        """Raise the bound of a part by sections around its peak that cannot be packed, whatever lies elsewhere."""
        if per_storage == FIRST_STATES or len(part.rows) < 2 * WINDOW:
            return
        space = part.space
        live = live_bytes(space.size, space.first, space.after, space.sections)
        width = WINDOW * per_storage // FIRST_STATES
        for peak in np.argsort(-live, kind="stable")[:WINDOWS].tolist():
            while part.bound < part.height and not self.settled():
                inside = (space.first <= peak + width) & (space.after > peak - width)
                if inside.all():
                    return
                window = part_of(space, inside)
                rank = Choice(choice.branching, choice.rank[inside], np.ones(window.sections))
                decision = pack(window, part.bound, rank, per_storage * len(window.size))
                self.states += decision.states
                if decision.answer != REFUTED:
                    break
                part.bound += 1
                self.run.proved(self.bound * self.grain, "windows of time")

    def _try(self, part: Part, target: int, orders: list[Choice], budget: int) -> bool:
        """Search at one height in several orders; return whether it was decided."""
        for choice in orders:
            decision = pack(part.space, target, choice, budget)
            self.states += decision.states
            if decision.offset is not None:
                self._take(part, decision.offset)
                return True
            if decision.answer == REFUTED:
                part.bound = target + 1
                self.run.proved(self.bound * self.grain, "stacking")
                return True
            if self.run.should_stop():
                break
        return False

    def finish(self) -> Outcome:
        """Search for as long as there is something to do, and say how it ended."""
        return self.outcome() if self.settled() or self.search() else Outcome(Termination.BUDGET)

    def outcome(self) -> Outcome:
        """Infeasible when the bound exceeds the capacity, else as the run says."""
        if self.bound > self.capacity:
            needed, size = self.bound * self.grain, int(self.instance.capacity[0])
            name = self.problem.pools[0].name
            reason = f"every layout needs at least {needed:,} bytes; pool {name!r} has {size:,}"
            return Outcome(infeasible=True, reason=reason)
        return Outcome(self.run.termination())


@named_solver(
    MemoryLayout,
    "exact",
    "stacking with inference on sections, in many orders; proves the smallest arena",
    proves="optimum",
    features=LISTENING,
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
    reason = contradiction(lower(problem))
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    return solve_arena(problem, run)


def solve_arena(problem: MemoryLayout, run: Run) -> Outcome:
    """Lay out one arena in which a layout may be possible."""
    if not is_searched(lower(problem)):
        outcome = by_rules(problem, run)
        return outcome if run.should_stop() else by_allocators(problem, run)
    arena = Arena(problem, run)
    arena.start()
    return arena.finish()


def is_searched(instance: LayoutInstance) -> bool:
    """Whether an arena is small enough for a search; otherwise only rules are used."""
    solid = instance.solid
    first, after, _ = sections_of(instance.begin[solid], instance.end[solid])
    return int((after - first).sum()) <= MOST_MEMBERS


def by_rules(problem: MemoryLayout, run: Run) -> Outcome:
    """Report the layouts of the quick rules, and the live bytes as a bound."""
    instance = lower(problem)
    if len(instance.capacity) == 1 and problem.objective == "arena":
        run.proved(int(instance.live.max(initial=0)), "live bytes")
    run.enter("greedy rules")
    for places in plans_of(partial(rule, instance) for rule in QUICK):
        if places is not None:
            report(problem, instance, places, run)
        if run.should_stop():
            return Outcome(run.termination())
    return Outcome(Termination.BUDGET)


def by_allocators(problem: MemoryLayout, run: Run) -> Outcome:
    """Report the layouts of allocators with different tastes."""
    run.enter("allocators")
    noise, instance = np.random.default_rng(run.seed), lower(problem)
    for turn in range(UNTIMED_TASTES if run.time_limit is None else 2**62):
        if run.should_stop():
            return Outcome(run.termination())
        look, waste = int(noise.integers(8, 65)), float(noise.choice(WASTES))
        try:
            places = allocated(instance, Taste(look, waste, turn % 2 == 1))
        except NoPlanError:
            break
        if places is not None:
            report(problem, instance, places, run)
    return Outcome(Termination.BUDGET)
