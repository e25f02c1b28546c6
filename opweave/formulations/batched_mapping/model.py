"""What the integer program and the constraint program of batched mapping share: columns, rows, handles, units.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use handles of the model that take names:
``model.on(op, device)`` is 1 if a batch of the operator runs there, ``model.batch(op, device)`` is its number of
inputs, ``model.held(device)`` is in bytes, ``model.start(op, device)`` and ``model.end(op, device)`` are in seconds
(without meaning if nothing runs there).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import TAKEN_IN, BatchedInstance, lower_unless_short
from opweave.formulations.formulation import ClusterFormulation
from opweave.formulations.modeling.intervals import Interval
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import Activity, earliest_starts
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate
from opweave.problems.errors import InvalidInputError

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""

Arc = tuple[int, int, int]
"""An edge, its source device and its target device."""


@dataclass(eq=False)
class BatchedModel(LinearModel):
    """The data from which a program was written, and its columns; times are in units of ``tick`` seconds.

    An operator may have a batch on each device.

    Attributes
    ----------
    x
        Column of "input l of operator i runs on device u".
    b
        Column of "the batch of i on u has c granules"; absent if it cannot run there.
    starts_at
        Column of the start of i's batch on u.
    p, y
        Columns of "any input passes along this arc" and "input l does".
    makespan
        Column of the end of the schedule.
    """

    instance: BatchedInstance
    x: dict[tuple[int, int, int], int] = field(default_factory=dict)
    b: dict[tuple[int, int, int], int] = field(default_factory=dict)
    starts_at: dict[tuple[int, int], int] = field(default_factory=dict)
    p: dict[Arc, int] = field(default_factory=dict)
    y: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    makespan: int = -1

    rounds: ClassVar[bool] = False
    """Whether times are whole units, rounded down."""

    def units(self, seconds: float) -> float:
        """Convert seconds to units."""
        return seconds / self.tick

    def granules(self, i: int, u: int) -> dict[int, int]:
        """Granules in the batch of operator i on device u, by column."""
        return {self.b[i, u, c]: c for c in self.instance.sizes(i, u)}

    def taken(self, i: int, u: int) -> Linear:
        """Inputs of operator i on device u."""
        return Linear(0, {column: c * self.instance.granule for column, c in self.granules(i, u).items()})

    def present(self, i: int, u: int) -> Linear:
        """1 if a batch of operator i runs on device u: the sum of b[i, u, c]."""
        return Linear.over(self.granules(i, u))

    def begins(self, i: int, u: int) -> Linear:
        """Start of operator i's batch on device u, in units."""
        return Linear.of(self.starts_at[i, u])

    def length(self, i: int, u: int) -> Linear:
        """Run time of operator i's batch on device u, in units; 0 without one."""
        seconds = self.instance.seconds[i, u]
        return Linear(0, {column: self.units(float(seconds[c])) for column, c in self.granules(i, u).items()})

    def place(self, op: str, device: str | None) -> tuple[int, int]:
        """Positions of an operator and a device.

        Raises
        ------
        InvalidInputError
            If no device is named.
        """
        if device is None:
            raise InvalidInputError(f"operator {op!r} may have a batch on each device: name one, too")
        return self.instance.names.index(op), self.instance.devices.index(device)

    def on(self, op: str, device: str) -> Linear:
        """1 if a batch of operator ``op`` runs on ``device``, otherwise 0."""
        return self.present(*self.place(op, device))

    def batch(self, op: str, device: str) -> Linear:
        """The number of inputs of operator ``op`` that run on ``device``."""
        return self.taken(*self.place(op, device))

    def start(self, op: str, device: str | None = None) -> Linear:
        """The start of the batch of operator ``op`` on ``device``, in seconds; meaningless without a batch."""
        return self.begins(*self.place(op, device)) * self.tick

    def end(self, op: str, device: str | None = None) -> Linear:
        """The end of the batch of operator ``op`` on ``device``, in seconds; meaningless without a batch."""
        i, u = self.place(op, device)
        seconds = self.instance.seconds[i, u]
        lasts = {column: float(seconds[c]) for column, c in self.granules(i, u).items()}
        return self.start(op, device) + Linear(0, lasts)

    def uses(self, device: str) -> Linear:
        """1 if any batch runs on ``device``, otherwise 0."""
        places = (self.on(op, device) for op in self.instance.names)
        return Linear.of(self.any_column("used", device, places))

    def held(self, device: str) -> Linear:
        """Bytes on ``device``: those of all inputs there, and the parameters of the operators there, each once."""
        instance, u = self.instance, self.instance.devices.index(device)
        held = [self.taken(i, u) * size for i, size in enumerate(instance.memory.tolist()) if size]
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        for p, size in enumerate(instance.parameter_bytes.tolist()):
            places = [self.present(i, u) for i in users[p].tolist()]
            if size and any(place.terms for place in places):
                key = (self.problem.graph.parameters[p].id, device)
                held.append(Linear.of(self.any_column("stored", key, places, self.rounds), size))
        return total(held)


class BatchedProgram(ClusterFormulation[BatchedMapping, BatchedSchedule], ABC):
    """A batched mapping as a program."""

    problem_type: ClassVar[type[BatchedMapping]] = BatchedMapping
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)

    def own_rules(self, problem: BatchedMapping) -> dict[str, bool]:
        """Gaps between batch sizes."""
        every = set(range(1, problem.batch + 1))
        gaps = any(sizes.keys() < every for known in problem.known_seconds.values() for sizes in known.values())
        return {"the batch sizes": gaps}


def serial_length(instance: BatchedInstance) -> float:
    """The length of all batches and delays one after the other, at their longest; no schedule needs more time."""
    finite = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    linked = instance.latency[np.isfinite(instance.latency)]
    moved = instance.size * (instance.batch if instance.grows else 1)
    way = float(linked.max(initial=0.0)) * len(moved) + float(moved.sum()) * float(
        instance.seconds_per_byte.max(initial=0)
    )
    return float(finite.max(axis=2).sum()) + way


class BatchedRows(BatchedProgram):
    """The columns and rows that the programs for linear and constraint-programming engines share."""

    def build(self, problem: BatchedMapping) -> BatchedModel:
        """Write the model; row families are in the paper's order."""
        instance = lower_unless_short(problem)
        self.check_size(self.least_rows(problem))
        horizon = serial_length(instance) + self.context.waits
        if self.context.ceiling is not None and not self.context.extended:
            horizon = float(self.context.ceiling) * (1 + CEILING_SLACK)
        model = self.empty(instance, horizon)
        model.problem, model.check_time, model.check_size = problem, self.check_time, self.check_size
        most = model.units(horizon) + (1 if model.rounds else 0)
        self._batches(model, most)
        self._inputs(model)
        self._completion(model)
        self._flows(model)
        self._arrivals(model, most)
        self._memory(model)
        self._no_overlap(model, most)
        self._waits(model, most)
        self.add_constraints(model, problem)
        return model

    @abstractmethod
    def empty(self, instance: BatchedInstance, horizon: float) -> BatchedModel:
        """A model without columns, whose tick is chosen; no schedule of interest is longer than the horizon."""

    def _no_overlap(self, model: BatchedModel, horizon: float) -> None:
        """(7) No two batches on a device overlap."""
        starts, groups = np.asarray(list(model.starts_at.values()), dtype=np.int64), list[list[Interval]]()
        for device in range(len(model.instance.devices)):
            runs = [(i, float(model.instance.seconds[i, u, c]), b) for (i, u, c), b in model.b.items() if u == device]
            groups.append([Interval(model.starts_at[i, device], model.units(lasts), b) for i, lasts, b in runs])
        nothing = np.zeros((len(starts), len(starts)), dtype=bool)
        model.keep_apart("first", groups, starts, lambda: (np.full(len(starts), horizon), nothing))

    def _batches(self, model: BatchedModel, horizon: float) -> None:
        """b, s and C; (4), (5) at most one batch on a device, and all inputs in batches."""
        instance, rows = model.instance, model.rows("sizes")
        cells = [(i, u) for i in range(instance.operators) for u in range(len(instance.devices))]
        names = {(i, u): (instance.names[i], instance.devices[u]) for i, u in cells}
        sizes = [(i, u, c) for i, u in cells for c in instance.sizes(i, u)]
        b = model.binaries("b", [(*names[i, u], c * instance.granule) for i, u, c in sizes])
        model.b = dict(zip(sizes, b.tolist(), strict=True))
        starts = model.columns("s", list(names.values()), 0, horizon, model.rounds)
        model.starts_at = dict(zip(cells, starts.tolist(), strict=True))
        model.makespan = int(model.columns("C", (None,), 0, horizon, model.rounds)[0])
        model.timed.update(starts.tolist(), (model.makespan,))
        model.minimise(Linear.of(model.makespan), model.tick)
        for i, u in cells:
            if np.isinf(instance.seconds[i, u, 0]):
                rows.add(model.present(i, u) == 1)
            elif instance.sizes(i, u):
                rows.add(model.present(i, u) <= 1)
        for i in range(instance.operators):
            rows.add(total(model.taken(i, u) for u in range(len(instance.devices))) == instance.batch)

    def _inputs(self, model: BatchedModel) -> None:
        """(1) x[i, u, l]: every input runs on one device, and each device runs as many inputs as its batch has.

        Inputs are interchangeable, so the devices of the first operator's inputs are sorted.
        """
        instance, rows = model.instance, model.rows("one_device")
        cells = [(i, u) for i, u in model.starts_at if instance.sizes(i, u)]
        keys = [(i, u, inputs) for i, u in cells for inputs in range(instance.batch)]
        x = model.binaries("x", [(instance.names[i], instance.devices[u], inputs) for i, u, inputs in keys])
        model.x = dict(zip(keys, x.tolist(), strict=True))
        for i, u in cells:
            rows.add(model.taken(i, u) == Linear.over(model.x[i, u, inputs] for inputs in range(instance.batch)))
        at = {(i, inputs): Linear() for i in range(instance.operators) for inputs in range(instance.batch)}
        for (i, _, inputs), column in model.x.items():
            at[i, inputs] += Linear.of(column)
        for places in at.values():
            rows.add(places == 1)
        if instance.operators and not self.context.extended:
            first = int(instance.order[0])
            device = [Linear(0, {model.x[i, u, n]: u for i, u in cells if i == first}) for n in range(instance.batch)]
            for earlier, later in pairwise(device):
                model.rows("ordered_inputs").add(earlier <= later)

    def _flows(self, model: BatchedModel) -> None:
        """The data that passes: y[e, u, v, l] is 1 if input l runs at both ends, and p[e, u, v] if any input does.

        The inputs are counted one by one only if the delay grows with them.
        """
        instance, rows, on = model.instance, model.rows("data"), model.instance.devices
        places = [[u for u in range(len(on)) if instance.sizes(i, u)] for i in range(instance.operators)]
        ends = list(zip(instance.source.tolist(), instance.target.tolist(), strict=True))
        arcs = [(e, u, v) for e, (i, j) in enumerate(ends) for u in places[i] for v in places[j]]
        linked = [(e, u, v) for e, u, v in arcs if math.isfinite(instance.latency[u, v])]
        p = model.columns("p", [(e, on[u], on[v]) for e, u, v in linked], 0, 1, model.rounds)
        model.p = dict(zip(linked, p.tolist(), strict=True))
        moved = [(e, u, v, n) for e, u, v in linked if u != v and instance.grows for n in range(instance.batch)]
        y = model.columns("y", [(e, on[u], on[v], n) for e, u, v, n in moved], 0, 1, model.rounds)
        model.y = dict(zip(moved, y.tolist(), strict=True))
        for e, u, v in arcs:
            passes = Linear.of(model.p[e, u, v]) if (e, u, v) in model.p else Linear()
            for n in range(instance.batch):
                both = Linear.over((model.x[ends[e][0], u, n], model.x[ends[e][1], v, n])) - 1
                moves = Linear.of(model.y[e, u, v, n]) if (e, u, v, n) in model.y else passes
                if moves is not passes:
                    rows.add(moves <= passes)
                rows.add(both <= moves)

    def _arrivals(self, model: BatchedModel, horizon: float) -> None:
        """(3) corrected: if any input passes, the reading batch waits for the other batch and for the transfer."""
        instance, inputs = model.instance, range(model.instance.batch)
        for (e, u, v), passes in model.p.items():
            i, j = int(instance.source[e]), int(instance.target[e])
            fixed = instance.delay(e, u, v, 0 if instance.grows else 1)
            each = model.units(instance.delay(e, u, v, 1) - fixed) if instance.grows else 0.0
            moved = Linear.over(model.y[e, u, v, n] for n in inputs if each > 0 and (e, u, v, n) in model.y)
            arrives = total((model.begins(i, u), model.length(i, u), moved * each)) + model.units(fixed)
            big = horizon + model.units(fixed) + instance.batch * each
            model.where("data", arrives <= model.begins(j, v), (Linear.of(passes),), big)

    def _memory(self, model: BatchedModel) -> None:
        """(6) The sum of (im[i] + om[i]) x[i, u, l] and the stored parameters fit into Mem[u]."""
        for device, capacity in zip(model.instance.devices, model.instance.capacity.tolist(), strict=True):
            if capacity != NO_LIMIT:
                model.within("memory", model.held(device), capacity)

    def _waits(self, model: BatchedModel, horizon: float) -> None:
        """Order arcs of side constraints: all batches of one operator end before any batch of the other starts."""
        instance, devices = model.instance, range(len(model.instance.devices))
        for i in range(instance.operators):
            for h in instance.waits[i].tolist():
                for u in devices:
                    for v in devices:
                        end, both = model.begins(h, u) + model.length(h, u), (model.present(h, u), model.present(i, v))
                        model.where("waits", end <= model.begins(i, v), both, horizon)

    def _completion(self, model: BatchedModel) -> None:
        """(2) Every batch ends by C: s[i, u] + sum of b t <= C; and the work of each device fits into it."""
        rows, end, operators = model.rows("completion"), Linear.of(model.makespan), range(model.instance.operators)
        for u in range(len(model.instance.devices)):
            for i in operators:
                rows.add(model.begins(i, u) + model.length(i, u) <= end)
            rows.add(total(model.length(i, u) for i in operators) <= end)

    def extract(self, model: BatchedModel, values: FloatArray) -> BatchedSchedule:
        """The devices and order of the values, with exact times."""
        where = np.zeros((model.instance.operators, model.instance.batch), dtype=np.int64)
        for (i, u, n), column in model.x.items():
            if values[column] > 0.5:
                where[i, n] = u
        start = values[list(model.starts_at.values())].reshape(len(where), -1) * model.tick
        return retimed(model.instance, where, start, release=start if self.context.extended else None)

    def start(self, model: BatchedModel, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, with its inputs renumbered so that the rows hold."""
        instance = model.instance
        where, start = self.settled(model, solution)
        values = np.zeros(len(model))
        count = counts_of(where, len(instance.devices))
        for (i, u, inputs), column in model.x.items():
            values[column] = where[i, inputs] == u
        for (i, u, c), column in model.b.items():
            values[column] = count[i, u] == c * instance.granule
        for (i, u), column in model.starts_at.items():
            values[column] = model.units(float(start[i, u]))
        for (e, u, v), column in model.p.items():
            passing = (where[instance.source[e]] == u) & (where[instance.target[e]] == v)
            values[column] = passing.any()
            for n in range(instance.batch):
                if (e, u, v, n) in model.y:
                    values[model.y[e, u, v, n]] = passing[n]
        values[model.makespan] = model.units(max((batch.end for batch in solution.batches), default=0.0))
        return model.completed(values)

    def settled(self, model: Any, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
        """Device of every input and start of every batch; without a batch, a start that violates no row."""
        instance = model.instance
        where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
        start = np.zeros((instance.operators, len(instance.devices)))
        for batch in solution.batches:
            i, u = model.place(batch.operator, batch.device)
            where[i, list(batch.inputs)] = u
            start[i, u] = batch.start
        if instance.operators and not self.context.extended:
            where = where[:, np.argsort(where[instance.order[0]], kind="stable")]
        return where, start


Place = tuple[int, int]
"""An operator and a device."""


def counts_of(where: IntArray, devices: int) -> IntArray:
    """Inputs (or granules) of every operator on every device. Shape (operators, devices)."""
    count = np.zeros((len(where), devices), dtype=np.int64)
    np.add.at(count, (np.repeat(np.arange(len(where)), where.shape[1]), where.ravel()), 1)
    return count


def retimed(
    instance: BatchedInstance, where: IntArray, start: FloatArray, *, release: FloatArray | None = None
) -> BatchedSchedule:
    """Run every batch as soon as it can, on each device in the order of the given starts.

    Parameters
    ----------
    where
        Device of every input of every operator. Shape (operators, batch).
    start
        Seconds, shape (operators, devices); only the order on a device and along the data counts.
    release
        Earliest starts, shape (operators, devices); None for none.
    """
    count = counts_of(where, len(instance.devices))
    rank, released = np.argsort(instance.order).tolist(), np.zeros(count.shape) if release is None else release
    activities, before = dict[Place, Activity](), dict[Place, list[tuple[Place, float]]]()
    for i, u in zip(*(ends.tolist() for ends in np.nonzero(count)), strict=True):
        lasts = float(instance.seconds[i, u, count[i, u] // instance.granule])
        activities[i, u] = Activity(lasts, float(start[i, u]), rank[i], [u], float(released[i, u]))
        waits = [(h, w) for h in instance.waits[i].tolist() for w in np.flatnonzero(count[h]).tolist()]
        before[i, u] = [(place, 0.0) for place in waits]
        for e in instance.incoming[i].tolist():
            h = int(instance.source[e])
            devices, moved = np.unique(where[h, where[i] == u], return_counts=True)
            passing = zip(devices.tolist(), moved.tolist(), strict=True)
            before[i, u] += [((h, w), instance.delay(e, w, u, inputs)) for w, inputs in passing]
    batches = (
        Batch(
            operator=instance.names[i],
            device=instance.devices[u],
            inputs=tuple(np.flatnonzero(where[i] == u).tolist()),
            start=begins,
            end=begins + activities[i, u].seconds,
        )
        for (i, u), begins in earliest_starts(activities, before).items()
    )
    return BatchedSchedule(batches=tuple(batches))
