"""Predicted seconds of operators, from the costs of the problem that was solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opweave.adapters.verify.report import OperatorTime
from opweave.problems.costs import Costs
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution


def operator_times(
    order: Sequence[str], measured: Mapping[str, float], problem: Problem[Any, Any] | None, solution: Solution
) -> tuple[OperatorTime, ...]:
    """Pair measured times with those that the problem's costs predict for the planned device."""
    costs = getattr(problem, "costs", None)
    placed = solution.devices_by_operator() if isinstance(solution, Schedule | Stages) else {}
    device = {name: next(iter(where)) for name, where in placed.items()}
    return tuple(
        OperatorTime(operator=name, measured=measured[name], predicted=_promised(costs, name, device.get(name)))
        for name in order
        if name in measured
    )


def _promised(costs: object, operator: str, device: str | None) -> float | None:
    if not isinstance(costs, Costs) or device is None:
        return None
    row, column = costs.operator_index.get(operator), costs.device_index.get(device)
    if row is None or column is None:
        return None
    return costs.table[row][column * len(costs.batches)]
