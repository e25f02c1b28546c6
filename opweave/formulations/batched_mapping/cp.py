"""Batched mapping with intervals, for constraint-programming engines; a batch of some size is present or not.

Every operator has an optional interval on each device for each batch size. Intervals on the same device do not overlap,
and every input has a device.

Time is counted in ticks, rounded down, so that bounds in ticks hold in seconds; see
:mod:`opweave.formulations.placement.cp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
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

    def empty(self, instance: BatchedInstance, horizon: float) -> BatchedIntervals:
        """The model, whose tick is a tiny share of the horizon."""
        self._activities = instance.operators * len(instance.devices)
        model = BatchedIntervals(instance)
        self._unit = model.tick = fine_tick(self._activities, horizon)
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of the inputs that flow."""
        return len(lower(problem).source) * len(problem.cluster.devices) ** 2 * (problem.batch + 2)

    def no_overlap(self, model: BatchedIntervals, _horizon: float) -> None:
        """(7) The intervals of a device do not overlap."""
        for device in range(len(model.instance.devices)):
            runs = [
                Interval(model.starts_at[i, u], model.ticks(float(model.instance.seconds[i, u, c])), present)
                for (i, u, c), present in model.b.items()
                if u == device
            ]
            if len(runs) > 1:
                model.apart.append(runs)

    def resolution(self) -> float:
        """One tick per batch, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: BatchedMapping, value: float) -> float:
        """Convert ticks to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))
