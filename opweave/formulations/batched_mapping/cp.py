"""Batched mapping with intervals, for constraint-programming engines; a batch of some size is present or not.

Every operator has an optional interval on each device for each batch size. Intervals on the same device do not overlap,
and every input has a device. See :mod:`.cp_counts` for a model that only counts the inputs.

Time is counted in ticks, rounded down, so that bounds in ticks hold in seconds; see
:mod:`opweave.formulations.placement.interval_model`. Rows of your own use ``model.on(op, device)``,
``model.batch(op, device)`` and ``model.start(op, device)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.milp import Identities
from opweave.formulations.batched_mapping.program import BatchedHandles, instance_of, understand
from opweave.formulations.batched_mapping.retime import counts_of, retimed
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.modeling.whole import Interval
from opweave.formulations.ticks import WHOLE, fine_tick
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

Arc = tuple[int, int, int]
"""An edge, its source device and its target device."""


@dataclass(eq=False)
class BatchedIntervals(BatchedHandles, IntervalModel):
    """The model, and the data from which it was written; times are in ticks.

    Attributes
    ----------
    z
        Column of "the batch of operator i on device u has c granules".
    starts_at
        Column of the start of i's batch on u, in ticks.
    x
        Column of "input l of i runs on u"; empty in the model of counts.
    passes, flow
        Columns of "any input passes along this arc", and of the number of inputs that pass.
    makespan
        Column of the end of the schedule, in ticks.
    """

    instance: BatchedInstance
    z: dict[tuple[int, int, int], int] = field(default_factory=dict)
    starts_at: dict[tuple[int, int], int] = field(default_factory=dict)
    x: dict[tuple[int, int, int], int] = field(default_factory=dict)
    both: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    passes: dict[Arc, int] = field(default_factory=dict)
    flow: dict[Arc, int] = field(default_factory=dict)
    stored: dict[tuple[int, int], int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    makespan: int = -1

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, rounded down; a duration slightly below a whole tick counts as the whole tick."""
        return math.floor(seconds / self.tick * (1 + WHOLE / 10) + WHOLE / 10)

    def length(self, i: int, u: int) -> dict[int, int]:
        """Run time of i's batch on u in ticks, by column."""
        seconds = self.instance.seconds[i, u]
        return {column: self.ticks(float(seconds[c])) for column, c in self.granules(i, u).items()}

    def taken(self, i: int, u: int) -> dict[int, int]:
        """Inputs of i on u, by column."""
        return {column: c * self.instance.granule for column, c in self.granules(i, u).items()}

    def granules(self, i: int, u: int) -> dict[int, int]:
        """Granules in the batch of operator i on device u, by column."""
        return {self.z[i, u, c]: c for c in self.instance.sizes(i, u)}

    def present(self, i: int, u: int) -> Linear:
        """1 if i has a batch on u."""
        return Linear.over(self.granules(i, u))

    def begins(self, i: int, u: int) -> Linear:
        """Start of operator i's batch on device u, in ticks."""
        return Linear.of(self.starts_at[i, u])


@register_formulation
class BatchIntervals(Identities):
    """Optional intervals, with the device of every input."""

    name: ClassVar[str] = "batch_intervals"
    model_type: ClassVar[type[LinearModel]] = BatchedIntervals
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "batch_intervals")

    def build(self, problem: BatchedMapping) -> BatchedIntervals:  # type: ignore[override]  # another kind of model
        """Write the model; row families are in the paper's order."""
        instance = instance_of(problem)
        devices = len(instance.devices)
        arcs = len(instance.source) * devices**2
        check_rows(arcs * (problem.batch + 2), self.name, self.context.limits)
        horizon = self._horizon(instance)
        self._activities = instance.operators * devices
        model = BatchedIntervals(instance)
        self._unit = model.tick = fine_tick(self._activities, horizon)
        self._interval_columns(model, horizon)
        for write in (self._batches, self._flows, self._arrive, self._fit, self._wait, self._finish):
            write(model)
        model.timed.update(model.starts_at.values(), (model.makespan,))
        model.minimise(Linear.of(model.makespan), model.tick)
        self.add_constraints(model, problem)
        return model

    def _interval_columns(self, model: BatchedIntervals, horizon: float) -> None:
        """z, s, C and the intervals of every device, which do not overlap: (7)."""
        instance = model.instance
        most = model.ticks(horizon) + 1
        model.makespan = model.whole(0, most, "makespan")
        for u in range(len(instance.devices)):
            runs = []
            for i in range(instance.operators):
                name = instance.names[i], instance.devices[u]
                model.starts_at[i, u] = model.whole(0, most, "starts", name)
                for c in instance.sizes(i, u):
                    model.z[i, u, c] = model.binary("z", (*name, c * instance.granule))
                    lasts = model.ticks(float(instance.seconds[i, u, c]))
                    runs.append(Interval(model.starts_at[i, u], lasts, model.z[i, u, c]))
            if len(runs) > 1:
                model.apart.append(runs)

    def _batches(self, model: BatchedIntervals) -> None:
        """(4), (5) at most one batch on a device, and all inputs in batches."""
        instance = model.instance
        for i in range(instance.operators):
            total: dict[int, int] = {}
            for u in range(len(instance.devices)):
                least = 1 if np.isinf(instance.seconds[i, u, 0]) else 0
                sizes = model.granules(i, u)
                if sizes or least:
                    model.row(dict.fromkeys(sizes, 1), least, 1)
                total |= model.taken(i, u)
            model.row(total, instance.batch, instance.batch)

    def _flows(self, model: BatchedIntervals) -> None:
        """The data that passes: both[e, u, v, l] is 1 if input l runs at both ends."""
        instance, batch = model.instance, model.instance.batch
        self._devices_of_inputs(model)
        for e, u, v in self._arcs(model):
            i, j = int(instance.source[e]), int(instance.target[e])
            passes = self._linked(model, (e, u, v))
            for inputs in range(batch):
                ends = {model.x[i, u, inputs]: 1, model.x[j, v, inputs]: 1}
                if passes is None:
                    model.row(ends, None, 1)
                elif u == v or not instance.grows:
                    model.row({**ends, passes: -1}, None, 1)
                else:
                    model.both[e, u, v, inputs] = model.binary()
                    model.row({**ends, model.both[e, u, v, inputs]: -1}, None, 1)
                    model.row({model.both[e, u, v, inputs]: 1, passes: -1}, None, 0)
        self._sorted_inputs(model)

    def _devices_of_inputs(self, model: BatchedIntervals) -> None:
        """(1) x[i, u, l]: every input runs on one device, and each device runs as many inputs as its batch has."""
        instance, batch = model.instance, model.instance.batch
        for i in range(instance.operators):
            devices = [u for u in range(len(instance.devices)) if instance.sizes(i, u)]
            for u in devices:
                for inputs in range(batch):
                    model.x[i, u, inputs] = model.binary()
                counted = {model.x[i, u, inputs]: -1 for inputs in range(batch)}
                model.row({**model.taken(i, u), **counted}, 0, 0)
            for inputs in range(batch):
                model.row({model.x[i, u, inputs]: 1 for u in devices}, 1, 1)

    def _sorted_inputs(self, model: BatchedIntervals) -> None:
        """Inputs are interchangeable, so the devices of the first operator's inputs are sorted."""
        instance = model.instance
        if not instance.operators or self.context.extended:
            return
        first = int(instance.order[0])
        devices = [u for u in range(len(instance.devices)) if instance.sizes(first, u)]
        for inputs in range(instance.batch - 1):
            terms = {model.x[first, u, inputs]: u for u in devices}
            model.row(terms | {model.x[first, u, inputs + 1]: -u for u in devices}, None, 0)

    def _arcs(self, model: BatchedIntervals) -> list[Arc]:
        instance, devices = model.instance, range(len(model.instance.devices))
        return [
            (e, u, v)
            for e in range(len(instance.source))
            for u in devices
            for v in devices
            if instance.sizes(int(instance.source[e]), u) and instance.sizes(int(instance.target[e]), v)
        ]

    def _linked(self, model: BatchedIntervals, arc: Arc) -> int | None:
        """Add the column of "any input passes"; None if there is no link."""
        e, u, v = arc
        if u != v and not math.isfinite(model.instance.latency[u, v]):
            return None
        model.passes[e, u, v] = model.binary()
        return model.passes[e, u, v]

    def _moved(self, model: BatchedIntervals, arc: Arc) -> dict[int, int]:
        """Columns that count the inputs that pass along an arc."""
        e, u, v = arc
        return {
            model.both[e, u, v, number]: 1 for number in range(model.instance.batch) if (e, u, v, number) in model.both
        }

    def _arrive(self, model: BatchedIntervals) -> None:
        """(3) corrected: if any input passes, the reading batch waits for the other batch and for the transfer."""
        instance = model.instance
        for (e, u, v), passes in model.passes.items():
            i, j = int(instance.source[e]), int(instance.target[e])
            fixed = instance.delay(e, u, v, 0 if instance.grows else 1)
            each = instance.delay(e, u, v, 1) - fixed if instance.grows else 0.0
            terms = {model.starts_at[j, v]: 1, model.starts_at[i, u]: -1}
            for column, lasts in model.length(i, u).items():
                terms[column] = terms.get(column, 0) - lasts
            per_input = model.ticks(each)
            if per_input:
                for column in self._moved(model, (e, u, v)):
                    terms[column] = terms.get(column, 0) - per_input
            model.row(terms, model.ticks(fixed), None, (passes,))

    def _fit(self, model: BatchedIntervals) -> None:
        """(6) Every device has enough memory."""
        instance = model.instance
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        for u, capacity in enumerate(instance.capacity.tolist()):
            if capacity == NO_LIMIT:
                continue
            terms = {
                column: count * int(instance.memory[i])
                for i in range(instance.operators)
                for column, count in model.taken(i, u).items()
            }
            for p, size in enumerate(instance.parameter_bytes.tolist()):
                if len(users[p]) and size:
                    model.stored[p, u] = model.binary()
                    terms[model.stored[p, u]] = size
                    for i in users[p].tolist():
                        if instance.sizes(i, u):
                            model.row(dict.fromkeys(model.granules(i, u), 1) | {model.stored[p, u]: -1}, None, 0)
            if sum(terms.values()) > capacity:
                model.row(terms, None, capacity)

    def _wait(self, model: BatchedIntervals) -> None:
        """Order arcs of side constraints: all batches of one operator end before any batch of the other starts."""
        instance = model.instance
        for i in range(instance.operators):
            for h in instance.waits[i].tolist():
                for u in range(len(instance.devices)):
                    for v in range(len(instance.devices)):
                        for c in instance.sizes(h, u):
                            for b in instance.sizes(i, v):
                                lasts = model.ticks(float(instance.seconds[h, u, c]))
                                terms = {model.starts_at[i, v]: 1, model.starts_at[h, u]: -1}
                                model.row(terms, lasts, None, (model.z[h, u, c], model.z[i, v, b]))

    def _finish(self, model: BatchedIntervals) -> None:
        """(2) Every batch ends by C, and the work of each device fits into it."""
        for u in range(len(model.instance.devices)):
            work: dict[int, int] = {model.makespan: 1}
            for i in range(model.instance.operators):
                lasts = model.length(i, u)
                less = {column: -ticks for column, ticks in lasts.items()}
                for column in lasts:
                    ends = {model.makespan: 1, model.starts_at[i, u]: -1, column: -lasts[column]}
                    model.row(ends, 0, None, (column,))
                work |= less
            model.row(work, 0, None)

    def extract(self, model: BatchedIntervals, values: FloatArray) -> BatchedSchedule:  # type: ignore[override]
        """The schedule that an engine's values give."""
        return self._timed(model, values, self._where(model, values))

    def _where(self, model: BatchedIntervals, values: FloatArray) -> IntArray:
        where = np.zeros((model.instance.operators, model.instance.batch), dtype=np.int64)
        for (i, u, inputs), column in model.x.items():
            if values[column]:
                where[i, inputs] = u
        return where

    def _timed(self, model: BatchedIntervals, values: FloatArray, where: IntArray) -> BatchedSchedule:
        start = np.zeros((model.instance.operators, len(model.instance.devices)))
        for (i, u), column in model.starts_at.items():
            start[i, u] = values[column] * model.tick
        return retimed(model.instance, where, start)

    def start(self, model: BatchedIntervals, solution: BatchedSchedule) -> FloatArray:  # type: ignore[override]
        """The values of all columns that the schedule determines."""
        instance = model.instance
        where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
        hint = dict.fromkeys(model.starts_at.values(), 0)
        for batch in solution.batches:
            i, u = model.place(batch.operator, batch.device)
            where[i, list(batch.inputs)] = u
            hint[model.starts_at[i, u]] = model.ticks(batch.start)
        if instance.operators and not self.context.extended:
            where = where[:, np.argsort(where[instance.order[0]], kind="stable")]
        count = counts_of(where, len(instance.devices))
        hint |= {column: int(count[i, u] == c * instance.granule) for (i, u, c), column in model.z.items()}
        hint |= {column: int(where[i, number] == u) for (i, u, number), column in model.x.items()}
        source, target = instance.source, instance.target
        for (e, u, v, inputs), column in model.both.items():
            hint[column] = int(where[source[e], inputs] == u and where[target[e], inputs] == v)
        for (e, u, v), column in model.passes.items():
            moved = int(((where[source[e]] == u) & (where[target[e]] == v)).sum())
            hint[column] = int(moved > 0)
            if (e, u, v) in model.flow:
                hint[model.flow[e, u, v]] = moved
        users = instance.parameters.reversed(len(instance.parameter_bytes))
        hint |= {column: int((count[users[p], u] > 0).any()) for (p, u), column in model.stored.items()}
        hint |= {column: int((count[:, u] > 0).any()) for u, column in model.used.items()}
        hint[model.makespan] = model.ticks(max((batch.end for batch in solution.batches), default=0.0))
        return model.filled(hint)

    def resolution(self) -> float:
        """One tick per batch, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Convert ticks to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))


understand(BatchIntervals.name)
