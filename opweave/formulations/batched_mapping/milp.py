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
inputs, ``model.start(op, device)`` and ``model.end(op, device)`` are in seconds (without meaning if nothing runs
there).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import TAKEN_IN, BatchedInstance
from opweave.formulations.batched_mapping.program import BatchedModel, instance_of, serial_length, understand
from opweave.formulations.batched_mapping.retime import counts_of, retimed
from opweave.formulations.batched_mapping.shortage import rules_in_the_way, shortage
from opweave.formulations.formulation import TOLERANCE, Formulation, register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import check_rows
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""

WHOLE_BYTES = 1e7
"""Largest side of a memory row, in its unit."""


@register_formulation
class Identities(Formulation[BatchedMapping, BatchedSchedule]):
    """(1)-(7) with a device for every input; batches wait only for data that flows."""

    name: ClassVar[str] = "identities"
    problem_type: ClassVar[type[BatchedMapping]] = BatchedMapping
    model_type: ClassVar[type[LinearModel]] = BatchedModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unit = 1.0

    def build(self, problem: BatchedMapping) -> BatchedModel:
        """Write the model; row families are in the paper's order."""
        instance = instance_of(problem)
        devices = len(instance.devices)
        pairs = instance.operators * (instance.operators - 1) // 2
        flows = len(instance.source) * devices**2
        check_rows(flows * (2 * problem.batch + 1) + 2 * pairs * devices, self.name, self.context.limits)
        horizon = self._horizon(instance)
        self._unit = horizon / UNITS if horizon > 0 else 1.0
        model = BatchedModel(instance, horizon / self._unit, self.context.extended)
        model.problem, model.tick, model.check_time = problem, self._unit, self.check_time
        self._columns(model)
        model.minimise(Linear.of(model.makespan), self._unit)
        for write in (
            self._one_device,
            self._completion,
            self._data,
            self._sizes,
            self._memory,
            self._no_overlap,
            self._waits,
            self._ordered_inputs,
            self._more_rows,
        ):
            self.check_time()
            write(model)
        self.add_constraints(model, problem)
        return model

    def _horizon(self, instance: BatchedInstance) -> float:
        """No optimal schedule is longer: that of a known one, or all batches and delays one after the other."""
        if self.context.ceiling is not None and not self.context.extended:
            return float(self.context.ceiling) * (1 + CEILING_SLACK)
        return serial_length(instance) + self.context.waits

    def _columns(self, model: BatchedModel) -> None:
        instance = model.instance
        operators, devices, batch = instance.operators, len(instance.devices), instance.batch
        names, on = instance.names, instance.devices
        cells = [(i, u) for i in range(operators) for u in range(devices)]
        x = model.binaries("x", [(names[i], on[u], inputs) for i, u in cells for inputs in range(batch)])
        model.x = x.reshape(operators, devices, batch)
        sizes = [(i, u, c) for i, u in cells for c in instance.sizes(i, u)]
        b = model.binaries("b", [(names[i], on[u], c * instance.granule) for i, u, c in sizes])
        model.b = dict(zip(sizes, b.tolist(), strict=True))
        starts = model.reals("s", [(names[i], on[u]) for i, u in cells], high=model.horizon)
        model.starts_at = starts.reshape(operators, devices)
        arcs = [
            (e, u, v)
            for e in range(len(instance.source))
            for u in range(devices)
            for v in range(devices)
            if instance.sizes(int(instance.source[e]), u) and instance.sizes(int(instance.target[e]), v)
        ]
        p = model.reals("p", [(e, on[u], on[v]) for e, u, v in arcs], high=1.0)
        model.p = dict(zip(arcs, p.tolist(), strict=True))
        moved = [(*arc, inputs) for arc in arcs if arc[1] != arc[2] and instance.grows for inputs in range(batch)]
        y = model.reals("y", [(e, on[u], on[v], inputs) for e, u, v, inputs in moved], high=1.0)
        model.y = dict(zip(moved, y.tolist(), strict=True))
        pairs = [
            (i, j, u)
            for u in range(devices)
            for i in range(operators)
            for j in range(i + 1, operators)
            if instance.sizes(i, u) and instance.sizes(j, u)
        ]
        d = model.binaries("d", [(names[i], names[j], on[u]) for i, j, u in pairs])
        model.d = dict(zip(pairs, d.tolist(), strict=True))
        model.makespan = model.real("C", high=model.horizon)
        model.timed.update(starts.tolist(), (model.makespan,))

    def _one_device(self, model: BatchedModel) -> None:
        """(1) Every input of every operator runs on one device: sum over u of x[i, u, l] = 1."""
        for columns in model.x.swapaxes(1, 2).reshape(-1, len(model.instance.devices)).tolist():
            model.rows("one_device").add(Linear.over(columns) == 1)

    def _completion(self, model: BatchedModel) -> None:
        """(2) Every batch ends by C: s[i, u] + sum of b t <= C; and the work of each device fits into it."""
        rows, end = model.rows("completion"), Linear.of(model.makespan)
        operators, devices = model.starts_at.shape
        for u in range(devices):
            for i in range(operators):
                rows.add(model.begins(i, u) + model.length(i, u) <= end)
            rows.add(total(model.length(i, u) for i in range(operators)) <= end)

    def _data(self, model: BatchedModel) -> None:
        """(3) corrected: p[e, u, v] >= x[i, u, l] + x[j, v, l] - 1; if p is 1, j's batch waits for i's data."""
        rows, instance = model.rows("data"), model.instance
        for (e, u, v), column in model.p.items():
            i, j, passes = int(instance.source[e]), int(instance.target[e]), Linear.of(column)
            linked = u == v or math.isfinite(instance.latency[u, v])
            for inputs in range(instance.batch):
                both = Linear.over((int(model.x[i, u, inputs]), int(model.x[j, v, inputs])))
                if not linked:
                    rows.add(both <= 1)
                    continue
                rows.add(both - passes <= 1)
                if (e, u, v, inputs) in model.y:
                    rows.add(both - Linear.of(model.y[e, u, v, inputs]) <= 1)
            if linked:
                self._arrival(model, (e, u, v), passes)

    def _arrival(self, model: BatchedModel, arc: tuple[int, int, int], passes: Linear) -> None:
        e, u, v = arc
        instance, tick = model.instance, model.tick
        i, j = int(instance.source[e]), int(instance.target[e])
        fixed = instance.delay(e, u, v, 0 if instance.grows else 1) / tick
        each = (instance.delay(e, u, v, 1) / tick - fixed) if instance.grows else 0.0
        big = model.horizon + fixed + instance.batch * each
        sent = Linear.over((model.y[e, u, v, inputs] for inputs in range(instance.batch)), each) if each > 0 else 0.0
        arrives = model.begins(i, u) + model.length(i, u) + fixed + sent
        model.rows("data").add(arrives - model.begins(j, v) <= big * (1 - passes))

    def _sizes(self, model: BatchedModel) -> None:
        """(4), (5) sum of x[i, u, l] = sum of s b[i, u, s]; at most one size; the sizes add up to the batch."""
        rows, instance = model.rows("sizes"), model.instance
        for i in range(instance.operators):
            inputs = [model.batch(instance.names[i], name) for name in instance.devices]
            for u, taken in enumerate(inputs):
                rows.add(taken == Linear.over(model.x[i, u].tolist()))
                if np.isinf(instance.seconds[i, u, 0]):
                    rows.add(model.present(i, u) == 1)
                elif instance.sizes(i, u):
                    rows.add(model.present(i, u) <= 1)
            rows.add(total(inputs) == instance.batch)

    def _memory(self, model: BatchedModel) -> None:
        """(6) The sum of (im[i] + om[i]) x[i, u, l] and the stored parameters fit into Mem[u]."""
        rows, instance = model.rows("memory"), model.instance
        limited = [u for u, capacity in enumerate(instance.capacity.tolist()) if capacity != NO_LIMIT]
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        pairs = [(p, u) for p in range(len(instance.parameter_bytes)) for u in limited if len(users[p])]
        stored = model.reals("stored", [(p, instance.devices[u]) for p, u in pairs], high=1.0)
        model.stored = dict(zip(pairs, stored.tolist(), strict=True))
        for (p, u), column in model.stored.items():
            for i in users[p].tolist():
                if instance.sizes(i, u):
                    rows.add(model.present(i, u) <= Linear.of(column))
        for u in limited:
            unit = max(1.0, float(instance.capacity[u]) / WHOLE_BYTES)
            sizes = [
                (int(c), float(instance.memory[i]) / unit) for i in range(instance.operators) for c in model.x[i, u]
            ]
            sizes += [(model.stored[p, at], float(instance.parameter_bytes[p]) / unit) for p, at in pairs if at == u]
            held = Linear(0, {column: size for column, size in sizes if size > 0})
            rows.add(held <= float(instance.capacity[u]) / unit)

    def _no_overlap(self, model: BatchedModel) -> None:
        """(7) for all pairs on a device: one of two batches ends before the other starts."""
        rows, big = model.rows("no_overlap"), model.horizon
        for (i, j, u), column in model.d.items():
            a, b, first = model.begins(i, u), model.begins(j, u), Linear.of(column)
            rows.add(a + model.length(i, u) - b <= big * (1 - first))
            rows.add(b + model.length(j, u) - a <= big * first)

    def _waits(self, model: BatchedModel) -> None:
        """Order arcs of side constraints: all batches of one operator end before any batch of the other starts."""
        rows, instance, big = model.rows("waits"), model.instance, model.horizon
        devices = range(len(instance.devices))
        for i in range(instance.operators):
            for h in instance.waits[i].tolist():
                for u in devices:
                    for v in devices:
                        both = model.present(h, u) + model.present(i, v)
                        end = model.begins(h, u) + model.length(h, u)
                        rows.add(end - model.begins(i, v) <= big * (2 - both))

    def _ordered_inputs(self, model: BatchedModel) -> None:
        """Inputs are interchangeable, so the devices of the first operator's inputs are sorted."""
        instance = model.instance
        if not instance.operators or self.context.extended:
            return
        first = model.x[int(instance.order[0])]
        device = [Linear(0, {int(c): u for u, c in enumerate(first[:, n]) if u}) for n in range(instance.batch)]
        for earlier, later in pairwise(device):
            model.rows("ordered_inputs").add(earlier <= later)

    def _more_rows(self, model: BatchedModel) -> None:
        """Add the rows of a variant; here there are none."""

    def extract(self, model: BatchedModel, values: FloatArray) -> BatchedSchedule:
        """The devices and order of the values, with exact times."""
        where = values[model.x].argmax(axis=1)
        start = values[model.starts_at] * model.tick
        return retimed(model.instance, where, start, release=start if self.context.extended else None)

    def start(self, model: BatchedModel, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, with its inputs renumbered so that the rows hold."""
        instance = model.instance
        where, start = self.settled(model, solution)
        values = np.zeros(len(model))
        count = counts_of(where, len(instance.devices))
        for i in range(instance.operators):
            values[model.x[i, where[i], np.arange(instance.batch)]] = 1.0
        for (i, u, c), column in model.b.items():
            values[column] = float(count[i, u] == c * instance.granule)
        values[model.starts_at.ravel()] = start.ravel() / model.tick
        for (e, u, v), column in model.p.items():
            passes = (where[instance.source[e]] == u) & (where[instance.target[e]] == v)
            values[column] = float(passes.any())
        for (e, u, v, inputs), column in model.y.items():
            values[column] = float(where[instance.source[e], inputs] == u and where[instance.target[e], inputs] == v)
        rank = {node: place for place, node in enumerate(_in_turn(instance, count, start))}
        for (i, j, u), column in model.d.items():
            values[column] = float(rank[i, u] < rank[j, u])
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        for (parameter, u), column in model.stored.items():
            values[column] = float((count[users[parameter], u] > 0).any())
        for u, column in model.used.items():
            values[column] = float((count[:, u] > 0).any())
        values[model.makespan] = max((batch.end for batch in solution.batches), default=0.0) / model.tick
        return values

    def settled(self, model: BatchedModel, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
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

    def resolution(self) -> float:
        """The tolerances of engines, in seconds."""
        return TOLERANCE * self._unit

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Convert units of the model to seconds."""
        return max(0.0, value * self._unit)

    def why_infeasible(self, problem: BatchedMapping) -> str:
        """Say why there is no schedule if that is easy to see; otherwise name the rules that may exclude all."""
        rules = rules_in_the_way(problem, rows_added=self.context.extended)
        return shortage(problem) or f"no schedule respects {rules}"


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


understand(Identities.name)
