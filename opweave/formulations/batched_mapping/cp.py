"""Batched mapping with intervals, for constraint-programming engines; a batch of some size is present or not.

Every operator has an optional interval on each device for each batch size. Intervals on the same device do not overlap,
and every input has a device. :class:`BatchCounts` only counts the inputs.

Time is counted in ticks, rounded down, so that bounds in ticks hold in seconds; see
:mod:`opweave.formulations.placement.interval_model`. Rows of your own use ``model.on(op, device)``,
``model.batch(op, device)``, ``model.held(device)`` and ``model.start(op, device)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import lower, lower_unless_short
from opweave.formulations.batched_mapping.milp import BatchedRows, passing
from opweave.formulations.batched_mapping.program import Arc, BatchedModel
from opweave.formulations.batched_mapping.retime import identified
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import Interval
from opweave.formulations.ticks import WHOLE, fine_tick
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule


@dataclass(eq=False)
class BatchedIntervals(BatchedModel, IntervalModel):
    """The model; times are in ticks.

    Attributes
    ----------
    flow
        Column of the number of inputs that pass along an arc, in the model of counts.
    """

    flow: dict[Arc, int] = field(default_factory=dict)

    rounds: ClassVar[bool] = True

    def units(self, seconds: float) -> int:
        """Convert seconds to ticks."""
        return self.ticks(seconds)


@register_formulation
class BatchIntervals(BatchedRows):
    """Optional intervals, with the device of every input."""

    name: ClassVar[str] = "batch_intervals"
    model_type: ClassVar[type[LinearModel]] = BatchedIntervals
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "batch_intervals")
    _activities: int = 0

    def build(self, problem: BatchedMapping) -> BatchedIntervals:
        """Write the model; row families are in the paper's order."""
        instance = lower_unless_short(problem)
        self.check_size(self.least_rows(problem))
        horizon = self._horizon(instance)
        self._activities = instance.operators * len(instance.devices)
        model = BatchedIntervals(instance)
        model.problem = problem
        self._unit = model.tick = fine_tick(self._activities, horizon)
        most = model.ticks(horizon) + 1
        self._batches(model, most)
        self._no_overlap(model)
        self._input_flows(model)
        self._arrivals(model, most)
        self._memory(model)
        self._waits(model, most)
        self._completion(model)
        self.add_constraints(model, problem)
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of the inputs that flow."""
        return len(lower(problem).source) * len(problem.cluster.devices) ** 2 * (problem.batch + 2)

    def _no_overlap(self, model: BatchedIntervals) -> None:
        """(7) The intervals of a device do not overlap."""
        instance = model.instance
        for u in range(len(instance.devices)):
            runs = [
                Interval(model.starts_at[i, u], model.ticks(float(instance.seconds[i, u, c])), model.b[i, u, c])
                for i in range(instance.operators)
                for c in instance.sizes(i, u)
            ]
            if len(runs) > 1:
                model.apart.append(runs)

    def _input_flows(self, model: BatchedIntervals) -> None:
        """The inputs on every device, and those that pass along every arc."""
        self._inputs(model)
        self._flows(model)

    def resolution(self) -> float:
        """One tick per batch, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Convert ticks to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))


class BatchCounts(BatchIntervals):
    """Optional intervals, with the number of inputs that pass along every edge between two devices: a relaxation.

    The optimum over counts never exceeds the optimum over inputs. The two differ only if edges form undirected cycles,
    where counts may have no realisation by inputs. So the bounds hold, and solutions get their inputs and their real
    length afterwards. If links are missing, there may be no realisation of any length. In that case every input gets a
    device here too, but only so that no missing link is needed.
    """

    name: ClassVar[str] = "batch_counts"
    supports: ClassVar[tuple[str, ...]] = BatchIntervals.supports

    def _input_flows(self, model: BatchedIntervals) -> None:
        """Flows f[e, u, v] that leave and enter every batch in full."""
        instance = model.instance
        self._passages(model)
        leaves: dict[tuple[int, int], list[int]] = {}
        enters: dict[tuple[int, int], list[int]] = {}
        for (e, u, v), passes in model.p.items():
            flow = model.flow[e, u, v] = model.whole(0, instance.batch)
            model.require(Linear.of(flow) <= Linear.of(passes, instance.batch))
            model.require(Linear.of(flow) >= Linear.of(passes))
            leaves.setdefault((e, u), []).append(flow)
            enters.setdefault((e, v), []).append(flow)
        for e, (i, j) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            for u in range(len(instance.devices)):
                for end, flows in ((i, leaves), (j, enters)):
                    if instance.sizes(end, u):
                        model.require(Linear.over(flows.get((e, u), ())) == model.taken(end, u))
        if any(len(instance.incoming[i]) > 1 for i in range(instance.operators)):
            self._linked_inputs(model)

    def _linked_inputs(self, model: BatchedIntervals) -> None:
        """Give every input a device such that its data never need a missing link; add nothing if all links exist."""
        arcs = [arc for arc in self._arcs(model) if arc not in model.p]
        if not arcs:
            return
        self._inputs(model)
        for e, u, v in arcs:
            i, j = int(model.instance.source[e]), int(model.instance.target[e])
            for inputs in range(model.instance.batch):
                model.require(Linear.over((model.x[i, u, inputs], model.x[j, v, inputs])) <= 1)

    def _moved(self, model: BatchedIntervals, arc: Arc) -> Linear:
        return Linear.of(model.flow[arc]) if arc[1] != arc[2] else Linear()

    def start(self, model: Any, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, and the inputs that pass."""
        values = super().start(model, solution)
        where, _ = self.settled(model, solution)
        for arc, column in model.flow.items():
            values[column] = passing(model.instance, where, arc).sum()
        return values

    def extract(self, model: Any, values: FloatArray) -> BatchedSchedule:
        """Assign inputs that realise the counts as closely as possible, and time the schedule anew."""
        instance = model.instance
        devices = len(instance.devices)
        count = np.zeros((instance.operators, devices), dtype=np.int64)
        for (i, u, c), column in model.b.items():
            count[i, u] += int(values[column]) * c * instance.granule
        flow = np.zeros((len(instance.source), devices, devices), dtype=np.int64)
        for arc, column in model.flow.items():
            flow[arc] = int(values[column])
        where = identified(instance, count, flow)
        return self._timed(model, values, self._where(model, values) if where is None else where)
