"""Plans in blocks: every device has one run of consecutive layers, and what does not fit beside it is elsewhere.

A plan is an order of the devices and a cut of the layers. A run of layers on a device takes their seconds there, and
those of what has to leave it, the cheapest for each byte first. A shortest path through (devices used, the last of
them, layers done) finds order and cut. If there is no path, there is no plan: no memory elsewhere is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.plans import memory_used

MOST_IN_ANY_ORDER = 7
"""Most devices of which every order is tried; more stand in the order of the cluster."""

MARGINS = (1.0, 0.98, 0.95, 0.9, 0.8)
"""Parts of the memory that blocks may fill, until what left its device fits the others."""

BESIDE = -1
"""Where the table of tokens and the head are: with the first and the last layer."""


class Block(NamedTuple):
    """Layers from ``first`` to before ``end`` on a device."""

    device: int
    first: int
    end: int


class Blocks:
    """The search on one chain of operators, which stand in ``order``."""

    def __init__(
        self,
        problem: Placement,
        instance: PlacementInstance,
        arrays: PlacementArrays,
        order: IntArray,
        rule: InOrder,
        besides: Sequence[Beside],
    ) -> None:
        index = {name: v for v, name in enumerate(instance.names)}
        starts, position = np.asarray([index[name] for name in rule.ops]), np.argsort(order)
        self.arrays, self.count = arrays, len(starts)
        inside = np.asarray([bool(op.module.rpartition(".")[0]) for op in problem.graph.operators])
        layer = np.maximum(np.searchsorted(position[starts], position, side="right") - 1, 0)
        self.layer = np.where(inside, layer, np.where(position < position[starts[0]], -1, self.count))
        self.inside, self.ends = inside, [np.flatnonzero(self.layer == place) for place in (-1, self.count)]
        self.tied = instance.cluster == instance.cluster[starts[np.clip(self.layer, 0, self.count - 1)]]
        self.aside = np.full(len(order), BESIDE)
        self.aside[[index[each.op] for each in besides]] = [instance.devices.index(each.device) for each in besides]
        self.devices = [instance.devices.index(name) for name in rule.devices or instance.devices]
        self.first = None if rule.first is None else instance.devices.index(rule.first)
        self.in_turn = bool(rule.devices) or len(self.devices) > MOST_IN_ANY_ORDER
        owners = np.repeat(np.arange(len(order)), np.diff(arrays.parameters_start))
        self.bytes = arrays.memory + np.bincount(owners, arrays.parameter_bytes[arrays.parameters], len(order))
        self.shared = len(arrays.parameters) > len(np.unique(arrays.parameters))
        self.send = arrays.latency + arrays.per_byte * float(arrays.size.max(initial=0))
        np.fill_diagonal(self.send, 0.0)

    def best(self) -> tuple[IntArray | None, bool]:
        """The device of every operator; without a plan, whether it is certain that there is none."""
        choices = [self._choices(members) for members in self.ends]
        for margin in MARGINS:
            rooms = [_Room(self, margin, places) for places in product(*choices)]
            cuts = [(*room.cut(), room) for room in rooms]
            cuts = [each for each in cuts if each[1]]
            if not cuts:
                return None, margin == MARGINS[0] and not self.shared
            for _, blocks, room in sorted(cuts, key=lambda each: each[0]):
                device = room.carried_out(blocks)
                if (memory_used(self.arrays, device) <= self.arrays.capacity).all():
                    return device, False
        return None, False

    def _choices(self, members: IntArray) -> list[int]:
        """Where the operators before or after the layers may be."""
        if not len(members) or self.tied[members].all():
            return [BESIDE]
        return [int(k) for k in np.flatnonzero(np.isfinite(self.arrays.seconds[members].sum(axis=0)))]

    def leaving(self, k: int) -> tuple[IntArray, FloatArray]:
        """Operators that may leave a device, the cheapest for each byte first, and the seconds that this costs."""
        there = self.arrays.seconds + self.send[k] + self.send[:, k]
        there[:, k] = np.inf
        aside = there[np.arange(len(there)), self.aside]
        more = np.maximum(np.where(self.aside == BESIDE, there.min(axis=1), aside) - self.arrays.seconds[:, k], 0.0)
        which = np.flatnonzero(self.inside & ~self.tied & np.isfinite(more) & (self.bytes > 0))
        which = which[np.argsort(more[which] / self.bytes[which], kind="stable")]
        return which, more[which]


class _Room:
    """Blocks with the table of tokens and the head in their places, and a part of the memory."""

    def __init__(self, blocks: Blocks, margin: float, places: tuple[int, ...]) -> None:
        self.blocks, self.places, self.free = blocks, places, margin * blocks.arrays.capacity
        layered = blocks.layer[blocks.inside]
        sizes = np.bincount(layered, blocks.bytes[blocks.inside], blocks.count)
        for end, place, members in zip((0, -1), places, blocks.ends, strict=True):
            if place == BESIDE:
                sizes[end] += blocks.bytes[members].sum()
            else:
                self.free[place] -= blocks.bytes[members].sum()
        self.held = _between(sizes)

    def runs(self, k: int) -> FloatMatrix:
        """Seconds of the layers from the row's to before the column's on a device; inf if they do not fit."""
        blocks, count = self.blocks, self.blocks.count
        seconds = np.bincount(blocks.layer[blocks.inside], blocks.arrays.seconds[blocks.inside, k], count)
        found = _between(np.where(np.isfinite(seconds), seconds, 0.0))
        found[_between(np.where(np.isfinite(seconds), 0.0, 1.0)) > 0] = np.inf
        found[np.tril_indices(count + 1)] = np.inf
        needs, (which, more) = self.held - self.free[k], blocks.leaving(k)
        layer, sizes = blocks.layer[which], blocks.bytes[which]
        for first in np.flatnonzero((np.triu(needs, 1) > 0).any(axis=1)).tolist():
            there = (layer >= first) & (layer < np.arange(count + 1)[:, None])
            gained, spent = (np.cumsum(there * each, axis=1) for each in (sizes, more))
            full = needs[first] > 0
            short = full & (gained.max(axis=1, initial=0.0) < needs[first])
            last = np.minimum((gained < needs[first][:, None]).sum(axis=1), max(len(which) - 1, 0))
            found[first, short] = np.inf
            left = full & ~short
            found[first, left] += spent[left, last[left]]
        return found

    def outer(self, side: int, k: int) -> float:
        """Seconds of what is before the layers or after them, if those next to it are on a device."""
        place = k if self.places[side] == BESIDE else self.places[side]
        seconds = self.blocks.arrays.seconds[self.blocks.ends[side], place].sum()
        return float(seconds + self.blocks.send[place, k])

    def cut(self) -> tuple[float, list[Block]]:
        """The shortest cut, with its seconds; no blocks if there is none."""
        blocks, count = self.blocks, self.blocks.count + 1
        runs = {k: self.runs(k) for k in blocks.devices}
        seconds = {(0, BESIDE): np.where(np.arange(count) == 0, 0.0, np.inf)}
        came: dict[tuple[int, int], IntArray] = {}
        queue = [(0, BESIDE)]
        for used, last in queue:
            for rank, k in enumerate(blocks.devices):
                if used >> rank & 1 or (blocks.in_turn and used >> rank) or (used and k == blocks.first):
                    continue
                key, sent = (used | 1 << rank, k), self.outer(0, k) if last == BESIDE else float(blocks.send[last, k])
                through = (seconds[used, last] + sent)[:, None] + runs[k]
                if key not in seconds:
                    queue.append(key)
                    seconds[key], came[key] = np.full(count, np.inf), np.zeros((2, count), dtype=np.int64)
                better = through.min(axis=0) < seconds[key]
                seconds[key][better] = through.min(axis=0)[better]
                came[key][:, better] = np.stack([np.full(count, last), through.argmin(axis=0)])[:, better]
        least, key = min((float(seconds[key][-1]) + self.outer(1, key[1]), key) for key in came)
        found, end = list[Block](), count - 1
        while np.isfinite(least) and key[1] != BESIDE:
            last, first = came[key][:, end].tolist()
            found.append(Block(key[1], first, end))
            key, end = (key[0] & ~(1 << blocks.devices.index(key[1])), last), first
        return least, found[::-1]

    def carried_out(self, found: Sequence[Block]) -> IntArray:
        """The device of every operator; what leaves a device for any other goes where most memory is free."""
        blocks, moved = self.blocks, list[int]()
        device = np.full(len(blocks.layer), found[0].device)
        for block in found:
            device[blocks.inside & (blocks.layer >= block.first) & (blocks.layer < block.end)] = block.device
        for place, members, block in zip(self.places, blocks.ends, (found[0], found[-1]), strict=True):
            device[members] = block.device if place == BESIDE else place
        for k, first, end in found:
            need, which = self.held[first, end] - self.free[k], blocks.leaving(k)[0]
            leaving = list[int]()
            for v in which[(blocks.layer[which] >= first) & (blocks.layer[which] < end)].tolist():
                if need > 0:
                    leaving.append(v)
                    need -= blocks.bytes[v]
            for v in reversed(leaving):
                if blocks.bytes[v] <= -need:  # what left after it has made more room than was needed
                    need += blocks.bytes[v]
                    leaving.remove(v)
            moved += leaving
        device[moved] = blocks.aside[moved]
        settled = device >= 0
        held = np.bincount(device[settled], blocks.bytes[settled], len(self.free))
        for v in sorted(np.flatnonzero(~settled).tolist(), key=lambda v: -blocks.bytes[v]):
            may = np.isfinite(blocks.arrays.seconds[v])
            device[v] = int(np.where(may, blocks.arrays.capacity - held, -np.inf).argmax())
            held[device[v]] += blocks.bytes[v]
        return device


def _between(sizes: FloatArray) -> FloatMatrix:
    """Sums of the entries from the row's to before the column's."""
    ends = np.concatenate([[0.0], np.cumsum(sizes)])
    return np.asarray(ends[None, :] - ends[:, None])
