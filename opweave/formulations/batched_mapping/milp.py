"""Batched mapping as a mixed-integer program: equations (1)-(7) of "DiviML", with (3) mended.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms", section IV-A. As printed, (3) makes a batch wait for a batch of its predecessor even where no input passes
from one to the other; :class:`Printed` keeps those rows, to compare. :class:`Identities` asks a batch to wait only
where an input does pass. Nothing else orders two batches on a device that are joined by a path but share no inputs, so
that (7) holds for all pairs there. Inputs are interchangeable: those of the first operator are sorted by device.

Identical devices are interchangeable, too. Section VI orders them by their number of tasks, their batches, or their
busy time; each is a formulation of its own (``"tasks"``, ``"batches"``, ``"busy"``), and so is ``"first_use"``: of
identical devices none is used by an operator before the one in front of it was used by that operator or an earlier one.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use handles of the model that take names:
``model.on(op, device)`` is 1 when a batch of the operator runs there, ``model.inputs(op, device)`` counts its inputs,
``model.starts(op, device)`` and ``model.ends(op, device)`` are seconds (of no meaning where nothing runs).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import TAKEN_IN, BatchedInstance
from opweave.formulations.batched_mapping.program import BatchedModel, add_row, instance_of, serial_length, understand
from opweave.formulations.batched_mapping.retime import counts_of, retimed
from opweave.formulations.batched_mapping.shortage import rules_in_the_way, shortage
from opweave.formulations.bulk import Rows, Terms, check_rows, linear_objective
from opweave.formulations.formulation import TOLERANCE, Formulation, register_formulation
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Precede, Separate

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel

UNITS = 1000.0
"""The horizon in the model's units of time: engines' tolerances are absolute, so times are scaled to them."""

CEILING_SLACK = 1e-6
"""How far above a known schedule's length schedules are still kept, relative: room for engines' tolerances."""

WHOLE_BYTES = 1e7
"""Largest side of a memory row, in its unit."""


@register_formulation
class Identities(Formulation[BatchedMapping, BatchedSchedule]):
    """(1)-(7) with every input's device, waiting only for data that flows."""

    name: ClassVar[str] = "identities"
    problem_type: ClassVar[type[BatchedMapping]] = BatchedMapping
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Colocate, Separate, MaxDevices)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unit = 1.0

    def build(self, problem: BatchedMapping) -> ConcreteModel:
        """Write the model, families in the paper's order."""
        from pyomo.environ import ConcreteModel

        instance = instance_of(problem)
        devices = len(instance.devices)
        pairs = instance.operators * (instance.operators - 1) // 2
        flows = len(instance.source) * devices**2
        check_rows(flows * (2 * problem.batch + 1) + 2 * pairs * devices, self.name, self.context.limits)
        model = ConcreteModel()
        horizon = self._horizon(instance)
        self._unit = horizon / UNITS if horizon > 0 else 1.0
        written = BatchedModel(model, problem, instance, horizon / self._unit, self._unit, self.context.extended)
        model.batched = written
        self._columns(written)
        self._handles(model, written)
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
            write(written)
        self.add_constraints(model, problem)
        return model

    def _horizon(self, instance: BatchedInstance) -> float:
        """No best schedule is longer: that of a known one, or all batches and all delays one after the other."""
        if self.context.ceiling is not None and not self.context.extended:
            return float(self.context.ceiling) * (1 + CEILING_SLACK)
        return serial_length(instance) + self.context.waits

    def times(self, model: Any) -> tuple[Collection[Any], float]:
        return ("s", "C"), self._unit

    def _columns(self, written: BatchedModel) -> None:
        instance = written.instance
        operators, devices, batch = instance.operators, len(instance.devices), instance.batch
        cells = [(i, u) for i in range(operators) for u in range(devices)]
        written.x = np.asarray(written.family("x", len(cells) * batch, binary=True), dtype=np.int64)
        written.x = written.x.reshape(operators, devices, batch)
        sizes = [(i, u, c) for i, u in cells for c in instance.sizes(i, u)]
        written.b = dict(zip(sizes, written.family("b", len(sizes), binary=True), strict=True))
        starts = written.family("s", len(cells), binary=False, high=written.horizon)
        written.start = np.asarray(starts, dtype=np.int64).reshape(operators, devices)
        arcs = [
            (e, u, v)
            for e in range(len(instance.source))
            for u in range(devices)
            for v in range(devices)
            if instance.sizes(int(instance.source[e]), u) and instance.sizes(int(instance.target[e]), v)
        ]
        written.p = dict(zip(arcs, written.family("p", len(arcs), binary=False), strict=True))
        moved = [(*arc, inputs) for arc in arcs if arc[1] != arc[2] and instance.grows for inputs in range(batch)]
        written.y = dict(zip(moved, written.family("y", len(moved), binary=False), strict=True))
        pairs = [
            (i, j, u)
            for u in range(devices)
            for i in range(operators)
            for j in range(i + 1, operators)
            if instance.sizes(i, u) and instance.sizes(j, u)
        ]
        written.d = dict(zip(pairs, written.family("d", len(pairs), binary=True), strict=True))
        written.makespan = written.family("C", 1, binary=False, high=written.horizon)[0]

    def _handles(self, model: ConcreteModel, written: BatchedModel) -> None:
        def starts(op: str, device: str) -> LinearExpression:
            i, u = written.place(op, device)
            return written.handle({int(written.start[i, u]): written.unit})

        def ends(op: str, device: str) -> LinearExpression:
            i, u = written.place(op, device)
            lasts = {column: units * written.unit for column, units in written.length(i, u).items()}
            return written.handle({int(written.start[i, u]): written.unit, **lasts})

        def inputs(op: str, device: str) -> LinearExpression:
            i, u = written.place(op, device)
            return written.handle(dict.fromkeys(written.x[i, u].tolist(), 1.0))

        model.on = lambda op, device: written.handle(written.present(*written.place(op, device)))
        model.starts, model.ends, model.inputs = starts, ends, inputs
        model.objective = linear_objective({written.makespan: 1.0}, 0.0, written.variables)

    def _one_device(self, written: BatchedModel) -> None:
        """(1) Every input of every operator runs on one device: sum over u of x[i, u, l] = 1."""
        rows = Rows()
        for i in range(written.instance.operators):
            for inputs in range(written.instance.batch):
                rows.equal(dict.fromkeys(written.x[i, :, inputs].tolist(), 1.0), 1.0)
        written.add_rows("one_device", rows)

    def _completion(self, written: BatchedModel) -> None:
        """(2) Every batch ends by C: s[i, u] + sum of b t <= C; and the work of each device fits into it."""
        rows = Rows()
        operators, devices = written.start.shape
        for u in range(devices):
            work: Terms = {}
            for i in range(operators):
                lasts = written.length(i, u)
                rows.at_most({int(written.start[i, u]): 1.0, written.makespan: -1.0, **lasts}, 0.0)
                work |= lasts
            rows.at_most({**work, written.makespan: -1.0}, 0.0)
        written.add_rows("completion", rows)

    def _data(self, written: BatchedModel) -> None:
        """(3) mended: p[e, u, v] >= x[i, u, l] + x[j, v, l] - 1; where p is 1, j's batch waits for i's and the way."""
        rows, instance = Rows(), written.instance
        for (e, u, v), passes in written.p.items():
            i, j = int(instance.source[e]), int(instance.target[e])
            linked = u == v or math.isfinite(instance.latency[u, v])
            for inputs in range(instance.batch):
                both = {int(written.x[i, u, inputs]): 1.0, int(written.x[j, v, inputs]): 1.0}
                if not linked:
                    rows.at_most(both, 1.0)
                    continue
                rows.at_most({**both, passes: -1.0}, 1.0)
                if (e, u, v, inputs) in written.y:
                    rows.at_most({**both, written.y[e, u, v, inputs]: -1.0}, 1.0)
            if linked:
                self._arrival(written, rows, (e, u, v), passes)
        written.add_rows("data", rows)

    def _arrival(self, written: BatchedModel, rows: Rows, arc: tuple[int, int, int], passes: int) -> None:
        e, u, v = arc
        instance, unit = written.instance, written.unit
        i, j = int(instance.source[e]), int(instance.target[e])
        fixed = instance.delay(e, u, v, 0 if instance.grows else 1) / unit
        each = (instance.delay(e, u, v, 1) / unit - fixed) if instance.grows else 0.0
        big = written.horizon + fixed + instance.batch * each
        terms = {int(written.start[i, u]): 1.0, int(written.start[j, v]): -1.0, passes: big, **written.length(i, u)}
        if each > 0:
            terms |= {written.y[e, u, v, inputs]: each for inputs in range(instance.batch)}
        rows.at_most(terms, big - fixed)

    def _sizes(self, written: BatchedModel) -> None:
        """(4), (5) sum of x[i, u, l] = sum of s b[i, u, s]; at most one size; the sizes add up to the batch."""
        rows, instance = Rows(), written.instance
        for i in range(instance.operators):
            total: Terms = {}
            for u in range(len(instance.devices)):
                sizes = instance.sizes(i, u)
                inputs = {written.b[i, u, c]: float(c * instance.granule) for c in sizes}
                total |= inputs
                taken = dict.fromkeys(written.x[i, u].tolist(), -1.0)
                rows.equal({**inputs, **taken}, 0.0)
                if np.isinf(instance.seconds[i, u, 0]):
                    rows.equal(written.present(i, u), 1.0)
                elif sizes:
                    rows.at_most(written.present(i, u), 1.0)
            rows.equal(total, float(instance.batch))
        written.add_rows("sizes", rows)

    def _memory(self, written: BatchedModel) -> None:
        """(6) sum of (im[i] + om[i]) x[i, u, l] and the parameters held fit into Mem[u]."""
        rows, instance = Rows(), written.instance
        limited = [u for u, capacity in enumerate(instance.capacity.tolist()) if capacity != NO_LIMIT]
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        pairs = [(p, u) for p in range(len(instance.parameter_bytes)) for u in limited if len(users[p])]
        written.held = dict(zip(pairs, written.family("held", len(pairs), binary=False), strict=True))
        for (p, u), column in written.held.items():
            for i in users[p].tolist():
                if instance.sizes(i, u):
                    rows.at_most({**written.present(i, u), column: -1.0}, 0.0)
        for u in limited:
            unit = max(1.0, float(instance.capacity[u]) / WHOLE_BYTES)
            terms = {
                int(c): float(instance.memory[i]) / unit for i in range(instance.operators) for c in written.x[i, u]
            }
            terms |= {written.held[p, at]: float(instance.parameter_bytes[p]) / unit for p, at in pairs if at == u}
            rows.at_most(
                {column: size for column, size in terms.items() if size > 0}, float(instance.capacity[u]) / unit
            )
        written.add_rows("memory", rows)

    def _no_overlap(self, written: BatchedModel) -> None:
        """(7) for all pairs on a device: one of two batches ends before the other starts."""
        rows = Rows()
        big = written.horizon
        for (i, j, u), first in written.d.items():
            a, b = int(written.start[i, u]), int(written.start[j, u])
            rows.at_most({a: 1.0, b: -1.0, first: big, **written.length(i, u)}, big)
            rows.at_most({b: 1.0, a: -1.0, first: -big, **written.length(j, u)}, 0.0)
        written.add_rows("no_overlap", rows)

    def _waits(self, written: BatchedModel) -> None:
        """Order arcs of side constraints: all batches of the one end before any of the other starts."""
        rows, instance = Rows(), written.instance
        big = written.horizon
        for i in range(instance.operators):
            for h in instance.waits[i].tolist():
                for u in range(len(instance.devices)):
                    for v in range(len(instance.devices)):
                        there = {
                            **dict.fromkeys(written.present(h, u), big),
                            **dict.fromkeys(written.present(i, v), big),
                        }
                        for column, lasts in written.length(h, u).items():
                            there[column] += lasts
                        ends = {int(written.start[h, u]): 1.0, int(written.start[i, v]): -1.0, **there}
                        rows.at_most(ends, 2.0 * big)
        written.add_rows("waits", rows)

    def _ordered_inputs(self, written: BatchedModel) -> None:
        """Inputs are interchangeable: the devices of the first operator's inputs never go back."""
        rows, instance = Rows(), written.instance
        if instance.operators and not self.context.extended:
            first = int(instance.order[0])
            for inputs in range(instance.batch - 1):
                terms = {int(written.x[first, u, inputs]): float(u) for u in range(len(instance.devices))}
                terms |= {int(written.x[first, u, inputs + 1]): -float(u) for u in range(len(instance.devices))}
                rows.at_most({column: value for column, value in terms.items() if value}, 0.0)
        written.add_rows("ordered_inputs", rows)

    def _more_rows(self, written: BatchedModel) -> None:
        """What a variant adds; nothing here."""

    def extract(self, model: ConcreteModel) -> BatchedSchedule:
        """Devices and order from the values, exact times from those."""
        written: BatchedModel = model.batched
        values = np.asarray([variable.value or 0.0 for variable in written.variables])
        where = values[written.x].argmax(axis=1)
        start = values[written.start] * written.unit
        return retimed(written.instance, where, start, release=start if self.context.extended else None)

    def start(self, model: ConcreteModel, solution: BatchedSchedule) -> None:
        """Set every column to what a known schedule implies, its inputs renumbered as the rows want them."""
        written: BatchedModel = model.batched
        instance = written.instance
        where, start = self.settled(written, solution)
        values = np.zeros(len(written.variables))
        count = counts_of(where, len(instance.devices))
        for i in range(instance.operators):
            values[written.x[i, where[i], np.arange(instance.batch)]] = 1.0
        for (i, u, c), column in written.b.items():
            values[column] = float(count[i, u] == c * instance.granule)
        values[written.start.ravel()] = start.ravel() / written.unit
        for (e, u, v), column in written.p.items():
            passes = (where[instance.source[e]] == u) & (where[instance.target[e]] == v)
            values[column] = float(passes.any())
        for (e, u, v, inputs), column in written.y.items():
            values[column] = float(where[instance.source[e], inputs] == u and where[instance.target[e], inputs] == v)
        rank = {node: place for place, node in enumerate(_in_turn(instance, count, start))}
        for (i, j, u), column in written.d.items():
            values[column] = float(rank[i, u] < rank[j, u])
        for (parameter, u), column in written.held.items():
            users = instance.parameters.reversed(len(instance.parameter_bytes))[parameter]
            values[column] = float((count[users, u] > 0).any())
        for u, column in written.used.items():
            values[column] = float((count[:, u] > 0).any())
        values[written.makespan] = max((batch.end for batch in solution.batches), default=0.0) / written.unit
        for variable, value in zip(written.variables, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)

    def settled(self, written: BatchedModel, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
        """Device of every input and starts of all batches; where there is none, a start that breaks no row."""
        instance = written.instance
        where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
        start = np.zeros((instance.operators, len(instance.devices)))
        for batch in solution.batches:
            i, u = written.place(batch.operator, batch.device)
            where[i, list(batch.inputs)] = u
            start[i, u] = batch.start
        if instance.operators and not self.context.extended:
            where = where[:, np.argsort(where[instance.order[0]], kind="stable")]
        return where, start

    def resolution(self) -> float:
        """Engines' tolerances, in seconds."""
        return TOLERANCE * self._unit

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Units of the model as seconds."""
        return max(0.0, value * self._unit)

    def why_infeasible(self, problem: BatchedMapping) -> str:
        """Say what stands in the way, if that is easy to see; else what of the problem may."""
        rules = rules_in_the_way(problem, rows_added=self.context.extended)
        return shortage(problem) or f"no schedule respects {rules}"

    def add_row(self, model: ConcreteModel, row: RelationalExpression) -> None:
        """Add one row of a side constraint, such as ``model.inputs("a", "gpu") <= 4``."""
        add_row(model, row)


def _in_turn(instance: BatchedInstance, count: IntArray, start: FloatArray) -> Iterable[tuple[int, int]]:
    """All nodes by start; what is absent stands at its start of 0, before everything."""
    rank = np.empty(instance.operators, dtype=np.int64)
    rank[instance.order] = np.arange(instance.operators)

    def key(node: tuple[int, int]) -> tuple[float, bool, float, int]:
        i, u = node
        there = count[i, u] > 0
        lasts = float(instance.seconds[i, u, count[i, u] // instance.granule]) if there else 0.0
        return float(start[i, u]), bool(there), lasts, int(rank[i])

    return sorted(((i, u) for i in range(len(start)) for u in range(start.shape[1])), key=key)


understand(Identities.name)
