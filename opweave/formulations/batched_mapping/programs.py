"""The two programs of batched mapping for engines: equations (1)-(7) of "DiviML", with (3) corrected.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms", section IV-A. As printed, (3) makes a batch wait for a batch of its predecessor even if no input passes
between them; :mod:`.diviml` keeps those rows for comparison. Here a batch waits only if an input does pass. Then
nothing else orders two batches on a device that are joined by a path but share no inputs, so (7) covers all pairs
there. Inputs are interchangeable: those of the first operator are sorted by device.

The constraint program has an optional interval for every operator, device and batch size; intervals on one device do
not overlap. Its ticks are rounded down, so that bounds in ticks hold in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
from opweave.formulations.batched_mapping.model import BatchedModel, BatchedRows
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import IntervalModel, fine_tick
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.batched_mapping.spec import BatchedMapping

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""


@register_formulation
class Identities(BatchedRows):
    """(1)-(7) with a device for every input; batches wait only for data that flows."""

    name: ClassVar[str] = "identities"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, (1)-(7) with (3) corrected, doi:10.48550/arXiv.2308.00127"
    model_type: ClassVar[type[LinearModel]] = BatchedModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")

    def empty(self, instance: BatchedInstance, horizon: float) -> BatchedModel:
        """The model, in which the horizon has a thousand units."""
        model = BatchedModel(instance)
        self._unit = model.tick = horizon / UNITS if horizon > 0 else 1.0
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of (7) for all pairs, and of the inputs that flow."""
        instance, devices = lower(problem), len(problem.cluster.devices)
        pairs, flows = instance.operators * (instance.operators - 1) // 2, len(instance.source) * devices**2
        return flows * (2 * problem.batch + 1) + 2 * pairs * devices


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

    def empty(self, instance: BatchedInstance, horizon: float) -> BatchedIntervals:
        """The model, whose tick is a tiny share of the horizon."""
        self._activities = instance.operators * len(instance.devices)
        model = BatchedIntervals(instance)
        self._unit = model.tick = fine_tick(self._activities, horizon)
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of the inputs that flow."""
        return len(lower(problem).source) * len(problem.cluster.devices) ** 2 * (problem.batch + 2)
