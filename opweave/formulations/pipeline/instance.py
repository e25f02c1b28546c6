"""A pipeline as arrays over cut points and devices, for algorithms, bounds and formulations.

Points 0 to m are places in the order: point 0 is before the first operator, point m after the last one, and the others
are where the order may be cut. A *stage* [a, b) on device v holds the operators between points a and b.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import taken_in
from opweave.formulations.on_cluster import capacity_of, permitted, too_large, unless_short
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.problems.words import counted

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
    seconds, allowed
        Run time of every operator on each device (0 if unknown), and whether it may run there. Shape (devices,
        operators).
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
    allowed: BoolArray
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


def shortage(problem: Pipeline, ceiling: float | None = None) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for pieces between two cuts that no device can hold or run, and for models that need more stages
    than there can be.

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
    instance = lower(problem, ceiling)
    pieces, most = instance.last, instance.most
    if not pieces:
        return None
    reach = instance.reach.max(axis=0)
    stages = stages_up_to(reach)
    if stages is None:
        point = int(np.argmax(reach[:-1] <= np.arange(pieces)))
        return _why_nowhere(problem, instance, *instance.position[point : point + 2].tolist())
    if stages > most:
        enough = smallest_memory(problem)
        limited = (instance.capacity != NO_LIMIT).any()
        would = f"; {enough:,} bytes on every device would do, as far as memory goes" if limited else ""
        return (
            f"memory, known times and side constraints keep stages so short that at least {counted(stages, 'stage')} "
            f"are needed, but there can be at most {most:,}{would}"
        )
    if instance.least > min(pieces, most):
        return (
            f"at least {instance.least} stages are required, but the model has {counted(pieces, 'piece')} and there "
            f"can be at most {counted(most, 'stage')}"
        )
    return None


def _why_nowhere(problem: Pipeline, instance: PipelineInstance, begin: int, end: int) -> str:
    """Why no device takes the operators of a piece."""
    names = instance.names[begin:end]
    who = (
        f"operator {names[0]!r}"
        if len(names) == 1
        else f"the {len(names):,} operators from {names[0]!r} to {names[-1]!r}"
    )
    if any(means(each, Separate) and len({*each.ops} & {*names}) > 1 for each in problem.constraints):
        return f"{who} cannot be cut apart, but Separate demands it"
    able = np.asarray(instance.allowed[:, begin:end].all(axis=1))
    needed = problem.memory_of(names)
    verb = "needs" if len(names) == 1 else "cannot be cut apart and need"
    large = too_large(f"{who} {verb} {needed:,} bytes", needed, able, instance.capacity, instance.devices)
    return large or f"{who} may run on no usable device: times, pins and forbidden devices leave none"


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

    ``own`` has the bytes of the operators before each position, without shared parameters. Shape (operators + 1,).
    """

    def __init__(self, problem: Pipeline) -> None:
        graph, size = problem.graph, problem.graph.parameter_sizes
        order = graph.positions(problem.running_order)
        users = np.bincount(graph.uses.items, minlength=len(size))
        own = graph.sizes_made[order] if problem.memory == "additive" else np.zeros(len(order), dtype=np.int64)
        used = [graph.uses[v] for v in order.tolist()]
        alone = [int(size[each[users[each] == 1]].sum()) for each in used]
        self.own: IntArray = np.cumsum([0, *(own + np.asarray(alone, dtype=np.int64))])
        self._size: list[int] = size.tolist()
        self._shared: list[list[int]] = [each[users[each] > 1].tolist() for each in used]

    def ends(self, position: IntArray, capacity: int) -> IntArray:
        """For each point, the last point up to which everything fits into ``capacity``."""
        points, at = len(position), self.own[position]
        if capacity == NO_LIMIT:
            return np.full(points, points - 1, dtype=np.int64)
        if not any(self._shared):
            found = np.searchsorted(at, at + capacity, side="right") - 1
            return np.maximum(found, np.arange(points)).astype(np.int64)
        bounds = itertools.pairwise(position.tolist())
        pieces = [list(itertools.chain.from_iterable(self._shared[begin:end])) for begin, end in bounds]
        ends, uses = np.zeros(points, dtype=np.int64), Counter[int]()
        end = held = 0
        for begin in range(points):  # uses of the shared parameters in the pieces from begin to end, and their bytes
            end = max(begin, end)
            while end + 1 < points:
                added = self._bytes(p for p in {*pieces[end]} if not uses[p])
                if int(at[end + 1] - at[begin]) + held + added > capacity:
                    break
                uses.update(pieces[end])
                held, end = held + added, end + 1
            ends[begin] = end
            if end > begin:
                uses.subtract(pieces[begin])
                held -= self._bytes(p for p in {*pieces[begin]} if not uses[p])
        return ends

    def _bytes(self, parameters: Iterable[int]) -> int:
        return sum(self._size[p] for p in parameters)


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
    if not problem.graph.operators:
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


def lower(problem: Pipeline, ceiling: float | None = None) -> PipelineInstance:
    """Write a problem as arrays, including all side constraints of :data:`TAKEN_IN`.

    ``ceiling`` is the objective of a known solution. Single times above it are excluded, so that they do not drown
    others in sums by rounding.
    """
    names = problem.running_order
    place = {name: position for position, name in enumerate(names)}
    position = points_of(problem)
    used = tuple(problem.cluster.device_index)
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
    allowed = known & permitted(place, used, problem.constraints).T
    rate = np.array(problem.cluster.effective_bandwidth)
    np.fill_diagonal(rate, 0.0)
    latency = np.where(rate > 0, problem.cluster.effective_latency, 0.0)
    return PipelineInstance(
        names=names,
        devices=used,
        position=position,
        sent=problem.crossings.bytes[position] / problem.compression,
        seconds=seconds,
        allowed=allowed,
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
    used = tuple(problem.cluster.device_index)
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


lower_unless_short = unless_short(lower, shortage)
"""As :func:`lower`, after the cheap proofs that nothing fits."""

taken_in("stages", TAKEN_IN)
