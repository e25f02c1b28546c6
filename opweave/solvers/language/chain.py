"""A placement whose operators run one after the other, as modules between cut points that repeat.

At a cut point nothing but the last result is needed later. A *module* is what runs between two cut points: its inner
operators and its exit. Its *options* are all ways to choose devices for its entry (the exit of the module before), its
inner operators and its exit. Since the data orders all operators, no two of them ever run together, and the makespan is
the sum of the options' seconds. With ports, an option may take longer than without; its seconds are a lower bound then.

If operators may be stored in several types, an option also says in which *way* each of its operators is stored: ways
differ in bytes, seconds and loss.

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
from opweave.problems.language.rules import Beside, InOrder
from opweave.solvers.language.chain_rules import backwards_of, besides_of, listed_only, tied_within
from opweave.solvers.language.stretches import Stretch, stretches

MOST_OPTIONS, MOST_COLUMNS = 4096, 20_000
"""Most options of one module, and of all places together."""


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One class of equal modules and its options.

    Attributes
    ----------
    device
        Devices of the entry, of the inner operators and of the exit. Shape (options, operators + 1).
    way
        The way in which each inner operator and the exit are stored. Shape (options, operators).
    seconds, loss
        From the end of the entry to the end of the exit; what the ways lose. Shape (options,).
    owner, kind, bytes
        Of each way: its operator by position, the number of its type, and the bytes that it takes on its device,
        without shared parameters. Shape (ways,).
    shared
        Of each inner operator and the exit: the parameters that other operators have, too.
    """

    device: IntMatrix
    way: IntMatrix
    seconds: FloatArray
    loss: FloatArray
    owner: IntArray
    kind: IntArray
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
class Chain:
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
    first_seconds, first_bytes, first_loss, first_shared
        Seconds of the first operator in every type on every device, the bytes that it takes, what it loses, and its
        shared parameters.
    capacity
        Bytes of every device.
    shared_bytes
        Size of every parameter that several operators have.
    """

    order: IntArray
    cuts: IntArray
    modules: list[Module]
    classes: list[int]
    stretches: list[Stretch]
    first_seconds: FloatMatrix
    first_bytes: IntArray
    first_loss: FloatArray
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

    def kinds_of(self, first: int, options: list[int]) -> IntArray:
        """The type of every operator, given the first one's and every module's option. Shape (operators,)."""
        kind = np.empty(len(self.order), dtype=np.int64)
        kind[self.order[0]] = first
        for (begin, end), number, option in zip(pairwise(self.cuts.tolist()), self.classes, options, strict=True):
            module = self.modules[number]
            kind[self.order[begin + 1 : end + 1]] = module.kind[module.way[option]]
        return kind


class Stored(NamedTuple):
    """All operators in one type: seconds on every device, infinite for an operator without it; bytes alone; loss."""

    seconds: FloatMatrix
    bytes: IntArray
    loss: FloatArray


class _Parts(NamedTuple):
    """What makes modules equal.

    Attributes
    ----------
    owner, kind, seconds, bytes, loss
        As in :class:`Module`, with the seconds of every way on every device.
    flows
        Positions of producer and consumer, 0 for the entry, and bytes.
    ties
        For the entry, each inner operator and the exit: the first one that must share its device.
    besides
        Positions of two of them, 0 for the entry, and a device: the first is where the second is, or on that device.
    never
        Pairs of devices that the entry and the exit cannot be on.
    shared
        Parameters that other operators have, too.
    """

    owner: IntArray
    kind: IntArray
    seconds: FloatMatrix
    bytes: IntArray
    loss: FloatArray
    flows: list[tuple[int, int, int]]
    ties: tuple[int, ...]
    besides: tuple[tuple[int, int, int], ...]
    never: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, ...], ...]

    def mark(self) -> tuple[object, ...]:
        """The same for equal modules."""
        return *(each.tobytes() for each in self[:5]), tuple(self.flows), *self[6:]


def chain_of(
    instance: PlacementInstance,
    rules: Sequence[Beside] = (),
    orders: Sequence[InOrder] = (),
    types: Sequence[Stored] = (),
) -> Chain | None:
    """Lower a placement to a chain; None if operators may run side by side, or a module has too many options.

    ``orders`` leave out options only where they surely break one (:func:`.chain_rules.backwards_of`). Without
    ``types``, every operator is stored as the instance says.
    """
    instance = listed_only(instance, orders)
    order = topological_order(instance.after)
    position = np.argsort(order)
    if not len(order) or not _in_line(instance, order):
        return None
    cuts = _cut_points(position[instance.source], position[instance.target], len(order))
    besides = besides_of(instance, rules, position, cuts)
    if besides is None or not tied_within(instance.cluster[order], cuts):
        return None
    own, held, sizes = bytes_of(instance)
    types = types or (Stored(instance.seconds, own, np.zeros(len(own))),)
    backwards = backwards_of(instance, rules, orders)
    marks: dict[tuple[object, ...], int] = {}
    modules: list[Module] = []
    classes = []
    for begin, end in pairwise(cuts.tolist()):
        members = order[begin + 1 : end + 1]
        parts = _Parts(
            *_ways(types, members),
            _flows_of(instance, position, begin, members),
            _ties(instance.cluster[order[begin : end + 1]].tolist()),
            tuple(besides.get(begin, ())),
            tuple(sorted(backwards.get(int(members[-1]), ()))) if len(members) == 1 else (),
            tuple(tuple(held[v]) for v in members.tolist()),
        )
        mark = parts.mark()
        if mark not in marks:
            marks[mark] = len(modules)
            chosen = _chosen(len(instance.devices), parts)
            if chosen is None:
                return None
            modules.append(_module(instance, parts, *chosen))
        classes.append(marks[mark])
    repeated = stretches(classes)
    places = [classes[stretch.first + k] for stretch in repeated for k in range(stretch.period)]
    if sum(len(modules[number].seconds) for number in places) > MOST_COLUMNS:
        return None
    v = int(order[0])
    return Chain(
        order=order,
        cuts=cuts,
        modules=modules,
        classes=classes,
        stretches=repeated,
        first_seconds=np.stack([each.seconds[v] for each in types]),
        first_bytes=np.asarray([each.bytes[v] for each in types]),
        first_loss=np.asarray([each.loss[v] for each in types]),
        first_shared=held[v],
        capacity=instance.capacity,
        shared_bytes=sizes,
    )


def _in_line(instance: PlacementInstance, order: IntArray) -> bool:
    """Whether every operator waits for the one before it."""
    before = instance.before
    return all(u in before[v] for u, v in pairwise(order.tolist()))


def _cut_points(source: IntArray, target: IntArray, count: int) -> IntArray:
    """Positions that no flow passes by."""
    spans = np.zeros(count + 1, dtype=np.int64)
    np.add.at(spans, source + 1, 1)
    np.add.at(spans, target, -1)
    return np.flatnonzero(np.cumsum(spans)[:count] == 0)


def _ways(types: Sequence[Stored], members: IntArray) -> tuple[IntArray, IntArray, FloatMatrix, IntArray, FloatArray]:
    """The ways in which some operators may be stored, as the first fields of :class:`_Parts`."""
    found = [
        (j, t, each.seconds[v], each.bytes[v], each.loss[v])
        for j, v in enumerate(members.tolist())
        for t, each in enumerate(types)
        if len(types) == 1 or np.isfinite(each.seconds[v]).any()
    ]
    owner, kind, seconds, sizes, loss = map(np.asarray, zip(*found, strict=True))
    return owner, kind, seconds, sizes, loss


def _chosen(devices: int, parts: _Parts) -> tuple[IntMatrix, IntMatrix] | None:
    """All ways to choose devices that obey the rules, for the entry, the inner operators and the exit; None if many.

    The second matrix has the ways in which the inner operators and the exit are stored.
    """
    chosen = np.arange(devices, dtype=np.int64)[:, None]
    way = np.zeros((devices, 0), dtype=np.int64)
    for j in range(1, len(parts.ties)):
        some = np.flatnonzero(parts.owner == j - 1)
        more, place = (each.ravel() for each in np.meshgrid(some, np.arange(devices), indexing="ij"))
        count = len(chosen)
        chosen = np.column_stack([np.repeat(chosen, len(place), axis=0), np.tile(place, count)])
        way = np.column_stack([np.repeat(way, len(more), axis=0), np.tile(more, count)])
        keep = chosen[:, j] == chosen[:, parts.ties[j]]
        for a, b, k in parts.besides:
            if max(a, b) == j:
                keep &= (chosen[:, a] == chosen[:, b]) | (chosen[:, a] == k)
        for a, b in parts.never:
            keep &= (chosen[:, 0] != a) | (chosen[:, j] != b)
        keep &= np.isfinite(parts.seconds[way[:, -1], chosen[:, j]])
        chosen, way = chosen[keep], way[keep]
        if len(chosen) > MOST_OPTIONS:
            return None
    return chosen, way


def _ties(group: list[int]) -> tuple[int, ...]:
    """For every operator the first one that must share its device, by position."""
    return tuple(group.index(each) for each in group)


def bytes_of(instance: PlacementInstance) -> tuple[IntArray, list[list[int]], dict[int, int]]:
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


def _module(instance: PlacementInstance, parts: _Parts, device: IntMatrix, way: IntMatrix) -> Module:
    """All options of a module that are not worse than another one in every respect."""
    count, devices = way.shape[1], len(instance.devices)
    ends = np.zeros((len(device), count + 1))
    for j in range(1, count + 1):
        ready = ends[:, j - 1]
        for made, read, size in parts.flows:
            if read == j:
                a, b = device[:, made], device[:, j]
                sent = instance.latency[a, b] + size * instance.seconds_per_byte[a, b]
                ready = np.maximum(ready, ends[:, made] + sent)
        ends[:, j] = ready + parts.seconds[way[:, j - 1], device[:, j]]
    shared, loss = parts.shared, parts.loss[way].sum(axis=1)
    here = device[:, 1:, None] == np.arange(devices)  # (options, operators, devices)
    taken = (here * parts.bytes[way][:, :, None]).sum(axis=1)
    needs = [here[:, [j for j, row in enumerate(shared) if p in row]].any(axis=1) for p in sorted({*chain(*shared)})]
    keep = np.flatnonzero(np.isfinite(ends[:, -1]) & (taken <= instance.capacity).all(axis=1))
    takes = np.hstack([each[keep] for each in (taken, *needs)])
    keep = keep[_undominated(device[keep], np.column_stack([ends[keep, -1], loss[keep]]), takes)]
    fields = parts.owner, parts.kind, parts.bytes, shared
    return Module(device[keep], way[keep], ends[keep, -1], loss[keep], *fields)


def _undominated(device: IntMatrix, costs: FloatMatrix, takes: IntMatrix) -> IntArray:
    """Options that no other one with the same ends matches in time, loss and memory; the first of equal ones."""
    ends = device[:, 0] * (int(device.max(initial=0)) + 1) + device[:, -1]
    pairs = np.unique(ends)
    if len(pairs) == len(device):
        return np.arange(len(device))
    kept = []
    for pair in pairs:
        rows = np.flatnonzero(ends == pair)
        what = np.column_stack([costs[rows], takes[rows]])
        no_worse = (what[:, None, :] <= what[None, :, :]).all(axis=2)  # [a, b]: a is no worse than b
        better = no_worse & ~(no_worse.T & (np.arange(len(rows))[:, None] >= np.arange(len(rows))))
        kept.append(rows[~better.any(axis=0)])
    return np.sort(np.concatenate(kept))
