"""Batched mapping with intervals and counts: the number of inputs that pass along each edge between two devices.

The optimum over counts never exceeds the optimum over inputs. The two differ only if edges form undirected cycles,
where counts may have no realisation by inputs. So the bounds hold, and solutions get their inputs and their real length
afterwards. If links are missing, there may be no realisation of any length. In that case every input gets a device here
too, but only so that no missing link is needed.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.cp import Arc, BatchedIntervals, BatchIntervals
from opweave.formulations.batched_mapping.retime import identified
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedSchedule


class BatchCounts(BatchIntervals):
    """Optional intervals, with the number of inputs that pass along every arc: a relaxation."""

    name: ClassVar[str] = "batch_counts"
    supports: ClassVar[tuple[str, ...]] = BatchIntervals.supports

    def _flows(self, model: BatchedIntervals) -> None:
        """Flows f[e, u, v] that leave and enter every batch in full."""
        instance, batch = model.instance, model.instance.batch
        leaves: dict[tuple[int, int], dict[int, int]] = {}
        enters: dict[tuple[int, int], dict[int, int]] = {}
        for e, u, v in self._arcs(model):
            passes = self._linked(model, (e, u, v))
            if passes is None:
                continue
            flow = model.flow[e, u, v] = model.whole(0, batch)
            model.row({flow: 1, passes: -batch}, None, 0)
            model.row({flow: 1, passes: -1}, 0, None)
            leaves.setdefault((e, u), {})[flow] = 1
            enters.setdefault((e, v), {})[flow] = 1
        for e in range(len(instance.source)):
            for u in range(len(instance.devices)):
                for i, flows in ((int(instance.source[e]), leaves), (int(instance.target[e]), enters)):
                    less = {column: -count for column, count in model.taken(i, u).items()}
                    if less:
                        model.row({**flows.get((e, u), {}), **less}, 0, 0)
        if any(len(instance.incoming[i]) > 1 for i in range(instance.operators)):
            self._linked_inputs(model)

    def _linked_inputs(self, model: BatchedIntervals) -> None:
        """Give every input a device such that its data never need a missing link; add nothing if all links exist."""
        arcs = [(e, u, v) for e, u, v in self._arcs(model) if not math.isfinite(model.instance.latency[u, v])]
        if not arcs:
            return
        self._devices_of_inputs(model)
        for e, u, v in arcs:
            i, j = int(model.instance.source[e]), int(model.instance.target[e])
            for inputs in range(model.instance.batch):
                model.row({model.x[i, u, inputs]: 1, model.x[j, v, inputs]: 1}, None, 1)
        self._sorted_inputs(model)

    def _moved(self, model: BatchedIntervals, arc: Arc) -> dict[int, int]:
        return {model.flow[arc]: 1} if arc in model.flow and arc[1] != arc[2] else {}

    def extract(self, model: BatchedIntervals, values: FloatArray) -> BatchedSchedule:  # type: ignore[override]
        """Assign inputs that realise the counts as closely as possible, and time the schedule anew."""
        instance = model.instance
        devices = len(instance.devices)
        count = np.zeros((instance.operators, devices), dtype=np.int64)
        for (i, u, c), column in model.z.items():
            count[i, u] += int(values[column]) * c * instance.granule
        flow = np.zeros((len(instance.source), devices, devices), dtype=np.int64)
        for arc, column in model.flow.items():
            flow[arc] = int(values[column])
        where = identified(instance, count, flow)
        return self._timed(model, values, self._where(model, values) if where is None else where)
