"""The program with equation (3) of "DiviML" as it is printed, beside the mended one."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.milp import Identities
from opweave.formulations.batched_mapping.program import BatchedModel, serial_length, understand
from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedSchedule


@register_formulation
class Printed(Identities):
    """(3) as the paper prints it, in addition: batches wait for each other even where no input passes.

    Its optimum is that of the paper's model, which can lie above the problem's; so its bounds prove nothing.
    """

    name: ClassVar[str] = "printed"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "batched_arrays", "printed")
    restricts = True

    def _more_rows(self, model: BatchedModel) -> None:
        """(3) s[i, u] + batch time + (om[i] / beta[u, v]) (x[j, v, l] + x[i, u, l] - 1) <= s[j, v] for all l."""
        rows, instance = model.rows("printed"), model.instance
        for e, u, v in model.p:
            if u != v and not math.isfinite(instance.latency[u, v]):
                continue
            i, j = int(instance.source[e]), int(instance.target[e])
            sent = instance.delay(e, u, v, 1) / model.tick
            for inputs in range(instance.batch if sent > 0 else 1):
                end = model.begins(i, u) + model.length(i, u)
                both = Linear.over((int(model.x[i, u, inputs]), int(model.x[j, v, inputs])))
                rows.add(end + sent * (both - 1) <= model.begins(j, v))

    def settled(self, model: BatchedModel, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
        """A known schedule gives no starts here: its batches may run earlier than these rows allow."""
        where, start = super().settled(model, solution)
        return where, np.full_like(start, np.nan)

    def _horizon(self, instance: BatchedInstance) -> float:
        return serial_length(instance) + self.context.waits


understand(Printed.name)
