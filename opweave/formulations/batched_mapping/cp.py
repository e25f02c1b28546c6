"""Batched mapping with intervals, for constraint-programming engines; a batch of some size is present or not.

Every operator has an optional interval on each device for each batch size. Intervals on the same device do not overlap,
and every input has a device.

Time is counted in ticks, rounded down, so that bounds in ticks hold in seconds; see
:mod:`opweave.formulations.placement.cp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opweave.formulations.batched_mapping.instance import lower, lower_unless_short
from opweave.formulations.batched_mapping.program import BatchedModel, BatchedRows
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import WHOLE, IntervalModel, fine_tick
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import Interval
from opweave.problems.batched_mapping.spec import BatchedMapping


@dataclass(eq=False)
class BatchedIntervals(BatchedModel, IntervalModel):
    """The model; times are in ticks."""

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
        self._inputs(model)
        self._flows(model)
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

    def resolution(self) -> float:
        """One tick per batch, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Convert ticks to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))
