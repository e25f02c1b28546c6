"""Parallel lanes for pipelines: the joint search from above, the joint search from below, the simple rules."""

from __future__ import annotations

from dataclasses import dataclass

from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.pipeline.auto import solve_auto
from opweave.solvers.pipeline.exact import FIRST_WORK, BottleneckSearch, affordable
from opweave.solvers.pipeline.plans import plan_from
from opweave.solvers.registry import run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane

HOME = "opweave.solvers.pipeline"

NEAR = 0.01
"""Relative difference below which the cheapest tests treat thresholds as equal."""


@dataclass(eq=False)
class SharedSearch(BottleneckSearch):
    """A joint search that uses the plans and refuted thresholds of the other lanes."""

    def catch_up(self) -> None:
        """Take over the best plan and bound of all lanes."""
        self.run.take_in()
        best, known = self.run.best, self.run.objective
        if isinstance(best, Stages) and known is not None and known < self.best.value:
            self.best.plan, self.best.value = plan_from(self.instance, best), float(known)
        if self.run.bound is not None and self.run.bound > 0:
            self.refuted = max(self.refuted, 0.0, self.times.below(float(self.run.bound)))

    def _over(self) -> bool:
        self.catch_up()
        return super()._over()


class FromAbove(SharedSearch):
    """Searches for better plans, and for the proof just below the best one."""

    def _raise(self, work: int) -> None:
        """Leave the bound to the other lane."""


class FromBelow(SharedSearch):
    """Raises the bound, and searches for the proof just below the best plan with more and more work."""

    def _narrow(self) -> None:
        """Bisect from below with the cheapest tests; the other lane does so from above."""
        self.run.enter("bisection")
        self._bisect_upwards(self.tester.quick, NEAR)

    def _close(self) -> None:
        self.run.enter("exact labels from below")
        work = FIRST_WORK
        while not (self.proved or self._over()):
            self._raise(work)
            work *= 4
            if not (self.proved or self._over()):
                limit = max(0.0, self.times.below(self.best.value))
                self._learn(limit, self.tester.exact(limit, affordable(self.run, work)))


def lanes(problem: Pipeline, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto`` and ``exact``."""
    if problem.objective != "bottleneck" or problem.channel == "shared":
        return (Lane(f"{HOME}.auto:solve_auto"),)
    return Lane(f"{HOME}.lanes:from_above"), Lane(f"{HOME}.lanes:from_below")


def from_above(problem: Pipeline, run: Run) -> Outcome:
    """Everything that ``auto`` does, except raising the bound."""
    return solve_auto(problem, run, FromAbove)


def from_below(problem: Pipeline, run: Run) -> Outcome:
    """Everything that ``auto`` does, with the bound first."""
    return solve_auto(problem, run, FromBelow)


run_side_by_side(Pipeline.kind, "auto", lanes)
run_side_by_side(Pipeline.kind, "exact", lanes)
