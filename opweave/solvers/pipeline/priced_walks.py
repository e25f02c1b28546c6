"""Priced walks without an immediate return: the bound of the joint optimum, and often the plan itself.

Give every visit of device v a price. A plan visits each device at most once, so it costs no more than the sum of all
prices, and it is a walk that never goes v, w, v. If the cheapest such walk at a threshold costs more than the sum of
all prices, no plan keeps the threshold. Subgradients adapt the prices: a device that the walk visits often becomes more
expensive. With a limit on the number of stages, every visit costs an additional price, and this price times the limit
is added to the sum.

The same walk with seconds as costs bounds sums of times. Dives build plans stage by stage along the completions of a
table, with some randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import loop
from opweave.solvers.pipeline.arrays import (
    END,
    PipelineArrays,
    Table,
    WalkWindow,
    seconds_between,
    told_apart,
    window_at,
)
from opweave.solvers.pipeline.labels import (
    CHEAPEST,
    DROPPED,
    FOUND,
    FULL,
    PAUSED,
    WORK,
    Hunt,
    Words,
    barriers,
    begin,
    new_labels,
    remember_repeats,
    search_labels,
    small_memories,
    walk_to,
)
from opweave.solvers.pipeline.plans import PipelinePlan
from opweave.solvers.run import Run

NOWHERE = -2
"""Stands for the next device when there is no walk."""

LUCK = 0.9
"""Largest random addition to the cost of a completion, in prices of one visit."""

FIRST_LABELS = 4_000
MOST_LABELS = 1_200_000

DIVES = 60
"""Random descents along the completions of a table."""

SLICE = 500_000
"""Steps of a search of labels between two looks at the time; steps of filling a table are a tenth as long."""

UNTIMED_WORK = 1_000_000_000
"""Steps of a search without a time limit; they take some 20 seconds."""


@dataclass(eq=False)
class PricedWalks:
    """Walks, dives and labels on one instance; every search leaves its walk in :attr:`stages` and :attr:`ends`.

    Attributes
    ----------
    should_stop
        Asked every few hundredths of a second.
    stage_weight, link_weight
        Cost of a second of computing or sending.
    memory
        Devices that each device remembers in exact searches. It only grows, and is valid in every window.
    everything
        Memories in which every device remembers all devices.
    spent
        Steps of all searches so far.
    """

    arrays: PipelineArrays
    should_stop: Callable[[], bool]
    seed: int = 0
    stage_weight: float = 0.0
    link_weight: float = 0.0
    spent: int = 0
    stages: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        devices, points = self.arrays.reach.shape
        self.memory = small_memories(devices)
        self.everything = np.full_like(self.memory, ~np.uint64(0))
        self.table = new_table(points, devices)
        self._barrier = barriers(self.arrays.twin)
        self._labels = new_labels(max(FIRST_LABELS, 2 * devices), points, devices)
        self._walk = np.zeros((2, points + 1), dtype=np.int64)

    def open(self, stage_limit: float, link_limit: float) -> None:
        """Allow only stages and transfers within limits from now on."""
        self._window = window_at(self.arrays, stage_limit, link_limit)
        self._work = table_work(self._window)

    def cheapest(self, price: FloatArray) -> bool:
        """Fill the table at prices of visits and find the cheapest walk; False if it is time to stop before that."""
        last = self.arrays.reach.shape[1] - 1
        rows = max(1, 10 * SLICE * last // max(1, self._work))
        for high in range(last - 1, -1, -rows):
            low = max(0, high - rows + 1)
            fill_table(self.arrays, self._window, price, self.stage_weight, self.link_weight, self.table, high, low)
            if self.should_stop() and low > 0:
                return False
        self.spent += self._work
        self.stages, self.ends = walk_in(self.table)
        return True

    def simple(self) -> bool:
        """Whether the walk is a plan, once twins are told apart; its devices are changed then."""
        settled = told_apart(self.arrays.twin, self.stages)
        if settled is None or not self.arrays.least <= len(settled) <= self.arrays.most:
            return False
        self.stages = settled
        return True

    def dive(self) -> bool:
        """Dive along the table; whether a plan was found."""
        tries = max(1, 4 * SLICE // max(1, self._work))
        for first in range(0, DIVES, tries):
            last, walk = min(DIVES, first + tries), self._walk
            count = dive_along(self.arrays, self._window, self.table, first, last, self.seed, walk[0], walk[1])
            self.spent += (last - first) * self._work // 4
            if count:
                self.stages, self.ends = walk[:, :count].tolist()
            if count or self.should_stop():
                return count > 0
        return False

    def label(
        self, price: FloatArray, budget: float, memory: Words, *, work: int, width: int = 0, noise: float = 0.0
    ) -> tuple[int, float, bool]:
        """Search labels along the table, in more storage if needed; arguments as in :class:`Hunt`.

        Returns the answer, the cost of the walk found or the budget, and whether a full beam dropped labels.
        """
        hunt = Hunt(price, self.stage_weight, self.link_weight, budget, memory, self._barrier, width, noise)
        while True:
            tally, best, answer = begin(self._labels, self.table, budget, self.seed), np.full(1, budget), PAUSED
            while answer == PAUSED and tally[WORK] <= work:
                until = min(work, int(tally[WORK]) + SLICE)
                answer = search_labels(self.arrays, self._window, self.table, hunt, self._labels, tally, best, until)
                if self.should_stop():
                    break
            self.spent += int(tally[WORK])
            if answer != FULL or len(self._labels.point) >= MOST_LABELS:
                break
            self._labels = new_labels(4 * len(self._labels.point), *self._labels.head.shape)
        if answer == FOUND:
            self.stages, self.ends = walk_to(self._labels, int(tally[CHEAPEST]), self.arrays.reach.shape[1] - 1)
        return answer, float(best[0]), bool(tally[DROPPED])

    def worn_out(self, run: Run) -> bool:
        """Whether a search without a time limit has spent its steps."""
        return self.spent > UNTIMED_WORK and run.remaining() is None

    def repeats(self) -> bool:
        """Whether the walk found repeats a device; :attr:`memory` then grows, so that no later walk repeats it so."""
        return remember_repeats(self.arrays.twin, self.memory, self.stages)

    def plan(self) -> PipelinePlan:
        """The walk found as a plan, if it repeats no device."""
        return PipelinePlan(tuple(self.ends[:-1]), tuple(self.stages))


def new_table(points: int, devices: int) -> Table:
    """A table in which only the last point is filled: there a walk has ended."""
    shape = (2, points, devices)
    turned = (2, devices, points)
    onward, onward_device = np.full(turned, np.inf), np.full(turned, NOWHERE, dtype=np.int64)
    onward[0, :, -1], onward_device[0, :, -1] = 0.0, END
    return Table(
        cost=np.full(shape, np.inf),
        device=np.full(shape, NOWHERE, dtype=np.int64),
        point=np.zeros(shape, dtype=np.int64),
        onward=onward,
        onward_device=onward_device,
    )


def table_work(window: WalkWindow) -> int:
    """Approximate number of elementary steps of :func:`fill_table`."""
    devices, points = window.end.shape
    return 2 * int((window.end - np.arange(points)).sum() + window.links.sum() + devices * points)


@loop
def fill_table(
    arrays: PipelineArrays,
    window: WalkWindow,
    price: FloatArray,
    stage_weight: float,
    link_weight: float,
    table: Table,
    high: int,
    low: int,
) -> None:
    """Compute the cheapest completions from a point back to an earlier one; those behind ``high`` are known."""
    devices = len(arrays.reach)
    layered = len(arrays.neighbour) > 1
    cost, following, ending = table.cost, table.device, table.point
    onward, onward_device = table.onward, table.onward_device
    for b in range(high, low - 1, -1):
        for v in range(devices):
            best = second = np.inf
            best_next = second_next = NOWHERE
            best_end = second_end = 0
            for e in range(window.end[v, b], b, -1):
                step = stage_weight * arrays.elapsed[v, e]
                value = step + onward[0, v, e]
                following_device = onward_device[0, v, e]
                if value < best:
                    if following_device != best_next:
                        second, second_next, second_end = best, best_next, best_end
                    best, best_next, best_end = value, following_device, e
                elif value < second and following_device != best_next:
                    second, second_next, second_end = value, following_device, e
                value = step + onward[1, v, e]
                if value < second and onward_device[1, v, e] != best_next:
                    second, second_next, second_end = value, onward_device[1, v, e], e
            base = price[v] - stage_weight * arrays.elapsed[v, b]
            cost[0, b, v], following[0, b, v], ending[0, b, v] = best + base, best_next, best_end
            cost[1, b, v], following[1, b, v], ending[1, b, v] = second + base, second_next, second_end
        if b == 0:
            break
        lowest = np.inf
        for v in range(devices):
            lowest = min(lowest, cost[0, b, v])
        for v in range(devices):
            best = second = np.inf
            best_next = second_next = NOWHERE
            for j in range(window.links[b, v]):
                if second <= lowest:
                    break  # no later entry can be cheaper
                w = arrays.neighbour[b if layered else 0, v, j]
                value = cost[0, b, w] if following[0, b, w] != v else cost[1, b, w]
                if value < second:
                    if link_weight > 0.0:
                        value += link_weight * seconds_between(arrays, b, v, w)
                    if value < best:
                        second, second_next = best, best_next
                        best, best_next = value, w
                    elif value < second:
                        second, second_next = value, w
            onward[0, v, b], onward_device[0, v, b] = best, best_next
            onward[1, v, b], onward_device[1, v, b] = second, second_next


def walk_in(table: Table) -> tuple[list[int], list[int]]:
    """The cheapest walk: its devices and the ends of its stages; empty if there is none."""
    last, v = table.cost.shape[1] - 1, int(table.cost[0, 0].argmin())
    stages, ends, point, came_from = list[int](), list[int](), 0, NOWHERE
    if table.cost[0, 0, v] == np.inf:
        return stages, ends
    while v != END and point < last:
        which = 1 if came_from >= 0 and table.device[0, point, v] == came_from else 0
        stages.append(v)
        ends.append(int(table.point[which, point, v]))
        came_from, v, point = v, int(table.device[which, point, v]), ends[-1]
    return stages, ends


@loop
def dive_along(
    arrays: PipelineArrays,
    window: WalkWindow,
    table: Table,
    first: int,
    last: int,
    seed: int,
    stages: IntArray,
    ends: IntArray,
) -> int:
    """From every stage, go to the unused device with the cheapest completion plus noise; return the stages, or 0.

    Attempts from ``first`` to before ``last`` are made; there is no noise in attempt 0.
    """
    devices, points = arrays.reach.shape
    layered = len(arrays.neighbour) > 1
    used = np.zeros(devices, dtype=np.bool_)
    luck = (seed + 7919 * first) % 2147483646 + 1
    for attempt in range(first, last):
        used[:] = False
        b, v, count = 0, -1, 0
        best = np.inf
        for w in range(devices):
            luck = luck * 16807 % 2147483647
            value = table.cost[0, 0, w] + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
            if value < best:
                best, v = value, w
        while v >= 0:
            used[v] = True
            stages[count] = v
            count += 1
            if window.end[v, b] == points - 1 and arrays.least <= count <= arrays.most:
                ends[count - 1] = points - 1
                return count
            if count >= arrays.most:
                break
            best, following, end = np.inf, -1, 0
            for e in range(window.end[v, b], b, -1):
                if e == points - 1:
                    continue
                for j in range(window.links[e, v]):
                    w = arrays.neighbour[e if layered else 0, v, j]
                    if used[w] or table.cost[0, e, w] >= best:
                        continue
                    rest = table.cost[0, e, w] if table.device[0, e, w] != v else table.cost[1, e, w]
                    luck = luck * 16807 % 2147483647
                    value = rest + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
                    if value < best:
                        best, following, end = value, w, e
            ends[count - 1] = end
            v, b = following, end
    return 0
