"""Which operator on which device, times left aside: decides most questions of placement quickly.

Without an assignment there is no plan, because an assignment needs only obey memory, links and the side constraints
about devices. An assignment mostly leads to a plan: with its devices required, list schedulers find the times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opweave.formulations.expressions import MODEL, expression, write_out
from opweave.formulations.modeling.arrays import MatrixModel, TriviallyInfeasibleError, to_arrays
from opweave.formulations.on_cluster import rules_in_the_way
from opweave.formulations.placement.instance import PlacementInstance, lower_unless_short
from opweave.formulations.placement.model import PlacementModel
from opweave.formulations.placement.windows import Windows
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, MaxDevices, Pin, Separate, means
from opweave.problems.errors import InfeasibleError
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.solvers.engines.answers import Answer, Work
from opweave.solvers.engines.highs_child import solve, with_highs

MOST_CHOICES = 200_000
"""Operators x devices up to which the program is written."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the program found: the devices as side constraints, or a proof that there are none."""

    devices: tuple[Constraint, ...] = ()
    proof: str | None = None


def assigned(problem: Problem[Any, Any], seconds: float) -> Assigned:
    """Look for an assignment; nothing is found for other problems, for large ones, or if the time is up."""
    if not isinstance(problem, Placement) or len(problem.graph.operators) * len(problem.cluster.devices) > MOST_CHOICES:
        return Assigned()
    try:
        instance = lower_unless_short(problem)
        model = _written(problem, instance)
        values = _solved(to_arrays(model).matrix, seconds)
    except InfeasibleError as error:
        return Assigned(proof=str(error))
    except TimeoutError:
        return Assigned()
    except TriviallyInfeasibleError:
        values = None
    if values is None:
        return Assigned(proof=f"operators cannot be assigned to devices within {rules_in_the_way(problem)}")
    home = (values[model.place] * (model.place >= 0)).argmax(axis=1).tolist()
    pins = (Pin(op=name, device=instance.devices[k]) for name, k in zip(instance.names, home, strict=True))
    return Assigned(devices=tuple(pins))


def _written(problem: Placement, instance: PlacementInstance) -> PlacementModel:
    """Columns for operators on devices; rows for memory, links, and the side constraints about devices."""
    anywhere = np.zeros_like(instance.seconds)
    model = PlacementModel(instance, problem.transfers, (), Windows(instance, anywhere, anywhere, np.inf))
    model.problem = problem
    model.add_places(model.together(np.isfinite(instance.seconds)))
    model.one_device()
    model.memory()
    apart = np.argwhere(np.isinf(instance.latency)).tolist()
    for u, v in set(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
        for source, target in apart:
            model.rows("links").add(model.runs_on(u, source) + model.runs_on(v, target) <= 1)
    for constraint in problem.constraints:
        write = expression(type(constraint), MODEL) if means(constraint, Separate, MaxDevices) else None
        if write is not None:
            write_out(constraint, MODEL, write, model)
    return model


def _solved(matrix: MatrixModel, seconds: float) -> FloatArray | None:
    """A point of the program; None if it is proved that there is none.

    Raises
    ------
    TimeoutError
        If neither was found in time.
    """
    if matrix.columns == 0:
        return np.zeros(0)  # nothing is to be assigned; rows without columns have been decided
    answer = with_highs(_answered, Work("highs", matrix, None, seconds), seconds)
    if answer is not None and answer.verdict == "infeasible":
        return None
    if answer is None or answer.values is None:
        raise TimeoutError
    return answer.values


def _answered(work: Work, _should_stop: Callable[[], bool]) -> Answer:
    return solve(work, lambda _: None)
