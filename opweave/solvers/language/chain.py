"""A placement whose operators run one after the other, as modules between cut points that repeat.

At a cut point nothing but the last result is needed later. A *module* is what runs between two cut points: its inner
operators and its exit. Its *options* are all ways to choose devices for its entry (the exit of the module before), its
inner operators and its exit. Since the data orders all operators, no two of them ever run together, and the makespan is
the sum of the options' seconds. With ports, an option may take longer than without; its seconds are a lower bound then.

Equal layers give equal modules, and stretches of modules that repeat. How many times each option occurs in a stretch is
all that matters for time and memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import topological_order
from opweave.problems.language.rules import Beside

MOST_OPTIONS, MOST_COLUMNS = 4096, 20_000
"""Most options of one module, and of all places together."""

LONGEST_PERIOD = 64
"""Most modules of a period."""


class Stretch(NamedTuple):
    """Positions ``first`` to ``first + period * times - 1`` of a sequence: a period that repeats ``times`` times."""

    first: int
    period: int
    times: int


def stretches(sequence: Sequence[int], longest: int = LONGEST_PERIOD) -> list[Stretch]:
    """Split a sequence into repeated stretches and the parts between them, which get ``times`` 1.

    Each step takes the stretch that covers most positions; among equals, the one with the shortest period.

    Examples
    --------
    >>> stretches([7, 1, 2, 1, 2, 1, 2, 9, 9])
    [Stretch(first=0, period=1, times=1), Stretch(first=1, period=2, times=3), Stretch(first=7, period=1, times=2)]
    """
    values = np.asarray(sequence, dtype=np.int64)
    best = Stretch(0, max(1, len(values)), 1)
    covered = 0
    for period in range(1, min(longest, len(values) // 2) + 1):
        same = values[:-period] == values[period:]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (last - first) // period + 1
            if times > 1 and times * period > covered:
                best, covered = Stretch(first, period, times), times * period
    if not covered:
        return [best] if len(values) else []
    end = best.first + covered
    before = stretches(sequence[: best.first], longest)
    after = stretches(sequence[end:], longest)
    return [*before, best, *(stretch._replace(first=stretch.first + end) for stretch in after)]


@dataclass(frozen=True, slots=True, eq=False)
class ModuleClass:
    """One class of equal modules and its options.

    Attributes
    ----------
    device
        Devices of the entry, of the inner operators and of the exit. Shape (options, operators + 1).
    seconds
        From the end of the entry to the end of the exit. Shape (options,).
    bytes
        Of each inner operator and the exit, without shared parameters. Shape (operators,).
    shared
        Of each inner operator and the exit: the parameters that other operators have, too.
    """

    device: IntMatrix
    seconds: FloatArray
    bytes: IntArray
    shared: tuple[tuple[int, ...], ...]

    @property
    def entry(self) -> IntArray:
        """Device of the entry. Shape (options,)."""
        return self.device[:, 0]

    @property
    def exit(self) -> IntArray:
        """Device of the exit. Shape (options,)."""
        return self.device[:, -1]


@dataclass(frozen=True, slots=True, eq=False)
class ModuleChain:
    """A placement as a chain of modules.

    Attributes
    ----------
    order
        The operators in the order in which they run.
    cuts
        Positions of the cut points in ``order``; the first operator is one, and so is the last.
    modules
        One for each class.
    classes
        The class of every module, in order. Shape (cut points - 1,).
    stretches
        The modules as stretches that repeat.
    first_seconds, first_bytes, first_shared
        Seconds of the first operator on every device, the bytes that it takes, and its shared parameters.
    capacity
        Bytes of every device.
    shared_bytes
        Size of every parameter that several operators have.
    """

    order: IntArray
    cuts: IntArray
    modules: list[ModuleClass]
    classes: list[int]
    stretches: list[Stretch]
    first_seconds: FloatArray
    first_bytes: int
    first_shared: list[int]
    capacity: IntArray
    shared_bytes: dict[int, int]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.capacity)

    @property
    def longest(self) -> float:
        """Seconds that no plan exceeds."""
        parts = [float(module.seconds.max(initial=0.0)) for module in self.modules]
        times = np.bincount(self.classes, minlength=len(parts)).tolist()
        first = self.first_seconds[np.isfinite(self.first_seconds)]
        return float(first.max(initial=0.0)) + math.fsum(n * each for n, each in zip(times, parts, strict=True))

    def devices_of(self, first: int, options: list[int]) -> IntArray:
        """The device of every operator, given the first one's device and every module's option. Shape (operators,)."""
        device = np.empty(len(self.order), dtype=np.int64)
        device[self.order[0]] = first
        for (begin, end), number, option in zip(pairwise(self.cuts.tolist()), self.classes, options, strict=True):
            device[self.order[begin + 1 : end + 1]] = self.modules[number].device[option, 1:]
        return device


class _Parts(NamedTuple):
    """What makes modules equal.

    Attributes
    ----------
    seconds, bytes
        Of every inner operator and the exit: seconds on every device, and bytes without shared parameters.
    flows
        Positions of producer and consumer, 0 for the entry, and bytes.
    ties
        For the entry, each inner operator and the exit: the first one that must share its device.
    besides
        Positions of two of them, 0 for the entry, and a device: the first is where the second is, or on that device.
    shared
        Parameters that other operators have, too.
    """

    seconds: FloatMatrix
    bytes: IntArray
    flows: list[tuple[int, int, int]]
    ties: tuple[int, ...]
    besides: tuple[tuple[int, int, int], ...]
    shared: tuple[tuple[int, ...], ...]

    def mark(self) -> tuple[object, ...]:
        """The same for equal modules."""
        return self.seconds.tobytes(), self.bytes.tobytes(), tuple(self.flows), *self[3:]


def chain_of(instance: PlacementInstance, rules: Sequence[Beside] = ()) -> ModuleChain | None:
    """Lower a placement to a chain; None if operators may run side by side, or a module has too many options."""
    order = topological_order(instance.after)
    position = np.argsort(order)
    if not len(order) or not _in_line(instance, order):
        return None
    group = order[np.argsort(instance.cluster[order], kind="stable")]
    ties = [(a, b) for a, b in pairwise(group.tolist()) if instance.cluster[a] == instance.cluster[b]]
    source, target = position[np.hstack([[instance.source, instance.target], np.reshape(ties, (-1, 2)).T]).astype(int)]
    cuts = _cut_points(source, target, len(order))
    besides = _besides_of(instance, rules, position, cuts)
    if besides is None:
        return None
    own, held, sizes = _bytes_of(instance)
    marks: dict[tuple[object, ...], int] = {}
    modules: list[ModuleClass] = []
    classes = []
    for begin, end in pairwise(cuts.tolist()):
        members, tied = order[begin + 1 : end + 1], instance.cluster[order[begin : end + 1]].tolist()
        parts = _Parts(
            instance.seconds[members],
            own[members],
            _flows_of(instance, position, begin, members),
            tuple(tied.index(each) for each in tied),
            tuple(besides.get(begin, ())),
            tuple(tuple(held[v]) for v in members.tolist()),
        )
        mark = parts.mark()
        if mark not in marks:
            marks[mark] = len(modules)
            chosen = _chosen(len(instance.devices), parts)
            if chosen is None:
                return None
            modules.append(_module(instance, parts, chosen))
        classes.append(marks[mark])
    repeated = stretches(classes)
    places = [classes[stretch.first + k] for stretch in repeated for k in range(stretch.period)]
    if sum(len(modules[number].seconds) for number in places) > MOST_COLUMNS:
        return None
    v = int(order[0])
    return ModuleChain(
        order=order,
        cuts=cuts,
        modules=modules,
        classes=classes,
        stretches=repeated,
        first_seconds=instance.seconds[v],
        first_bytes=int(own[v]),
        first_shared=held[v],
        capacity=instance.capacity,
        shared_bytes=sizes,
    )


def _in_line(instance: PlacementInstance, order: IntArray) -> bool:
    """Whether every operator waits for the one before it."""
    before = instance.before
    return all(u in before[v] for u, v in pairwise(order.tolist()))


def _cut_points(source: IntArray, target: IntArray, count: int) -> IntArray:
    """Positions that no flow passes by, and no tie."""
    spans = np.zeros(count + 1, dtype=np.int64)
    np.add.at(spans, source + 1, 1)
    np.add.at(spans, target, -1)
    return np.flatnonzero(np.cumsum(spans)[:count] == 0)


def _chosen(devices: int, parts: _Parts) -> IntMatrix | None:
    """All ways to choose devices that obey the rules, for the entry, the inner operators and the exit; None if many."""
    chosen = np.arange(devices, dtype=np.int64)[:, None]
    for j in range(1, len(parts.ties)):
        place = np.tile(np.arange(devices), len(chosen))
        chosen = np.column_stack([np.repeat(chosen, devices, axis=0), place])
        keep = (place == chosen[:, parts.ties[j]]) & np.isfinite(parts.seconds[j - 1, place])
        for a, b, k in parts.besides:
            if max(a, b) == j:
                keep &= (chosen[:, a] == chosen[:, b]) | (chosen[:, a] == k)
        chosen = chosen[keep]
        if len(chosen) > MOST_OPTIONS:
            return None
    return chosen


def _bytes_of(instance: PlacementInstance) -> tuple[IntArray, list[list[int]], dict[int, int]]:
    """Bytes of every operator alone, its parameters that others have too, and the sizes of these."""
    users = np.bincount(instance.parameters.items, minlength=len(instance.parameter_bytes))
    alone = np.where(users == 1, instance.parameter_bytes, 0)
    own = instance.memory.copy()
    np.add.at(own, instance.parameters.heads(), alone[instance.parameters.items])
    held = [[p for p in row if users[p] > 1 and instance.parameter_bytes[p]] for row in instance.parameters.lists()]
    return own, held, {p: int(instance.parameter_bytes[p]) for row in held for p in row}


def _flows_of(
    instance: PlacementInstance, position: IntArray, begin: int, members: IntArray
) -> list[tuple[int, int, int]]:
    """Flows within a module: positions of producer and consumer, 0 for the entry, and bytes."""
    flows = np.concatenate([instance.incoming[v] for v in members.tolist()])
    made, read = position[instance.source[flows]] - begin, position[instance.target[flows]] - begin
    return sorted(zip(made.tolist(), read.tolist(), instance.size[flows].tolist(), strict=True))


def _module(instance: PlacementInstance, parts: _Parts, device: IntMatrix) -> ModuleClass:
    """All options of a module that are not worse than another one in every respect."""
    count, devices = len(parts.bytes), len(instance.devices)
    ends = np.zeros((len(device), count + 1))
    for j in range(1, count + 1):
        ready = ends[:, j - 1]
        for made, read, size in parts.flows:
            if read == j:
                a, b = device[:, made], device[:, j]
                sent = instance.latency[a, b] + size * instance.seconds_per_byte[a, b]
                ready = np.maximum(ready, ends[:, made] + sent)
        ends[:, j] = ready + parts.seconds[j - 1, device[:, j]]
    shared = parts.shared
    here = device[:, 1:, None] == np.arange(devices)  # (options, operators, devices)
    taken = (here * parts.bytes[:, None]).sum(axis=1)
    needs = [here[:, [j for j, row in enumerate(shared) if p in row]].any(axis=1) for p in sorted({*chain(*shared)})]
    keep = np.flatnonzero(np.isfinite(ends[:, -1]) & (taken <= instance.capacity).all(axis=1))
    takes = np.hstack([each[keep] for each in (taken, *needs)])
    keep = keep[_undominated(device[keep], ends[keep, -1], takes)]
    return ModuleClass(device[keep], ends[keep, -1], parts.bytes, shared)


def _undominated(device: IntMatrix, seconds: FloatArray, takes: IntMatrix) -> IntArray:
    """Options that no other one with the same ends matches in time and memory; the first of equal ones."""
    ends = device[:, 0] * (int(device.max(initial=0)) + 1) + device[:, -1]
    pairs = np.unique(ends)
    if len(pairs) == len(device):
        return np.arange(len(device))
    kept = []
    for pair in pairs:
        rows = np.flatnonzero(ends == pair)
        what = np.column_stack([seconds[rows], takes[rows]])
        no_worse = (what[:, None, :] <= what[None, :, :]).all(axis=2)  # [a, b]: a is no worse than b
        better = no_worse & ~(no_worse.T & (np.arange(len(rows))[:, None] >= np.arange(len(rows))))
        kept.append(rows[~better.any(axis=0)])
    return np.sort(np.concatenate(kept))


def _besides_of(
    instance: PlacementInstance, rules: Sequence[Beside], position: IntArray, cuts: IntArray
) -> dict[int, list[tuple[int, int, int]]] | None:
    """The rules of every module by its entry's position; None if one concerns operators of different modules."""
    index, found = {name: v for v, name in enumerate(instance.names)}, dict[int, list[tuple[int, int, int]]]()
    for rule in rules:
        places = int(position[index[rule.op]]), int(position[index[rule.other]])
        entry = int(np.searchsorted(cuts, min(places), side="right")) - 1
        begin, end = int(cuts[entry]), int(cuts[min(entry + 1, len(cuts) - 1)])
        if max(places) > end:
            return None
        found.setdefault(begin, []).append((places[0] - begin, places[1] - begin, instance.devices.index(rule.device)))
    return found
