"""The working arrays of one instance, and the searches that share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.pipeline.arrays import PipelineArrays, window_at
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
from opweave.solvers.pipeline.plans import Plan
from opweave.solvers.pipeline.priced_walks import dive, fill_table, new_table, table_work, told_apart, walk_in
from opweave.solvers.run import Run

FIRST_LABELS = 4_000
MOST_LABELS = 1_200_000

DIVES = 60
"""Random descents along the completions of a table."""

SLICE = 500_000
"""Steps of a search of labels between two looks at the time; steps of filling a table are a tenth as long."""

UNTIMED_WORK = 1_000_000_000
"""Steps of a search without a time limit; they take some 20 seconds."""


@dataclass(eq=False)
class Workbench:
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

    def walk(self, price: FloatArray) -> bool:
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
            count = dive(self.arrays, self._window, self.table, first, last, self.seed, walk[0], walk[1])
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

    def plan(self) -> Plan:
        """The walk found as a plan, if it repeats no device."""
        return Plan(tuple(self.ends[:-1]), tuple(self.stages))
