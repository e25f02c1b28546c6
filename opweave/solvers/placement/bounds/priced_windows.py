"""Memory at its price, with windows in whole numbers: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound* (:mod:`.priced_block`).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices (:mod:`.price_search` looks for the best), and the shortest path
with milestones on a set of devices (:mod:`.visited`) is a bound for all plans whose milestones run on that set. Where
equal devices can be exchanged, one of the plans that are equal but for that is looked at.

Windows are solved lazily, along a shortest path only. A window's programs get time in proportion to its number in the
chain: what a kind that occurs once gains is lost among forty layers, although its program may take as long as all
others. Its costs are refuted last.

Source: Held and Karp (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import compress
from time import time
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones
from opweave.solvers.placement.bounds.priced_block import INTEGER, REFUTED, PricedBlock
from opweave.solvers.placement.bounds.priced_child import PricedWork, Raised
from opweave.solvers.placement.bounds.visited import Path, equal_before, paths_by_set, sets_of
from opweave.solvers.rounding import SUMMATION

CHILD = "opweave.solvers.placement.bounds.priced_child:raise_windows"

LONGEST_PROGRAM = 3.0
"""Most seconds for one window."""

WORK, STEP = 0.4, 0.002
"""Most work of a try to refute a cost, in CP-SAT's measure, which is about a second, and the relative distance from a
plan's cost at which a bound is close enough."""

WORTH = 0.1
"""Least that a window and its equals may gain for their costs to be refuted, as a share of what others may gain."""

LEAST_PART = 0.2
"""Least number of a window in the chain, as a share of the largest, for which costs are refuted from the beginning; and
the share of that work for others, each of which may be as hard as all these together."""


Pair = tuple[PricedBlock, int, int]
"""A window and the devices of its ends."""


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
        self._sets = sets_of(equal_before(arrays, memory.capacity))
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
                    kinds[key] = PricedBlock(block, bytes_, np.zeros(devices))
                self.blocks.append(kinds[key])
                self.members.append(window.operators[members])
                outside[window.operators[members]] = False
            self.starts.append(len(self.blocks))
        self.kinds = list(kinds.values())
        times = Counter(map(id, self.blocks))
        most = max((times[id(kind)] for kind in self.kinds if kind.bytes.any()), default=1)
        self.share = {kind: min(1.0, times[id(kind)] / most) for kind in self.kinds}
        for kind in self.kinds:
            kind.waits = self.share[kind] < LEAST_PART
        self.milestones = np.asarray(milestones, dtype=np.int64)
        outside[self.milestones] = False
        self.outside = np.flatnonzero(outside)

    def own_costs(self, price: FloatArray) -> FloatArray:
        """Seconds of every milestone, and the price of its bytes. Shape (milestones, K)."""
        return self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price

    def values(
        self, price: FloatArray, visited: int | None, enough: float, seconds: Callable[[], float]
    ) -> tuple[dict[int, Cut], bool]:
        """The bound at prices for every set of devices that run milestones, and the bytes that its path takes too much.

        Windows are raised along the path of the set ``visited``, or the shortest of all for None, until its bound is
        ``enough``. The second result says whether nothing is left to raise on that path.
        """
        for kind in self.kinds:
            if (kind.price != price).any():  # else it goes on where it stopped
                kind.reprice(price)
        own = self.own_costs(price)
        taken = {kind: kind.used for kind in self.kinds}
        while True:
            tables = [kind.values for kind in self.blocks]
            paths = {path.visited: path for path in paths_by_set(tables, own, self._sets)}
            path = _chosen(paths, visited)
            steps = [] if path is None else self._steps(path)
            todo = [(kind, a, b) for kind, a, b in dict.fromkeys(steps) if kind.open(a, b)]
            if path is None or not todo or seconds() <= 0.0 or self._cut(path, price, taken).value >= enough:
                break
            open_costs = [pair for pair in todo if pair[0].is_refuted() and pair[0].stage[pair[1:]] >= INTEGER]
            for kind, a, b in todo:
                if (kind, a, b) not in open_costs:
                    kind.raise_pair(a, b, min(seconds(), self.share[kind] * LONGEST_PROGRAM))
            if len(open_costs) < len(todo):
                continue  # cheap bounds of all windows first: they may lead the path elsewhere
            times = Counter(steps)
            gains = [times[kind, a, b] * kind.possible_gain(a, b) for kind, a, b in open_costs]
            worth = [gain >= WORTH * max(gains) for gain in gains]
            self._refute(list(compress(open_costs, worth)), seconds)
        return {path.visited: self._cut(path, price, taken) for path in paths.values()}, not todo

    def wait_no_longer(self) -> bool:
        """Open the windows that wait; whether there are any."""
        waiting = [kind for kind in self.kinds if kind.waits]
        for kind in waiting:
            kind.waits = False
        return bool(waiting)

    def promised(self, price: FloatArray, visited: int | None) -> Cut:
        """The bound of a set, or of all plans, at prices if the known plans of windows are the cheapest."""
        tables = {kind: kind.promised(price) for kind in self.kinds}
        own = self.own_costs(price)
        paths = paths_by_set([tables[kind][0] for kind in self.blocks], own, self._sets)
        path = _chosen({path.visited: path for path in paths}, visited)
        assert path is not None, "a set that has a path keeps it"
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
            most = [WORK * max(LEAST_PART, self.share[kind]) for kind, _, _ in pairs]
            work = PricedWork(windows, most, STEP, time() + seconds())
            with suppress(EngineError):  # what was heard before still holds
                run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=hear, should_stop=lambda: seconds() <= 0.0)
        for (kind, a, b), value in zip(pairs, found, strict=True):
            kind.learn(a, b, REFUTED, value, kind.cheapest(a, b, kind.price).taken)

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


def _chosen(paths: Mapping[int, Path], visited: int | None) -> Path | None:
    """The path of a set, or the shortest of all for None, if there is one."""
    return min(paths.values(), key=lambda path: path.value, default=None) if visited is None else paths.get(visited)
