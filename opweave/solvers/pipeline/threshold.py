"""Tests whether some plan keeps all stages and transfers within a threshold, by bounds, beams and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.pipeline.arrays import PipelineArrays, Window, window_at
from opweave.solvers.pipeline.dive import dive
from opweave.solvers.pipeline.labels import (
    FOUND,
    FULL,
    NOTHING,
    Hunt,
    Words,
    barriers,
    full_memories,
    new_labels,
    remember_repeats,
    search_labels,
    small_memories,
)
from opweave.solvers.pipeline.plans import Plan, plan_of
from opweave.solvers.pipeline.priced_walks import (
    REFUTED,
    ROUNDING,
    SIMPLE,
    best_walk,
    count_stages,
    new_table,
    price_walks,
    table_work,
)

CHUNKS = (10, 20, 50)
"""Steps of the subgradient method for one threshold, between dives."""

EXACT_ROUNDS = 30
"""Steps of the subgradient method before an exact search."""

FIRST_LABELS = 4_000
MOST_LABELS = 1_200_000

DIVES = 60
"""Random descents along the completions of a table."""

BEAM_WORK = 200_000
"""Steps of a beam for each label of its width."""

FIRST_BEAM = 400_000
"""Steps of the first beams."""

NOISE = 0.05
"""Random relative addition to the costs of wide beams, which makes the beams differ."""

NOISY_WIDTH = 8


class Answer(Enum):
    """The answer for a threshold."""

    KEPT = "kept"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(eq=False)
class Thresholds:
    """Answers for one instance; keeps prices, memories and working arrays between thresholds.

    Attributes
    ----------
    plan
        The last plan found.
    price
        Prices that last refuted a threshold or came close; the last entry is the price of any stage.
    memory
        Devices that each device remembers in the exact search. It only grows, and is valid at every threshold.
    """

    arrays: PipelineArrays
    seed: int = 0
    plan: Plan | None = None
    price: FloatArray = field(init=False)
    memory: Words = field(init=False)

    def __post_init__(self) -> None:
        devices, points = self.arrays.reach.shape
        self.price = np.append(np.ones(devices), 0.0)
        self.memory = small_memories(devices)
        self._full = full_memories(devices)
        self._barrier = barriers(self.arrays.twin)
        self._table = new_table(points, devices)
        self._labels = new_labels(max(FIRST_LABELS, 2 * devices), points, devices)
        self._stages = np.zeros(points + 1, dtype=np.int64)
        self._ends = np.zeros(points + 1, dtype=np.int64)
        self._work = table_work(self.arrays)
        self._limit = -1.0
        self._window = Window(np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0), dtype=np.int64))

    def quick(self, limit: float) -> Answer:
        """Count the stages of the shortest walk, and dive along it."""
        self._open(limit)
        counter = count_stages.sized(self._work)
        count, verdict = counter(self.arrays, self._window, self._table, self._stages, self._ends)
        if verdict == REFUTED:
            return Answer.REFUTED
        if verdict == SIMPLE:
            return self._keep(count)
        return self._dive(DIVES)

    def priced(self, limit: float, width: int, chunks: Sequence[int] = CHUNKS, most_work: int = FIRST_BEAM) -> Answer:
        """Move prices until the threshold is refuted or the walk is a plan, with dives in between; then a beam."""
        self._open(limit)
        price = self.price.copy()
        full, budget = price[:-1], 0.0
        for rounds in chunks:
            pricing = price_walks.sized(rounds * self._work)
            verdict, count = pricing(self.arrays, self._window, price, rounds, self._table, self._stages, self._ends)
            self.price = price.copy()
            if verdict == REFUTED:
                return Answer.REFUTED
            if verdict == SIMPLE:
                return self._keep(count)
            settled = self._settle(price)
            if settled is None:
                return Answer.OPEN
            full, budget = settled
            if self._dive(DIVES) is Answer.KEPT:
                return Answer.KEPT
        return self._beam(full, budget, width, min(most_work, width * BEAM_WORK))

    def exact(self, limit: float, work: int) -> Answer:
        """Let labels remember more and more, until they prove that there is no plan or form one."""
        self._open(limit)
        price = self.price.copy()
        pricing = price_walks.sized(EXACT_ROUNDS * self._work)
        verdict, count = pricing(self.arrays, self._window, price, EXACT_ROUNDS, self._table, self._stages, self._ends)
        if verdict == REFUTED:
            return Answer.REFUTED
        if verdict == SIMPLE:
            return self._keep(count)
        settled = self._settle(price)
        if settled is None:
            return Answer.OPEN
        full, budget = settled
        while True:
            happened, count, _, _ = self._search(full, budget, self.memory, work=work)
            if happened == NOTHING:
                return Answer.REFUTED
            if happened == FULL and len(self._labels.point) < MOST_LABELS:
                self._grow()
                continue
            if happened != FOUND:
                return Answer.OPEN
            if not remember_repeats.sized(10_000)(self.arrays, self.memory, self._stages, count):
                return self._keep(count)

    def _open(self, limit: float) -> None:
        if limit != self._limit:
            self._window, self._limit = window_at(self.arrays, limit, limit), limit

    def _dive(self, tries: int) -> Answer:
        diving = dive.sized(tries * self._work // 4)
        count = diving(self.arrays, self._window, self._table, tries, self.seed, self._stages, self._ends)
        return self._keep(count) if count else Answer.OPEN

    def _beam(self, full: FloatArray, budget: float, width: int, work: int) -> Answer:
        """A beam along the walk at some prices of visits."""
        noise = NOISE if width >= NOISY_WIDTH else 0.0
        while True:
            happened, count, _, dropped = self._search(full, budget, self._full, width=width, noise=noise, work=work)
            if happened != FULL or len(self._labels.point) >= MOST_LABELS:
                break
            self._grow()
        if happened == FOUND:
            return self._keep(count)
        return Answer.REFUTED if happened == NOTHING and dropped == 0 and noise == 0.0 else Answer.OPEN

    def _grow(self) -> None:
        self._labels = new_labels(4 * len(self._labels.point), *self._labels.head.shape)

    def _settle(self, price: FloatArray) -> tuple[FloatArray, float] | None:
        """Fill the table at some prices; return the price of a visit by device, and the largest cost of any plan.

        None when the run was halted meanwhile.
        """
        full = price[:-1] + price[-1]
        walking = best_walk.sized(self._work)
        count, _ = walking(self.arrays, self._window, full, 0.0, 0.0, self._table, self._stages, self._ends)
        if count < 0:
            return None
        budget = float(price[:-1].sum() + price[-1] * self.arrays.most)
        return full, budget + ROUNDING * max(1.0, budget)

    def _search(
        self, price: FloatArray, budget: float, memory: Words, *, width: int = 0, noise: float = 0.0, work: int = 2**62
    ) -> tuple[int, int, float, int]:
        searching = search_labels.sized(4 * self._work)
        hunt = Hunt(
            price=price,
            stage_weight=0.0,
            link_weight=0.0,
            budget=budget,
            enough=np.inf,
            memory=memory,
            barrier=self._barrier,
            width=width,
            noise=noise,
            seed=self.seed,
            work=work,
        )
        return searching(self.arrays, self._window, self._table, hunt, self._labels, self._stages, self._ends)

    def _keep(self, count: int) -> Answer:
        self.plan = plan_of(self._stages, self._ends, count)
        return Answer.KEPT
