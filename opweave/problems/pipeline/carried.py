"""The tensors that stages send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline, Stage


def carried(problem: Pipeline, stages: Sequence[Stage]) -> list[tuple[str, ...]]:
    """The tensors that cross the end of every stage, in the order in which they are made, graph inputs first.

    A tensor goes on from stage to stage until the last one that reads it. Every operator is in one stage, behind what
    it reads.
    """
    graph, arrays, index = problem.graph, problem.graph.arrays, problem.graph.operator_index
    order = [index[name] for stage in stages for name in stage.operators]
    turn, stage_of = np.zeros((2, len(order) + 1), dtype=np.int64)  # the last entries serve what has no maker
    turn[[*order, -1]] = [*range(len(order)), -1]
    stage_of[order] = np.repeat(np.arange(len(stages)), [len(stage.operators) for stage in stages])
    made, last = stage_of[arrays.producer], np.full(len(arrays.producer), -1)
    np.maximum.at(last, arrays.reads.items, stage_of[arrays.reads.heads()])
    if problem.inputs == "everywhere":
        last[arrays.producer < 0] = -1
    place = np.arange(len(made))
    place[arrays.writes.items] = np.arange(len(arrays.writes.items))
    moving = np.flatnonzero(last > made)
    moving = moving[np.lexsort((place[moving], turn[arrays.producer[moving]]))]
    crossing = (moving[(made[moving] <= stage) & (stage < last[moving])].tolist() for stage in range(len(stages)))
    return [tuple(graph.tensor_ids[t] for t in tensors) for tensors in crossing]
