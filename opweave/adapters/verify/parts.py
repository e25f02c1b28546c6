"""Plans that cut a model into parts, as groups that can run one after the other."""

from __future__ import annotations

from opweave.adapters.runtimes.groups import Group, schedule_groups
from opweave.adapters.runtimes.pipeline_exports import stage_groups
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule


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
