"""Batched mapping with intervals and counts: the number of inputs that pass along each edge between two devices.

The optimum over counts never exceeds the optimum over inputs. The two differ only if edges form undirected cycles,
where counts may have no realisation by inputs. So the bounds hold, and solutions get their inputs and their real length
afterwards. If links are missing, there may be no realisation of any length. In that case every input gets a device here
too, but only so that no missing link is needed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from opweave.formulations.batched_mapping.cp import BatchedIntervals, BatchIntervals
from opweave.formulations.batched_mapping.milp import passing
from opweave.formulations.batched_mapping.program import Arc
from opweave.formulations.batched_mapping.retime import identified
from opweave.formulations.modeling.linear import Linear
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedSchedule


class BatchCounts(BatchIntervals):
    """Optional intervals, with the number of inputs that pass along every arc: a relaxation."""

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
