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
from opweave.formulations.pipeline.shortage import Stored, points_of, shortage, stages_up_to
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
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
    most_devices
        Largest number of devices in use; more than stages if replicas take turns.
    compute_counts, shared_channel, goal
        The problem's options.
    summed
        Whether a stage's time includes what it receives and sends.
    alike
        The first device that can take turns with each one in a stage. Shape (devices,).
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
    most_devices: int
    compute_counts: bool
    shared_channel: bool
    goal: str
    summed: bool
    alike: IntArray

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

    def plan(self, solution: Stages) -> tuple[list[int], list[int]]:
        """The points where a valid solution's stages begin and end, from first to last, and their devices."""
        ends = np.cumsum([len(stage.operators) for stage in solution.stages])
        points = [0, *np.searchsorted(self.position, ends).tolist()]
        return points, [self.devices.index(stage.device) for stage in solution.stages]

    def send_seconds(self, point: int, source: int, target: int) -> float:
        """Seconds to send what crosses a point; infinite if there is no link."""
        rate = float(self.rate[source, target])
        return float(self.latency[source, target]) + float(self.sent[point]) / rate if rate > 0 else np.inf

    def send_seconds_between(self, point: int) -> FloatArray:
        """As :meth:`send_seconds` for all pairs of devices. Shape (devices, devices)."""
        linked = self.rate > 0
        seconds = np.divide(self.sent[point], self.rate, out=np.full(linked.shape, np.inf), where=linked)
        return np.asarray(self.latency + seconds)


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
    if instance.last == 0:
        return instance
    stages = fewest_stages(instance) if instance.devices else None
    if stages is None or stages > instance.most or instance.least > min(instance.last, instance.most):
        raise ContradictionError(
            shortage(problem)
            or f"memory, known times and side constraints keep stages so short that at least {stages} are needed, but "
            f"there can be at most {instance.most}"
        )
    return instance


def fewest_stages(instance: PipelineInstance) -> int | None:
    """Number of stages needed if links do not matter and devices may be used again; None if a piece fits nowhere."""
    return stages_up_to(instance.reach.max(axis=0))


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
    position = points_of(problem)
    used = problem.usable_devices
    known = np.ones((len(used), len(names)), dtype=bool)
    seconds = np.zeros((len(used), len(names)))
    if problem.costs is not None and problem.include_compute:
        table = problem.costs.array(names, used).T
        known = ~np.isnan(table)
        if ceiling is not None and problem.objective != "transfers":
            known &= ~(table > ceiling * (1.0 + SLACK) * problem.max_replicas)
        seconds = np.where(known, table, 0.0)
    elapsed = np.zeros((len(used), len(names) + 1))
    np.cumsum(seconds, axis=1, out=elapsed[:, 1:])
    capacity = capacity_of(problem.memory_limits[name] for name in used)
    stored = Stored(problem)
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
        sent=problem.crossings.bytes[position] / problem.compression,
        seconds=seconds,
        elapsed=np.ascontiguousarray(elapsed[:, position]),
        reach=_reach(position, stored, capacity, allowed, _apart(problem, place)),
        memory=stored.own[position],
        capacity=capacity,
        rate=rate,
        latency=latency,
        least=problem.min_stages,
        most=problem.stage_limit,
        most_devices=problem.device_limit,
        compute_counts=problem.include_compute,
        shared_channel=problem.channel == "shared",
        goal=problem.objective,
        summed=problem.load == "sum" and problem.objective == "bottleneck",
        alike=_alike(problem),
    )


def _alike(problem: Pipeline) -> IntArray:
    used = problem.usable_devices
    if problem.max_replicas == 1:
        return np.arange(len(used))
    firsts = (next(u for u, name in enumerate(used) if problem.interchangeable(name, other)) for other in used)
    return np.fromiter(firsts, dtype=np.int64, count=len(used))


def _apart(problem: Pipeline, place: dict[str, int]) -> IntArray:
    """For Separate: the last position where a stage that begins at each position may end. Shape (operators + 1,)."""
    end = np.full(len(place) + 1, len(place), dtype=np.int64)
    for constraint in problem.constraints:
        if means(constraint, Separate):
            where = sorted({place[name] for name in constraint.ops})
            for first, second in itertools.pairwise(where):
                end[: first + 1] = np.minimum(end[: first + 1], second)
    return end


def _reach(position: IntArray, stored: Stored, capacity: IntArray, allowed: BoolArray, apart: IntArray) -> IntArray:
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
