"""Memory at its price, with windows in whole numbers: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound*: the least of length plus price over its integer program (:mod:`.window_program`, with prices in the objective).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices (:mod:`.price_search` looks for the best), and the shortest path
with milestones on a set of devices (:mod:`.visited`) is a bound for all plans whose milestones run on that set. Where
equal devices can be exchanged, one of the plans that are equal but for that is looked at.

Windows are solved lazily, along a shortest path only. From the values at earlier prices p, a window costs at least
value(p) + sum over its operators of min over devices of (q - p) * bytes. A window's programs get time in proportion to
its number in the chain: what a kind that occurs once gains is lost among forty layers, although its program may take as
long as all others.

Ceiling: a plan of the window gives a value that the least cannot exceed, and with it a largest length.

Source: Held and Karp (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from time import time
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.linear import minimise, proved_value
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import (
    LARGEST_EXACT,
    LARGEST_INTEGER,
    TIGHT,
    Block,
    Milestones,
)
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.priced_child import PricedWindow, PricedWork, Raised
from opweave.solvers.placement.bounds.visited import Path, equal_before, paths_by_set, sets_of
from opweave.solvers.placement.bounds.window_program import Builder, WindowProgram
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.placement.module_search import search_assignments, search_module
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.tree import least_whole

CHILD = "opweave.solvers.placement.bounds.priced_child:raise_windows"

LONGEST_PROGRAM = 3.0
"""Most seconds for one window."""

MOST_SOLVED = 12
"""Most prices at which a window's bounds are remembered."""


WEIGHTY = 0.97
"""Share of time and priced bytes that the operators hold whose devices stay whole in a window's integer program."""

LARGEST_SEARCHED, NODES_PER_SECOND, WORK_OF_A_NODE, UNCOMPILED = 16, 150_000, 100, 500
"""Most operators of a window that is searched after its integer program, approximate speed of the search and steps of a
node, and how much slower the search is while it is not compiled."""

RELAXED, INTEGER, SEARCHED, REFUTED = 1, 2, 3, 4
"""Stages of a window's value: linear program, integer program, search over devices and orders of a small window, and
refuted costs of a large one, where constraint programming is available."""

WORK, STEP = 0.4, 0.002
"""Most work of a try to refute a cost, in CP-SAT's measure, which is about a second, and the relative distance from a
plan's cost at which a bound is close enough."""

WORTH = 0.1
"""Least that a window and its equals may gain for their costs to be refuted, as a share of what others may gain."""

LEAST_PART = 0.2
"""Least number of a window in the chain, as a share of the largest, for which costs are refuted."""


class _Solved(NamedTuple):
    """What is known of a window between two devices at earlier prices: its stage there, its bound, its bytes."""

    price: FloatArray
    stage: int
    value: float
    taken: FloatArray


class _Known(NamedTuple):
    """A plan of a window: its length, and the bytes that it takes on every device."""

    length: float
    taken: FloatArray

    def cost(self, price: FloatArray) -> float:
        """Its length plus the price of its bytes."""
        return self.length + float(self.taken @ price)


@dataclass(eq=False)
class PricedBlock:
    """Windows that are equal in their times and their bytes, with bounds at the current prices.

    Attributes
    ----------
    values
        Bounds by end devices. Shape (K, K).
    used
        Bytes of their solutions on every device. Shape (K, K, K).
    stage
        How far the bounds at these prices have been raised. Shape (K, K).
    rare
        Whether the chain has so few of these windows that costs are not refuted.
    """

    block: Block
    bytes: FloatArray
    price: FloatArray
    values: FloatArray = field(init=False)
    used: FloatArray = field(init=False)
    stage: IntArray = field(init=False)
    rare: bool = field(init=False, default=False)
    _solved: dict[tuple[int, int], list[_Solved]] = field(init=False, default_factory=dict)
    _plans: dict[tuple[int, int], list[_Known]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        devices = len(self.price)
        self._usable = np.isfinite(self.block.window.arrays.seconds)
        self.used = np.zeros((devices, devices, devices))
        self.stage = np.zeros((devices, devices), dtype=np.int64)
        least = np.full(len(self.bytes), np.inf)
        np.minimum.at(least, self.block.branches.leader, self.bytes)
        self._least = least[self.block.branches.leader]
        self.reprice(self.price)

    def reprice(self, price: FloatArray) -> None:
        """Bounds at other prices, from what is known."""
        self.price = price
        self.stage[:] = 0
        self.values, self.used = self._relearned(price)
        for (a, b), solved in self._solved.items():
            for known in solved:
                if (known.price == price).all():
                    self.stage[self.block.window.cells(a, b)] = known.stage

    def _relearned(self, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds at any prices, from what is known, and the bytes of their solutions."""
        own, bytes_ = self._least_price(price)
        values, used = self.block.values + own, np.empty_like(self.used)
        used[:] = bytes_
        for (a, b), solved in self._solved.items():
            cells = self.block.window.cells(a, b)
            for known in solved:
                now = known.value + self._least_price(price - known.price)[0]
                if now > values[a, b]:
                    values[cells], used[cells] = now, known.taken
        return values, used

    def _set(self, a: int, b: int, value: float, taken: FloatArray) -> None:
        cells = self.block.window.cells(a, b)
        self.values[cells], self.used[cells] = value, taken

    def _least_price(self, price: FloatArray) -> tuple[float, FloatArray]:
        """The least price of all bytes, each operator by itself, and where it puts them.

        Every value is a bound for the operators' own bytes. So these, and not the least among equal branches, say how
        much less it is at lower prices.
        """
        cost = np.where(self._usable, self.bytes[:, None] * price, np.inf)
        where = np.argmin(cost, axis=1)
        taken = np.bincount(where, weights=self.bytes, minlength=len(price)).astype(np.float64)
        return float(cost.min(axis=1).sum()), taken

    def open(self, a: int, b: int) -> bool:
        """Whether the pair can be raised at these prices."""
        inner = len(self.block.window.inner)
        sized = inner > 0 and self.block.size <= LARGEST_INTEGER
        last = REFUTED if self.is_refuted() else SEARCHED if inner <= LARGEST_SEARCHED else INTEGER
        return sized and self.stage[a, b] < last and bool(np.isfinite(self.values[a, b]))

    def is_refuted(self) -> bool:
        """Whether costs of the window are refuted (:mod:`.priced_child`) after its linear program."""
        sized = LARGEST_SEARCHED < len(self.block.window.inner) <= LARGEST_EXACT
        return sized and not self.rare and available()

    def promised(self, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Costs by end devices if the known plans are the cheapest, and their bytes. Shapes (K, K) and (K, K, K)."""
        devices = len(price)
        if self.rare or not len(self.block.window.inner):  # these are not raised to the cost of a plan
            return self._relearned(price)
        values, used = np.full((devices, devices), np.inf), np.zeros((devices, devices, devices))
        for a in range(devices if self.block.window.entry else 1):
            for b in range(devices if self.block.window.exit else 1):
                cells = self.block.window.cells(a, b)
                plan = min(self._known_plans(a, b), key=lambda plan: plan.cost(price))
                values[cells], used[cells] = plan.cost(price), plan.taken
        return values, used

    def possible_gain(self, a: int, b: int) -> float:
        """How much a pair's bound can rise at most, as far as plans are known."""
        ceiling = self._ceiling(a, b)
        return max(0.0, ceiling - float(self.values[a, b])) if math.isfinite(ceiling) else 0.0

    def priced(self, a: int, b: int) -> PricedWindow:
        """The window with its ends on two devices, and what is known of its cost."""
        cost = np.ascontiguousarray(self.bytes[:, None] * self.price)
        return PricedWindow(self.block.window.fixed(a, b), cost, float(self.values[a, b]), self._ceiling(a, b))

    def raise_pair(self, a: int, b: int, seconds: float) -> None:
        """Raise a pair by one stage."""
        known, taken, stage = float(self.values[a, b]), self.used[a, b].copy(), int(self.stage[a, b]) + 1
        if stage == SEARCHED:
            value = self._searched(a, b, known, seconds)
        else:
            value, taken = self._programmed(a, b, stage, taken, seconds)
        self.learn(a, b, stage, value, taken)

    def learn(self, a: int, b: int, stage: int, value: float, taken: FloatArray) -> None:
        """Record a pair's bound of a stage, and the bytes of its point."""
        value = max(value, float(self.values[a, b]))
        self.stage[self.block.window.cells(a, b)] = stage
        self._set(a, b, value, taken)
        others = [known for known in self._solved.get((a, b), []) if (known.price != self.price).any()]
        self._solved[a, b] = [*others[1 - MOST_SOLVED :], _Solved(self.price, stage, value, taken)]

    def _programmed(self, a: int, b: int, stage: int, taken: FloatArray, seconds: float) -> tuple[float, FloatArray]:
        """The bound of the window's program with prices in the objective, and the bytes of its point."""
        ceiling = self._ceiling(a, b)
        if not math.isfinite(ceiling):  # missing links: no plan to begin from
            return 0.0, taken
        length = (ceiling - self._least_price(self.price)[0]) * (1.0 + SUMMATION) + SUMMATION * ceiling
        builder = Builder(self.block.window, self.block.branches, a, b, float(self.block.values[a, b]), length)
        if not builder.possible:
            return ceiling, taken
        program = builder.build()
        cost, there = program.linear.cost.copy(), np.flatnonzero(program.x[:, 0] >= 0)
        cost[program.x[there]] += self._least[there][:, None] * self.price / program.scale
        linear = replace(program.linear, cost=cost)
        if stage == RELAXED:
            relaxed = minimise(linear, seconds)
            if relaxed is None:
                return 0.0, taken
            rows = np.concatenate([relaxed.most_price, relaxed.equal_price])
            value = proved_value(linear.cost, *linear.rows(), (linear.lower, linear.upper), rows)
            return min(value * program.scale, ceiling), self._taken(relaxed.point, program)
        whole = self._weighty(program, there)
        found = least_whole(linear, whole, program.times, ceiling / program.scale, seconds)
        if found.point is not None:
            taken = self._taken(found.point, program)
        return found.bound * program.scale, taken

    def _taken(self, point: FloatArray, program: WindowProgram) -> FloatArray:
        """Bytes that a point of the program takes on every device."""
        there = np.flatnonzero(program.x[:, 0] >= 0)
        return np.asarray((self._least[there][:, None] * point[program.x[there]]).sum(axis=0))

    def _weighty(self, program: WindowProgram, there: IntArray) -> BoolArray:
        """Columns that stay whole: those of the operators that hold most of the time and of the bytes' price.

        Any choice gives a bound. Small operators follow large ones in most windows, so dividing at them gains little.
        """
        seconds = np.where(self._usable, self.block.window.arrays.seconds, np.inf).min(axis=1)
        weight = (seconds + self._least * float(self.price.max()))[there]
        order = np.argsort(-weight, kind="stable")
        most = 1 + int(np.searchsorted(np.cumsum(weight[order]), WEIGHTY * float(weight.sum())))
        whole = program.whole.copy()
        whole[program.x[there[order[most:]]]] = False
        return whole

    def _searched(self, a: int, b: int, known: float, seconds: float) -> float:
        """The least cost of the window if a search proves it, else 0."""
        arrays = self.block.window.fixed(a, b)
        cost = np.ascontiguousarray(self.bytes[:, None] * self.price)
        least = float(self.block.values[a, b])
        ceiling = self._ceiling(a, b)
        if known >= ceiling * (1.0 - TIGHT):
            return known
        budget = 1 + int(seconds * NODES_PER_SECOND)
        if not search_assignments.is_fast(WORK_OF_A_NODE * budget):
            budget = 1 + budget // UNCOMPILED
        found = search_module(arrays, ceiling, least, budget, cost=cost)
        if found.device[0] >= 0:
            order = np.argsort(found.start, kind="stable").astype(np.int64)
            self.keep(a, b, plan_of(arrays, order, found.device).makespan, found.device)
        return min(found.makespan, ceiling) if found.proved else 0.0

    def _ceiling(self, a: int, b: int) -> float:
        """The least cost of some plans of the window: all on one device, and those that searches found."""
        return min(plan.cost(self.price) for plan in self._known_plans(a, b))

    def taken_by_best(self, a: int, b: int) -> FloatArray:
        """Bytes on every device of the cheapest plan that is known."""
        return min(self._known_plans(a, b), key=lambda plan: plan.cost(self.price)).taken

    def keep(self, a: int, b: int, length: float, device: IntArray) -> None:
        """Keep a plan: it is a ceiling at any prices."""
        taken = np.bincount(device, weights=self.bytes, minlength=len(self.price)).astype(np.float64)
        self._known_plans(a, b).append(_Known(length, taken))

    def _known_plans(self, a: int, b: int) -> list[_Known]:
        if (a, b) not in self._plans:
            self._plans[a, b] = []
            arrays = self.block.window.fixed(a, b)
            order = operator_order(arrays)
            for k in range(len(self.price)):
                alone = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
                self.keep(a, b, plan_of(arrays, order, alone).makespan, alone)
        return self._plans[a, b]


Pair = tuple[PricedBlock, int, int]
"""A window and the devices of its ends."""


class Cut(NamedTuple):
    """A bound at some prices, and the bytes that its solution takes beyond every device's memory."""

    value: float
    over: FloatArray
    price: FloatArray


class Chain:
    """A milestone chain with the bytes of its operators."""

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        devices = arrays.seconds.shape[1]
        self.memory, self.arrays = memory, arrays
        self.limited = np.isfinite(memory.capacity)
        self.capacity = np.where(self.limited, memory.capacity, 0.0)
        self._sets = sets_of(equal_before(arrays, memory.capacity))
        kinds: dict[object, PricedBlock] = {}
        self.blocks: list[PricedBlock] = []
        milestones: list[int] = []
        outside = np.ones(len(arrays.seconds), dtype=bool)
        for position, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
            milestones += window.operators[module.inner].tolist()
            milestones += chain.cuts[position : position + 1].tolist()
            for block, members in zip(module.blocks, module.members, strict=True):
                bytes_ = memory.bytes[window.operators[members]].copy()
                bytes_[: int(block.window.entry)] = 0.0
                bytes_[len(bytes_) - int(block.window.exit) :] = 0.0
                key = (id(block), bytes_.tobytes())
                if key not in kinds:
                    kinds[key] = PricedBlock(block, bytes_, np.zeros(devices))
                self.blocks.append(kinds[key])
                outside[window.operators[members]] = False
        self.kinds = list(kinds.values())
        times = Counter(map(id, self.blocks))
        most = max((times[id(kind)] for kind in self.kinds if kind.bytes.any()), default=1)
        self.share = {kind: min(1.0, times[id(kind)] / most) for kind in self.kinds}
        for kind in self.kinds:
            kind.rare = self.share[kind] < LEAST_PART
        self.milestones = np.asarray(milestones, dtype=np.int64)
        outside[self.milestones] = False
        self.outside = np.flatnonzero(outside)

    def values(
        self, price: FloatArray, visited: int, enough: float, seconds: Callable[[], float]
    ) -> tuple[dict[int, Cut], bool]:
        """The bound at prices for every set of devices that run milestones, and the bytes that its path takes too much.

        Windows are raised along the path of the set ``visited`` until its bound is ``enough``. The second result says
        whether nothing is left to raise on that path.
        """
        for kind in self.kinds:
            if (kind.price != price).any():  # else it goes on where it stopped
                kind.reprice(price)
        own = self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price
        taken = {kind: kind.used for kind in self.kinds}
        while True:
            tables = [kind.values for kind in self.blocks]
            paths = {path.visited: path for path in paths_by_set(tables, own, self._sets)}
            steps = self._steps(paths[visited]) if visited in paths else []
            todo = [(kind, a, b) for kind, a, b in dict.fromkeys(steps) if kind.open(a, b)]
            if not todo or seconds() <= 0.0 or self._cut(paths[visited], price, taken).value >= enough:
                break
            open_costs = [pair for pair in todo if pair[0].is_refuted() and pair[0].stage[pair[1:]] >= RELAXED]
            for kind, a, b in todo:
                if (kind, a, b) not in open_costs:
                    kind.raise_pair(a, b, min(seconds(), self.share[kind] * LONGEST_PROGRAM))
            times = Counter(steps)
            gains = [times[kind, a, b] * kind.possible_gain(a, b) for kind, a, b in open_costs]
            worth = [gain >= WORTH * max(gains) for gain in gains]
            self._refute(list(compress(open_costs, worth)), seconds)
        return {path.visited: self._cut(path, price, taken) for path in paths.values()}, not todo

    def promised(self, price: FloatArray, visited: int) -> Cut:
        """The bound of a set at prices if the known plans of windows are the cheapest."""
        tables = {kind: kind.promised(price) for kind in self.kinds}
        own = self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price
        paths = paths_by_set([tables[kind][0] for kind in self.blocks], own, self._sets)
        path = next(path for path in paths if path.visited == visited)
        return self._cut(path, price, {kind: taken for kind, (_, taken) in tables.items()})

    def _refute(self, pairs: list[Pair], seconds: Callable[[], float]) -> None:
        """Refute costs of windows in a child process."""
        found = [float(kind.values[a, b]) for kind, a, b in pairs]
        windows = [kind.priced(a, b) for kind, a, b in pairs]

        def hear(news: Raised) -> None:
            found[news.number] = news.bound
            kind, a, b = pairs[news.number]
            for plan in news.plans:
                kind.keep(a, b, plan.length, plan.device)

        if any(math.isfinite(window.ceiling) for window in windows):
            work = PricedWork(windows, WORK, STEP, time() + seconds())
            with suppress(EngineError):  # what was heard before still holds
                run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=hear, should_stop=lambda: seconds() <= 0.0)
        for (kind, a, b), value in zip(pairs, found, strict=True):
            kind.learn(a, b, REFUTED, value, kind.taken_by_best(a, b))

    def _steps(self, path: Path) -> list[Pair]:
        return list(zip(self.blocks, [0, *path.devices], path.devices, strict=False))

    def _cut(self, path: Path, price: FloatArray, taken: Mapping[PricedBlock, FloatArray]) -> Cut:
        """The bound of a path, and the bytes that it takes beyond every device's memory."""
        bytes_ = self.memory.bytes[self.milestones]
        used = np.bincount(path.devices[: len(bytes_)], weights=bytes_, minlength=len(price)).astype(np.float64)
        for kind, a, b in self._steps(path):
            used += taken[kind][a, b]
        cost = np.where(np.isfinite(self.arrays.seconds), self.memory.bytes[:, None] * price, np.inf)[self.outside]
        total = path.value
        if len(cost):
            used += np.bincount(cost.argmin(axis=1), weights=self.memory.bytes[self.outside], minlength=len(price))
            total += float(cost.min(axis=1).sum())
        room = float(self.capacity @ price)
        over = np.where(self.limited, used - self.capacity, 0.0)
        return Cut(total - room - SUMMATION * (total + room), over, price)
