"""Simple proofs that a pipeline problem has no solution, in the user's words, and the bytes of runs of operators."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from opweave.formulations.on_cluster import asked_of, too_large
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.constraints import Colocate, Separate, means
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.words import counted


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
        graph, size = problem.graph, problem.graph.parameter_sizes
        order = graph.positions(problem.running_order)
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


def shortage(problem: Pipeline) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for pieces between two cuts that no device can hold or run, contradictory side constraints, and
    models that need more stages than there can be.

    Returns
    -------
    str or None
        The reason, with operators, devices, the missing bytes and the smallest sufficient memory; None if none was
        found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> graph = OpGraph(
    ...     tensors=[], parameters=[Parameter(id="w", bytes=9)], operators=[Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> shortage(Pipeline(graph=graph, cluster=cluster, include_compute=False))
    "operator 'p' needs 9 bytes; 'a', the largest device that may run it, holds 5: 4 bytes short"
    """
    if not problem.graph.operators:
        return None
    if not problem.usable_devices:
        return "no device may be used: device_order and forbidden_devices leave none"
    return next(_reasons(problem), None)


def _reasons(problem: Pipeline) -> Iterator[str]:
    limits = {name: problem.memory_limits[name] for name in problem.usable_devices}
    known, asked, most = (
        problem.known_seconds,
        asked_of(problem.running_order, problem.constraints),
        problem.stage_limit,
    )
    pieces = [problem.running_order[a:b] for a, b in pairwise(points_of(problem).tolist())]
    separate = [each for each in problem.constraints if means(each, Separate)]
    for piece in pieces:
        able = [d for d in limits if all(d in known[name] and asked[name].allow(d) for name in piece)]
        if not able:
            yield f"{_named(piece)} may run on no usable device: times, pins and forbidden devices leave none"
        if any(len(set(each.ops) & set(piece)) > 1 for each in separate):
            yield f"{_named(piece)} cannot be cut apart, but Separate demands it"
        needed = problem.memory_of(piece)
        verb = " needs" if len(piece) == 1 else ", which cannot be cut apart, need"
        reason = too_large(f"{_named(piece)}{verb} {needed:,} bytes", needed, able, limits)
        if reason is not None:
            yield reason
    for each in separate:
        if len(each.ops) > most:
            yield (
                f"Separate keeps {len(each.ops)} operators apart ({', '.join(map(repr, each.ops[:4]))}"
                f"{', ...' if len(each.ops) > 4 else ''}), but there can be at most {counted(most, 'stage')}"
            )
    if None not in limits.values():
        largest = max(limit or 0 for limit in limits.values())
        stages = stages_up_to(Stored(problem).ends(points_of(problem), largest))
        if stages is not None and stages > most:
            yield (
                f"the model needs at least {stages} stages of {largest:,} bytes (the largest device's memory), but "
                f"there can be at most {most}; {smallest_memory(problem):,} bytes on every device would do, as far as "
                "memory goes"
            )
    if problem.min_stages > min(len(pieces), most):
        yield (
            f"at least {problem.min_stages} stages are asked for, but the model has {len(pieces)} pieces and "
            f"there can be at most {counted(most, 'stage')}"
        )


def smallest_memory(problem: Pipeline) -> int | None:
    """Bytes that would be enough if every device had them and links and pins did not matter; None without operators.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> weights = [Parameter(id="u", bytes=9), Parameter(id="w", bytes=4)]
    >>> graph = OpGraph(tensors=[], parameters=weights, operators=[Operator(id="p", parameters=["u", "w"])])
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> smallest_memory(Pipeline(graph=graph, cluster=cluster, include_compute=False))
    13
    """
    if not problem.graph.operators or not problem.usable_devices:
        return None
    stored, position = Stored(problem), points_of(problem)
    low, high = 0, problem.memory_of(problem.running_order)  # sums of sizes may be too large for the bisect module
    while low < high:
        middle = (low + high) // 2
        stages = stages_up_to(stored.ends(position, middle))
        if stages is not None and stages <= problem.stage_limit:
            high = middle
        else:
            low = middle + 1
    return high


def _named(piece: tuple[str, ...]) -> str:
    if len(piece) == 1:
        return f"operator {piece[0]!r}"
    return f"the {len(piece):,} operators from {piece[0]!r} to {piece[-1]!r}"
