"""Batched mapping as a mixed-integer program: equations (1)-(7) of "DiviML", with (3) corrected.

Source: Ghannane and Abdelfattah, "DiviML: A Module-based Heuristic for Mapping Neural Networks onto Heterogeneous
Platforms", section IV-A. As printed, (3) makes a batch wait for a batch of its predecessor even if no input passes
between them; :mod:`.diviml` keeps those rows for comparison. Here a batch waits only if an input does pass. Then
nothing else orders two batches on a device that are joined by a path but share no inputs, so (7) covers all pairs
there. Inputs are interchangeable: those of the first operator are sorted by device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower, lower_unless_short
from opweave.formulations.batched_mapping.program import BatchedModel, BatchedRows
from opweave.formulations.batched_mapping.retime import counts_of
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""


@dataclass(eq=False)
class OrderedModel(BatchedModel):
    """The program for linear engines.

    Attributes
    ----------
    horizon
        No schedule of interest is longer, in units.
    d
        Column of "i's batch runs before j's on u", for i < j.
    """

    horizon: float = UNITS
    d: dict[tuple[int, int, int], int] = field(default_factory=dict)


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
        model = OrderedModel(instance, horizon=horizon / self._unit)
        model.problem, model.tick, model.check_time = problem, self._unit, self.check_time
        self._batches(model, model.horizon)
        self._inputs(model)
        self._completion(model)
        self._flows(model)
        self._arrivals(model, model.horizon)
        self._memory(model)
        self._no_overlap(model)
        self._waits(model, model.horizon)
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

    def start(self, model: Any, solution: BatchedSchedule) -> FloatArray:
        """The values that a known schedule implies, and which batch comes first."""
        values = super().start(model, solution)
        where, start = self.settled(model, solution)
        turns = _in_turn(model.instance, counts_of(where, start.shape[1]), start)
        rank = {node: place for place, node in enumerate(turns)}
        for (i, j, u), column in model.d.items():
            values[column] = rank[i, u] < rank[j, u]
        return values


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
