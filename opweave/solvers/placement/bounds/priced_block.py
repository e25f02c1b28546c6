"""One window of a milestone chain with bytes at their price: what is known of its cost between all pairs of ends.

A *priced bound* is the least of length plus price that a program of the window proves. It is raised in stages. From the
values at earlier prices p, a window costs at least value(p) + sum over its operators of min over devices of (q - p) *
bytes at prices q. A plan of the window is a ceiling at any prices.

The stages of a window are its linear and its integer program, and costs that constraint programming refutes
(:mod:`~opweave.solvers.placement.module_intervals`). Annealing finds a good plan of most windows within milliseconds.
A window whose bound is close to the cost of a plan is not raised further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.linear import minimise, proved_value, sum_below
from opweave.solvers.placement.annealing import anneal
from opweave.solvers.placement.arrays import PlacementArrays, order_for, order_of_graph, with_arcs
from opweave.solvers.placement.bounds.area import PRODUCTS
from opweave.solvers.placement.bounds.chain_bound import LARGEST_EXACT, LARGEST_PRICED, TIGHT, Block
from opweave.solvers.placement.bounds.window_program import Builder, WindowProgram
from opweave.solvers.placement.module_intervals import PricedWindow, list_plan
from opweave.solvers.placement.moves import DRAWS, counted_plan
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.tree import least_whole

MOST_SOLVED = 12
"""Most prices at which a window's bounds are remembered."""

HEAT, CHUNKS = 0.02, 2
"""First temperature of annealing a window, as a share of its cost, and the number of chunks."""

RELAXED, INTEGER, REFUTED = 1, 2, 3
"""Stages of a window's value: linear program, integer program, and costs that constraint programming refutes."""

LONGEST = {RELAXED: 3.0, INTEGER: 1.0}
"""Most seconds of a stage for one window."""

WEIGHTY = 0.97
"""Share of time and priced bytes that the operators hold whose devices stay whole in a window's integer program."""

STEP = 0.002
"""Relative distance from a plan's cost at which a bound is close enough for costs not to be refuted."""


class _Solved(NamedTuple):
    """What is known of a window between two devices at earlier prices: its stage there, its bound, its bytes."""

    price: FloatArray
    stage: int
    value: float
    taken: FloatArray


class KnownPlan(NamedTuple):
    """A plan of a window: its length, the bytes that it takes on every device, and the device of every operator."""

    length: float
    taken: FloatArray
    device: IntArray

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
    equal
        For every device the first that it can be exchanged with. What is known of a pair of ends holds for its images,
        which exchange equal devices. Shape (K,).
    """

    block: Block
    bytes: FloatArray
    price: FloatArray
    equal: IntArray
    values: FloatArray = field(init=False)
    used: FloatArray = field(init=False)
    stage: IntArray = field(init=False)
    _solved: dict[tuple[int, int], list[_Solved]] = field(init=False, default_factory=dict)
    _plans: dict[tuple[int, int], list[KnownPlan]] = field(init=False, default_factory=dict)

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
                now = self._carried(known, price)
                if now > values[a, b]:
                    values[cells], used[cells] = now, known.taken
        return values, used

    def _carried(self, known: _Solved, price: FloatArray) -> float:
        """What a bound at earlier prices proves at others, rounded down: high prices may leave a short length."""
        if (price == known.price).all():
            return known.value
        change = np.where(self._usable, self.bytes[:, None] * (price - known.price), np.inf).min(axis=1)
        terms = np.asarray([known.value, *change])
        return sum_below(terms, PRODUCTS * float(np.abs(terms).sum()))

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

    def next_stage(self, a: int, b: int) -> int | None:
        """The stage to which the pair can be raised at these prices; None if there is none, or too little to gain."""
        inner = len(self.block.window.inner)
        value = float(self.values[a, b])
        stage = int(self.stage[a, b]) + 1
        sized = inner > 0 and self._is_sized() and math.isfinite(value)
        if not sized or stage > (REFUTED if inner <= LARGEST_EXACT else INTEGER):
            return None
        close = STEP if stage == REFUTED else TIGHT
        return stage if self.possible_gain(a, b) > close * abs(value) else None

    def is_searched(self) -> bool:
        """Whether plans of the window say what its bound may become: it is not too large for that."""
        return 0 < len(self.block.window.inner) <= LARGEST_EXACT and self._is_sized()

    def _is_sized(self) -> bool:
        return self.block.size <= LARGEST_PRICED

    def promised(self, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Costs by end devices if the known plans are the cheapest, and their bytes. Shapes (K, K) and (K, K, K).

        Where links are missing, there may be no plan that is known; its bound stands in for it.
        """
        devices = len(price)
        if not self.is_searched():
            return self._relearned(price)
        values = np.full((devices, devices), np.inf)
        used = np.zeros((devices, devices, devices))
        unknown = []
        for a, b in self.pairs():
            cells = self.block.window.cells(a, b)
            plan = self.cheapest(a, b, price)
            values[cells], used[cells] = plan.cost(price), plan.taken
            if not math.isfinite(plan.length):
                unknown.append(cells)
        if unknown:
            bounds, taken = self._relearned(price)
            for cells in unknown:
                values[cells], used[cells] = bounds[cells], taken[cells]
        return values, used

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Devices that the ends may be on; 0 stands for every device where there is no end."""
        entries = range(len(self.price) if self.block.window.entry else 1)
        exits = range(len(self.price) if self.block.window.exit else 1)
        return ((a, b) for a, b in product(entries, exits) if np.isfinite(self.block.values[a, b]))

    def different_pairs(self) -> Iterator[tuple[int, int]]:
        """Those pairs of which none is the image of another."""
        return ((a, b) for a, b in self.pairs() if (a, b) == min(each[:2] for each in self._images(a, b)))

    def first_image(self, a: int, b: int) -> tuple[int, int]:
        """The first of the pairs whose bounds are equal at these prices."""
        return min(each[:2] for each in self._images_here(a, b))

    def _images_here(self, a: int, b: int) -> Iterator[tuple[int, int, IntArray]]:
        """Images in which every device has the price of the one that it replaces."""
        return (each for each in self._images(a, b) if (self.price[each[2]] == self.price).all())

    def possible_gain(self, a: int, b: int) -> float:
        """How much a pair's bound can rise at most, as far as plans are known."""
        ceiling = self._ceiling(a, b)
        return max(0.0, ceiling - float(self.values[a, b])) if math.isfinite(ceiling) else 0.0

    def priced(self, a: int, b: int) -> PricedWindow:
        """The window with its ends on two devices, and what is known of its cost."""
        cost = np.ascontiguousarray(self.bytes[:, None] * self.price)
        return PricedWindow(self.block.window.fixed(a, b), cost, float(self.values[a, b]), self._ceiling(a, b))

    def raise_pair(self, a: int, b: int, stage: int, seconds: float, share: float) -> None:
        """Raise a pair to a stage within some seconds, and a share of the time that the stage may take at most."""
        most = min(seconds, LONGEST[stage] * (1.0 if stage == RELAXED else share))
        value, taken = self._programmed(a, b, stage, self.used[a, b].copy(), most)
        self.learn(a, b, stage, value, taken)

    def learn(self, a: int, b: int, stage: int, value: float, taken: FloatArray) -> None:
        """Record a bound of a stage, and the bytes of its point, for a pair and its images at these prices."""
        for first, last, image in self._images_here(a, b):
            moved = np.empty_like(taken)
            moved[image] = taken
            self._learn(first, last, stage, value, moved)

    def _learn(self, a: int, b: int, stage: int, value: float, taken: FloatArray) -> None:
        value = max(value, float(self.values[a, b]))
        self.stage[self.block.window.cells(a, b)] = stage
        self._set(a, b, value, taken)
        others = [known for known in self._solved.get((a, b), []) if (known.price != self.price).any()]
        self._solved[a, b] = [*others[1 - MOST_SOLVED :], _Solved(self.price, stage, value, taken)]

    def _images(self, a: int, b: int) -> Iterator[tuple[int, int, IntArray]]:
        """The pairs that a pair becomes when equal devices are exchanged, and the new number of every device."""
        ends = [k for k, exists in ((a, self.block.window.entry), (b, self.block.window.exit)) if exists]
        for targets in product(*(np.flatnonzero(self.equal == self.equal[k]).tolist() for k in ends)):
            image = np.arange(len(self.price))
            for k, target in zip(ends, targets, strict=True):
                there = int(np.flatnonzero(image == target)[0])
                image[[k, there]] = image[[there, k]]
            moved = [int(image[k]) for k in ends]
            if moved == list(targets):
                first = moved[0] if self.block.window.entry else a
                yield first, moved[-1] if self.block.window.exit else b, image

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
        cost = program.linear.cost.copy()
        there = np.flatnonzero(program.x[:, 0] >= 0)
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

    def search(self, a: int, b: int, price: FloatArray) -> None:
        """Search a cheaper plan of the pair at some prices by annealing."""
        arrays = self.block.window.fixed(a, b)
        known = self.cheapest(a, b, price)
        count, least = len(known.device), known.cost(price)
        net, owner = with_shadows(arrays, self.bytes[:, None] * price)
        order = np.concatenate([order_for(arrays, known.device), count + np.arange(len(owner))])
        device = np.concatenate([known.device, known.device[owner]])
        ties = np.concatenate([np.arange(count), owner])
        plan = counted_plan(net, order, device, ties)
        rng = np.random.default_rng((len(self._known_plans(a, b)), a, b))
        moves = max(1, min(CHUNK_WORK // (len(net.seconds) + len(net.source)), MOST_MOVES * count))
        heats = least * np.geomspace(HEAT, LAST_HEAT, CHUNKS * moves)
        best_order = np.empty_like(order)
        best_device = np.empty_like(device)
        for heat in np.split(heats, CHUNKS):
            anneal(net, plan, rng.random((moves, DRAWS)), heat, best_order, best_device)
            device = best_device[:count].copy()
            length = plan_of(arrays, best_order[best_order < count], device).makespan
            cost = length + float((self.bytes * price[device]).sum())
            if cost < least:
                least = cost
                self.keep(a, b, length, device)

    def _ceiling(self, a: int, b: int) -> float:
        """The least cost of some plans of the window: all on one device, and those that searches found."""
        return self.cheapest(a, b, self.price).cost(self.price)

    def cheapest(self, a: int, b: int, price: FloatArray) -> KnownPlan:
        """The cheapest plan that is known, at any prices."""
        return min(self._known_plans(a, b), key=lambda plan: plan.cost(price))

    def keep(self, a: int, b: int, length: float, device: IntArray) -> None:
        """Keep a plan: it is a ceiling at any prices."""
        for first, last, image in self._images(a, b):
            self._known_plans(first, last).append(self._known(length, image[device]))

    def _known_plans(self, a: int, b: int) -> list[KnownPlan]:
        if (a, b) not in self._plans:
            arrays, plans = self.block.window.fixed(a, b), list[KnownPlan]()
            order = order_of_graph(arrays)
            for k in range(len(self.price)):
                alone = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
                plans.append(self._known(plan_of(arrays, order, alone).makespan, alone))
            listed = None if any(math.isfinite(plan.length) for plan in plans) else list_plan(arrays)
            if listed is not None:  # links are missing, and it goes round them
                plans.append(self._known(listed.makespan, listed.device))
            self._plans[a, b] = plans
        return self._plans[a, b]

    def _known(self, length: float, device: IntArray) -> KnownPlan:
        taken = np.bincount(device, weights=self.bytes, minlength=len(self.price)).astype(np.float64)
        return KnownPlan(length, taken, device)


CHUNK_WORK = 6_000_000
"""Operators and flows judged in one annealing chunk; takes about a tenth of a second."""

MOST_MOVES = 100
"""Moves of a chunk per operator, so that small networks are not searched for too long."""

LAST_HEAT = 0.00002
"""Final temperature of annealing, as a share of the cost."""


def with_shadows(arrays: PlacementArrays, cost: FloatArray) -> tuple[PlacementArrays, IntArray]:
    """A network, followed by a shadow for every operator whose memory has a price, and the operator of every shadow.

    ``cost`` is the price of every operator's bytes on every device, in seconds. Shape (operators, devices).
    """
    count = len(arrays.seconds)
    owner = np.flatnonzero(cost.max(axis=1, initial=0.0) > 0.0)
    total, more = count + len(owner), (0, len(owner))
    late = np.repeat(np.arange(count), np.diff(arrays.before_start))
    early = arrays.before
    if len(owner):
        shadows = np.arange(count, total)
        sinks = np.flatnonzero(np.diff(arrays.after_start) == 0)
        late = np.concatenate([late, np.full(len(sinks), count), shadows[1:]])
        early = np.concatenate([early, sinks, shadows[:-1]])
    larger = arrays._replace(
        seconds=np.ascontiguousarray(np.concatenate([arrays.seconds, cost[owner]])),
        in_start=np.pad(arrays.in_start, more, mode="edge"),
        out_start=np.pad(arrays.out_start, more, mode="edge"),
        memory=np.zeros(total, dtype=np.int64),
        parameters_start=np.zeros(total + 1, dtype=np.int64),
    )
    return with_arcs(larger, Adjacency.from_pairs(total, late, early)), owner
