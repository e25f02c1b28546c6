"""The joint optimum of the bottleneck: cuts and devices are chosen together, threshold by threshold.

The search tests thresholds between the largest refuted one and the best plan's bottleneck. Each is the time of some
stage or transfer. It first uses the cheap test of :class:`~opweave.solvers.pipeline.threshold.Thresholds`, then prices,
then exact labels just below the best plan, where the proof is usually found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.arrays import Times, arrays_of
from opweave.solvers.pipeline.plans import Best, finished
from opweave.solvers.pipeline.threshold import FIRST_WORK, MOST_WIDTH, Finding, Thresholds, find_any
from opweave.solvers.run import Outcome, Run

CLOSE = 0.001
"""Relative difference below which thresholds count as equal while bounds or plans are only improved."""


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
    best: Best
    refuted: float = -1.0

    def __post_init__(self) -> None:
        self.arrays = arrays_of(self.instance)
        self.tester = Thresholds(self.arrays, self.run.should_stop, self.run.seed)
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
        return self.run.should_stop() or self.tester.bench.worn_out(self.run)

    def _catch_up(self) -> None:
        """Take over plans and bounds of others."""
        self.best.look()
        if self.run.bound is not None and self.run.bound > self._known:
            self._known = float(self.run.bound)
            self.refuted = max(self.refuted, self.times.below(self._known - self.instance.blur))
