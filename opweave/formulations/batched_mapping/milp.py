"""Batched mapping as a mixed-integer program: equations (1)-(7) of "DiviML", with (3) corrected.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms", section IV-A. As printed, (3) makes a batch wait for a batch of its predecessor even if no input passes
between them; :class:`Printed` keeps those rows for comparison. In :class:`Identities` a batch waits only if an input
does pass. Then nothing else orders two batches on a device that are joined by a path but share no inputs, so (7) covers
all pairs there. Inputs are interchangeable: those of the first operator are sorted by device.

Identical devices are interchangeable too. Section VI orders them by their number of tasks, their number of batches, or
their busy time. Each order is a formulation of its own (``"tasks"``, ``"batches"``, ``"busy"``). In ``"first_use"``, an
operator uses an identical device only if it or an earlier operator uses the previous one of them.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use handles of the model that take names:
``model.on(op, device)`` is 1 if a batch of the operator runs there, ``model.batch(op, device)`` is its number of
inputs, ``model.held(device)`` is in bytes, ``model.start(op, device)`` and ``model.end(op, device)`` are in seconds
(without meaning if nothing runs there).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower, lower_unless_short
from opweave.formulations.batched_mapping.program import Arc, BatchedModel, BatchedProgram, serial_length
from opweave.formulations.batched_mapping.retime import counts_of, retimed
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""


@dataclass(eq=False)
class OrderedModel(BatchedModel):
    """The program for linear engines.

    Attributes
    ----------
    horizon
        No schedule of interest is longer, in units.
    extended
        Whether unknown rows will be added later.
    d
        Column of "i's batch runs before j's on u", for i < j.
    """

    horizon: float = UNITS
    extended: bool = False
    d: dict[tuple[int, int, int], int] = field(default_factory=dict)


class BatchedRows(BatchedProgram):
    """The columns and rows that the programs for linear and constraint-programming engines share."""

    def _horizon(self, instance: BatchedInstance) -> float:
        """No optimal schedule is longer: that of a known one, or all batches and delays one after the other."""
        if self.context.ceiling is not None and not self.context.extended:
            return float(self.context.ceiling) * (1 + CEILING_SLACK)
        return serial_length(instance) + self.context.waits

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
        cells = [
            (i, u) for i in range(instance.operators) for u in range(len(instance.devices)) if instance.sizes(i, u)
        ]
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

    def _arcs(self, model: BatchedModel) -> list[Arc]:
        """Every edge between every two devices that can run its ends."""
        instance, devices = model.instance, range(len(model.instance.devices))
        return [
            (e, u, v)
            for e in range(len(instance.source))
            for u in devices
            for v in devices
            if instance.sizes(int(instance.source[e]), u) and instance.sizes(int(instance.target[e]), v)
        ]

    def _passages(self, model: BatchedModel) -> None:
        """The columns p of all arcs with a link."""
        on, latency = model.instance.devices, model.instance.latency
        linked = [(e, u, v) for e, u, v in self._arcs(model) if u == v or math.isfinite(latency[u, v])]
        p = model.columns("p", [(e, on[u], on[v]) for e, u, v in linked], 0, 1, model.rounds)
        model.p = dict(zip(linked, p.tolist(), strict=True))

    def _flows(self, model: BatchedModel) -> None:
        """The data that passes: y[e, u, v, l] is 1 if input l runs at both ends, and p[e, u, v] if any input does."""
        instance, rows = model.instance, model.rows("data")
        self._passages(model)
        moved = [(*arc, n) for arc in model.p if arc[1] != arc[2] and instance.grows for n in range(instance.batch)]
        keys = [(e, instance.devices[u], instance.devices[v], n) for e, u, v, n in moved]
        model.y = dict(zip(moved, model.columns("y", keys, 0, 1, model.rounds).tolist(), strict=True))
        for e, u, v in self._arcs(model):
            i, j = int(instance.source[e]), int(instance.target[e])
            for inputs in range(instance.batch):
                both = Linear.over((model.x[i, u, inputs], model.x[j, v, inputs])) - 1
                passes = Linear.of(model.p[e, u, v]) if (e, u, v) in model.p else Linear()
                if (e, u, v, inputs) in model.y:
                    moves = Linear.of(model.y[e, u, v, inputs])
                    rows.add(moves <= passes)
                    passes = moves
                rows.add(both <= passes)

    def _moved(self, model: Any, arc: Arc) -> Linear:
        """The inputs that pass along an arc, if the delay grows with them."""
        each = ((*arc, inputs) for inputs in range(model.instance.batch))
        return Linear.over(model.y[key] for key in each if key in model.y)

    def _arrivals(self, model: BatchedModel, horizon: float) -> None:
        """(3) corrected: if any input passes, the reading batch waits for the other batch and for the transfer."""
        instance = model.instance
        for (e, u, v), passes in model.p.items():
            i, j = int(instance.source[e]), int(instance.target[e])
            fixed = instance.delay(e, u, v, 0 if instance.grows else 1)
            each = instance.delay(e, u, v, 1) - fixed if instance.grows else 0.0
            sent = self._moved(model, (e, u, v)) * model.units(each) if model.units(each) > 0 else Linear()
            arrives = total((model.begins(i, u), model.length(i, u), sent)) + model.units(fixed)
            big = horizon + model.units(fixed) + instance.batch * model.units(each)
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
        return self._timed(model, values, self._where(model, values))

    def _where(self, model: BatchedModel, values: FloatArray) -> IntArray:
        where = np.zeros((model.instance.operators, model.instance.batch), dtype=np.int64)
        for (i, u, inputs), column in model.x.items():
            if values[column] > 0.5:
                where[i, inputs] = u
        return where

    def _timed(self, model: BatchedModel, values: FloatArray, where: IntArray) -> BatchedSchedule:
        shape = len(where), len(model.instance.devices)
        start = values[list(model.starts_at.values())].reshape(shape) * model.tick
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
            values[column] = passing(instance, where, (e, u, v)).any()
        for (e, u, v, inputs), column in model.y.items():
            values[column] = passing(instance, where, (e, u, v))[inputs]
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


@register_formulation
class Identities(BatchedRows):
    """(1)-(7) with a device for every input; batches wait only for data that flows."""

    name: ClassVar[str] = "identities"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, (1)-(7) with (3) corrected, doi:10.48550/arXiv.2308.00127"
    model_type: ClassVar[type[LinearModel]] = OrderedModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")

    def build(self, problem: BatchedMapping) -> OrderedModel:
        """Write the model; row families are in the paper's order."""
        instance = lower_unless_short(problem)
        self.check_size(self.least_rows(problem))
        horizon = self._horizon(instance)
        self._unit = horizon / UNITS if horizon > 0 else 1.0
        model = OrderedModel(instance, horizon=horizon / self._unit, extended=self.context.extended)
        model.problem, model.tick, model.check_time = problem, self._unit, self.check_time
        self._batches(model, model.horizon)
        self._inputs(model)
        self._completion(model)
        self._flows(model)
        self._arrivals(model, model.horizon)
        self._memory(model)
        self._no_overlap(model)
        self._waits(model, model.horizon)
        self._more_rows(model)
        self.add_constraints(model, problem)
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of (7) for all pairs, and of the inputs that flow."""
        instance, devices = lower(problem), len(problem.cluster.devices)
        pairs, flows = instance.operators * (instance.operators - 1) // 2, len(instance.source) * devices**2
        return flows * (2 * problem.batch + 1) + 2 * pairs * devices

    def _no_overlap(self, model: OrderedModel) -> None:
        """(7) for all pairs on a device: one of two batches ends before the other starts."""
        instance, operators = model.instance, range(model.instance.operators)
        pairs = [
            (i, j, u)
            for u in range(len(instance.devices))
            for i in operators
            for j in operators[i + 1 :]
            if instance.sizes(i, u) and instance.sizes(j, u)
        ]
        names, on = instance.names, instance.devices
        d = model.binaries("d", [(names[i], names[j], on[u]) for i, j, u in pairs])
        model.d = dict(zip(pairs, d.tolist(), strict=True))
        for (i, j, u), column in model.d.items():
            a, b, first = model.begins(i, u), model.begins(j, u), Linear.of(column)
            model.where("no_overlap", a + model.length(i, u) <= b, (first,), model.horizon)
            model.where("no_overlap", b + model.length(j, u) <= a, (1 - first,), model.horizon)

    def _more_rows(self, model: OrderedModel) -> None:
        """Add the rows of a variant; here there are none."""

    def start(self, model: Any, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, and which batch comes first."""
        values = super().start(model, solution)
        where, start = self.settled(model, solution)
        turns = _in_turn(model.instance, counts_of(where, start.shape[1]), start)
        rank = {node: place for place, node in enumerate(turns)}
        for (i, j, u), column in model.d.items():
            values[column] = rank[i, u] < rank[j, u]
        return values


def passing(instance: BatchedInstance, where: IntArray, arc: Arc) -> BoolArray:
    """Whether each input runs at both ends of an arc."""
    e, u, v = arc
    return np.asarray((where[instance.source[e]] == u) & (where[instance.target[e]] == v))


def _in_turn(instance: BatchedInstance, count: IntArray, start: FloatArray) -> Iterable[tuple[int, int]]:
    """All nodes by start; nodes without a batch have start 0 and come before everything else."""
    rank = np.empty(instance.operators, dtype=np.int64)
    rank[instance.order] = np.arange(instance.operators)

    def key(node: tuple[int, int]) -> tuple[float, bool, float, int]:
        i, u = node
        there = count[i, u] > 0
        lasts = float(instance.seconds[i, u, count[i, u] // instance.granule]) if there else 0.0
        return float(start[i, u]), bool(there), lasts, int(rank[i])

    return sorted(((i, u) for i in range(len(start)) for u in range(start.shape[1])), key=key)
