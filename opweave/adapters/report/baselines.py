"""What answers are compared with: the simple solvers that a problem has, run when a result is shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from opweave.adapters.report.wording import Alone
from opweave.problems.errors import OpweaveError
from opweave.problems.measures import latency
from opweave.problems.problem import Problem
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.solvers.registry import solvers
from opweave.solvers.solve import solve

SECONDS = 10.0
"""Most that a baseline may take when a result is shown."""


class Reference(NamedTuple):
    """A baseline's answer.

    Attributes
    ----------
    solver
        Its name.
    objective
        In the problem's unit.
    timeline
        What happens when its plan is carried out; None where that cannot be played.
    """

    solver: str
    objective: float
    timeline: Timeline | None

    @property
    def alone(self) -> Alone | None:
        """Its only device and the time of an input there; None where it uses several."""
        used = [] if self.timeline is None else devices_used(self.timeline)
        if self.timeline is None or len(used) != 1:
            return None
        return Alone(used[0], latency(self.timeline) or 0.0)


def baselines(problem: Problem[Any, Any]) -> tuple[str, ...]:
    """Names of the baselines that can run here, in the order in which they were registered."""
    return tuple(row.name for row in solvers(problem) if row.baseline and row.available)


def reference(problem: Problem[Any, Any], name: str) -> Reference | None:
    """Ask a baseline; None where it has no plan."""
    try:
        result = solve(problem, solver=name, time_limit=SECONDS)
    except OpweaveError:
        return None
    if result.solution is None or result.objective is None:
        return None
    return Reference(name, result.objective, result.timeline or problem.play(result.solution))


def devices_used(timeline: Timeline) -> list[str]:
    """Devices that run something, in the cluster's order."""
    acts = timeline.activities
    used = set(acts.resource[acts.kind == ActivityKind.RUN].tolist())
    return [resource.name for row, resource in enumerate(timeline.resources) if row in used]
