"""The working arrays of one instance, and the compiled searches that share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.pipeline.arrays import PipelineArrays, window_at
from opweave.solvers.pipeline.labels import (
    FULL,
    Hunt,
    Words,
    barriers,
    new_labels,
    remember_repeats,
    search_labels,
    small_memories,
)
from opweave.solvers.pipeline.plans import Plan
from opweave.solvers.pipeline.priced_walks import best_walk, dive, new_table, price_walks, table_work

FIRST_LABELS = 4_000
MOST_LABELS = 1_200_000

DIVES = 60
"""Random descents along the completions of a table."""


@dataclass(eq=False)
class Workbench:
    """Walks, dives and labels on one instance; every search leaves its walk in :attr:`stages` and :attr:`ends`.

    Attributes
    ----------
    stage_weight, link_weight
        Cost of a second of computing or sending.
    memory
        Devices that each device remembers in exact searches. It only grows, and is valid in every window.
    everything
        Memories in which every device remembers all devices.
    work
        Steps of filling the table once.
    """

    arrays: PipelineArrays
    seed: int
    stage_weight: float = 0.0
    link_weight: float = 0.0

    def __post_init__(self) -> None:
        devices, points = self.arrays.reach.shape
        self.memory = small_memories(devices)
        self.everything = np.full_like(self.memory, ~np.uint64(0))
        self.stages, self.ends = np.zeros((2, points + 1), dtype=np.int64)
        self.table = new_table(points, devices)
        self.work = table_work(self.arrays)
        self._barrier = barriers(self.arrays.twin)
        self._labels = new_labels(max(FIRST_LABELS, 2 * devices), points, devices)

    def open(self, stage_limit: float, link_limit: float) -> None:
        """Allow only stages and transfers within limits from now on."""
        self._window = window_at(self.arrays, stage_limit, link_limit)

    def walk(self, price: FloatArray) -> tuple[int, bool]:
        """Fill the table at prices of visits: the stages of the cheapest walk, -1 if halted; whether it is a plan."""
        return best_walk(
            self.arrays, self._window, price, self.stage_weight, self.link_weight, self.table, self.stages, self.ends
        )

    def move_prices(self, price: FloatArray, rounds: int) -> tuple[int, int]:
        """Improve prices of visits and stages in place; the answer, and the length of the walk that proves it."""
        return price_walks(self.arrays, self._window, price, rounds, self.table, self.stages, self.ends)

    def dive(self) -> int:
        """Dive along the table; the number of stages of the plan found, or 0."""
        return dive(self.arrays, self._window, self.table, DIVES, self.seed, self.stages, self.ends)

    def label(
        self, price: FloatArray, budget: float, memory: Words, *, work: int, width: int = 0, noise: float = 0.0
    ) -> tuple[int, int, float, int]:
        """Search labels along the table, in more storage if needed; arguments as in :class:`Hunt`."""
        weights = self.stage_weight, self.link_weight
        hunt = Hunt(price, *weights, budget, memory, self._barrier, width, noise, self.seed, work)
        while True:
            labels = self._labels
            found = search_labels(self.arrays, self._window, self.table, hunt, labels, self.stages, self.ends)
            if found[0] != FULL or len(labels.point) >= MOST_LABELS:
                return found
            self._labels = new_labels(4 * len(labels.point), *labels.head.shape)

    def repeats(self, count: int) -> bool:
        """Whether the walk found repeats a device; :attr:`memory` then grows, so that no later walk repeats it so."""
        return remember_repeats(self.arrays, self.memory, self.stages, count)

    def plan(self, count: int) -> Plan:
        """The walk found as a plan, if it repeats no device."""
        return Plan(tuple(self.ends[: count - 1].tolist()), tuple(self.stages[:count].tolist()))
