"""Local search for offsets within a given height: storages may overlap at first, and are moved until none do.

A storage that overlaps others is moved to the offset with the least weighted overlap. After every round, the weights of
pairs that still overlap grow and those of all others decay, so that the search leaves every local minimum.

Source: Egeblad, Nielsen and Odgaard, "Fast neighborhood search for two- and three-dimensional nesting problems" (2007),
and Gardeyn, Vanden Berghe and Wauters, "An open-source heuristic to reboot 2D nesting research" (2025), where the time
axis is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.loops import sort_rising
from opweave.solvers.memory_layout.sections import Space, overlaps_of

GROWTH, SLOWEST_GROWTH, DECAY = 2.0, 1.2, 0.95
"""Factors of a pair's weight after a round: largest and smallest where it overlaps, and where it does not."""

MODULUS, MULTIPLIER = 2147483647, 48271
"""Random numbers of Lehmer's kind, which are the same compiled and uncompiled."""


class Pairs(NamedTuple):
    """Storages that are live together.

    Attributes
    ----------
    start, items
        The others of every storage.
    twin
        For every entry, the entry of the same pair the other way round.
    weight
        The weight of every entry's pair, changed in place.
    order
        Breakpoints of every storage in the order that they had last: four for every entry.
    """

    start: IntArray
    items: IntArray
    twin: IntArray
    weight: FloatArray
    order: IntArray


def pairs_of(space: Space) -> Pairs:
    """All pairs of storages that are live together, with equal weights."""
    overlaps = overlaps_of(space)
    heads = overlaps.heads()
    count = len(space.size)
    key = heads * count + overlaps.items
    twin = np.searchsorted(key, overlaps.items * count + heads)
    order = np.arange(4 * len(key)) - 4 * np.repeat(overlaps.start[:-1], np.diff(overlaps.start)).repeat(4)
    return Pairs(overlaps.start, overlaps.items, twin, np.ones(len(key)), order)


@inlined
def _random(state: IntArray) -> int:
    """The next random number below ``MODULUS``."""
    state[0] = state[0] * MULTIPLIER % MODULUS
    return state[0]


@inlined
def _shared(space: Space, offset: IntArray, i: int, at: int, j: int) -> int:
    """Bytes that storage i at an offset shares with storage j."""
    return min(at + space.size[i], offset[j] + space.size[j]) - max(at, offset[j])


@inlined
def _best_offset(
    space: Space,
    pairs: Pairs,
    offset: IntArray,
    i: int,
    height: int,
    key: FloatArray,
    slope: FloatArray,
    spare: IntArray,
    state: IntArray,
) -> int:
    """The offset of storage i with the least weighted overlap; a random one of several."""
    first, after = pairs.start[i], pairs.start[i + 1]
    size, unit = space.size[i], space.alignment[i]
    top = (height - size) // unit * unit
    value, change = 0.0, 0.0
    for e in range(first, after):
        j = pairs.items[e]
        w = pairs.weight[e]
        low, common = offset[j], min(size, space.size[j])
        high = low + space.size[j]
        k = 4 * (e - first)
        key[k], slope[k] = low - size, w
        key[k + 1], slope[k + 1] = low - size + common, -w
        key[k + 2], slope[k + 2] = high - common, -w
        key[k + 3], slope[k + 3] = high, w
        both = min(size, high) - max(0, low)
        if both > 0:
            value += w * both
    order = pairs.order[4 * first : 4 * after]
    sort_rising(key, order, spare)
    at, best, found, ties = 0, value, 0, 1
    for n in range(len(order) + 1):
        until = top if n == len(order) else min(top, int(key[order[n]]))
        if until > at:
            here = (at + unit - 1) // unit * unit
            there = until // unit * unit
            for turn in range(2):
                y = here if turn == 0 else there
                if at <= y <= until and (turn == 0 or y > here):
                    v = value + change * (y - at)
                    if v < best * (1.0 - 1e-12) - 1e-9:
                        best, found, ties = v, y, 1
                    elif v <= best * (1.0 + 1e-12) + 1e-9:
                        ties += 1
                        if _random(state) % ties == 0:
                            best, found = min(v, best), y
            value += change * (until - at)
            at = until
        if n < len(order):
            if key[order[n]] >= top:
                break
            change += slope[order[n]]
    return found


@inlined
def _colliding(space: Space, pairs: Pairs, offset: IntArray, found: IntArray) -> int:
    """Write the storages that overlap others to ``found``; return their number."""
    used = 0
    for i in range(len(space.size)):
        for e in range(pairs.start[i], pairs.start[i + 1]):
            if _shared(space, offset, i, offset[i], pairs.items[e]) > 0:
                found[used] = i
                used += 1
                break
    return used


@inlined
def _learn(space: Space, pairs: Pairs, offset: IntArray) -> int:
    """Raise the weights of overlapping pairs and lower all others; return the bytes that overlap."""
    total, most = 0, 1
    for i in range(len(space.size)):
        for e in range(pairs.start[i], pairs.start[i + 1]):
            if pairs.items[e] > i:
                both = _shared(space, offset, i, offset[i], pairs.items[e])
                if both > 0:
                    total += both
                    most = max(most, both)
    for i in range(len(space.size)):
        for e in range(pairs.start[i], pairs.start[i + 1]):
            if pairs.items[e] > i:
                both = _shared(space, offset, i, offset[i], pairs.items[e])
                w = pairs.weight[e]
                if both > 0:
                    w *= SLOWEST_GROWTH + (GROWTH - SLOWEST_GROWTH) * both / most
                else:
                    w = max(1.0, w * DECAY)
                pairs.weight[e] = w
                pairs.weight[pairs.twin[e]] = w
    return total


@kernel
def separate(
    space: Space, pairs: Pairs, offset: IntArray, best: IntArray, height: int, rounds: int, state: IntArray
) -> int:
    """Move storages until none overlap; returns the least number of bytes that overlapped after a round.

    ``offset`` holds the storages' offsets and is changed; ``best`` receives those with the least overlap. Stops after
    so many ``rounds`` without a gain. ``state`` holds a random number.
    """
    count = len(space.size)
    longest = 0
    for i in range(count):
        longest = max(longest, pairs.start[i + 1] - pairs.start[i])
    key = np.zeros(4 * longest)
    slope = np.zeros(4 * longest)
    spare = np.zeros(4 * longest, dtype=np.int64)
    turn = np.zeros(count, dtype=np.int64)
    least = -1
    idle = 0
    while idle < rounds and space.halt[0] == 0:
        used = _colliding(space, pairs, offset, turn)
        for k in range(used - 1, 0, -1):
            other = _random(state) % (k + 1)
            turn[k], turn[other] = turn[other], turn[k]
        for k in range(used):
            i = turn[k]
            if space.fixed[i] >= 0:
                continue
            collides = False
            for e in range(pairs.start[i], pairs.start[i + 1]):
                if _shared(space, offset, i, offset[i], pairs.items[e]) > 0:
                    collides = True
                    break
            if collides:
                offset[i] = _best_offset(space, pairs, offset, i, height, key, slope, spare, state)
        total = _learn(space, pairs, offset)
        idle += 1
        if least < 0 or total < least:
            least, idle = total, 0
            best[:] = offset
        if total == 0:
            break
    return least
