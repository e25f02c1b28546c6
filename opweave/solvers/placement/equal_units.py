"""Solver "units": equal units take their plans from one short list. It suits networks of equal layers.

The chain of modules is divided into units (:mod:`.units`). For every kind of unit the solver searches plans with both
ends on one device that are short in time plus memory at a price (:mod:`.unit_plans`). The first prices come from the
program over counts (:mod:`.bounds.counts`), later prices from the program that chooses how many units take which plan
(:mod:`.unit_counts`). The solver lays the units out in blocks of equal home, decodes the whole plan and counts its
memory in full. One search serves all equal units, so the work hardly grows with the number of layers.

A graph without a chain of equal modules gets no plan here. A plan that breaks a Colocate constraint across several
units is not reported. Source: M3, the plan search by prices of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of, durations
from opweave.solvers.placement.backbone import Backbone, backbone_of, whole_plan
from opweave.solvers.placement.bounds.area import PRICES, memory_of
from opweave.solvers.placement.bounds.best import raise_level
from opweave.solvers.placement.bounds.broadcasts import raise_by_broadcasts
from opweave.solvers.placement.bounds.chain_bound import RELAXED, milestones_of
from opweave.solvers.placement.bounds.counts import priced_counts
from opweave.solvers.placement.bounds.forced import raise_by_forced_work
from opweave.solvers.placement.bounds.price_search import PriceSearch
from opweave.solvers.placement.bounds.windows import modules
from opweave.solvers.placement.plans import no_plan_found, order_by_start, plan_of, report, times_of
from opweave.solvers.placement.priced_plans import Cooling
from opweave.solvers.placement.unit_counts import Choice, Kinds, Prices, best_counts, prices_of, walked
from opweave.solvers.placement.unit_crossings import crossings
from opweave.solvers.placement.unit_plans import Option, UnitSearch
from opweave.solvers.placement.units import Unit, units_of
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

LEAST_SHARE = 0.5
"""Least share of operators in repeated units for which the search is worth its time."""

SCALES = (1.0, 0.5, 2.0)
"""Multiples of the first prices at which plans are searched."""

FIRST_CHUNKS, MOST_CHUNKS = 10, 40
"""Annealing chunks for a home in one round: the first number and the largest."""

HEATS = (0.02, 0.02, 0.004)
"""Initial temperatures of successive rounds. In the first round of every cycle whole branches move together."""

MOST_DOUBLINGS = 12
"""Number of rounds that may double the price of the round before while no plan fits."""

SPREAD = 2.0
"""Largest factor by which random prices differ from the current ones."""

STALE_ROUNDS = 8
"""Number of consecutive rounds without progress after which the search ends; half as many where memory has no price."""

PROGRESS = 1e-4
"""Relative improvement that counts as progress."""

NEAR = (0.1, 0.03)
"""Homes whose best plan costs more than the best of all by this relative amount are skipped, in the first cycle of
rounds and in later ones."""

BOUND_SHARE, MEMORY_SHARE = 0.35, 0.65
BOUND_SECONDS = 20.0
"""Shares of the time for bounds of windows, without and with memory at its price; seconds when there is no limit."""

COUNTS_SECONDS, COUNTS_SHARE = 20.0, 0.15
CHOICE_SECONDS = 5.0
LEAST_CHOICE_SECONDS = 0.3
"""Most seconds for the program over counts, and its share of the time, because only its prices are needed; most seconds
for one choice among the options; and for such a choice when time is up."""

MOST_FILLED = 6
"""Most times that the memory left over is filled before prices are searched again."""

MOST_LEARNED = 200
"""Units of a kind that are examined in a known schedule."""

MOST_PRICES = 6
"""Prices at which plans of windows are put together."""


class EqualUnits:
    """The units of one instance or of its backbone, their options, and how they are put together."""

    def __init__(self, instance: PlacementInstance, arrays: PlacementArrays, within: Backbone | None, run: Run) -> None:
        self.whole_instance, self.whole_arrays, self.within, self.run = instance, arrays, within, run
        self.instance, self.arrays = (instance, arrays) if within is None else (within.instance, within.arrays)
        instance, arrays = self.instance, self.arrays
        self.capacity = instance.capacity if within is None else within.room(self.whole_instance)
        self.chain = milestones_of(arrays)
        self.units = units_of(self.chain, instance, arrays)
        self.searches = [UnitSearch(unit, instance, arrays) for unit in self.units]
        self.kinds = Kinds(
            [unit.times for unit in self.units],
            [[] for _ in self.units],
            [_links(unit) for unit in self.units],
        )

    def raise_bound(self) -> None:
        """Raise the milestone bound: by linear programs, then by programs in which an entry serves several devices."""
        best = Best(self.run)
        best.report(self.chain.value(), "milestones")
        with self.run.share(BOUND_SHARE, BOUND_SECONDS):
            raise_level(self.chain, RELAXED, self.run, best.report)
            raise_by_broadcasts(self.chain, self.run, lambda: best.report(self.chain.value(), "milestones"))

    def price_memory(self, price: FloatArray) -> None:
        """Raise the bound that charges bytes at prices, with windows in whole numbers."""
        memory, best = memory_of(self.instance), Best(self.run)
        if memory is not None:
            search = PriceSearch(self.chain, self.arrays, memory, price, self.whole_instance)
            self.run.kept[PRICES] = search
            with self.run.share(MEMORY_SHARE, BOUND_SECONDS):
                ceiling = np.inf if self.run.objective is None else float(self.run.objective)
                search.go_on(self._seconds, lambda value: best.report(value, "priced memory"), ceiling)
            for each in search.prices()[:MOST_PRICES]:
                self._cross(each)

    def _seconds(self) -> float:
        left = self.run.remaining()
        return 0.0 if self.run.should_stop() else BOUND_SECONDS if left is None else left

    def _cross(self, price: FloatArray) -> None:
        """Add plans of units from those of windows that the search for prices has found."""
        known = self.run.kept.get(PRICES)
        if isinstance(known, PriceSearch) and known.problem is self.whole_instance:
            known.priced.search_everywhere(price, self._seconds)
            for s, search in enumerate(self.searches):
                for option in crossings(known.priced, search, price) if self._is_inside(s) else ():
                    self._keep(s, option)

    def _is_inside(self, s: int) -> bool:
        """Whether a unit lies between others and is repeated."""
        window = self.units[s].window
        return window.entry and window.exit and self.units[s].times > 1

    def price_of_options(self, price: FloatArray) -> FloatArray:
        """Prices of memory by the options after one annealing each; ``price`` where they tell nothing.

        Options are whole plans, so their prices are nearer to the best than those of windows in fractions, which may
        even find that memory costs nothing. Any prices give a valid bound.
        """
        found = prices_of(self.kinds, self.capacity)
        if found is None or not found.memory.any():
            return price
        for s, times in enumerate(self.kinds.times):
            if times > 1:
                self._anneal(s, found, 0, FIRST_CHUNKS)
        found = prices_of(self.kinds, self.capacity) or found
        return found.memory if found.memory.any() else price

    def first_options(self, price: FloatArray) -> None:
        """Add the pure plans, and the plans that the descents find at multiples of the first prices."""
        scales = SCALES if price.any() else (1.0,)
        for s, search in enumerate(self.searches):
            for home in search.homes():
                self._keep(s, search.pure(home))
                for scale in scales:
                    if not self.run.should_stop():
                        self._keep(s, search.spread(home, scale * price))
                        self._keep(s, search.descent(home, scale * price, self.run.should_stop))

    def learn(self, schedule: Schedule) -> None:
        """Take over, for every kind and pair of end devices, the best plan of a unit that a schedule has."""
        starts, device = times_of(self.instance, schedule)
        rank = np.empty(len(starts), dtype=np.int64)
        rank[order_by_start(self.instance, starts)] = np.arange(len(starts))
        for s, search in enumerate(self.searches):
            found = []
            for members in self.units[s].members[:MOST_LEARNED]:
                if self.run.should_stop():
                    break
                last = int(device[members[-1 if search.window.exit else 0]])
                ends = (int(device[members[0]]) if search.window.entry else last, last)
                order = np.argsort(rank[members], kind="stable").astype(np.int64)
                found.append(search.option(ends, order, np.ascontiguousarray(device[members])))
            for option in _best_of_ends(found, np.zeros(search.devices)).values():
                self._keep(s, option)

    def improve(self, price: FloatArray) -> None:
        """Anneal in rounds at the current prices until they bring no progress or time is up.

        Whole numbers of units leave some memory unused. Plans that suit it are cheapest at other prices, so every
        second round takes prices at random near the current ones.
        """
        self.assemble()
        number = stale = 0
        chunks, last, rng = FIRST_CHUNKS, (np.inf, np.inf), np.random.default_rng(self.run.seed)
        while not self.run.should_stop() and stale < STALE_ROUNDS:
            found = prices_of(self.kinds, self.capacity)
            # while no plan fits, rising prices of memory lead to plans that take less of it
            prices = found or Prices(np.inf, price * 2.0**number)
            if number % 2 and found is not None:
                prices = prices._replace(memory=prices.memory * SPREAD ** rng.uniform(-1.0, 1.0, len(price)))
                self._cross(prices.memory)
            for s, times in enumerate(self.kinds.times):
                if times > 1 or number == len(HEATS):
                    self._anneal(s, prices, number, chunks)
            number += 1
            if number % len(HEATS) == 0:
                chunks = min(2 * chunks, MOST_CHUNKS)
                self._fill(self.assemble())
            now = prices.seconds, np.inf if self.run.objective is None else float(self.run.objective)
            progress = any(new < old * (1.0 - PROGRESS) for new, old in zip(now, last, strict=True))
            unchanged = 1 if prices.memory.any() else 2  # without prices every round is alike
            stale = 0 if progress or (found is None and number <= MOST_DOUBLINGS) else stale + unchanged
            last = min(last[0], now[0]), min(last[1], now[1])
        self.assemble()

    def assemble(self) -> Choice | None:
        """Choose options by the integer program, lay the units out, decode, and report the plan; returns the choice."""
        left = self.run.remaining()
        seconds = CHOICE_SECONDS if left is None else min(CHOICE_SECONDS, max(left, LEAST_CHOICE_SECONDS))
        choice = best_counts(self.kinds, self.capacity, seconds)
        if choice is None:
            return None
        order, device = self._laid_out(choice)
        if self.within is not None:
            order, device = whole_plan(self.whole_instance, self.whole_arrays, self.within, order, device)
        plan = plan_of(self.whole_arrays, order, device)
        report(self.whole_instance, self.whole_arrays, plan, self.run)
        return choice

    def _fill(self, choice: Choice | None) -> None:
        """Assemble again and again, after a search for plans of the chosen units that use the memory left over.

        At no prices such a plan is cheapest, because whole units fill a device only by chance.
        """
        for number in range(MOST_FILLED):
            if choice is None or self.run.should_stop():
                return
            chosen = [(s, int(o)) for s, counts in enumerate(choice.counts) for o in np.flatnonzero(counts)]
            taken = sum(choice.counts[s][o] * self.kinds.options[s][o].bytes for s, o in chosen)
            known = [len(options) for options in self.kinds.options]
            for s, o in chosen:
                option, search = self.kinds.options[s][o], self.searches[s]
                room = option.bytes + np.where(self.capacity == NO_LIMIT, np.inf, self.capacity - taken)
                if (room >= option.bytes).all() and not self.run.should_stop():
                    cooling = Cooling(search.cluster, HEATS[0], FIRST_CHUNKS, (self.run.seed, number, s, o))
                    self._keep(s, search.filled(option, room, cooling, self.run))
            if known == [len(options) for options in self.kinds.options]:
                return
            choice = self.assemble()

    def _keep(self, s: int, option: Option | None) -> None:
        """Keep an option unless a known one with the same ends is as good in every respect."""
        if option is None or not np.isfinite(option.seconds):
            return
        for known in self.kinds.options[s]:
            same = (known.entered, known.home) == (option.entered, option.home)
            if same and known.seconds <= option.seconds and (known.bytes <= option.bytes).all():
                return
        self.kinds.options[s].append(option)

    def _anneal(self, s: int, prices: Prices, number: int, chunks: int) -> None:
        """Anneal from the best option of every pair of ends that is near the best of all."""
        best = _best_of_ends(self.kinds.options[s], prices.memory)
        near = NEAR[number >= len(HEATS)]
        most = (1.0 + near) * min((option.cost(prices.memory) for option in best.values()), default=0.0)
        search, heat = self.searches[s], HEATS[number % len(HEATS)]
        ties = search.cluster if number % len(HEATS) else search.whole_branches
        for ends, option in best.items():
            if not self.run.should_stop() and option.cost(prices.memory) <= most:
                cooling = Cooling(ties, heat, chunks, (self.run.seed, number, s, *ends))
                self._keep(s, search.annealed(option, prices.memory, cooling, self.run))

    def _laid_out(self, choice: Choice) -> tuple[IntArray, IntArray]:
        """Order and devices: the options of every kind in the order of a walk through the devices."""
        device = np.zeros(self.instance.operators, dtype=np.int64)
        parts = []
        for s, unit in enumerate(self.units):
            options = self.kinds.options[s]
            numbers = np.repeat(np.arange(len(options)), choice.counts[s]).tolist()
            for o, members in zip(walked(options, numbers, choice, s), unit.members, strict=True):
                own = options[o].order[options[o].order >= unit.own.start]
                device[members[unit.own]] = options[o].device[unit.own]
                parts.append(members[own])
        return np.concatenate(parts), device


def _links(unit: Unit) -> FloatArray:
    """Seconds to send the data of a unit's entry from device to device. Shape (K, K)."""
    arrays = unit.window.arrays
    flows = np.flatnonzero(arrays.source == 0) if unit.window.entry else np.zeros(0, dtype=np.int64)
    once = np.unique(arrays.tensor[flows], return_index=True)[1]
    return np.asarray(durations(arrays)[flows[once]].sum(axis=0))


def _best_of_ends(options: Iterable[Option], price: FloatArray) -> dict[tuple[int, int], Option]:
    """For every pair of end devices the option of least cost at a price of memory."""
    best: dict[tuple[int, int], Option] = {}
    for option in options:
        ends = option.entered, option.home
        if ends not in best or option.cost(price) < best[ends].cost(price):
            best[ends] = option
    return best


def repeats(arrays: PlacementArrays) -> bool:
    """Whether repeated modules hold enough of the operators."""
    windows = modules(arrays)[1]
    keys = [window.key() for window in windows]
    times = Counter(keys)
    repeated = sum(len(window.operators) for window, key in zip(windows, keys, strict=True) if times[key] > 1)
    return repeated >= LEAST_SHARE * len(arrays.seconds)


def plan_units(problem: Placement, run: Run) -> bool:
    """Search plans of equal units and report whole plans made of them; False when too little of the graph repeats."""
    run.enter("equal units")
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    within = backbone_of(instance, arrays)
    if not repeats(arrays if within is None else within.arrays):
        return False
    raise_by_forced_work(arrays, Best(run))
    if run.closed():
        return True
    work = EqualUnits(instance, arrays, within, run)
    left = run.remaining()
    ceiling = None if run.objective is None else float(run.objective)
    seconds = COUNTS_SECONDS if left is None else min(COUNTS_SHARE * left, COUNTS_SECONDS)
    known = priced_counts(work.chain, work.instance, work.arrays, seconds, ceiling)
    if known.bound > 0.0:
        run.proved(known.bound, "counts with memory")
    work.first_options(known.price)
    if isinstance(run.best, Schedule):
        work.learn(run.best)
    price = work.price_of_options(known.price)
    if price.any():
        work.assemble()  # a plan first: the bound takes long
        work.price_memory(price)
    else:  # where memory decides, windows alone add next to nothing
        work.raise_bound()
    work.improve(price)
    return True


@named_solver(
    Placement,
    "units",
    "equal modules get plans from a short list, chosen by an integer program with memory at its price",
    proves="bound",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_units(problem: Placement, run: Run) -> Outcome:
    """Search plans of equal units; solver "units"."""
    if not problem.graph.operators or not plan_units(problem, run):
        return Outcome(reason="the graph is no chain of equal modules")
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)} and is made of equal units")
    if run.bound is not None and run.bound_source is not None:
        Best(run).report(run.bound, run.bound_source)  # the plan came later, and may differ by rounding alone
    return Outcome(Termination.BUDGET if run.time_limit is None and not run.closed() else run.termination())
