"""Tests whether some plan keeps all stages and transfers within a threshold, by bounds, beams and labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.arrays import PipelineArrays
from opweave.solvers.pipeline.labels import FOUND, NOTHING
from opweave.solvers.pipeline.plans import Best, Plan, nothing_fits
from opweave.solvers.pipeline.workbench import Workbench
from opweave.solvers.run import Outcome, Run

FIRST_WORK = 400_000
"""Steps of the first exact test of a threshold; each later test gets four times as many as the one before."""

MOST_WIDTH = 64

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


ROUNDING = 1e-9

PATIENCE = 8
"""Steps of prices without a better bound before the step length is reduced."""

SURELY = 1e-6
"""Allowance for rounding: prices sum to the number of devices, and an excess of the walk above this refutes."""


class Finding(Enum):
    """The answer for a threshold."""

    KEPT = "kept"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(eq=False)
class Thresholds:
    """Answers for one instance; keeps prices, memories and working arrays between thresholds.

    Attributes
    ----------
    should_stop
        Asked every few hundredths of a second.
    plan
        The last plan found.
    """

    arrays: PipelineArrays
    should_stop: Callable[[], bool]
    seed: int = 0
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self.bench = Workbench(self.arrays, self.should_stop, self.seed)
        # prices that last refuted a threshold or came close; the last entry is the price of any stage
        self._price = np.append(np.ones(len(self.arrays.twin)), 0.0)
        self._limit = -1.0

    def quick(self, limit: float) -> Finding:
        """Count the stages of the shortest walk, and dive along it."""
        self._open(limit)
        if not self.bench.walk(np.ones(len(self.arrays.twin))):
            return Finding.OPEN
        if not 0 < len(self.bench.stages) <= self.arrays.most:
            return Finding.REFUTED
        return self._kept() if self.bench.simple() or self.bench.dive() else Finding.OPEN

    def priced(self, limit: float, width: int, chunks: Sequence[int] = CHUNKS, most_work: int = FIRST_BEAM) -> Finding:
        """Move prices until the threshold is refuted or the walk is a plan, with dives in between; then a beam."""
        self._open(limit)
        for rounds in chunks:
            answer, visits = self._move(rounds)
            if visits is None:
                return answer
            if self.bench.dive():
                return self._kept()
        assert visits is not None
        noise = NOISE if width >= NOISY_WIDTH else 0.0
        work = min(most_work, width * BEAM_WORK)
        happened, _, dropped = self.bench.label(*visits, self.bench.everything, width=width, noise=noise, work=work)
        if happened == FOUND:
            return self._kept()
        return Finding.REFUTED if happened == NOTHING and not dropped and noise == 0.0 else Finding.OPEN

    def exact(self, limit: float, work: int) -> Finding:
        """Let labels remember more and more, until they prove that there is no plan or form one."""
        self._open(limit)
        answer, visits = self._move(EXACT_ROUNDS)
        if visits is None:
            return answer
        while True:
            happened, _, _ = self.bench.label(*visits, self.bench.memory, work=work)
            if happened != FOUND:
                return Finding.REFUTED if happened == NOTHING else Finding.OPEN
            if not self.bench.repeats():
                return self._kept()

    def _open(self, limit: float) -> None:
        if limit != self._limit:
            self.bench.open(limit, limit)
            self._limit = limit

    def _move(self, rounds: int) -> tuple[Finding, tuple[FloatArray, float] | None]:
        """Move the prices along subgradients until the walk costs more than their sum, or is a plan.

        The second result is the price of a visit by device, and the largest cost of any plan; None when the threshold
        is decided, or when it is time to stop.
        """
        devices, price = len(self.arrays.twin), self._price
        best, kept, step, stale, direction = -math.inf, price, 0.5, 0, np.zeros(devices + 1)
        for _ in range(rounds):
            budget = float(price[:-1].sum() + price[-1] * self.arrays.most)
            if not self.bench.walk(price[:-1] + price[-1]):
                return Finding.OPEN, None
            bound, stages = float(self.bench.table.cost[0, 0].min()) - budget, self.bench.stages
            stale += 1
            if bound > best:
                best, kept, stale = bound, price, 0
            self._price = kept
            if best > SURELY:
                return Finding.REFUTED, None
            if self.bench.simple():
                return self._kept(), None
            if stale >= PATIENCE:
                step, stale = 0.7 * step, 0
            direction *= 0.6
            direction[:-1] += 0.4 * (np.bincount(stages, minlength=devices) - 1)
            if self.arrays.most < devices:
                direction[-1] += 0.4 * (len(stages) - self.arrays.most)
            square = float(direction @ direction)
            if square < 1e-12:
                break
            # only the ratios of prices matter: those of devices sum to the number of devices
            price = np.maximum(0.0, price + step * (0.5 * abs(bound) + 0.05 * devices) / square * direction)
            price *= devices / (price[:-1].sum() or devices)
        visit = self._price[:-1] + self._price[-1]
        if not self.bench.walk(visit):
            return Finding.OPEN, None
        budget = float(self._price[:-1].sum() + self._price[-1] * self.arrays.most)
        return Finding.OPEN, (visit, budget + ROUNDING * max(1.0, budget))

    def _kept(self) -> Finding:
        """Take the plan that a search found."""
        self.plan = self.bench.plan()
        return Finding.KEPT


def any_plan(tester: Thresholds, run: Run) -> Finding:
    """Look for any plan, with more and more work, until there is one or it is proved that there is none."""
    answer = tester.quick(math.inf)
    width, work = 2, FIRST_WORK
    while answer is Finding.OPEN and not run.should_stop() and not tester.bench.worn_out(run):
        answer = tester.priced(math.inf, width, (20, 60, 120))
        if answer is Finding.OPEN:
            answer = tester.exact(math.inf, work)
        width, work = min(2 * width, MOST_WIDTH), 4 * work
    return answer


def find_any(problem: Pipeline, instance: PipelineInstance, tester: Thresholds, best: Best) -> Outcome | None:
    """Find any plan, or prove that there is none; None when one was found."""
    run = best.run
    run.enter("any plan")
    answer = any_plan(tester, run)
    if answer is Finding.REFUTED:
        return Outcome(infeasible=True, reason=nothing_fits(problem, instance))
    if answer is Finding.OPEN or tester.plan is None:
        return Outcome(run.termination(), reason="no pipeline was found, and no proof that there is none")
    best.consider(tester.plan)
    return None
