"""The pieces of a model that cannot be cut, and the bytes of runs of them."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline


def points_of(problem: Pipeline) -> IntArray:
    """Number of operators before each point: both ends, and the allowed cuts that no Colocate forbids."""
    order = problem.running_order
    place = {name: position for position, name in enumerate(order)}
    free = np.zeros(len(order) + 1, dtype=bool)
    free[[0, *problem.cut_positions, len(order)]] = True
    for constraint in problem.constraints:
        if means(constraint, Colocate):
            where = [place[name] for name in constraint.ops]
            free[min(where) + 1 : max(where) + 1] = False
    return np.flatnonzero(free)


def stages_up_to(ends: IntArray) -> int | None:
    """Number of stages if each ends as late as possible; None if none may begin at some point.

    ``ends`` is the last point where a stage that begins at each point may end. Shape (points,).
    """
    if (ends[:-1] <= np.arange(len(ends) - 1)).any():
        return None
    point = stages = 0
    while point < len(ends) - 1:
        point, stages = int(ends[point]), stages + 1
    return stages


class Stored:
    """Bytes of contiguous runs of operators.

    Attributes
    ----------
    own
        Bytes of the operators before each position, without shared parameters. Shape (operators + 1,).
    """

    def __init__(self, problem: Pipeline) -> None:
        graph = problem.graph
        index, size = graph.operator_index, graph.parameter_sizes
        order = np.asarray([index[name] for name in problem.running_order], dtype=np.int64)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        own = np.zeros(len(order) + 1, dtype=np.int64)
        if problem.memory == "additive":
            own[1:] = graph.sizes_made[order]
        user, parameter = place[graph.uses.heads()], graph.uses.items
        alone = np.bincount(parameter, minlength=len(size))[parameter] == 1
        np.add.at(own, user[alone] + 1, size[parameter[alone]])
        users: dict[int, list[int]] = {}
        for number, name in sorted(zip(user[~alone].tolist(), parameter[~alone].tolist(), strict=True)):
            users.setdefault(name, []).append(number)
        # by position: the bytes of each shared parameter used there, and the positions of its uses before and after
        self._shared: dict[int, list[tuple[int, int, int]]] = {}
        for name, where in users.items():
            for before, number, after in zip([-1, *where], where, [*where[1:], len(order)], strict=False):
                self._shared.setdefault(number, []).append((int(size[name]), before, after))
        self.own: IntArray = np.cumsum(own)

    def ends(self, position: IntArray, capacity: int) -> IntArray:
        """For each point, the last point up to which everything fits into ``capacity``."""
        points, at = len(position), self.own[position]
        if capacity == NO_LIMIT:
            return np.full(points, points - 1, dtype=np.int64)
        if not self._shared:
            found = np.searchsorted(at, at + capacity, side="right") - 1
            return np.maximum(found, np.arange(points)).astype(np.int64)
        ends = np.zeros(points, dtype=np.int64)
        end = held = 0  # bytes of the shared parameters of the operators from begin to end
        for begin in range(points):
            end = max(begin, end)
            while end + 1 < points:
                added = sum(size for size, before, _ in self._uses(position, end) if before < position[begin])
                if int(at[end + 1] - at[begin]) + held + added > capacity:
                    break
                held, end = held + added, end + 1
            ends[begin] = end
            if end > begin:
                held -= sum(size for size, _, after in self._uses(position, begin) if after >= position[end])
        return ends

    def _uses(self, position: IntArray, point: int) -> list[tuple[int, int, int]]:
        """The uses of shared parameters in the piece after a point."""
        numbers = range(int(position[point]), int(position[point + 1]))
        return [use for number in numbers for use in self._shared.get(number, ())]
