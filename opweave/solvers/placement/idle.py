"""Operators outside the core of a network, put into the idle times of a plan of the core.

Exported networks hold many small operators that no input leads to: gates made of parameters, masks, buffers. Devices
wait for transfers anyway, and these operators fit into that time. So a search first plans the core alone, in which
every move counts, and then each of the others takes the last idle time before its first reader, on the reader's device
if there is one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.backbone import Backbone
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.plans import order_by_start


@dataclass(slots=True)
class Idle:
    """When a device waits: begins and ends of these times, in order."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def last_fit(self, seconds: float, due: float) -> tuple[int, float] | None:
        """The last idle time in which an operator can run before ``due``, and when it would start there."""
        for i in range(bisect_left(self.begins, due) - 1, -1, -1):
            start = min(self.ends[i], due) - seconds
            if start >= self.begins[i]:
                return i, start
        return None

    def take(self, i: int, start: float, seconds: float) -> None:
        """Use part of an idle time; what remains before and after it stays idle."""
        rest = [(self.begins[i], start), (start + seconds, self.ends[i])]
        self.begins[i : i + 1] = [begin for begin, end in rest if end > begin]
        self.ends[i : i + 1] = [end for begin, end in rest if end > begin]


def idle_times(arrays: PlacementArrays, start: FloatArray, device: IntArray, until: float) -> list[Idle]:
    """When each device waits in a plan, up to the time ``until``."""
    found = [Idle() for _ in range(arrays.seconds.shape[1])]
    busy = [0.0] * len(found)
    for v in np.argsort(start, kind="stable").tolist():
        k = int(device[v])
        if start[v] > busy[k]:
            found[k].begins.append(busy[k])
            found[k].ends.append(float(start[v]))
        busy[k] = max(busy[k], float(start[v] + arrays.seconds[v, k]))
    for idle, end in zip(found, busy, strict=True):
        if until > end:
            idle.begins.append(end)
            idle.ends.append(until)
    return found


def around_core(
    instance: PlacementInstance, arrays: PlacementArrays, core: Backbone, start: FloatArray, device: IntArray
) -> tuple[IntArray, IntArray]:
    """Order and devices of the whole problem around a plan of its core.

    Parameters
    ----------
    start, device
        Of the core's operators.

    Returns
    -------
    tuple of arrays
        Memory is not looked at. Ties of Colocate are kept. The order respects all arcs.
    """
    count = len(arrays.seconds)
    starts, place = np.zeros(count), np.full(count, -1, dtype=np.int64)
    starts[core.operators], place[core.operators] = start, device
    until = float((start + core.arrays.seconds[np.arange(len(start)), device]).max(initial=0.0))
    idle = idle_times(core.arrays, start, device, until)
    tied = dict(zip(instance.cluster[core.operators].tolist(), device.tolist(), strict=True))
    for v in operator_order(arrays)[::-1].tolist():
        if place[v] >= 0:
            continue
        readers = instance.after[v]
        due = float(starts[readers].min(initial=until))
        group = int(instance.cluster[v])
        first = [tied[group]] if group in tied else place[readers[np.argsort(starts[readers])]].tolist()
        place[v], starts[v] = _last_place(idle, arrays.seconds[v], due, first, group in tied)
        tied[group] = int(place[v])
    return order_by_start(instance, starts), place


def _last_place(idle: list[Idle], seconds: FloatArray, due: float, first: list[int], only: bool) -> tuple[int, float]:
    """Device and start of an operator: on the first of ``first`` with an idle time, else, unless ``only``, anywhere.

    Without any idle time it starts when it is due, on the first usable device.
    """
    others = [] if only else sorted(range(len(idle)), key=lambda k: float(seconds[k]))
    usable = [k for k in dict.fromkeys((*first, *others)) if only or np.isfinite(seconds[k])]
    for k in usable:
        fit = idle[k].last_fit(float(seconds[k]), due)
        if fit is not None:
            idle[k].take(*fit, float(seconds[k]))
            return k, fit[1]
    return usable[0], due
