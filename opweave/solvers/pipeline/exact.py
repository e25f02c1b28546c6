"""The joint optimum of the bottleneck: cuts and devices are chosen together, threshold by threshold.

The search tests thresholds between the largest refuted one and the best plan's bottleneck. Each is the time of some
stage or transfer. It first uses the cheap test of :class:`~opweave.solvers.pipeline.threshold.Thresholds`, then prices,
then exact labels just below the best plan, where the proof is usually found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.formulations.pipeline.shortage import smallest_memory
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.result import Termination
from opweave.solvers.pipeline.arrays import PipelineArrays, Times
from opweave.solvers.pipeline.plans import Best
from opweave.solvers.pipeline.threshold import Answer, Thresholds
from opweave.solvers.run import Outcome, Run

FIRST_WORK = 400_000
"""Steps of the first exact test of a threshold; each later test gets four times as many as the one before."""

MOST_WORK = 2**36

CLOSE = 0.001
"""Relative difference below which thresholds count as equal while bounds or plans are only improved."""

STEPS_PER_SECOND = 2_000_000
"""Assumed least speed of a compiled search, so that it ends within the time limit."""

MOST_WIDTH = 64

UNTIMED_SECONDS = 20.0
"""Seconds after which the search stops when there is no time limit."""


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
    arrays: PipelineArrays
    run: Run
    best: Best
    refuted: float = -1.0

    def __post_init__(self) -> None:
        self.tester = Thresholds(self.arrays, self.run.seed)
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

    def _learn(self, limit: float, answer: Answer) -> None:
        if answer is Answer.KEPT and self.tester.plan is not None:
            self.best.consider(self.tester.plan)
        elif answer is Answer.REFUTED:
            self.refuted = max(self.refuted, limit)
            self.best.proved(self.lower_bound(), "priced walks")

    def _narrow(self) -> None:
        """Bisect with the cheap tests; thresholds that they leave open count as too low for now."""
        self.run.enter("bisection")
        low = self.refuted
        while not self.run.should_stop():
            limit = self.times.between(low, self.best.value)
            if limit is None or (low > self.refuted and self.best.value - low < CLOSE * self.best.value):
                return
            answer = self.tester.quick(limit)
            if answer is Answer.OPEN:
                answer = self.tester.priced(limit, 2)
            self._learn(limit, answer)
            if answer is Answer.OPEN and self.refuted < 0.0:
                self._raise(FIRST_WORK // 4)
            if answer is not Answer.KEPT:
                low = max(limit, self.refuted)

    def _close(self) -> None:
        """Test exactly just below the best plan, raise the bound, use wider beams; repeat with more work."""
        self.run.enter("exact labels")
        width, work = 4, FIRST_WORK
        while not (self.proved or self._over()):
            limit = max(0.0, self.times.below(self.best.value))
            answer = self.tester.exact(limit, affordable(self.run, work))
            self._learn(limit, answer)
            if answer is not Answer.OPEN:
                continue
            self._raise(work)
            self._improve(width, work)
            width, work = min(2 * width, MOST_WIDTH), 4 * work

    def _raise(self, work: int) -> None:
        """Bisect from below with exact tests."""
        self._bisect_upwards(lambda limit: self.tester.exact(limit, affordable(self.run, work)), CLOSE)

    def _bisect_upwards(self, test: Callable[[float], Answer], near: float) -> None:
        """Bisect from below; thresholds that stay open count as too high for now."""
        high = self.best.value
        while not self._over():
            limit = self.times.between(self.refuted, high)
            if limit is None or high - self.refuted < near * high:
                return
            answer = test(limit)
            self._learn(limit, answer)
            if answer is not Answer.REFUTED:
                high = limit

    def _improve(self, width: int, work: int) -> None:
        """Bisect from above with wide beams; thresholds that stay open count as too low for now."""
        low = self.refuted
        while not self._over():
            limit = self.times.between(low, self.best.value)
            if limit is None or self.best.value - low < CLOSE * self.best.value:
                return
            answer = self.tester.priced(limit, width, most_work=affordable(self.run, work))
            self._learn(limit, answer)
            if answer is not Answer.KEPT:
                low = limit

    def _over(self) -> bool:
        return self.run.should_stop() or is_too_long(self.run)


def is_too_long(run: Run) -> bool:
    """Whether a search without a time limit should stop."""
    return run.time_limit is None and run.elapsed() > UNTIMED_SECONDS


def finished(run: Run, *, proved: bool) -> Outcome:
    """The outcome of a search that has proved its plan, or was stopped."""
    budget = not proved and run.time_limit is None and not run.should_stop()
    return Outcome(Termination.BUDGET if budget else run.termination())


def affordable(run: Run, work: int) -> int:
    """The steps ``work`` of a search, or the steps that fit into the time left if these are fewer."""
    left = run.remaining()
    return work if left is None else min(work, max(FIRST_WORK // 4, int(left * STEPS_PER_SECOND)))


def find_any(problem: Pipeline, instance: PipelineInstance, tester: Thresholds, best: Best) -> Outcome | None:
    """Find any plan, or prove that there is none; None when one was found."""
    run = best.run
    run.enter("any plan")
    answer = tester.quick(math.inf)
    width, work = 2, FIRST_WORK
    while answer is Answer.OPEN and not run.should_stop() and work < MOST_WORK:
        answer = tester.priced(math.inf, width, (20, 60, 120))
        if answer is Answer.OPEN:
            answer = tester.exact(math.inf, affordable(run, work))
        width, work = min(2 * width, MOST_WIDTH), 4 * work
    if answer is Answer.REFUTED:
        return Outcome(infeasible=True, reason=nothing_fits(problem, instance))
    if answer is Answer.OPEN or tester.plan is None:
        return Outcome(run.termination(), reason="no pipeline was found, and no proof that there is none")
    best.consider(tester.plan)
    return None


def nothing_fits(problem: Pipeline, instance: PipelineInstance) -> str:
    """A sentence that says that no plan exists, and how much memory would suffice."""
    rules = " and all side constraints obeyed" if problem.constraints else ""
    ordered = " and in device_order" if problem.device_order is not None else ""
    reason = (
        f"no chain of at most {instance.most} of the {len(instance.devices)} usable devices holds the model's "
        f"{instance.last} pieces in their order, with links between neighbours{ordered}{rules}"
    )
    enough = smallest_memory(problem)
    limits = [problem.memory_limits[device] for device in problem.usable_devices]
    if enough is None or all(limit is None or limit >= enough for limit in limits):
        return reason
    return f"{reason}; {enough:,} bytes on every device would be enough memory"
