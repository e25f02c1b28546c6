"""The joint optimum of the bottleneck: cuts and devices chosen together, threshold by threshold.

Between the largest threshold that is refuted and the best plan's, thresholds are tested that are the time of some
stage or transfer: first with the cheap test of :class:`~opweave.solvers.pipeline.threshold.Thresholds`, then with
prices, then with exact labels just below the best plan, where the proof is usually found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.formulations.pipeline.shortage import smallest_memory
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.result import Termination
from opweave.solvers.pipeline.arrays import PipelineArrays, next_value
from opweave.solvers.pipeline.plans import Best
from opweave.solvers.pipeline.threshold import Answer, Thresholds
from opweave.solvers.run import Outcome, Run

FIRST_WORK = 400_000
"""Steps of the first exact test of a threshold; later ones get four times as many each."""

MOST_WORK = 2**36

CLOSE = 0.001
"""Thresholds that differ by less than this share are not told apart while bounds or plans are only improved."""

STEPS_PER_SECOND = 2_000_000
"""Of a compiled search, at least: what is begun should end within the time limit."""

MOST_WIDTH = 64

UNTIMED_SECONDS = 20.0
"""Without a time limit the search stops after so many seconds."""


@dataclass(eq=False)
class BottleneckSearch:
    """The state of the search.

    Attributes
    ----------
    best
        The best plan known.
    refuted
        The largest threshold known to be kept by no plan; -1 when none is.
    """

    problem: Pipeline
    instance: PipelineInstance
    arrays: PipelineArrays
    run: Run
    best: Best
    refuted: float = -1.0

    def __post_init__(self) -> None:
        self.tester = Thresholds(self.arrays, self.run.seed)

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        if self.best.value == math.inf:
            outcome = find_any(self.problem, self.instance, self.tester, self.best)
            if outcome is not None:
                return outcome
        self._narrow()
        self._close()
        self.best.proved(self.lower_bound(), "priced walks and labels")
        if self.proved:
            return Outcome(self.run.termination())
        if self.run.time_limit is None and not self.run.should_stop():
            return Outcome(Termination.BUDGET)
        return Outcome(self.run.termination())

    @property
    def proved(self) -> bool:
        """Whether nothing lies between the refuted threshold and the best plan."""
        return self.lower_bound() >= self.best.value

    def lower_bound(self) -> float:
        """The smallest threshold that is not refuted."""
        return min(self.best.value, self._next(self.refuted))

    def _next(self, low: float) -> float:
        """The smallest time of a stage or transfer above ``low``, or 0."""
        if low < 0.0:
            return 0.0
        return neighbouring(self.arrays, low, compute=self.instance.compute_counts, links=True, down=False)

    def _below(self, high: float) -> float:
        """The largest time of a stage or transfer below ``high``, or 0."""
        compute = self.instance.compute_counts
        return max(0.0, neighbouring(self.arrays, high, compute=compute, links=True, down=True))

    def _learn(self, limit: float, answer: Answer) -> None:
        if answer is Answer.KEPT and self.tester.plan is not None:
            self.best.consider(self.tester.plan)
        elif answer is Answer.REFUTED:
            self.refuted = max(self.refuted, limit)
            self.best.proved(self.lower_bound(), "priced walks")

    def _middle(self, low: float, high: float) -> float | None:
        """A threshold between two, both excluded; None when there is none."""
        first = self._next(low)
        if first >= high:
            return None
        last = max(first, self._below(high))
        middle = math.sqrt(first * last) if first > 0 else 0.5 * last
        return min(max(self._below(math.nextafter(middle, math.inf)), first), last)

    def _narrow(self) -> None:
        """Bisect with the cheap tests; what they leave open counts as too low for now."""
        self.run.enter("bisection")
        low = self.refuted
        while not self.run.should_stop():
            limit = self._middle(low, self.best.value)
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
        """Exact tests just below the best plan; then raise the bound, then wider beams, and again with more work."""
        self.run.enter("exact labels")
        width, work = 4, FIRST_WORK
        while not (self.proved or self._over()):
            limit = self._below(self.best.value)
            answer = self.tester.exact(limit, affordable(self.run, work))
            self._learn(limit, answer)
            if answer is not Answer.OPEN:
                continue
            self._raise(work)
            self._improve(width, work)
            width, work = min(2 * width, MOST_WIDTH), 4 * work

    def _raise(self, work: int) -> None:
        """Bisect from below: what stays open counts as too high for now."""
        high = self.best.value
        while not self._over():
            limit = self._middle(self.refuted, high)
            if limit is None or high - self.refuted < CLOSE * high:
                return
            answer = self.tester.exact(limit, affordable(self.run, work))
            self._learn(limit, answer)
            if answer is not Answer.REFUTED:
                high = limit

    def _improve(self, width: int, work: int) -> None:
        """Bisect from above with wide beams: what stays open counts as too low for now."""
        low = self.refuted
        while not self._over():
            limit = self._middle(low, self.best.value)
            if limit is None or self.best.value - low < CLOSE * self.best.value:
                return
            answer = self.tester.priced(limit, width, most_work=affordable(self.run, work))
            self._learn(limit, answer)
            if answer is not Answer.KEPT:
                low = limit

    def _over(self) -> bool:
        return self.run.should_stop() or self._too_long()

    def _too_long(self) -> bool:
        return self.run.time_limit is None and self.run.elapsed() > UNTIMED_SECONDS


def neighbouring(arrays: PipelineArrays, value: float, *, compute: bool, links: bool, down: bool) -> float:
    """The next time of a stage or a transfer above (or below) a value; inf (or -1) for none."""
    return float(next_value.sized(40 * arrays.reach.size)(arrays, value, True, compute, links, down))


def affordable(run: Run, work: int) -> int:
    """So many steps of a search, or what the time that is left is enough for."""
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
    """Say that no plan exists, and what memory would do."""
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
    return f"{reason}; {enough:,} bytes on every device would do, as far as memory goes"
