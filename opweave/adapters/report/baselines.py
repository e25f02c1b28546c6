"""Baselines: the simple solvers of a problem, run when a result is shown, for comparison."""

from __future__ import annotations

from typing import Any, NamedTuple

from opweave.adapters.report.wording import Alone
from opweave.problems.errors import OpweaveError
from opweave.problems.measures import latency
from opweave.problems.problem import Problem
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.solvers.registry import list_solvers
from opweave.solvers.solve import solve

SECONDS = 10.0
"""Longest time that a baseline may take when a result is shown."""


class Reference(NamedTuple):
    """A baseline's answer.

    Attributes
    ----------
    solver
        Its name.
    objective
        In the problem's unit.
    timeline
        What happens when its solution is carried out; None if it cannot be carried out.
    """

    solver: str
    objective: float
    timeline: Timeline | None

    @property
    def alone(self) -> Alone | None:
        """The only device in use and the time of one input there; None if several devices are in use."""
        used = [] if self.timeline is None else devices_used(self.timeline)
        if self.timeline is None or len(used) != 1:
            return None
        return Alone(used[0], latency(self.timeline) or 0.0)


def baselines(problem: Problem[Any, Any]) -> tuple[str, ...]:
    """Names of the baselines that can run here, in the order of their registration."""
    return tuple(row.name for row in list_solvers(problem) if row.baseline and row.available)


def reference(problem: Problem[Any, Any], name: str) -> Reference | None:
    """Run a baseline; None if it finds no solution."""
    try:
        result = solve(problem, solver=name, time_limit=SECONDS)
    except OpweaveError:
        return None
    if result.solution is None or result.objective is None:
        return None
    return Reference(name, result.objective, result.timeline or problem.play(result.solution))


def devices_used(timeline: Timeline) -> list[str]:
    """The devices that run something, in the cluster's order."""
    acts = timeline.activities
    used = set(acts.resource[acts.kind == ActivityKind.RUN].tolist())
    return [resource.name for row, resource in enumerate(timeline.resources) if row in used]
