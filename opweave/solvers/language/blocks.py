"""Plans in blocks: every device has one run of consecutive layers, and what does not fit beside it is elsewhere.

A plan is an order of the devices and a cut of the layers; the table of tokens counts as a part of the first layer, and
the head of the last one. A run of layers on a device takes their seconds there, and those of what has to leave it, the
cheapest for each byte first. A shortest path through (devices used, the last of them, layers done) finds order and cut.
If there is no path, there is no plan: no memory elsewhere is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from opweave.problems.constraints import means
from opweave.problems.graph_arrays import topological_order
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.plans import memory_used
from opweave.solvers.rules import NoPlanError

MOST_IN_ANY_ORDER = 9
"""Most devices of which every order is tried; more stand in the order of the cluster."""

MARGINS = (1.0, 0.98, 0.95, 0.9, 0.8)
"""Parts of the memory that blocks may fill, so that what leaves its device fits the others."""

NEVER = 1e200
"""More seconds than anything takes."""

NOWHERE = -1
"""No device."""

EVENLY = 1e-9
"""Part of the seconds by which unequal blocks and other orders count as slower, so that equal plans are even."""


class Layers:
    """What runtimes that think in layers see: runs of operators whose modules are in the same one, such as "layers.3".

    Attributes
    ----------
    layer
        The layer of every operator; -1 for what is before the layers, and their number for what is after them.
    count
        Number of layers.
    able
        Devices that may run every layer and hold something.
    seconds
        Of all layers on each of these.

    Raises
    ------
    NoPlanError
        If there are no layers, or no device may run them all.
    """

    def __init__(self, problem: Placement, instance: PlacementInstance, arrays: PlacementArrays) -> None:
        self.arrays, operators = arrays, problem.graph.operators
        order = topological_order(instance.after)
        homes = [operators[v].module.rpartition(".")[0] for v in order]
        self.inside = np.asarray([bool(home) for home in homes])
        if not self.inside.any():
            raise NoPlanError("the operators' modules name no layers, such as 'layers.3.attention'")
        begins = self.inside & np.asarray([True, *(a != b for a, b in pairwise(homes))])
        number = np.cumsum(begins) - 1
        self.count = int(number[-1]) + 1
        number[~self.inside & (number >= 0)] = self.count
        self.layer = number[np.argsort(order)]
        self.inside = self.inside[np.argsort(order)]
        self.ends = [np.flatnonzero(self.layer == place) for place in (-1, self.count)]
        self.experts = np.asarray([op.kind == "experts" for op in operators])
        seconds = arrays.seconds[self.inside].sum(axis=0)
        self.able = np.flatnonzero(np.isfinite(seconds) & (arrays.capacity > 0))
        if not len(self.able):
            raise NoPlanError("no device may run every layer and has memory")
        self.seconds = np.maximum(seconds[self.able], 1e-300)

    def devices(self, homes: IntArray, first: int, last: int) -> IntArray:
        """The device of every operator, given those of the layers and of what is before and after them.

        Operators outside layers that may not run there go to the first device that may run them.
        """
        device: IntArray = np.concatenate([homes, [last, first]])[self.layer]
        may = np.isfinite(self.arrays.seconds)
        stray = ~self.inside & ~may[np.arange(len(may)), device]
        device[stray] = may[stray].argmax(axis=1)
        return device

    def moved(self, device: IntArray, members: IntArray, k: int) -> bool:
        """Move operators to a device if they fit there."""
        before = device[members]
        device[members] = k
        if memory_used(self.arrays, device)[k] <= self.arrays.capacity[k]:
            return True
        device[members] = before
        return False


class BlockSearch(Layers):
    """The search on one chain of operators."""

    def __init__(self, problem: Placement, instance: PlacementInstance, arrays: PlacementArrays) -> None:
        super().__init__(problem, instance, arrays)
        index = {name: v for v, name in enumerate(instance.names)}
        rule = next(rule for rule in problem.constraints if means(rule, InOrder))
        starts, self.near = [index[name] for name in rule.ops], np.clip(self.layer, 0, self.count - 1)
        home = np.full(self.count, NOWHERE)
        home[self.layer[starts]] = instance.cluster[starts]
        self.tied = instance.cluster == home[self.near]
        self.aside = np.full(len(self.layer), NOWHERE)
        for each in problem.constraints:
            if means(each, Beside):
                self.aside[index[each.op]] = instance.devices.index(each.device)
        self.turns = [instance.devices.index(name) for name in rule.devices or instance.devices]
        self.first = NOWHERE if rule.first is None else instance.devices.index(rule.first)
        self.in_turn = bool(rule.devices) or len(self.turns) > MOST_IN_ANY_ORDER
        owners = np.repeat(np.arange(len(self.layer)), np.diff(arrays.parameters_start))
        self.bytes = arrays.memory + np.bincount(owners, arrays.parameter_bytes[arrays.parameters], len(self.layer))
        self.shared = len(arrays.parameters) > len(np.unique(arrays.parameters))
        self.send = arrays.latency + arrays.per_byte * float(arrays.size.max(initial=0))
        np.fill_diagonal(self.send, 0.0)

    def plans(self) -> tuple[list[IntArray], bool]:
        """Devices of every operator, which may not fit; and whether it is certain that there is no plan."""
        found = list[IntArray]()
        for margin in MARGINS:
            free = margin * self.arrays.capacity.astype(np.float64)
            blocks = self.cut(free)
            if not blocks:
                return found, not found and not self.shared
            found.append(self.carried_out(blocks, free))
        return found, False

    def leaving(self, k: int) -> tuple[FloatArray, BoolArray, IntArray]:
        """For operators of a device: seconds elsewhere, which are never there, and which may leave, cheapest first."""
        there = self.arrays.seconds + self.send[k] + self.send[:, k]
        there[:, k] = np.inf
        there = np.where(self.aside == NOWHERE, there.min(axis=1), there[np.arange(len(there)), self.aside])
        here = np.minimum(self.arrays.seconds[:, k], NEVER)
        out = ~self.tied & ~self.inside & (there < here)  # the table of tokens and the head are where they are fast
        which = np.flatnonzero(~self.tied & ~out & (there < NEVER) & (self.bytes > 0))
        return there, out, which[np.argsort((there - here)[which] / self.bytes[which], kind="stable")]

    def needs(self, out: BoolArray, free: float) -> FloatMatrix:
        """Bytes of the layers from the row's to before the column's beyond what a device has."""
        return np.asarray(_between(np.bincount(self.near, np.where(out, 0.0, self.bytes), self.count)) - free)

    def runs(self, k: int, free: float) -> FloatMatrix:
        """Seconds of the layers from the row's to before the column's on a device; inf if they do not fit."""
        there, out, which = self.leaving(k)
        here = np.minimum(self.arrays.seconds[:, k], NEVER)
        found = _between(np.bincount(self.near, np.where(out, there, here), self.count))
        found += EVENLY / self.count**2 * found[0, -1] * np.square(np.subtract.outer(*[np.arange(self.count + 1)] * 2))
        found[np.tri(self.count + 1, dtype=bool) | (found >= NEVER)] = np.inf
        needs, layer, more = self.needs(out, free), self.near[which], (there - here)[which]
        for first in np.flatnonzero((np.triu(needs, 1) > 0).any(axis=1)).tolist():
            full = needs[first] > 0
            may = (layer >= first) & (layer < np.arange(self.count + 1)[full, None])
            gained, spent = (np.cumsum(may * each, axis=1) for each in (self.bytes[which], more))
            last = (gained < needs[first, full][:, None]).sum(axis=1)
            found[first, full] += np.column_stack([spent, np.full(len(last), np.inf)])[np.arange(len(last)), last]
        return found

    def cut(self, free: FloatArray) -> list[tuple[int, int, int]]:
        """The shortest cut: devices, their first layer and the one after the last; no blocks if there is none."""
        runs, count = {k: self.runs(k, float(free[k])) for k in self.turns}, self.count + 1
        seconds = {(0, NOWHERE): np.where(np.arange(count) == 0, 0.0, np.inf)}
        came: dict[tuple[int, int], IntArray] = {}
        queue = [(0, NOWHERE)]
        for used, last in queue:
            for rank, k in enumerate(self.turns):
                if used >> rank & 1 or (self.in_turn and used >> rank) or (used and k == self.first):
                    continue
                key, sent = (used | 1 << rank, k), float(self.send[last, k]) if used else 0.0
                sent *= 1.0 + EVENLY * (k < last)  # of equal orders, the cluster's
                through = (seconds[used, last] + sent)[:, None] + runs[k]
                if key not in seconds:
                    queue.append(key)
                    seconds[key], came[key] = np.full(count, np.inf), np.zeros((2, count), dtype=np.int64)
                better = through.min(axis=0) < seconds[key]
                seconds[key][better] = through.min(axis=0)[better]
                came[key][:, better] = np.stack([np.full(count, last), through.argmin(axis=0)])[:, better]
        key = min(came, key=lambda key: float(seconds[key][-1]))
        found, end = list[tuple[int, int, int]](), count - 1
        while np.isfinite(seconds[key][end]) and key[1] != NOWHERE:
            last, first = came[key][:, end].tolist()
            found.append((key[1], first, end))
            key, end = (key[0] & ~(1 << self.turns.index(key[1])), last), first
        return found[::-1]

    def carried_out(self, blocks: Sequence[tuple[int, int, int]], free: FloatArray) -> IntArray:
        """The device of every operator; what may go anywhere goes where it is fast and fits, the largest first."""
        home, device = np.zeros((2, len(self.layer)), dtype=np.int64)
        for k, first, end in blocks:
            _, out, which = self.leaving(k)
            mine, need = (self.near >= first) & (self.near < end), self.needs(out, float(free[k]))[first, end]
            home[mine], device[mine], gone = k, k, list[int]()
            for v in which[mine[which]].tolist():
                if need > 0:
                    gone.append(v)
                    need -= self.bytes[v]
            for v in reversed(gone):
                if self.bytes[v] <= -need:  # what left after it has made more room than was needed
                    gone.remove(v)
                    need += self.bytes[v]
            gone += np.flatnonzero(mine & out).tolist()
            device[gone] = self.aside[gone]
        if (device < 0).any():  # the largest first, at home if they fit there
            device[~self.tied & (self.aside == NOWHERE)] = NOWHERE
        held = np.bincount(device[device >= 0], self.bytes[device >= 0], len(free))
        for v in sorted(np.flatnonzero(device < 0).tolist(), key=lambda v: -self.bytes[v]):
            left = self.arrays.capacity - held - self.bytes[v]
            away = (left < 0) | ~np.isfinite(self.arrays.seconds[v])
            device[v] = min(
                range(len(free)), key=lambda k: (away[k], k != home[v], self.arrays.seconds[v, k], -left[k])
            )
            held[device[v]] += self.bytes[v]
        return device


def _between(sizes: ArrayLike) -> FloatMatrix:
    """Sums of the entries from the row's to before the column's."""
    ends = np.concatenate([[0.0], np.cumsum(sizes)])
    return np.asarray(ends[None, :] - ends[:, None])
