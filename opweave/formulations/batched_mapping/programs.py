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

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
from opweave.formulations.batched_mapping.model import BatchedModel, BatchedRows
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import WHOLE, Interval, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""


@dataclass(eq=False)
class OrderedModel(BatchedModel):
    """The program for linear engines.

    Attributes
    ----------
    d
        Column of "i's batch runs before j's on u", for i < j.
    """

    d: dict[tuple[int, int, int], int] = field(default_factory=dict)


@register_formulation
class Identities(BatchedRows):
    """(1)-(7) with a device for every input; batches wait only for data that flows."""

    name: ClassVar[str] = "identities"
    source: ClassVar[str] = "Ghannane et al. (DiviML) 2023, (1)-(7) with (3) corrected, doi:10.48550/arXiv.2308.00127"
    model_type: ClassVar[type[LinearModel]] = OrderedModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "identities")

    def empty(self, instance: BatchedInstance, horizon: float) -> OrderedModel:
        """The model, in which the horizon has a thousand units."""
        model = OrderedModel(instance)
        self._unit = model.tick = horizon / UNITS if horizon > 0 else 1.0
        return model

    def least_rows(self, problem: BatchedMapping) -> int:
        """Those of (7) for all pairs, and of the inputs that flow."""
        instance, devices = lower(problem), len(problem.cluster.devices)
        pairs, flows = instance.operators * (instance.operators - 1) // 2, len(instance.source) * devices**2
        return flows * (2 * problem.batch + 1) + 2 * pairs * devices

    def no_overlap(self, model: OrderedModel, horizon: float) -> None:
        """(7) for all pairs on a device: one of two batches ends before the other starts."""
        instance, names, on = model.instance, model.instance.names, model.instance.devices
        able = [[i for i in range(len(names)) if instance.sizes(i, u)] for u in range(len(on))]
        pairs = [(i, j, u) for u, there in enumerate(able) for i, j in combinations(there, 2)]
        d = model.binaries("d", [(names[i], names[j], on[u]) for i, j, u in pairs])
        model.d = dict(zip(pairs, d.tolist(), strict=True))
        for (i, j, u), column in model.d.items():
            a, b, first = model.begins(i, u), model.begins(j, u), Linear.of(column)
            model.where("no_overlap", a + model.length(i, u) <= b, (first,), horizon)
            model.where("no_overlap", b + model.length(j, u) <= a, (1 - first,), horizon)

    def start(self, model: Any, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, and which batch comes first.

        A place without a batch has start 0 and comes before everything else.
        """
        values, instance = super().start(model, solution), model.instance
        rank = np.argsort(instance.order)

        def key(i: int, u: int) -> tuple[float, float, int]:
            sizes = {column: float(instance.seconds[i, u, c]) for column, c in model.granules(i, u).items()}
            lasts = next((seconds for column, seconds in sizes.items() if values[column]), -1.0)
            return float(values[model.starts_at[i, u]]), lasts, int(rank[i])

        for (i, j, u), column in model.d.items():
            values[column] = key(i, u) < key(j, u)
        return values


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
