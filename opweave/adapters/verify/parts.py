"""What a verification takes from a plan: its parts as groups that run one after the other, and the promised times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opweave.adapters.runtimes.groups import Group, schedule_groups
from opweave.adapters.runtimes.pipeline_exports import stage_groups
from opweave.adapters.verify.report import OperatorTime
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution


def parts_of(graph: OpGraph, solution: Schedule | Stages) -> tuple[Group, ...]:
    """Cut a placement into as many groups as it needs, and a pipeline at its stages.

    Raises
    ------
    InvalidInputError
        When a schedule belongs to another model.
    """
    if isinstance(solution, Schedule):
        return schedule_groups(graph, solution)
    ids = [op.id for op in graph.operators]
    place = {ids[index]: position for position, index in enumerate(topological_order(graph.arrays.successors).tolist())}
    return tuple(
        Group(group.device, tuple(sorted(group.operators, key=lambda name: place.get(name, len(ids)))))
        for group in stage_groups(solution)
    )


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


def with_scratch(graph: OpGraph, scratch: Mapping[str, int]) -> OpGraph:
    """The graph with other workspaces; 0 for operators that are not named."""
    operators = tuple(op.model_copy(update={"workspace_bytes": scratch.get(op.id, 0)}) for op in graph.operators)
    return OpGraph(
        name=graph.name,
        operators=operators,
        tensors=graph.tensors,
        parameters=graph.parameters,
        outputs=graph.outputs,
    )
