"""A pipeline as arrays over cut points and devices, for algorithms, bounds and formulations.

Points 0 to m are places in the order: point 0 is before the first operator, point m after the last one, and the others
are where the order may be cut. A *stage* [a, b) on device v holds the operators between points a and b.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.on_cluster import capacity_of, permitted
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.shortage import shortage
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, Separate, MemoryCap, MaxDevices)
"""Side constraints that :func:`lower` writes into the arrays."""

SUPPORTS = ("stages",)
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineInstance:
    """Arrays indexed by device v and point b.

    Attributes
    ----------
    names, devices
        Operator ids in their order, and device names.
    position
        Number of operators before each point. Shape (points,).
    sent
        Bytes that cross each point, after compression; 0 at both ends. Shape (points,).
    seconds
        Run time of every operator on each device; unknown times count as 0. Shape (devices, operators).
    elapsed
        Run time of all operators before each point, on each device. Shape (devices, points).
    reach
        The last point where a stage that begins at a point may end, given memory, known times and side constraints; the
        point itself if no stage may begin there. Shape (devices, points).
    memory
        Bytes of the operators before each point, without shared parameters. Shape (points,).
    capacity
        Bytes of every device; ``NO_LIMIT`` if it has no limit.
    rate, latency
        Bytes per second and seconds of every link, [from, to]; the rate is 0 if nothing can be sent or the order of the
        devices forbids it. Shape (devices, devices).
    least, most
        Smallest and largest number of stages.
    compute_counts, shared_channel, goal
        The problem's options.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    position: IntArray
    sent: FloatArray
    seconds: FloatArray
    elapsed: FloatArray
    reach: IntArray
    memory: IntArray
    capacity: IntArray
    rate: FloatArray
    latency: FloatArray
    least: int
    most: int
    compute_counts: bool
    shared_channel: bool
    goal: str

    @property
    def last(self) -> int:
        """The point after the last operator."""
        return len(self.position) - 1

    @property
    def blur(self) -> float:
        """Seconds by which differences and sums of ``elapsed`` along a plan may be off: rounding of the largest.

        Nothing where only transfers count: their seconds come from bytes, without such differences.
        """
        counts = self.compute_counts and self.goal != "transfers"
        largest = float(self.elapsed.max(initial=0.0)) if counts else 0.0
        return 2.0**-52 * 4.0 * (len(self.names) + self.last + 2) * largest

    def stages(self, cuts: Iterable[int], devices: Iterable[int]) -> Stages:
        """The solution with given inner cut points and one more device; without operators it has no stages."""
        if not self.names:
            return Stages(stages=())
        ends = [*(int(cut) for cut in cuts), self.last]
        begins = [0, *ends[:-1]]
        return Stages(
            stages=tuple(
                Stage(device=self.devices[v], operators=self.names[self.position[a] : self.position[b]])
                for a, b, v in zip(begins, ends, devices, strict=True)
            )
        )

    def send_seconds(self, point: int, source: int, target: int) -> float:
        """Seconds to send what crosses a point; infinite if there is no link."""
        rate = float(self.rate[source, target])
        return float(self.latency[source, target]) + float(self.sent[point]) / rate if rate > 0 else np.inf


SLACK = 1e-6
"""Relative tolerance above a known solution's objective within which times are kept."""


def lower_unless_short(problem: Pipeline, ceiling: float | None = None) -> PipelineInstance:
    """As :func:`lower`, after the cheap proofs that nothing fits.

    Raises
    ------
    ContradictionError
        If there is no pipeline; the message says what cannot be placed, and the smallest sufficient memory.
    """
    instance = lower(problem, ceiling)
    if _obviously_short(instance):
        raise ContradictionError(shortage(problem) or _too_long(instance))
    return instance


def _obviously_short(instance: PipelineInstance) -> bool:
    """Whether some piece fits on no device, or more stages are needed than are allowed."""
    if instance.last == 0:
        return False
    if not instance.devices or instance.least > min(instance.last, instance.most):
        return True
    best = instance.reach.max(axis=0)
    if (best[:-1] <= np.arange(instance.last)).any():
        return True
    return fewest_stages(instance) > instance.most


def fewest_stages(instance: PipelineInstance) -> int:
    """Number of stages needed if links do not matter and devices may be used again."""
    best = instance.reach.max(axis=0)
    point = stages = 0
    while point < instance.last:
        point, stages = int(best[point]), stages + 1
    return stages


def _too_long(instance: PipelineInstance) -> str:
    return (
        "memory, known times and side constraints keep stages so short that at least "
        f"{fewest_stages(instance)} are needed, but there can be at most {instance.most}"
    )


def lower(problem: Pipeline, ceiling: float | None = None) -> PipelineInstance:
    """Write a problem as arrays, including all side constraints of :data:`TAKEN_IN`.

    Parameters
    ----------
    problem
        The problem.
    ceiling
        Objective of a known solution. Single times above it are excluded, so that they do not drown others in sums by
        rounding.
    """
    names = problem.running_order
    place = {name: position for position, name in enumerate(names)}
    position, sent = _points(problem, place)
    used = problem.usable_devices
    known = np.ones((len(used), len(names)), dtype=bool)
    seconds = np.zeros((len(used), len(names)))
    if problem.costs is not None and problem.include_compute:
        table = problem.costs.array(names, used).T
        known = ~np.isnan(table)
        if ceiling is not None and problem.objective != "transfers":
            known &= ~(table > ceiling * (1.0 + SLACK))
        seconds = np.where(known, table, 0.0)
    elapsed = np.zeros((len(used), len(names) + 1))
    np.cumsum(seconds, axis=1, out=elapsed[:, 1:])
    capacity = capacity_of(problem.memory_limits[name] for name in used)
    stored = _Stored(problem, names)
    index = [problem.cluster.device_index[name] for name in used]
    allowed = known & permitted(place, used, problem.constraints).T
    rate = np.array(problem.cluster.effective_bandwidth[np.ix_(index, index)])
    np.fill_diagonal(rate, 0.0)
    if problem.device_order is not None:
        rate = np.triu(rate)
    latency = np.where(rate > 0, problem.cluster.effective_latency[np.ix_(index, index)], 0.0)
    return PipelineInstance(
        names=names,
        devices=used,
        position=position,
        sent=sent,
        seconds=seconds,
        elapsed=np.ascontiguousarray(elapsed[:, position]),
        reach=_reach(position, stored, capacity, allowed, _apart(problem, place)),
        memory=stored.own[position],
        capacity=capacity,
        rate=rate,
        latency=latency,
        least=problem.min_stages,
        most=problem.stage_limit,
        compute_counts=problem.include_compute,
        shared_channel=problem.channel == "shared",
        goal=problem.objective,
    )


def _points(problem: Pipeline, place: dict[str, int]) -> tuple[IntArray, FloatArray]:
    """Positions of allowed cuts, and the bytes that cross there; Colocate removes the cuts inside its range."""
    joined = np.zeros(len(place) + 1, dtype=bool)
    for constraint in problem.constraints:
        if means(constraint, Colocate):
            where = [place[name] for name in constraint.ops]
            joined[min(where) + 1 : max(where) + 1] = True
    inner = [point for point in problem.cut_points if not joined[point.position]]
    position = [0, *(point.position for point in inner), len(place)] if place else [0]
    sent = [0.0, *(point.bytes / problem.compression for point in inner), 0.0] if place else [0.0]
    return np.asarray(position, dtype=np.int64), np.asarray(sent, dtype=np.float64)


def _apart(problem: Pipeline, place: dict[str, int]) -> IntArray:
    """For Separate: the last position where a stage that begins at each position may end. Shape (operators + 1,)."""
    end = np.full(len(place) + 1, len(place), dtype=np.int64)
    for constraint in problem.constraints:
        if means(constraint, Separate):
            where = sorted({place[name] for name in constraint.ops})
            for first, second in itertools.pairwise(where):
                end[: first + 1] = np.minimum(end[: first + 1], second)
    return end


class _Stored:
    """Bytes of contiguous runs of operators."""

    def __init__(self, problem: Pipeline, names: tuple[str, ...]) -> None:
        graph = problem.graph
        weight = {parameter.id: parameter.bytes for parameter in graph.parameters}
        users: dict[str, list[int]] = {}
        operators = [graph.operators[graph.operator_index[name]] for name in names]
        for number, op in enumerate(operators):
            for name in dict.fromkeys(op.parameters):
                users.setdefault(name, []).append(number)
        own = np.zeros(len(names) + 1, dtype=np.int64)
        if problem.memory == "additive":
            size = {tensor.id: tensor.bytes for tensor in graph.tensors if tensor.alias_of is None}
            own[1:] = [op.workspace_bytes + sum(size.get(name, 0) for name in op.outputs) for op in operators]
        shared = [(where, weight[name]) for name, where in users.items() if len(where) > 1]
        self._weights = [size for _, size in shared]
        self._shared: dict[int, list[int]] = {}  # shared parameters by position of the operators that use them
        for parameter, (where, _) in enumerate(shared):
            for number in where:
                self._shared.setdefault(number, []).append(parameter)
        for name, where in users.items():
            if len(where) == 1:
                own[where[0] + 1] += weight[name]
        self.own: IntArray = np.cumsum(own)

    def ends(self, position: IntArray, capacity: int) -> IntArray:
        """For each point, the last point up to which everything fits into ``capacity``."""
        points = len(position)
        at = self.own[position]
        if capacity == NO_LIMIT:
            return np.full(points, points - 1, dtype=np.int64)
        if not self._shared:
            found = np.searchsorted(at, at + capacity, side="right") - 1
            return np.maximum(found, np.arange(points)).astype(np.int64)
        ends = np.zeros(points, dtype=np.int64)
        uses = [0] * len(self._weights)  # uses of each shared parameter by the operators from begin to end
        end = held = 0
        for begin in range(points):
            while end + 1 < points:
                grown = held + self._take(uses, position, end)
                if int(at[end + 1] - at[begin]) + grown > capacity:
                    self._leave(uses, position, end)
                    break
                held, end = grown, end + 1
            ends[begin] = max(begin, end)
            if end > begin:
                held -= self._leave(uses, position, begin)
            else:
                end = begin + 1  # a piece that does not fit by itself
        return ends

    def _take(self, uses: list[int], position: IntArray, point: int) -> int:
        """Add the uses in the piece after a point; returns the bytes of shared parameters that become used."""
        added = 0
        for number in range(int(position[point]), int(position[point + 1])):
            for parameter in self._shared.get(number, ()):
                added += 0 if uses[parameter] else self._weights[parameter]
                uses[parameter] += 1
        return added

    def _leave(self, uses: list[int], position: IntArray, point: int) -> int:
        """Remove these uses again; returns the bytes of shared parameters that are no longer used."""
        removed = 0
        for number in range(int(position[point]), int(position[point + 1])):
            for parameter in self._shared.get(number, ()):
                uses[parameter] -= 1
                removed += 0 if uses[parameter] else self._weights[parameter]
        return removed


def _reach(position: IntArray, stored: _Stored, capacity: IntArray, allowed: BoolArray, apart: IntArray) -> IntArray:
    points = len(position)
    by_size = {int(size): stored.ends(position, int(size)) for size in np.unique(capacity)}
    together = np.searchsorted(position, apart[position], side="right") - 1
    reach = np.zeros((len(capacity), points), dtype=np.int64)
    for v, size in enumerate(capacity.tolist()):
        reach[v] = np.minimum(by_size[size], together)
        if not allowed[v].all():
            refused = np.append(np.flatnonzero(~allowed[v]), len(allowed[v]))
            next_refused = refused[np.searchsorted(refused, np.minimum(position, refused[-1]))]
            reach[v] = np.minimum(reach[v], np.searchsorted(position, next_refused, side="right") - 1)
        reach[v] = np.maximum(reach[v], np.arange(points))
    return reach


for _kind in TAKEN_IN:

    @express(_kind, "stages")
    def _taken_in(_problem: Pipeline, _constraint: Constraint) -> None:
        """Add nothing: :func:`lower` has written the constraint into the arrays."""
