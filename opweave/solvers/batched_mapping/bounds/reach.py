"""Critical paths by devices, batch sizes and transfers: earliest starts (heads) and least remaining times (tails).

Proof: the inputs of a batch of c come from batches of its predecessor on devices w, c[w] of them from each. Each of
those batches has at least c[w] inputs, so it starts no earlier and lasts no less than the best batch of such a size,
and then its c[w] inputs travel. The best way to cut c into such parts gives one input after the other to the device
where it arrives soonest, since arrivals never get earlier with more inputs. Inputs count singly here; they need not
move in granules. Tails are computed in the same way backwards. The critical path is the largest value, over operators,
of the best cut of the whole batch into batches, each with its head, run time and tail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, FloatCube, IntArray
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.modules import reversed_in_time
from opweave.solvers.loops import helper, loop


class Reach(NamedTuple):
    """Heads and tails of batches by number of inputs, 0 to the whole batch. Shapes (operators, devices, batch + 1).

    ``heads`` are least times from the beginning to the start of a batch of at least that many inputs, ``tails`` from
    its end to the end of the plan, ``seconds`` the run times; inf where no such batch can run.
    """

    heads: FloatArray
    tails: FloatArray
    seconds: FloatArray


MOST_ENTRIES = 5_000_000
"""Operators x devices x inputs above which all heads and tails stay 0, which is also valid."""


def by_inputs(instance: BatchedInstance) -> FloatArray:
    """Least run time of a batch of at least that many inputs. Shape (operators, devices, batch + 1)."""
    operators, devices, _ = instance.seconds.shape
    seconds = np.full((operators, devices, instance.batch + 1), np.inf)
    seconds[:, :, :: instance.granule] = instance.seconds
    seconds[:, :, 0] = np.inf
    seconds = np.minimum.accumulate(seconds[:, :, ::-1], axis=2)[:, :, ::-1].copy()
    seconds[:, :, 0] = 0.0
    return seconds


@helper
def share_out(arrival: FloatArray, most: int, best: FloatArray) -> None:
    """Write to ``best`` the least time by which 1 to ``most`` inputs have arrived.

    ``arrival[w, c]`` is the arrival of c inputs from device w, nondecreasing in c.
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


@helper
def _cheapest(longest: FloatArray, lasts: FloatArray, ends: FloatArray) -> None:
    """Fill ``ends`` with the sums, and replace every entry by the least from there on (entry 0 excepted)."""
    last = ends.shape[1] - 1
    for u in range(ends.shape[0]):
        for c in range(last, 0, -1):
            ends[u, c] = longest[u, c] + lasts[u, c]
            if c < last:
                ends[u, c] = min(ends[u, c], ends[u, c + 1])


@loop
def fill_longest(arrays: BatchArrays, order: IntArray, granule: int, seconds: FloatCube, longest: FloatCube) -> None:
    """Raise ``longest``, the least time before every batch, to the values that its predecessors require.

    ``order`` has the operators, predecessors first; ``seconds`` and ``longest`` go by inputs, not by granules.
    """
    _, devices, columns = seconds.shape
    arrival, ends, best = np.empty((devices, columns)), np.empty((devices, columns)), np.zeros(columns)
    for i in order:
        for x in range(arrays.in_start[i], arrays.in_start[i + 1]):
            e = arrays.incoming[x]
            h = arrays.source[e]
            _cheapest(longest[h], seconds[h], ends)
            for u in range(devices):
                for w in range(devices):
                    for c in range(1, columns):
                        sent = 0.0 if w == u else arrays.base[e, w, u] + arrays.slope[e, w, u] * c / granule
                        arrival[w, c] = ends[w, c] + sent
                share_out(arrival, columns - 1, best)
                for c in range(1, columns):
                    longest[i, u, c] = max(longest[i, u, c], best[c])
        for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
            h = arrays.waits[x]
            _cheapest(longest[h], seconds[h], ends)
            share_out(ends, columns - 1, best)
            for u in range(devices):
                for c in range(1, columns):
                    longest[i, u, c] = max(longest[i, u, c], best[columns - 1])


@loop
def longest_cut(before: FloatCube, rest: FloatCube) -> float:
    """The largest, over operators, of the least time of any cut of the whole batch; both times are added."""
    _, devices, columns = before.shape
    through, best, longest = np.empty((devices, columns)), np.zeros(columns), 0.0
    for i in range(len(before)):
        _cheapest(before[i], rest[i], through)
        share_out(through, columns - 1, best)
        longest = max(longest, best[columns - 1])
    return longest


def reach_of(instance: BatchedInstance, arrays: BatchArrays) -> Reach:
    """Heads and tails of every operator, device and number of inputs."""
    seconds = by_inputs(instance)
    heads, tails = np.zeros(seconds.shape), np.zeros(seconds.shape)
    if seconds.size > MOST_ENTRIES:
        return Reach(heads, tails, seconds)
    turned = reversed_in_time(instance)
    for way, flat, longest in ((instance, arrays, heads), (turned, arrays_of(turned), tails)):
        fill_longest(flat, way.order, instance.granule, seconds, longest)
    return Reach(heads, tails, seconds)


def critical_path(reach: Reach) -> float:
    """Length of the critical path in seconds: the largest head + run time + tail over the operators."""
    if not reach.seconds.size:
        return 0.0
    return float(longest_cut(reach.heads + reach.seconds, reach.tails))


def granule_tails(instance: BatchedInstance, reach: Reach) -> FloatArray:
    """Tails by granules, for searches that stop early. Shape (operators, devices, G + 1)."""
    return np.ascontiguousarray(reach.tails[:, :, :: instance.granule])
