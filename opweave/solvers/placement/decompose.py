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

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS, lower, lower_unless_short
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.bounds.best import DETOURS, bounds_of_backbone, go_on_with_prices, put_back, raise_level
from opweave.solvers.placement.bounds.chain_bound import (
    EXACT,
    INTEGER,
    RELAXED,
    Milestones,
    Module,
    devices_to,
    milestones_of,
    shortest,
)
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.bounds.forced import raise_by_forced_work
from opweave.solvers.placement.module_intervals import solve_intervals
from opweave.solvers.placement.module_lengths import NO_MORE, Known, Lengths
from opweave.solvers.placement.module_search import Found, search_module
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, solution_of, times_of
from opweave.solvers.registry import named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Fact, Key


class Try(NamedTuple):
    """One way to work on a module: a search limited in nodes, or a program or interval model limited in seconds."""

    way: str
    effort: float
    cost: float


class Lifted(NamedTuple):
    """Results of a try by programs: block, end devices and bound of each program."""

    bounds: tuple[tuple[int, int, int, float], ...]


TRIES = (
    Try("search", 5_000, 0.03),
    Try("search", 40_000, 0.25),
    Try("program", 1.5, 0.3),
    Try("search", 300_000, 1.5),
    Try("intervals", 5.0, 2.5),
    Try("search", 3_000_000, 15.0),
    Try("intervals", 20.0, 15.0),
    Try("search", 20_000_000, 100.0),
)
"""Tries for a module and its end devices, in order, with the approximate seconds of each."""

MISSES = 3
"""When so many more brief searches leave modules of one size open than settle them, linear programs come first for
modules of that size and larger."""

NODES_PER_SECOND = 150_000
"""Approximate speed of the search, used to keep it within the time."""

BRIEFLY = "briefly"

LEVELS = (RELAXED, INTEGER, EXACT)
"""Levels of the windows' bounds, in order."""

LARGEST_SEARCHED = 40
"""Most operators of a module that is searched."""

SETTLED = 1e-9
"""Relative gap below which a module's length counts as known."""

Way = tuple[Lengths, int, int]
"""A module and its end devices."""


class Decomposition:
    """One problem with its chain of modules and their lower and upper bounds.

    Parameters
    ----------
    problem
        The problem.
    run
        Receives plans and bounds; its best plan so far gives the first upper bounds.
    """

    def __init__(self, problem: Placement, run: Run) -> None:
        self.problem, self.instance, self.run = problem, lower(problem), run
        self.arrays = arrays_of(self.instance, problem)
        self.best = Best(run)
        quick_bounds(self.instance, self.arrays, self.best)
        self.chain: Milestones = milestones_of(self.arrays)
        self._whole_bounds = False
        self._levels: Sequence[int] = LEVELS
        self.lengths: dict[Module, Lengths] = {}
        self._blocks = self.chain.blocks()
        self._heard = 0
        self._misses: Counter[int] = Counter()
        self._searched = LARGEST_SEARCHED
        for module, window in zip(self.chain.modules, self.chain.windows, strict=True):
            if module not in self.lengths:
                self.lengths[module] = Lengths(module, window)

    def take(self, plan: Plan) -> None:
        """Update the modules' upper bounds from a whole plan."""
        rank = np.empty(len(plan.order), dtype=np.int64)
        rank[plan.order] = np.arange(len(plan.order))
        for module, window in zip(self.chain.modules, self.chain.windows, strict=True):
            a, b = int(plan.device[window.operators[0]]), int(plan.device[window.operators[-1]])
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
        start, begins = np.zeros(self.instance.operators), np.full(len(self.arrays.source), -1.0)
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
            self._found(solution_of(self.instance, self.arrays, plan))

    def _found(self, schedule: Schedule) -> None:
        """Report a schedule if it obeys the whole problem."""
        judged = self.problem.evaluate(schedule)
        if judged.feasible and judged.objective is not None:
            self.run.found(schedule, judged.objective)

    def learn(self) -> None:
        """Update from the best plan of the run, or from a list schedule when there is none."""
        best = self.run.best if isinstance(self.run.best, Schedule) else best_list_schedule(self.problem)
        if best is None:
            return
        self._found(best)
        starts, device = times_of(self.instance, best)
        self.take(plan_of(self.arrays, order_by_start(self.instance, starts), device))

    def begin(self) -> None:
        """Continue from the best plan until no small module is left that a brief search may settle."""
        self.learn()
        self.report()
        self._search_briefly()

    def advance(self) -> None:
        """Continue from the best plan until the problem is solved, time is up, or nothing is left to try."""
        self.learn()
        self.report()
        if not self._whole_bounds:
            self._whole_bounds = True
            raise_by_forced_work(self.arrays, self.best)
            if bounds_of_backbone(self.instance, self.arrays, self.chain, self.run, self.best.report):
                self._levels = ()
        else:
            go_on_with_prices(self.instance, self.run, self.best.report)
        self._search_briefly()
        self._raise(self._levels[:1])
        self.run.enter("modules")
        while not self.run.should_stop() and self.step():
            self._raise(self._levels[:1])
            self.run.enter("modules")
            self.report()
        self._raise(self._levels[1:])

    def _raise(self, levels: Sequence[int]) -> None:
        """Raise the windows of the chain to some levels, in turn."""
        for level in levels:
            if not self.run.should_stop():
                raise_level(self.chain, level, self.run, self.best.report)
                self.report()

    def open(self) -> bool:
        """Whether there is something left to try."""
        return bool(self._ways()) or any(self.chain.open_pairs(level) for level in self._levels)

    def _search_briefly(self) -> None:
        """Search all small modules on the shortest path, then those on the next path, and so on.

        That settles them in less time than linear programs would take to bound them. Modules of a size that stays open
        too often are no longer searched.
        """
        self.run.enter("modules")
        new = True
        while new and not self.run.should_stop():
            new = False
            self._absorb()
            for way in sorted(self._ways(), key=lambda way: len(way[0].window.inner)):
                size = len(way[0].window.inner)
                if size > self._searched or way[0].tries[way[1:]] or self.run.should_stop() or not self._is_free(way):
                    continue
                new = True
                self._try(*way)
                self._misses[size] += 1 if way[0].tries[way[1:]] < NO_MORE else -1
                if self._misses[size] >= MISSES:
                    self._searched = size - 1
            self.report()

    def is_mostly_settled(self) -> bool:
        """Whether the lengths of at least half of the modules on the shortest path are known."""
        path = [way for way in self.chain.module_path() if len(self.lengths[way[0]].window.inner)]
        known = [self.lengths[module].upper[a, b] - module.table()[a, b] for module, a, b in path]
        close = SETTLED * float(self.run.objective or 0.0)
        return 2 * sum(bool(left <= close) for left in known) >= len(path)

    def fits(self) -> bool:
        """Whether the modules' plans fit together: the run has their composed plan, or a better one."""
        plan, known = self.stitch(), self.run.objective
        return plan is not None and known is not None and known <= plan.makespan * (1.0 + SETTLED)

    def _is_free(self, way: Way) -> bool:
        """Claim the next try at a module; whether no other lane works on it."""
        exchange = self.run.exchange
        return exchange is None or exchange.claim(self._key(*way, int(way[0].tries[way[1:]])))

    def step(self) -> bool:
        """Work on the module of the shortest path that leaves the largest gap; False when none can be worked on."""
        self._absorb()
        ways = self._ways()
        way = self._claimed(ways) if ways else None
        if way is None:
            return False
        self._try(*way)
        return True

    def _ways(self) -> list[Way]:
        """Modules and end devices that a step may work on, most promising first."""
        found: list[tuple[float, Lengths, int, int]] = []
        for (module, a, b), times in Counter(self.chain.module_path()).items():
            lengths = self.lengths[module]
            low, high = float(module.table()[a, b]), float(lengths.upper[a, b])
            searchable = len(lengths.window.inner) <= LARGEST_SEARCHED and lengths.tries[a, b] < len(TRIES)
            if searchable and high - low > SETTLED * max(low, 1e-300):
                # cheap tries first; among these, the one that may change the path most
                gap = times * (min(high, 1e300) - low) / TRIES[lengths.tries[a, b]].cost
                found.append((gap, lengths, a, b))
        return [way[1:] for way in sorted(found, key=lambda way: -way[0])]

    def _claimed(self, ways: list[Way]) -> Way | None:
        """A way that no other lane works on: on the shortest path, else on a path that avoids the ways in work.

        If there is none, the next try at one of them; None if that is taken, too.
        """
        exchange = self.run.exchange
        if exchange is None:
            return ways[0]
        other = ways
        with put_back([module.whole for module in self.lengths]):
            for _ in range(DETOURS):
                for way in other:
                    if self._is_free(way):
                        return way
                for lengths, a, b in other:
                    lengths.prove(a, b, np.inf)
                value = self.chain.value()
                other = self._ways() if value < (self.run.objective or np.inf) else []
        for lengths, a, b in ways:
            number = min(int(lengths.tries[a, b]) + 1, len(TRIES) - 1)
            if exchange.claim(self._key(lengths, a, b, number)):
                lengths.tries[a, b] = number
                return lengths, a, b
        return None

    def _key(self, lengths: Lengths, a: int, b: int, number: int) -> Key:
        return "module", list(self.lengths).index(lengths.module), a, b, number

    def _absorb(self) -> None:
        """Take over what other lanes have found out about modules."""
        if self.run.exchange is None:
            return
        facts = self.run.exchange.facts_from(self._heard)
        self._heard += len(facts)
        known = list(self.lengths.values())
        for fact in facts:
            if fact.key[0] != "module" or fact.value is None:
                continue
            index, a, b, number = (int(part) for part in fact.key[1:])
            known[index].tries[a, b] = max(known[index].tries[a, b], number + 1)
            if isinstance(fact.value, Known):
                known[index].learn(a, b, fact.value)
            elif isinstance(fact.value, Lifted):
                for block, first, second, value in fact.value.bounds:
                    self._blocks[block].learn(first, second, INTEGER, value)

    def _try(self, lengths: Lengths, a: int, b: int) -> None:
        """Make the next try at a module, as far as time allows, and tell the other lanes."""
        number, left = int(lengths.tries[a, b]), self.run.remaining()
        now = TRIES[number]
        lengths.tries[a, b] += 1
        result: Known | Lifted
        if now.way == "program":
            result = self._lifted(lengths.module, a, b, now.effort if left is None else min(left, now.effort))
        else:
            low, high = float(lengths.module.table()[a, b]), float(lengths.upper[a, b])
            arrays = lengths.window.fixed(a, b)
            if now.way == "search":
                budget = int(now.effort if left is None else min(now.effort, 1 + left * NODES_PER_SECOND))
                found = search_module(arrays, high, low, budget, self.run.halt)
            else:
                seconds = now.effort if left is None else min(left, now.effort)
                found = solve_intervals(arrays, high, low, seconds, threads=self.run.threads)
            lengths.learn(a, b, Known(min(high, found.makespan) if found.proved else found.bound, found))
            result = lengths.known(a, b)
        if self.run.exchange is not None:
            self.run.exchange.tell(Fact(self._key(lengths, a, b, number), result))

    def _lifted(self, module: Module, a: int, b: int, seconds: float) -> Lifted:
        """Raise the bounds of the blocks on a module's shortest path by their integer programs."""
        raised = []
        for block, first, second in module.path(a, b):
            if block.open(first, second, INTEGER):
                block.lift(first, second, INTEGER, seconds)
                number = self._blocks.index(block)
                raised.append((number, first, second, float(block.values[first, second])))
        return Lifted(tuple(raised))


@named_solver(
    Placement,
    "decompose",
    "exact decomposition at cut vertices, modules solved on demand; bounds by milestones",
    proves="bound",
    supports=(*SUPPORTS, NARROWED),
    options={BRIEFLY: "whether to end after brief searches of small modules"},
)
@by_best_way(SUPPORTS, "heft")
def solve_decompose(problem: Placement, run: Run) -> Outcome:
    """Decomposition at cut vertices; solver "decompose". A plan that calls it again lets it go on where it stopped."""
    instance = lower_unless_short(problem)
    if instance.operators:
        work = run.kept.get("decompose")
        if not isinstance(work, Decomposition):
            work = run.kept["decompose"] = Decomposition(problem, run)
        if run.option(BRIEFLY, False):
            work.begin()
        else:
            work.advance()
    else:
        run.proved(0.0, "trivial")
        run.found(Schedule(device=FrozenDict({}), start=FrozenDict({})), 0.0)
    return ended(problem, run)
