"""Critical paths that know devices, batch sizes and transfers: earliest starts (heads) and least remaining times.

Proof: the inputs of a batch of c come from batches of its predecessor on devices w, c[w] of them from each. Each of
those batches has at least c[w] inputs, so it starts and lasts at least as long as the best one of such a size, and then
its c[w] inputs travel. The best way to cut c into such parts is found by giving one input after the other to the device
where it arrives soonest, since arrivals never get earlier with more inputs. Inputs count singly here: they need not
move in granules. Tails are the same, backwards; the critical path is the largest, over operators, of the best cut of
the whole batch into batches, each with its head, run time and tail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, FloatCube, IntArray
from opweave.solvers.batched_mapping.arrays import BatchArrays
from opweave.solvers.compiled import inlined, kernel


class Reach(NamedTuple):
    """Heads and tails of batches by number of inputs, 0 to the whole batch. Shapes (operators, devices, batch + 1).

    ``heads`` are least times from the beginning to the start of a batch of at least so many inputs, ``tails`` from its
    end to that of the plan, ``seconds`` the run times; inf where no such batch can run.
    """

    heads: FloatArray
    tails: FloatArray
    seconds: FloatArray


MOST_ENTRIES = 5_000_000
"""Operators x devices x inputs from which on all heads and tails are left at 0, which is valid, too."""


def by_inputs(instance: BatchedInstance) -> FloatArray:
    """Least run time of a batch of at least so many inputs. Shape (operators, devices, batch + 1)."""
    operators, devices, _ = instance.seconds.shape
    seconds = np.full((operators, devices, instance.batch + 1), np.inf)
    seconds[:, :, :: instance.granule] = instance.seconds
    seconds[:, :, 0] = np.inf
    seconds = np.minimum.accumulate(seconds[:, :, ::-1], axis=2)[:, :, ::-1].copy()
    seconds[:, :, 0] = 0.0
    return seconds


@inlined
def share_out(arrival: FloatArray, most: int, best: FloatArray) -> None:
    """Least time by which so many inputs are there, for 1 to ``most``, into ``best``.

    ``arrival[w, c]`` is when c inputs by way of device w are there, nondecreasing in c.
    """
    devices = arrival.shape[0]
    given = np.zeros(devices, dtype=np.int64)
    latest = 0.0
    for c in range(1, most + 1):
        soonest, where = np.inf, -1
        for w in range(devices):
            if given[w] < most and arrival[w, given[w] + 1] < soonest:
                soonest, where = arrival[w, given[w] + 1], w
        if where < 0:
            best[c:] = np.inf
            return
        given[where] += 1
        latest = max(latest, soonest)
        best[c] = latest


@inlined
def _at_least(values: FloatArray) -> None:
    """Make every row the least of all entries from there on (entry 0 left out)."""
    for u in range(values.shape[0]):
        for c in range(values.shape[1] - 2, 0, -1):
            values[u, c] = min(values[u, c], values[u, c + 1])


@kernel
def fill_heads(arrays: BatchArrays, seconds: FloatCube, order: IntArray, slope: FloatCube, heads: FloatCube) -> None:
    """Raise ``heads`` to what the predecessors demand; ``slope`` is the delay of one input."""
    _, devices, columns = seconds.shape
    arrival, best = np.empty((devices, columns)), np.zeros(columns)
    for i in order:
        for x in range(arrays.in_start[i], arrays.in_start[i + 1]):
            e = arrays.incoming[x]
            h = arrays.source[e]
            ends = heads[h] + seconds[h]
            _at_least(ends)
            for u in range(devices):
                for w in range(devices):
                    for c in range(1, columns):
                        sent = 0.0 if w == u else arrays.base[e, w, u] + slope[e, w, u] * c
                        arrival[w, c] = ends[w, c] + sent
                share_out(arrival, columns - 1, best)
                for c in range(1, columns):
                    heads[i, u, c] = max(heads[i, u, c], best[c])
        for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
            h = arrays.waits[x]
            ends = heads[h] + seconds[h]
            _at_least(ends)
            share_out(ends, columns - 1, best)
            heads[i, :, 1:] = np.maximum(heads[i, :, 1:], best[columns - 1])


@kernel
def fill_tails(arrays: BatchArrays, seconds: FloatCube, order: IntArray, slope: FloatCube, tails: FloatCube) -> None:
    """Raise ``tails`` to what the successors demand; ``slope`` is the delay of one input."""
    _, devices, columns = seconds.shape
    arrival, best = np.empty((devices, columns)), np.zeros(columns)
    for place in range(len(order) - 1, -1, -1):
        i = order[place]
        for x in range(arrays.out_start[i], arrays.out_start[i + 1]):
            e = arrays.outgoing[x]
            j = arrays.target[e]
            rest = tails[j] + seconds[j]
            _at_least(rest)
            for u in range(devices):
                for w in range(devices):
                    for c in range(1, columns):
                        sent = 0.0 if w == u else arrays.base[e, u, w] + slope[e, u, w] * c
                        arrival[w, c] = rest[w, c] + sent
                share_out(arrival, columns - 1, best)
                for c in range(1, columns):
                    tails[i, u, c] = max(tails[i, u, c], best[c])
        rest = tails[i] + seconds[i]
        _at_least(rest)
        share_out(rest, columns - 1, best)
        for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
            h = arrays.waits[x]
            tails[h, :, 1:] = np.maximum(tails[h, :, 1:], best[columns - 1])


@kernel
def longest_cut(whole: FloatCube) -> float:
    """The largest, over operators, of the least time by which a whole batch is through."""
    columns = whole.shape[2]
    best, longest = np.zeros(columns), 0.0
    for i in range(len(whole)):
        through = whole[i].copy()
        _at_least(through)
        share_out(through, columns - 1, best)
        longest = max(longest, best[columns - 1])
    return longest


def reach_of(instance: BatchedInstance, arrays: BatchArrays) -> Reach:
    """Heads and tails of every operator, device and number of inputs."""
    seconds = by_inputs(instance)
    slope = arrays.slope / instance.granule
    heads, tails = np.zeros(seconds.shape), np.zeros(seconds.shape)
    if seconds.size > MOST_ENTRIES:
        return Reach(heads, tails, seconds)
    work = (len(arrays.source) + 1) * len(instance.devices) ** 2 * (instance.batch + 1)
    fill_heads.sized(work)(arrays, seconds, instance.order, slope, heads)
    fill_tails.sized(work)(arrays, seconds, instance.order, slope, tails)
    return Reach(heads, tails, seconds)


def critical_path(reach: Reach) -> float:
    """The longest operator with what must come before and after it."""
    if not reach.seconds.size:
        return 0.0
    return float(longest_cut.sized(reach.seconds.size)(reach.heads + reach.seconds + reach.tails))


def granule_tails(instance: BatchedInstance, reach: Reach) -> FloatArray:
    """Tails by granules, for searches that stop early. Shape (operators, devices, G + 1)."""
    return np.ascontiguousarray(reach.tails[:, :, :: instance.granule])
