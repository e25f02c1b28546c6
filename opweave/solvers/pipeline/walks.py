"""Bounds and plans where a device may have several stages: a walk of one unit over pieces and devices.

Every piece runs on one device; where the device changes, the unit takes a link. Rows limit what each device computes in
all of its stages, what it holds, and how often it is entered; tied operators (``Colocate``) are on one device. A tied
embedding, or the forward and backward passes of a layer, cost one equation for each device.

Only one thing is relaxed. A tensor is not sent to a device that has had it, which depends on the whole walk; counted
here is what the last piece before a cut makes and the first one behind it reads, which is sent in any case. At the
borders of layers that is everything, and then the walk is a plan. The bound is that of :mod:`opweave.solvers.tree`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance, lower
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.constraints import Colocate, Separate, means
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.linear import LinearProgram, SparseRows
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run
from opweave.solvers.tree import least_whole

SOURCE = "walks over pieces"

MOST_COLUMNS = 60_000
"""Most columns of a program."""

UNTIMED = 20.0
"""Seconds without a time limit."""

SLACK = 1e-9
"""Relative tolerance above a known plan's objective within which transfers are kept."""


def without_ties(problem: Pipeline) -> Pipeline:
    """The problem with one stage for each device, and cuts between operators of a ``Colocate``."""
    apart = tuple(each for each in problem.constraints if not means(each, Colocate))
    return problem.model_copy(update={"max_visits": 1, "max_stages": None, "min_stages": 1, "constraints": apart})


class Sendable(NamedTuple):
    """Tensors that may be sent, and who reads them.

    Attributes
    ----------
    bytes, maker
        Bytes after compression, and the piece that makes each tensor. A graph input that arrives at the first stage
        counts as made by the first piece. Shape (tensors,).
    tensor, reader
        Pairs of a tensor and a piece that reads it. Shape (pairs,).
    """

    bytes: FloatArray
    maker: IntArray
    tensor: IntArray
    reader: IntArray

    @classmethod
    def of(cls, problem: Pipeline, instance: PipelineInstance) -> Sendable:
        """Find them; tensors that nobody sends have no pairs."""
        arrays, index = problem.graph.arrays, problem.graph.operator_index
        piece = np.zeros(len(index), dtype=np.int64)
        order = [index[name] for name in instance.names]
        piece[order] = np.repeat(np.arange(instance.last), np.diff(instance.position))
        maker = np.where(arrays.producer < 0, 0, piece[arrays.producer])
        tensor, reader = arrays.reads.items, piece[arrays.reads.heads()]
        kept = (arrays.producer[tensor] >= 0) | (problem.inputs == "first")
        return cls(arrays.tensor_bytes / problem.compression, maker, tensor[kept], reader[kept])


def surely_sent(problem: Pipeline, instance: PipelineInstance) -> FloatArray:
    """Bytes that any change of devices at a point sends: what is made right before it and read behind it at once.

    Shape (points,).
    """
    found = Sendable.of(problem, instance)
    direct = np.unique(found.tensor[found.reader == found.maker[found.tensor] + 1])
    sent = np.bincount(found.maker[direct] + 1, found.bytes[direct], minlength=instance.last + 1)
    return np.minimum(sent, instance.sent)


def pieces_by_name(instance: PipelineInstance) -> dict[str, int]:
    """The piece of every operator."""
    pieces = np.repeat(np.arange(instance.last), np.diff(instance.position))
    return dict(zip(instance.names, pieces.tolist(), strict=True))


def tied_pieces(problem: Pipeline, instance: PipelineInstance) -> list[list[int]]:
    """Groups of pieces on one device, in ascending order (``Colocate``)."""
    piece = pieces_by_name(instance)
    return [sorted({piece[op] for op in rule.ops}) for rule in problem.constraints if means(rule, Colocate)]


def separate_pieces(problem: Pipeline, instance: PipelineInstance) -> list[tuple[int, int]]:
    """Pairs of pieces on two devices (``Separate``)."""
    piece = pieces_by_name(instance)
    rules = [sorted(piece[op] for op in rule.ops) for rule in problem.constraints if means(rule, Separate)]
    return [pair for group in rules for pair in combinations(group, 2)]


def shared_parameters(problem: Pipeline, instance: PipelineInstance) -> list[tuple[int, IntArray]]:
    """Bytes of every parameter that several operators read, and the pieces that do."""
    graph, piece = problem.graph, pieces_by_name(instance)
    users: dict[str, list[int]] = {}
    for name in instance.names:
        for each in dict.fromkeys(graph.operators[graph.operator_index[name]].parameters):
            users.setdefault(each, []).append(piece[name])
    return [(graph.parameter_bytes[name], np.unique(each)) for name, each in users.items() if len(each) > 1]


@dataclass(eq=False)
class Walk:
    """The program.

    Attributes
    ----------
    problem, instance
        The instance is that of :func:`without_ties`.
    seconds
        Of every piece on each device. Shape (pieces, devices).
    send
        Seconds of a change of devices at each point, infinite where it cannot be. Shape (points, devices, devices).
    unit
        Seconds of a unit of time: a known plan's objective, which no better plan exceeds.
    """

    problem: Pipeline
    instance: PipelineInstance
    seconds: FloatMatrix
    send: FloatArray
    unit: float

    @classmethod
    def of(cls, problem: Pipeline, ceiling: float | None) -> Walk:
        """Prepare a program; without a known objective, the sum of all times is the unit."""
        instance = lower(without_ties(problem))
        seconds = np.add.reduceat(instance.seconds, instance.position[:-1], axis=1).T
        sure = surely_sent(problem, instance)
        linked = instance.rate > 0
        rate = np.where(linked, instance.rate, 1.0)
        send = np.where(linked, instance.latency + sure[:, None, None] / rate, np.inf)
        if ceiling is None:
            most = instance.latency + instance.sent[:, None, None] / rate
            slowest = np.where(linked, most, 0.0).max(axis=(1, 2), initial=0.0)
            ceiling = float(seconds.max(axis=1, initial=0.0).sum() + slowest.sum())
        elif problem.channel == "dedicated" or problem.objective != "bottleneck":
            send = np.where(send > ceiling * (1.0 + SLACK), np.inf, send)
        return cls(problem, instance, seconds, send, ceiling)

    def program(self) -> tuple[LinearProgram, IntMatrix]:
        """The program, and its columns of pieces on devices, shape (pieces, devices); the last column is the time."""
        pieces, devices = self.seconds.shape
        on = np.arange(pieces * devices).reshape(pieces, devices)
        there = np.isfinite(self.send[1:pieces]) | np.eye(devices, dtype=bool)
        point, source, target = np.nonzero(there)
        change = on.size + np.arange(len(point))
        point = point + 1
        sending = np.where(source == target, 0.0, self.send[point, source, target]) / self.unit
        shared = shared_parameters(self.problem, self.instance)
        held = int(change[-1] + 1 if len(change) else on.size) + np.arange(len(shared) * devices)
        columns = on.size + len(change) + len(held) + 1
        most, equal = SparseRows(), SparseRows()
        equal.put(equal.open(np.ones(pieces))[:, None], on, 1.0)
        for ends, there_on in ((source, on[:-1]), (target, on[1:])):
            rows = equal.open(np.zeros(there_on.size))
            equal.put(rows, there_on.ravel(), -1.0)
            equal.put(rows[(point - 1) * devices + ends], change, 1.0)
        for group in tied_pieces(self.problem, self.instance):
            for other in group[1:]:
                rows = equal.open(np.zeros(devices))
                equal.put(rows, on[group[0]], 1.0)
                equal.put(rows, on[other], -1.0)
        self._limits(most, on, (source, target, change))
        self._memory(most, on, held.reshape(len(shared), devices), shared)
        cost = self._times(most, on, (point, change, sending), columns)
        upper = np.ones(columns)
        may = np.arange(pieces)[:, None] < self.instance.reach[:, :-1].T
        upper[on] = may
        upper[-1] = 2.0
        return LinearProgram.of(cost, upper, most, equal), on

    def _limits(self, most: SparseRows, on: IntMatrix, changes: tuple[IntArray, IntArray, IntArray]) -> None:
        """How often devices are entered, and how many stages there are."""
        source, target, change = changes
        moves = source != target
        visits = self.problem.max_visits
        if visits is not None:
            rows = most.open(np.full(on.shape[1], float(visits)))
            most.put(rows, on[0], 1.0)
            most.put(rows[target[moves]], change[moves], 1.0)
        most.put(most.open(np.asarray([self.problem.stage_limit - 1.0])), change[moves], 1.0)
        most.put(most.open(np.asarray([1.0 - self.problem.min_stages])), change[moves], -1.0)

    def _memory(self, most: SparseRows, on: IntMatrix, held: IntMatrix, shared: list[tuple[int, IntArray]]) -> None:
        """What a device holds fits; a shared parameter is held where a piece reads it, once."""
        own = np.diff(self.instance.memory).astype(np.float64)
        for number, (_, pieces) in enumerate(shared):
            rows = most.open(np.zeros(len(pieces) * on.shape[1]))
            most.put(rows, on[pieces].ravel(), 1.0)
            most.put(rows, np.tile(held[number], len(pieces)), -1.0)
        sizes = np.asarray([float(size) for size, _ in shared])
        for v, capacity in enumerate(self.instance.capacity.tolist()):
            if capacity != NO_LIMIT:
                scale = float(max(capacity, 1))
                row = most.open(np.asarray([capacity / scale]))
                most.put(row, on[:, v], own / scale)
                most.put(row, held[:, v], sizes / scale)

    def _times(
        self, most: SparseRows, on: IntMatrix, changes: tuple[IntArray, IntArray, FloatArray], columns: int
    ) -> FloatArray:
        """The cost: the time of the slowest device, transfer or channel, or a sum."""
        point, change, sending = changes
        goal, cost, seconds = self.problem.objective, np.zeros(columns), self.seconds / self.unit
        if goal != "bottleneck":
            cost[change] = sending
            cost[on] = seconds if goal == "latency" else 0.0
            return cost
        cost[-1] = 1.0
        rows = most.open(np.zeros(on.shape[1]))
        most.put(np.tile(rows, len(on)), on.ravel(), seconds.ravel())
        most.put(rows, np.full(len(rows), columns - 1), -1.0)
        if self.problem.channel == "shared":
            most.put(most.open(np.zeros(1)), change, sending)
            most.put(np.asarray([most.count - 1]), np.asarray([columns - 1]), -1.0)
        elif len(on) > 1:
            rows = most.open(np.zeros(len(on) - 1))
            most.put(rows[point - 1], change, sending)
            most.put(rows, np.full(len(rows), columns - 1), -1.0)
        return cost

    def plan(self, devices: IntArray) -> Stages:
        """The plan with these devices of the pieces."""
        ends = [*(np.flatnonzero(np.diff(devices)) + 1).tolist(), len(devices)]
        position, names = self.instance.position, self.instance.names
        return Stages(
            stages=tuple(
                Stage(device=self.instance.devices[devices[a]], operators=names[position[a] : position[b]])
                for a, b in zip([0, *ends[:-1]], ends, strict=True)
            )
        )


@named_solver(
    Pipeline,
    "walks",
    "pieces on devices, which may have several stages, as a program whose every leaf is proved",
    proves="bound",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=("stages",),
)
def solve_walks(problem: Pipeline, run: Run) -> Outcome:
    """Prove a bound, and report the plan that it comes from if that is one."""
    if problem.cuts == "ideals" or problem.delivery == "host" or problem.max_replicas > 1 or problem.load == "sum":
        raise UnsupportedFeatureError("walks have cuts in one order, links, overlapping loads and no replicas")
    if not problem.running_order or not problem.usable_devices:
        return Outcome(run.termination(), reason="there is nothing to walk over")
    walk = Walk.of(problem, run.objective)
    pieces, devices = walk.seconds.shape
    if not 0.0 < walk.unit < math.inf or pieces * devices**2 > MOST_COLUMNS:
        return Outcome(run.termination(), reason="there is nothing to walk over, or too much")
    run.enter(SOURCE)
    program, on = walk.program()
    whole = np.zeros(len(program.cost), dtype=bool)
    whole[on] = True
    endless = np.zeros(len(program.cost), dtype=bool)
    endless[-1] = True
    left = run.remaining()
    proof = least_whole(program, whole, endless, 1.0, UNTIMED if left is None else left, run.should_stop)
    if proof.bound > 0.0:
        run.proved(proof.bound * walk.unit * (1.0 - SUMMATION), SOURCE)
    if proof.point is not None:
        plan = walk.plan(proof.point[on].argmax(axis=1))
        judged = problem.evaluate(plan)
        if judged.feasible and judged.objective is not None:
            run.found(plan, judged.objective)
    return Outcome(run.termination(), reason=None if run.best else "the walk is no plan")
