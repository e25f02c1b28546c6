"""The joint optimum of the bottleneck: cuts and devices are chosen together, threshold by threshold.

The search tests thresholds between the largest refuted one and the best plan's bottleneck. Each is the time of some
stage or transfer. A threshold is first tested with one walk and dives, then with prices, dives and a beam, and just
below the best plan, where the proof is usually found, with exact labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.arrays import PipelineArrays, Times, arrays_of
from opweave.solvers.pipeline.labels import FOUND, NOTHING
from opweave.solvers.pipeline.plans import BestPlan, PipelinePlan, finished, nothing_fits
from opweave.solvers.pipeline.priced_walks import PricedWalks
from opweave.solvers.run import Outcome, Run

CLOSE = 0.001
"""Relative difference below which thresholds count as equal while bounds or plans are only improved."""

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


@dataclass(eq=False)
class BottleneckSearch:
    """The state of the search.

    Attributes
    ----------
    best
        The best plan known.
    refuted
        The largest threshold that is proved to be kept by no plan; -1 when there is none.
    """

    problem: Pipeline
    instance: PipelineInstance
    run: Run
    best: BestPlan
    refuted: float = -1.0

    def __post_init__(self) -> None:
        self.arrays = arrays_of(self.instance)
        self.tester = ThresholdTests(self.arrays, self.run.should_stop, self.run.seed)
        self._known = 0.0
        self.times = Times(self.arrays, stages=self.instance.compute_counts, transfers=True)

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        if self.best.value == math.inf:
            outcome = find_any(self.problem, self.instance, self.tester, self.best)
            if outcome is not None:
                return outcome
        self._narrow()
        self._close()
        self.best.proved(self.lower_bound(), "priced walks and labels")
        return finished(self.run, proved=self.proved)

    @property
    def proved(self) -> bool:
        """Whether no threshold lies between the refuted one and the best plan's."""
        return self.lower_bound() >= self.best.value

    def lower_bound(self) -> float:
        """The smallest threshold that is not refuted."""
        return min(self.best.value, self.times.above(self.refuted) if self.refuted >= 0.0 else 0.0)

    def _learn(self, limit: float, answer: Finding) -> None:
        if answer is Finding.KEPT and self.tester.plan is not None:
            self.best.consider(self.tester.plan)
        elif answer is Finding.REFUTED:
            self.refuted = max(self.refuted, limit)
            self.best.proved(self.lower_bound(), "priced walks")
            self._known = max(self._known, float(self.run.bound or 0.0))

    def _narrow(self) -> None:
        """Bisect with the cheap tests; thresholds that they leave open count as too low for now."""
        self.run.enter("bisection")
        low = self.refuted
        while not self._over():
            limit = self.times.between(low, self.best.value)
            if limit is None or (low > self.refuted and self.best.value - low < CLOSE * self.best.value):
                return
            answer = self.tester.quick(limit)
            if answer is Finding.OPEN:
                answer = self.tester.priced(limit, 2)
            self._learn(limit, answer)
            if answer is Finding.OPEN and self.refuted < 0.0:
                self._raise(FIRST_WORK // 4)
            if answer is not Finding.KEPT:
                low = max(limit, self.refuted)

    def _close(self) -> None:
        """Test exactly just below the best plan, raise the bound, use wider beams; repeat with more work."""
        self.run.enter("exact labels")
        width, work = 4, FIRST_WORK
        while not (self.proved or self._over()):
            limit = max(0.0, self.times.below(self.best.value))
            answer = self.tester.exact(limit, work)
            self._learn(limit, answer)
            if answer is not Finding.OPEN:
                continue
            self._raise(work)
            self._improve(width, work)
            width, work = min(2 * width, MOST_WIDTH), 4 * work

    def _raise(self, work: int) -> None:
        """Bisect from below with exact tests; thresholds that stay open count as too high for now."""
        high = self.best.value
        while not self._over():
            limit = self.times.between(self.refuted, high)
            if limit is None or high - self.refuted < CLOSE * high:
                return
            answer = self.tester.exact(limit, work)
            self._learn(limit, answer)
            if answer is not Finding.REFUTED:
                high = limit

    def _improve(self, width: int, work: int) -> None:
        """Bisect from above with wide beams; thresholds that stay open count as too low for now."""
        low = self.refuted
        while not self._over():
            limit = self.times.between(low, self.best.value)
            if limit is None or self.best.value - low < CLOSE * self.best.value:
                return
            answer = self.tester.priced(limit, width, most_work=work)
            self._learn(limit, answer)
            if answer is not Finding.KEPT:
                low = limit

    def _over(self) -> bool:
        self._catch_up()
        return self.run.should_stop() or self.tester.walks.worn_out(self.run)

    def _catch_up(self) -> None:
        """Take over plans and bounds of others."""
        self.best.look()
        if self.run.bound is not None and self.run.bound > self._known:
            self._known = float(self.run.bound)
            self.refuted = max(self.refuted, self.times.below(self._known - self.instance.blur))


class Finding(Enum):
    """The answer for a threshold."""

    KEPT = "kept"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(eq=False)
class ThresholdTests:
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
    plan: PipelinePlan | None = None

    def __post_init__(self) -> None:
        self.walks = PricedWalks(self.arrays, self.should_stop, self.seed)
        # prices that last refuted a threshold or came close; the last entry is the price of any stage
        self._price = np.append(np.ones(len(self.arrays.twin)), 0.0)
        self._limit = -1.0

    def quick(self, limit: float) -> Finding:
        """Count the stages of the shortest walk, and dive along it."""
        self._open(limit)
        if not self.walks.cheapest(np.ones(len(self.arrays.twin))):
            return Finding.OPEN
        if not 0 < len(self.walks.stages) <= self.arrays.most:
            return Finding.REFUTED
        return self._kept() if self.walks.simple() or self.walks.dive() else Finding.OPEN

    def priced(self, limit: float, width: int, chunks: Sequence[int] = CHUNKS, most_work: int = FIRST_BEAM) -> Finding:
        """Move prices until the threshold is refuted or the walk is a plan, with dives in between; then a beam."""
        self._open(limit)
        for rounds in chunks:
            answer, visits = self._move(rounds)
            if visits is None:
                return answer
            if self.walks.dive():
                return self._kept()
        assert visits is not None
        noise = NOISE if width >= NOISY_WIDTH else 0.0
        work = min(most_work, width * BEAM_WORK)
        happened, _, dropped = self.walks.label(*visits, self.walks.everything, width=width, noise=noise, work=work)
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
            happened, _, _ = self.walks.label(*visits, self.walks.memory, work=work)
            if happened != FOUND:
                return Finding.REFUTED if happened == NOTHING else Finding.OPEN
            if not self.walks.repeats():
                return self._kept()

    def _open(self, limit: float) -> None:
        if limit != self._limit:
            self.walks.open(limit, limit)
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
            if not self.walks.cheapest(price[:-1] + price[-1]):
                return Finding.OPEN, None
            bound, stages = float(self.walks.table.cost[0, 0].min()) - budget, self.walks.stages
            stale += 1
            if bound > best:
                best, kept, stale = bound, price, 0
            self._price = kept
            if best > SURELY:
                return Finding.REFUTED, None
            if self.walks.simple():
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
        if not self.walks.cheapest(visit):
            return Finding.OPEN, None
        budget = float(self._price[:-1].sum() + self._price[-1] * self.arrays.most)
        return Finding.OPEN, (visit, budget + ROUNDING * max(1.0, budget))

    def _kept(self) -> Finding:
        """Take the plan that a search found."""
        self.plan = self.walks.plan()
        return Finding.KEPT


def any_plan(tester: ThresholdTests, run: Run) -> Finding:
    """Look for any plan, with more and more work, until there is one or it is proved that there is none."""
    answer = tester.quick(math.inf)
    width, work = 2, FIRST_WORK
    while answer is Finding.OPEN and not run.should_stop() and not tester.walks.worn_out(run):
        answer = tester.priced(math.inf, width, (20, 60, 120))
        if answer is Finding.OPEN:
            answer = tester.exact(math.inf, work)
        width, work = min(2 * width, MOST_WIDTH), 4 * work
    return answer


def find_any(problem: Pipeline, instance: PipelineInstance, tester: ThresholdTests, best: BestPlan) -> Outcome | None:
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
