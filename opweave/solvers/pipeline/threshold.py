"""Tests whether some plan keeps all stages and transfers within a threshold, by bounds, beams and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.pipeline.arrays import PipelineArrays
from opweave.solvers.pipeline.labels import FOUND, NOTHING
from opweave.solvers.pipeline.plans import Plan
from opweave.solvers.pipeline.priced_walks import REFUTED, ROUNDING, SIMPLE
from opweave.solvers.pipeline.workbench import Workbench

CHUNKS = (10, 20, 50)
"""Steps of the subgradient method for one threshold, between dives."""

EXACT_ROUNDS = 30
"""Steps of the subgradient method before an exact search."""

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
    """

    arrays: PipelineArrays
    seed: int = 0
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self._bench = Workbench(self.arrays, self.seed)
        # prices that last refuted a threshold or came close; the last entry is the price of any stage
        self._price = np.append(np.ones(len(self.arrays.twin)), 0.0)
        self._limit = -1.0

    def quick(self, limit: float) -> Answer:
        """Count the stages of the shortest walk, and dive along it."""
        self._open(limit)
        count, simple = self._bench.walk(np.ones(len(self.arrays.twin)))
        if count == 0 or count > self.arrays.most:
            return Answer.REFUTED
        return self._keep(count if simple else self._bench.dive())

    def priced(self, limit: float, width: int, chunks: Sequence[int] = CHUNKS, most_work: int = FIRST_BEAM) -> Answer:
        """Move prices until the threshold is refuted or the walk is a plan, with dives in between; then a beam."""
        self._open(limit)
        for rounds in chunks:
            answer, visits = self._move(rounds)
            if visits is None or self._keep(self._bench.dive()) is Answer.KEPT:
                return answer if visits is None else Answer.KEPT
        assert visits is not None
        noise = NOISE if width >= NOISY_WIDTH else 0.0
        work = min(most_work, width * BEAM_WORK)
        happened, count, _, dropped = self._bench.label(
            *visits, self._bench.everything, width=width, noise=noise, work=work
        )
        if happened == FOUND:
            return self._keep(count)
        return Answer.REFUTED if happened == NOTHING and dropped == 0 and noise == 0.0 else Answer.OPEN

    def exact(self, limit: float, work: int) -> Answer:
        """Let labels remember more and more, until they prove that there is no plan or form one."""
        self._open(limit)
        answer, visits = self._move(EXACT_ROUNDS)
        if visits is None:
            return answer
        while True:
            happened, count, _, _ = self._bench.label(*visits, self._bench.memory, work=work)
            if happened != FOUND:
                return Answer.REFUTED if happened == NOTHING else Answer.OPEN
            if not self._bench.repeats(count):
                return self._keep(count)

    def _open(self, limit: float) -> None:
        if limit != self._limit:
            self._bench.open(limit, limit)
            self._limit = limit

    def _move(self, rounds: int) -> tuple[Answer, tuple[FloatArray, float] | None]:
        """Move the prices; if that leaves the threshold open, fill the table at them.

        The second result is the price of a visit by device, and the largest cost of any plan; None when the threshold
        is decided, or when the run was halted and the table must not be used.
        """
        verdict, count = self._bench.move_prices(self._price, rounds)
        if verdict == REFUTED:
            return Answer.REFUTED, None
        if verdict == SIMPLE:
            return self._keep(count), None
        price, stage = self._price[:-1], float(self._price[-1])
        visit = price + stage
        count, _ = self._bench.walk(visit)
        budget = float(price.sum()) + stage * self.arrays.most
        return Answer.OPEN, None if count < 0 else (visit, budget + ROUNDING * max(1.0, budget))

    def _keep(self, count: int) -> Answer:
        """Take the plan of this many stages that a search found; 0 for none."""
        if count <= 0:
            return Answer.OPEN
        self.plan = self._bench.plan(count)
        return Answer.KEPT
