"""Simulated annealing of pipelines whose devices may have several stages: cuts, devices, and ties kept on the way.

A layout is a sequence of stages: where each ends, and its device. A move shifts a cut, gives a stage another device,
exchanges two devices everywhere, or inserts or removes a stage. When a cut moves, tied pieces (``Colocate``) follow to
the other device if it has a stage beside them: a layer takes its backward pass along. A new stage may come with another
one, for tied pieces. What stages send is counted exactly, but only where the largest possible message would matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.loops import helper, loop
from opweave.solvers.pipeline.walks import Sendable, separate_pieces, shared_parameters, tied_pieces

MIXED = 1e-3
"""Weight of the mean load beside the objective, so that moves on other devices matter a little."""

COLD = 1e-4
"""Last temperature, as a share of the first."""

LARGEST = 0.3
"""Share of the points by which a cut moves at most."""

GOALS = ("bottleneck", "latency", "transfers")
VISITS, MOST, LEAST, DEVICES, GOAL, SHARED, SUMMED = range(7)
"""Entries of :attr:`LayoutArrays.rules`."""


class LayoutArrays(NamedTuple):
    """A pipeline for the compiled loops of this file.

    Attributes
    ----------
    elapsed, reach, memory, capacity, rate, latency, sent
        As in :class:`~opweave.formulations.pipeline.instance.PipelineInstance`.
    size, maker, read_start, reader
        As in :class:`~opweave.solvers.pipeline.walks.Sendable`; the readers of tensor t are
        ``reader[read_start[t]:read_start[t + 1]]``, in ascending order.
    tie_start, tie
        The pieces that are tied to piece p are ``tie[tie_start[p]:tie_start[p + 1]]``.
    apart
        Pairs of pieces that need two devices. Shape (pairs, 2).
    part_bytes, part_start, part_user
        Bytes of parameters that several pieces read, and these pieces.
    rules
        Most stages of a device, most and least stages, most devices; the goal; whether one channel is shared, and
        whether loads are sums.
    """

    elapsed: FloatMatrix
    reach: IntMatrix
    memory: IntArray
    capacity: IntArray
    rate: FloatMatrix
    latency: FloatMatrix
    sent: FloatArray
    size: FloatArray
    maker: IntArray
    read_start: IntArray
    reader: IntArray
    tie_start: IntArray
    tie: IntArray
    apart: IntMatrix
    part_bytes: IntArray
    part_start: IntArray
    part_user: IntArray
    rules: IntArray

    @classmethod
    def of(cls, problem: Pipeline, instance: PipelineInstance) -> LayoutArrays:
        """Flatten a problem; the instance is that of the problem without ties."""
        sendable, pieces = Sendable.of(problem, instance), instance.last
        pairs = np.unique(np.stack([sendable.tensor, sendable.reader]), axis=1)
        crossing = np.zeros(len(sendable.bytes), dtype=bool)
        crossing[pairs[0, pairs[1] > sendable.maker[pairs[0]]]] = True
        crossing &= sendable.bytes > 0
        pairs = pairs[:, crossing[pairs[0]]]
        kept = np.flatnonzero(crossing)
        ties = np.array([(a, b) for group in tied_pieces(problem, instance) for a in group for b in group if a != b])
        ties = np.unique(ties.reshape(-1, 2).astype(np.int64), axis=0)
        parts = shared_parameters(problem, instance)
        most = problem.stage_limit
        rules = (problem.max_visits or most, most, problem.min_stages, problem.device_limit)
        return cls(
            elapsed=instance.elapsed,
            reach=instance.reach,
            memory=instance.memory,
            capacity=instance.capacity,
            rate=instance.rate,
            latency=instance.latency,
            sent=instance.sent,
            size=sendable.bytes[kept],
            maker=sendable.maker[kept],
            read_start=np.searchsorted(pairs[0], np.append(kept, len(sendable.bytes))),
            reader=np.ascontiguousarray(pairs[1]),
            tie_start=np.searchsorted(ties[:, 0], np.arange(pieces + 1)),
            tie=np.ascontiguousarray(ties[:, 1]),
            apart=np.array(separate_pieces(problem, instance), dtype=np.int64).reshape(-1, 2),
            part_bytes=np.array([size for size, _ in parts], dtype=np.int64),
            part_start=np.cumsum([0, *(len(users) for _, users in parts)]),
            part_user=np.concatenate([np.zeros(0, dtype=np.int64), *(users for _, users in parts)]),
            rules=np.array(
                [*rules, GOALS.index(problem.objective), instance.shared_channel, instance.summed], dtype=np.int64
            ),
        )


@helper
def stage_at(ends: IntArray, piece: int) -> int:
    """The stage that runs a piece."""
    i = 0
    while ends[i] <= piece:
        i += 1
    return i


@helper
def send_all(arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int, sent: FloatArray) -> None:
    """The bytes that cross each cut: a tensor goes on until all devices that read it have been there."""
    for c in range(count):
        sent[c] = 0.0
    for t in range(len(arrays.size)):
        first = stage_at(ends, arrays.maker[t])
        if arrays.reader[arrays.read_start[t + 1] - 1] < ends[first]:
            continue
        last = first
        for r in range(arrays.read_start[t], arrays.read_start[t + 1]):
            if arrays.reader[r] >= ends[first]:
                v, j = devices[stage_at(ends, arrays.reader[r])], first
                while devices[j] != v:
                    j += 1
                last = max(last, j)
        for c in range(first, last):
            sent[c] += arrays.size[t]


@helper
def broken(arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int) -> float:
    """How much a layout violates: at least 1 for every rule that is broken."""
    wrong, used = 0.0, 0
    if count > arrays.rules[MOST]:
        wrong += count - arrays.rules[MOST]
    if count < arrays.rules[LEAST]:
        wrong += arrays.rules[LEAST] - count
    for v in range(len(arrays.capacity)):
        visits, held, begin = 0, 0, 0
        for i in range(count):
            if devices[i] == v:
                visits += 1
                held += arrays.memory[ends[i]] - arrays.memory[begin]
                if arrays.reach[v, begin] < ends[i]:
                    wrong += 1.0
            begin = ends[i]
        used += min(visits, 1)
        wrong += max(0, visits - arrays.rules[VISITS])
        for part in range(len(arrays.part_bytes)):
            for k in range(arrays.part_start[part], arrays.part_start[part + 1]):
                if devices[stage_at(ends, arrays.part_user[k])] == v:
                    held += arrays.part_bytes[part]
                    break
        if held > arrays.capacity[v]:
            wrong += 1.0 + (held - arrays.capacity[v]) / (1.0 + arrays.capacity[v])
    wrong += max(0, used - arrays.rules[DEVICES])
    for piece in range(len(arrays.tie_start) - 1):
        for k in range(arrays.tie_start[piece], arrays.tie_start[piece + 1]):
            if arrays.tie[k] > piece and devices[stage_at(ends, piece)] != devices[stage_at(ends, arrays.tie[k])]:
                wrong += 1.0
    for k in range(len(arrays.apart)):
        if devices[stage_at(ends, arrays.apart[k, 0])] == devices[stage_at(ends, arrays.apart[k, 1])]:
            wrong += 1.0
    return float(wrong)


@helper
def seconds_of(
    arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int, sent: FloatArray, load: FloatArray
) -> float:
    """The objective with given bytes over the cuts; infinite without a link."""
    for v in range(len(load)):
        load[v] = 0.0
    slowest, carried, computed, begin = 0.0, 0.0, 0.0, 0
    for i in range(count):
        v = devices[i]
        own = arrays.elapsed[v, ends[i]] - arrays.elapsed[v, begin]
        load[v] += own
        computed += own
        begin = ends[i]
        if i < count - 1:
            w = devices[i + 1]
            if arrays.rate[v, w] <= 0.0:
                return math.inf
            seconds = arrays.latency[v, w] + sent[i] / arrays.rate[v, w]
            carried += seconds
            slowest = max(slowest, seconds)
            if arrays.rules[SUMMED] == 1:
                load[v] += seconds
                load[w] += seconds
    if arrays.rules[GOAL] == 1:
        return float(carried + computed)
    if arrays.rules[GOAL] == 2:
        return float(carried)
    if arrays.rules[SHARED] == 1:
        slowest = carried
    total = 0.0
    for v in range(len(load)):
        slowest = max(slowest, load[v])
        total += load[v]
    return float(slowest + MIXED * total / len(load))


@helper
def price(
    arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int, most: float, scale: float, work: FloatMatrix
) -> float:
    """The objective and a penalty for what is broken; exact where it is at most ``most``."""
    sent, load, value, wrong = work[0], work[1, : len(arrays.capacity)], 0.0, 0.0
    for attempt in range(3):  # no message, the largest possible messages, and the true ones
        if attempt == 2:
            send_all(arrays, ends, devices, count, sent)
        else:
            for i in range(count):
                sent[i] = attempt * arrays.sent[ends[i]]
        least, value = value, seconds_of(arrays, ends, devices, count, sent, load)
        if attempt == 0:
            if value <= most:
                wrong = scale * broken(arrays, ends, devices, count)
            if value + wrong > most:
                return value + wrong
        elif value <= least:
            break
    return value + wrong


@helper
def follow(arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int, cut: int, before: int) -> None:
    """Let tied pieces follow those that moved from one device to another when a cut moved."""
    low, high = min(before, ends[cut]), max(before, ends[cut])
    source, target = devices[cut], devices[cut + 1]
    if ends[cut] > before:
        source, target = target, source
    for piece in range(low, high):
        for k in range(arrays.tie_start[piece], arrays.tie_start[piece + 1]):
            other = arrays.tie[k]
            j = stage_at(ends, other)
            if devices[j] != source:
                continue
            if j > 0 and devices[j - 1] == target and j - 1 != cut:
                ends[j - 1] = other + 1
            elif j < count - 1 and devices[j + 1] == target and j != cut:
                ends[j] = other


@helper
def split(ends: IntArray, devices: IntArray, count: int, piece: int) -> int:
    """Cut a stage in two before a piece, unless it is cut there; the number of stages."""
    if piece <= 0 or piece >= ends[count - 1]:
        return count
    i = stage_at(ends, piece - 1)
    if ends[i] == piece:
        return count
    for j in range(count, i, -1):
        ends[j], devices[j] = ends[j - 1], devices[j - 1]
    ends[i] = piece
    return count + 1


@helper
def tidied(ends: IntArray, devices: IntArray, count: int, last: int) -> int:
    """Remove empty stages and join stages in a row on one device; their number, 0 if cuts are out of order."""
    kept, begin = 0, 0
    for i in range(count):
        if ends[i] < begin or ends[i] > last:
            return 0
        if ends[i] > begin:
            if kept > 0 and devices[kept - 1] == devices[i]:
                kept -= 1
            ends[kept], devices[kept] = ends[i], devices[i]
            kept += 1
            begin = ends[i]
    return kept if begin == last else 0


@helper
def _swapped(devices: IntArray, held: int, u: int, v: int) -> None:
    """Swap two devices in all stages."""
    for j in range(held):
        if devices[j] == u:
            devices[j] = v
        elif devices[j] == v:
            devices[j] = u


@helper
def _cut(arrays: LayoutArrays, ends: IntArray, devices: IntArray, held: int, piece: int, v: int, chance: float) -> int:
    """Make a piece a stage on device v, alone or with one that is tied to it; return the number of stages."""
    new = split(ends, devices, held, piece)
    if chance < 0.5 and arrays.tie_start[piece] < arrays.tie_start[piece + 1]:
        other = arrays.tie[arrays.tie_start[piece]]
        new = split(ends, devices, new, other + int(other > piece))
        devices[stage_at(ends, other)] = v
        devices[stage_at(ends, piece)] = v
    else:
        devices[stage_at(ends, piece) - int(chance < 0.75)] = v
    return int(new)


@helper
def _without(ends: IntArray, devices: IntArray, held: int, i: int) -> int:
    """Give the pieces of stage i to a neighbour; return the number of stages."""
    for j in range(i, held - 1):
        devices[j] = devices[j + 1]
    for j in range(min(i, held - 2), held - 1):
        ends[j] = ends[j + 1]
    return held - 1


@loop
def anneal_layout(
    arrays: LayoutArrays, ends: IntArray, devices: IntArray, count: int, heat: FloatArray, seed: int, halt: IntArray
) -> tuple[float, int]:
    """Anneal a layout in place; ``ends`` and ``devices`` have room for more stages than ``count``.

    Parameters
    ----------
    heat
        First temperature in seconds, the penalty of a broken rule, and the number of moves.

    Returns
    -------
    tuple
        The best layout's price, and its number of stages.
    """
    last, machines, room = arrays.elapsed.shape[1] - 1, len(arrays.capacity), len(ends) - 1
    work = np.zeros((2, max(len(ends), machines)))
    now, places = np.zeros((2, len(ends)), dtype=np.int64), np.zeros((2, len(ends)), dtype=np.int64)
    now[0][:] = ends
    now[1][:] = devices
    held, luck = count, seed % 2147483646 + 1
    value = price(arrays, ends, devices, count, math.inf, heat[1], work)
    best, kept, steps = value, count, int(heat[2])
    for step in range(steps):
        if halt[0] != 0:
            break
        places[:] = now
        new = held
        luck = luck * 48271 % 2147483647
        kind = luck % 16
        luck = luck * 48271 % 2147483647
        i = luck % held
        luck = luck * 48271 % 2147483647
        v = luck % machines
        luck = luck * 48271 % 2147483647
        chance = luck / 2147483647.0
        luck = luck * 48271 % 2147483647
        if kind < 9:
            if i == held - 1:
                continue
            far = max(1, int(LARGEST * last * chance**4))
            before = places[0, i]
            places[0, i] = min(last, max(0, before + luck % (2 * far + 1) - far))
            follow(arrays, places[0], places[1], held, i, before)
        elif kind < 11:
            places[1, i] = v
        elif kind < 13:
            _swapped(places[1], held, places[1, i], v)
        elif kind < 15:
            begin = 0 if i == 0 else places[0, i - 1]
            if held + 2 > room or places[0, i] - begin < 2:
                continue
            piece = begin + 1 + luck % (places[0, i] - begin - 1)
            new = _cut(arrays, places[0], places[1], held, piece, v, chance)
        elif held > 1:
            new = _without(places[0], places[1], held, i)
        new = tidied(places[0], places[1], new, last)
        if new == 0:
            continue
        luck = luck * 48271 % 2147483647
        warmth = heat[0] * COLD ** (step / steps)
        most = value - warmth * math.log(luck / 2147483647.0)
        found = price(arrays, places[0], places[1], new, most, heat[1], work)
        if found <= most:
            now[:] = places
            value, held = found, new
            if found < best:
                best, kept = found, new
                ends[:] = places[0]
                devices[:] = places[1]
    return best, kept
