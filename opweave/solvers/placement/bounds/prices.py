"""Memory at its price, with windows in whole numbers: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound* (:mod:`.priced_block`).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices (:class:`PriceSearch` looks for the best).

Windows are solved lazily, along a shortest path only. A window's programs get time in proportion to its number in the
chain: what a kind that occurs once gains is lost among forty layers, although its program may take as long as all
others.

Source: Held and Karp (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from time import time
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones, devices_to, shortest
from opweave.solvers.placement.bounds.priced_block import REFUTED, RELAXED, STEP, PricedBlock
from opweave.solvers.placement.bounds.whole_bytes import TRIES, WholeBytes
from opweave.solvers.placement.module_intervals import PricedWork, Raised, equal_before
from opweave.solvers.rounding import SUMMATION

CHILD = "opweave.solvers.placement.module_intervals:raise_windows"

WORK = 0.4
"""Most work of a try to refute a cost, in CP-SAT's measure, which is about a second."""

WORTH = 0.1
"""Least that a window and its equals may gain for their costs to be refuted, as a share of what others may gain."""

LEAST_PART = 0.2
"""Least share of the work for a window that the chain has seldom. What it gains counts once, and what a window gains
that occurs in every layer counts many times."""


Pair = tuple[PricedBlock, int, int]
"""A window and the devices of its ends."""


class Path(NamedTuple):
    """A shortest path: its length, and a device for the end of every window; that of the last one means nothing."""

    value: float
    devices: list[int]


class Cut(NamedTuple):
    """A bound at some prices, and the bytes that its solution takes beyond every device's memory."""

    value: float
    over: FloatArray
    price: FloatArray


class Chain:
    """A milestone chain with the bytes of its operators.

    ``blocks`` are its windows in order, ``members`` their operators, and ``starts`` says which is the first of every
    module. The operator of ``milestones`` with the same number follows a window.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        devices = arrays.seconds.shape[1]
        self.memory, self.arrays = memory, arrays
        self.limited = np.isfinite(memory.capacity)
        self.capacity = np.where(self.limited, memory.capacity, 0.0)
        before = equal_before(arrays, memory.capacity)
        self.equal = np.arange(devices)
        for k, twin in enumerate(before):
            self.equal[k] = k if twin is None else self.equal[twin]
        kinds: dict[object, PricedBlock] = {}
        self.blocks: list[PricedBlock] = []
        self.members: list[IntArray] = []
        self.starts = [0]
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
                    kinds[key] = PricedBlock(block, bytes_, np.zeros(devices), self.equal)
                self.blocks.append(kinds[key])
                self.members.append(window.operators[members])
                outside[window.operators[members]] = False
            self.starts.append(len(self.blocks))
        self.kinds = list(kinds.values())
        times = Counter(map(id, self.blocks))
        most = max((times[id(kind)] for kind in self.kinds if kind.bytes.any()), default=1)
        self.share = {kind: min(1.0, times[id(kind)] / most) for kind in self.kinds}
        self.milestones = np.asarray(milestones, dtype=np.int64)
        outside[self.milestones] = False
        self.outside = np.flatnonzero(outside)

    def own_costs(self, price: FloatArray) -> FloatArray:
        """Seconds of every milestone, and the price of its bytes. Shape (milestones, K)."""
        return self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price

    def is_possible(self) -> bool:
        """Whether some devices of the milestones leave every window a plan, as far as its bounds tell."""
        tables = {kind: kind.block.values for kind in self.kinds}
        return self._path(tables, self.arrays.seconds[self.milestones]) is not None

    def evened(self, price: FloatArray) -> FloatArray:
        """Prices that are the same on equal devices; their mean promises as much or more."""
        _, group = np.unique(self.equal, return_inverse=True)
        return np.asarray((np.bincount(group, weights=price) / np.bincount(group))[group])

    def value(
        self, price: FloatArray, seconds: Callable[[], float], report: Callable[[float], None], last: int = REFUTED
    ) -> tuple[Cut | None, bool]:
        """The bound at prices, and the bytes that its path takes too much; None if there is no path.

        Windows are raised along the path, no further than to the stage ``last``, and bounds on the way are reported.
        The second result says whether nothing is left to raise on it.
        """
        for kind in self.kinds:
            if (kind.price != price).any():  # else it goes on where it stopped
                kind.reprice(price)
        own = self.own_costs(price)
        taken = {kind: kind.used for kind in self.kinds}
        while True:
            path = self._path({kind: kind.values for kind in self.kinds}, own)
            steps = [] if path is None else self._different_steps(path)
            stages = {pair: pair[0].next_stage(*pair[1:]) for pair in dict.fromkeys(steps)}
            todo = {pair: stage for pair, stage in stages.items() if stage is not None and stage <= last}
            if path is None:
                return None, True
            cut = self._cut(path, price, taken)
            report(cut.value)
            if not todo or seconds() <= 0.0:
                return cut, not todo
            cheap = {pair: stage for pair, stage in todo.items() if stage != REFUTED}
            for (kind, a, b), stage in cheap.items():
                kind.raise_pair(a, b, stage, seconds(), max(LEAST_PART, self.share[kind]))
            if cheap:
                continue  # cheap bounds of all windows first: they may lead the path elsewhere
            times = Counter(steps)
            gains = {(kind, a, b): times[kind, a, b] * kind.possible_gain(a, b) for kind, a, b in todo}
            most = max(gains.values())
            worth = sorted((pair for pair in todo if gains[pair] >= WORTH * most), key=gains.__getitem__, reverse=True)
            self._refute(worth, seconds)

    def _path(self, tables: Mapping[PricedBlock, FloatArray], own: FloatArray) -> Path | None:
        """The shortest path, if there is one."""
        first, *others = (tables[kind] for kind in self.blocks)
        values, origins = shortest(first[0], own, others)
        last = int(np.argmin(values))
        return Path(float(values[last]), devices_to(last, origins)) if np.isfinite(values[last]) else None

    def promised(self, price: FloatArray) -> Cut:
        """The bound at prices if the known plans of windows are the cheapest."""
        return self._promise(price)[1]

    def tested(self, price: FloatArray, seconds: Callable[[], float]) -> Cut:
        """What is promised after a search for cheaper plans of the windows on the way."""
        tried: set[Pair] = set()
        while True:
            path, cut = self._promise(price)
            todo = [pair for pair in dict.fromkeys(self._steps(path)) if pair[0].is_searched() and pair not in tried]
            if not todo or seconds() <= 0.0:
                return cut
            self._search(todo, price)
            tried.update(todo)

    def _promise(self, price: FloatArray) -> tuple[Path, Cut]:
        """The path that the known plans of windows make the shortest, and its bound if they are the cheapest."""
        tables = {kind: kind.promised(price) for kind in self.kinds}
        path = self._path({kind: values for kind, (values, _) in tables.items()}, self.own_costs(price))
        assert path is not None, "there was a path before"
        return path, self._cut(path, price, {kind: taken for kind, (_, taken) in tables.items()})

    def search_everywhere(self, price: FloatArray, seconds: Callable[[], float]) -> None:
        """Search plans of all windows at some prices."""
        for kind in self.kinds:
            for a, b in kind.different_pairs() if kind.is_searched() else ():
                if seconds() > 0.0:
                    self._search([(kind, a, b)], price)

    def _search(self, pairs: Iterable[Pair], price: FloatArray) -> None:
        for kind, a, b in pairs:
            kind.search(a, b, price)

    def _refute(self, pairs: list[Pair], seconds: Callable[[], float]) -> None:
        """Refute costs of windows in a child process."""
        found = [float(kind.values[a, b]) for kind, a, b in pairs]
        done = set[int]()
        windows = [kind.priced(a, b) for kind, a, b in pairs]

        def hear(news: Raised) -> None:
            found[news.number] = news.bound
            kind, a, b = pairs[news.number]
            for plan in news.plans:
                kind.keep(a, b, plan.length, plan.device)
            if news.done:
                done.add(news.number)

        if any(math.isfinite(window.ceiling) for window in windows):
            most = [WORK * max(LEAST_PART, self.share[kind]) for kind, _, _ in pairs]
            work = PricedWork(windows, most, STEP, time() + seconds())
            with suppress(EngineError):  # what was heard before still holds
                run_in_child(
                    "cp-sat",
                    CHILD,
                    work,
                    ChildLimits(),
                    hear=hear,
                    should_stop=lambda: seconds() <= 0.0,
                    pauses=True,
                    keep=True,
                )
        for number, (kind, a, b) in enumerate(pairs):  # windows that are not done go on when there is time again
            stage = REFUTED if number in done or seconds() > 0.0 else int(kind.stage[a, b])
            kind.learn(a, b, stage, found[number], kind.cheapest(a, b, kind.price).taken)

    def _steps(self, path: Path) -> list[Pair]:
        return list(zip(self.blocks, [0, *path.devices], path.devices, strict=False))

    def _different_steps(self, path: Path) -> list[Pair]:
        """The steps of a path; pairs of ends with equal bounds count as one."""
        steps = self._steps(path)
        firsts = {(kind, a, b): (kind, *kind.first_image(a, b)) for kind, a, b in set(steps)}
        return [firsts[step] for step in steps]

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


SHIFT = 100.0
"""Added to values so that the program's columns are not negative, in units of the first prices of all memory."""

ROUNDS = 40
"""Most price vectors that are tried."""

PROMISES, CLOSE = 40, 1e-4
"""Most price vectors whose promise is worked out before one is chosen, and the relative distance from what the cutting
planes allow at which that ends."""

PROGRESS = 1.5 * STEP
"""Relative distance between the bound and what prices promise at which its search ends: windows are not raised
further."""

FIRST_RADIUS, SMALLER, LEAST_RADIUS = 1.0, 0.4, 0.02
"""Relative distance from the best prices up to which others are tried at first, what it is multiplied by where these
are worse, and the distance at which the search ends."""


class PriceSearch:
    """The search for prices by column generation; it may stop at any time and go on later.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte; those of devices without a limit do not count. Shape (devices,).

    Attributes
    ----------
    chain
        The windows, with their bounds and plans.
    centre
        The best bound so far.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory, price: FloatArray) -> None:
        self.chain = Chain(chain, arrays, memory)
        self._whole = WholeBytes(self.chain)
        self._first = self.chain.evened(np.where(self.chain.limited, np.maximum(price, 0.0), 0.0))
        self._unit = np.where(self.chain.limited, 1.0 / np.maximum(self.chain.capacity, 1.0), 0.0)
        self._scale = max(float(self._first @ self.chain.capacity), 1e-300)
        self.centre = Cut(0.0, np.zeros(len(price)), self._first)
        self._price: FloatArray | None = None
        self._radius = FIRST_RADIUS
        self._rounds = 0
        self._finished = False
        self._begun = False

    def go_on(self, seconds: Callable[[], float], report: Callable[[float], None], ceiling: float = math.inf) -> bool:
        """Search until ``seconds``, the seconds left, are 0; report every bound; return whether more may be found.

        ``ceiling`` is the length of a plan; prices that promise as much are good enough.
        """
        if not self._begun:
            self._begun = True
            if not self.chain.is_possible():
                return False
            self._whole.raise_bound(self._first, ceiling, seconds, report, TRIES[:1])
            cut, _ = self.chain.value(self._first, seconds, report, RELAXED)
            self._whole.raise_bound(self._first, ceiling, seconds, report)
            self.centre = cut if cut is not None and cut.value > self.centre.value else self.centre
            self.chain.search_everywhere(self._first, seconds)
        while seconds() > 0.0:
            if self._price is None:
                self._price = self._promising(ceiling, seconds)
            if self._price is None:
                return False
            before = self.centre.value
            cut, complete = self.chain.value(self._price, seconds, report)
            if cut is None:
                return False
            if cut.value > before:
                self.centre, self._finished = cut, False
            report(self.centre.value)
            if complete:
                self._whole.raise_bound(self._price, ceiling, seconds, report)
                self._end_round(before)
        return True

    def _end_round(self, before: float) -> None:
        """Work at the present prices is over: the bound was ``before`` when it began."""
        assert self._price is not None, "a round has prices"
        self._finished = self._finished or np.array_equal(self._price, self.centre.price)
        self._price, self._rounds = None, self._rounds + 1
        if self.centre.value <= before + CLOSE * abs(before):
            self._radius *= SMALLER

    def _promising(self, ceiling: float, seconds: Callable[[], float]) -> FloatArray | None:
        """The prices near the best that promise most; None if that is hardly more than what is proved."""
        chain, centre = self.chain, self.centre.price
        room = self._radius * np.maximum(centre, 0.1 * float(centre.max()))
        box = np.maximum(centre - room, 0.0), centre + room
        first = chain.tested(centre, seconds)
        proved = first.value if self._finished else self.centre.value  # no more can be proved at these prices
        cuts = [first]
        promises = {centre.tobytes(): first}
        searched = set[bytes]()
        for _ in range(PROMISES):
            name, best = max(promises.items(), key=lambda item: item[1].value)
            next_ = _highest(cuts, self._unit * self._scale, box, self._scale) if best.value < ceiling else None
            if next_ is not None and next_[0] > best.value + CLOSE * abs(best.value):
                cuts.append(chain.tested(chain.evened(next_[1]), seconds))
            elif name not in searched:  # the promise may rest on windows whose good plans are not known
                chain.search_everywhere(best.price, seconds)
                searched.add(name)
                cuts.append(chain.promised(best.price))
            else:
                break
            promises[cuts[-1].price.tobytes()] = cuts[-1]
            if seconds() <= 0.0:
                break
        best = max(promises.values(), key=lambda cut: cut.value)
        spent = self._rounds >= ROUNDS or self._radius < LEAST_RADIUS
        return None if spent or best.value <= proved + PROGRESS * abs(proved) else best.price


def _highest(
    cuts: list[Cut], unit: FloatArray, box: tuple[FloatArray, FloatArray], scale: float
) -> tuple[float, FloatArray] | None:
    """The prices in a box at which all cuts together allow most, and that value."""
    devices = len(unit)
    rows = SparseRows()
    for cut in cuts:
        row = rows.open(np.asarray([(cut.value - float(cut.over @ cut.price)) / scale + SHIFT]))
        rows.put(row, np.asarray([devices]), 1.0)
        rows.put(np.repeat(row, devices), np.arange(devices), -cut.over * unit / scale)
    cost = np.zeros(devices + 1)
    cost[devices] = -1.0
    sized = np.where(unit > 0.0, unit, np.inf)
    program = LinearProgram.of(cost, np.concatenate([box[1] / sized, [2.0 * SHIFT]]), rows)
    solved = minimise(replace(program, lower=np.concatenate([box[0] / sized, [0.0]])), None)
    if solved is None:
        return None
    # at prices below 0, which the engine's tolerance allows, a bound may be false
    return (-solved.value - SHIFT) * scale, np.maximum(solved.point[:devices], 0.0) * unit
