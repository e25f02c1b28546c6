"""Exact decomposition at cut vertices: it solves modules one by one, and only those that the best path needs.

At a cut vertex no operator and no transfer is under way, so the shortest plan is the shortest path over the devices
of the cut vertices, where a module costs the length of its own shortest plan between two devices. Lower and upper
bounds of those lengths are known. The solver repeats three steps: find the shortest path over the lower bounds, work on
one unsettled module of that path, update its bounds. When the lower bound of the path equals the makespan of the best
plan stitched together from the modules' plans, that plan is optimal.

The modules do not see memory, nor side constraints across several modules. The bounds hold all the same, and a stitched
plan that breaks a constraint is not reported.

Source: the lazy decomposition of "Moirai" reproductions: lower bounds along a shortest path, exact solutions on demand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.bounds.area import best_area, memory_of, quick_bounds
from opweave.solvers.placement.bounds.chain_bound import Milestones, Module, devices_to, milestones_of, shortest
from opweave.solvers.placement.bounds.prices import MemoryBounds
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.placement.module_search import LARGEST_SEARCHED, Found, nodes_within, search_module
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, solution_of, take_over, times_of
from opweave.solvers.registry import named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

TRIES = 5_000, 30_000, 200_000, 1_000_000
"""Nodes of the searches on a module and its end devices, one after the other."""

LONGEST = 2.0
"""Seconds that the program of a window, or a search on a module, may take."""

UNTIMED_SECONDS = 60.0
"""Most seconds of one step of the bounds with memory when there is no time limit."""

EARLY = 0.1
"""Share of the time left for the first bounds with memory, which do not let others go on in between."""

SETTLED = 1e-9
"""Relative gap below which a module's length counts as known."""


@dataclass(eq=False)
class Lengths:
    """Upper bounds of a class of equal modules: lengths, plans and tries by end devices. Shapes (K, K)."""

    module: Module
    window: Window
    upper: FloatArray = field(init=False)
    tries: IntArray = field(init=False)
    plans: dict[tuple[int, int], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.upper = np.full(self.module.whole.shape, np.inf)
        self.tries = np.zeros(self.module.whole.shape, dtype=np.int64)

    def keep(self, a: int, b: int, found: Found) -> None:
        """Keep a plan if it is the best for its end devices."""
        if found.device[0] >= 0 and found.makespan < self.upper[a, b]:
            self.upper[self.window.cells(a, b)] = found.makespan
            self.plans[self._pair(a, b)] = found

    def plan(self, a: int, b: int) -> Found:
        """The best plan for two end devices."""
        return self.plans[self._pair(a, b)]

    def prove(self, a: int, b: int, value: float) -> None:
        """Raise the lower bound."""
        cells = self.window.cells(a, b)
        self.module.whole[cells] = np.maximum(self.module.whole[cells], value)

    def learn(self, a: int, b: int, bound: float, found: Found) -> None:
        """Take over a try's findings; the pair is settled once bound and plan meet."""
        self.keep(a, b, found)
        self.prove(a, b, bound)
        if bound >= self.upper[a, b] * (1.0 - SETTLED):
            self.tries[a, b] = NO_MORE
            self.module.settled[self.window.cells(a, b)] = True

    def _pair(self, a: int, b: int) -> tuple[int, int]:
        """End devices, with 0 in place of a missing end."""
        return a if self.window.entry else 0, b if self.window.exit else 0


Way = tuple[Lengths, int, int]
"""A module and its end devices."""


class Chained:
    """A problem as arrays, and its chain of modules, worked out when it is needed: several workers raise it."""

    def __init__(self, problem: Placement) -> None:
        self.problem = problem

    @cached_property
    def instance(self) -> PlacementInstance:
        """The problem as arrays."""
        return lower_unless_short(self.problem)

    @cached_property
    def arrays(self) -> PlacementArrays:
        """The arrays of the loops."""
        return arrays_of(self.instance, self.problem)

    @cached_property
    def chain(self) -> Milestones:
        """Its modules and windows."""
        return milestones_of(self.arrays)


class Decomposition:
    """One problem with its chain of modules and their lower and upper bounds.

    Parameters
    ----------
    chained
        The problem and its chain.
    run
        Receives plans and bounds; its best plan so far gives the first upper bounds.
    """

    def __init__(self, chained: Chained, run: Run) -> None:
        self.problem = chained.problem
        self.instance = chained.instance
        self.run = run
        self.arrays, self.chain = chained.arrays, chained.chain
        self.best = Best(run)
        self.lengths: dict[Module, Lengths] = {}
        self._known: Schedule | None = None
        for module, window in zip(self.chain.modules, self.chain.windows, strict=True):
            if module not in self.lengths:
                self.lengths[module] = Lengths(module, window)

    def take(self, plan: Plan) -> None:
        """Update the modules' upper bounds from a whole plan."""
        rank = np.empty(len(plan.order), dtype=np.int64)
        rank[plan.order] = np.arange(len(plan.order))
        for module, window in zip(self.chain.modules, self.chain.windows, strict=True):
            a = int(plan.device[window.operators[0]])
            b = int(plan.device[window.operators[-1]])
            order = np.argsort(rank[window.operators], kind="stable").astype(np.int64)
            device = np.ascontiguousarray(plan.device[window.operators])
            here = plan_of(window.fixed(a, b), order, device)
            found = Found(here.makespan, False, device, here.start, here.begins)
            self.lengths[module].keep(a, b, found)

    def stitch(self) -> Plan | None:
        """The shortest plan composed of the modules' plans; None while some module has none."""
        modules = [self.lengths[module] for module in self.chain.modules]
        first, *others = (lengths.upper for lengths in modules)
        values, origins = shortest(first[0], self.chain.seconds, others)
        if not np.isfinite(values.min()):
            return None
        return self._joined(modules, [0, *devices_to(int(np.argmin(values)), origins)])

    def _joined(self, modules: list[Lengths], ends: list[int]) -> Plan:
        """One plan from the modules' plans between given devices."""
        device = np.zeros(self.instance.operators, dtype=np.int64)
        start = np.zeros(self.instance.operators)
        begins = np.full(len(self.arrays.source), -1.0)
        now = 0.0
        for i, (lengths, window) in enumerate(zip(modules, self.chain.windows, strict=True)):
            a, b = ends[i], ends[i + 1]
            found = lengths.plan(a, b)
            device[window.operators] = found.device
            inner = slice(int(window.entry), None)
            start[window.operators[inner]] = now + found.start[inner]
            sent = found.begins >= 0.0
            begins[window.flows[sent]] = now + found.begins[sent]
            now += found.makespan
            if i < len(self.chain.cuts):
                now += float(self.chain.seconds[i, b])
        return Plan(np.argsort(start, kind="stable").astype(np.int64), device, start, begins, now)

    def report(self) -> None:
        """Report the current plan and bound to the run."""
        self.best.report(self.chain.value(), "decomposition")
        plan = self.stitch()
        if plan is None or (self.run.objective is not None and plan.makespan >= self.run.objective):
            return
        if fits(self.arrays, plan.device):
            take_over(self.problem, solution_of(self.instance, self.arrays, plan), self.run)

    def learn(self) -> None:
        """Update from the best plan of the run, or from a list schedule when there is none."""
        best = self.run.best if isinstance(self.run.best, Schedule) else best_list_schedule(self.problem)
        if best is None or best is self._known:
            return
        self._known = best
        take_over(self.problem, best, self.run)
        starts, device = times_of(self.instance, best)
        self.take(plan_of(self.arrays, order_by_start(self.instance, starts), device))

    def advance(self) -> None:
        """Continue until the problem is solved, time is up, or nothing is left to try; cheap tries first."""
        self.learn()
        self.report()
        while not self.run.should_stop():
            raise_windows(self.chain, self.run, self.best.report)
            self.report()
            self.learn()
            ways = self._ways()
            if not ways:
                break
            self._try(*ways[0])
            self.report()
        raise_windows(self.chain, self.run, self.best.report, exact=True)

    def _ways(self) -> list[Way]:
        """Modules and end devices that a step may work on, most promising first."""
        found: list[tuple[float, Lengths, int, int]] = []
        for (module, a, b), times in Counter(self.chain.module_path()).items():
            lengths = self.lengths[module]
            low, high = float(module.table()[a, b]), float(lengths.upper[a, b])
            searchable = len(lengths.window.inner) <= LARGEST_SEARCHED and lengths.tries[a, b] < len(TRIES)
            if searchable and high - low > SETTLED * max(low, 1e-300):
                # cheap tries first; among these, the one that may change the path most
                gap = times * (min(high, 1e300) - low) / TRIES[lengths.tries[a, b]]
                found.append((gap, lengths, a, b))
        return [way[1:] for way in sorted(found, key=lambda way: -way[0])]

    def _try(self, lengths: Lengths, a: int, b: int) -> None:
        """Make the next try at a module, as far as time allows."""
        number, left = int(lengths.tries[a, b]), seconds_left(self.run, LONGEST)
        lengths.tries[a, b] += 1
        low, high = float(lengths.module.table()[a, b]), float(lengths.upper[a, b])
        nodes = min(TRIES[number], nodes_within(left, len(lengths.window.operators)))
        found = search_module(lengths.window.fixed(a, b), high, low, nodes, stops(self.run))
        lengths.learn(a, b, min(high, found.makespan) if found.proved else found.bound, found)


@named_solver(
    Placement,
    "decompose",
    "exact decomposition at cut vertices, modules solved on demand; bounds by milestones",
    proves="bound",
    supports=SUPPORTS,
)
def solve_decompose(problem: Placement, run: Run, chained: Chained | None = None) -> Outcome:
    """Decomposition at cut vertices; solver "decompose"."""
    chained = chained or Chained(problem)
    instance = chained.instance
    if not instance.operators:
        run.proved(0.0, "trivial")
        run.found(Schedule(device=FrozenDict({}), start=FrozenDict({})), 0.0)
        return ended(problem, run)
    if not run.shares_time:
        quick_bounds(instance, chained.arrays, Best(run))
    if not run.closed():
        Decomposition(chained, run).advance()
    return ended(problem, run)


@named_solver(
    Placement,
    "prices",
    "lower bounds if memory is short: prices for bytes, paths with whole bytes, counts of equal layers",
    proves="bound",
    supports=SUPPORTS,
)
def solve_prices(problem: Placement, run: Run, chained: Chained | None = None) -> Outcome:
    """Bounds with memory where it can bind, from the prices of the area bound on; solver "prices"."""
    chained, best = chained or Chained(problem), Best(run)
    arrays, memory = chained.arrays, memory_of(chained.instance)
    if memory is not None and (memory.capacity < memory.bytes.sum()).any() and not run.should_stop():
        run.enter("memory at its price")
        begin, left = clock(), run.remaining()
        area = best_area(arrays.seconds, np.zeros(len(memory.capacity)), memory)
        best.report(area.value, "area with memory")
        MemoryBounds(chained.chain, arrays, memory, area.memory).go_on(
            lambda: seconds_left(run, UNTIMED_SECONDS),
            lambda value: best.report(value, "priced memory"),
            lambda: math.inf if run.objective is None else float(run.objective),
            begin + EARLY * (UNTIMED_SECONDS if left is None else left),
        )
    return Outcome(run.termination())


def seconds_left(run: Run, most: float) -> float:
    """Seconds that a step may take; here the others work."""
    left = run.remaining()
    return 0.0 if run.should_stop() else most if left is None else min(left, most)


def stops(run: Run) -> Callable[[float], bool]:
    """Whether a step must not go on for some more seconds; here the others work."""
    return lambda seconds: seconds > seconds_left(run, math.inf if run.time_limit is None else LONGEST)


def raise_windows(chain: Milestones, run: Run, report: Callable[[float, str], None], *, exact: bool = False) -> None:
    """Raise the windows on the shortest path, one after the other, until none is left or time is up."""
    run.enter(f"milestones: {'searches' if exact else 'linear programs'}")
    while pairs := chain.open_pairs(exact=exact):
        for block, a, b in pairs:
            if run.should_stop():
                return
            block.lift(a, b, seconds_left(run, LONGEST), stops(run), exact=exact)
        report(chain.value(), "milestones")


NO_MORE = 1_000
"""Number of tries after which a module counts as settled."""
