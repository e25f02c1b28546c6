"""Descent that moves a hub together with its private successors.

One move can save a transfer for each of a hub's readers, yet a local search of single steps does not find it. Here the
hub and its private successors change device together, and the order is derived again from the new assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.anneal import order_for
from opweave.solvers.placement.arrays import PlacementArrays, makespan_within
from opweave.solvers.placement.plans import fits

MOST_HUBS = 400
LARGEST_GROUP = 4_000


def groups_around_hubs(before: Adjacency, after: Adjacency) -> Iterator[IntArray]:
    """Operators that should move together: each hub with its private successors and every operator fed only by these.

    Hubs are yielded by decreasing number of readers.
    """
    readers = np.diff(after.start)
    for hub in np.argsort(-readers, kind="stable")[:MOST_HUBS].tolist():
        if readers[hub] < 2:
            return
        private = [int(w) for w in after[hub] if len(before[w]) == 1]
        yield np.asarray([hub, *private], dtype=np.int64)
        owned = _fed_only_by(before, after, {hub, *private})
        if len(owned) > 1 + len(private):
            yield np.asarray(sorted(owned), dtype=np.int64)
        if len(private) <= 32:
            for child in private:
                branch = _fed_only_by(before, after, {child})
                if len(branch) > 1:
                    yield np.asarray(sorted(branch), dtype=np.int64)


def _fed_only_by(before: Adjacency, after: Adjacency, seeds: set[int]) -> set[int]:
    """The seeds, and repeatedly every operator whose predecessors are all in the set, up to a maximum size."""
    inside = set(seeds)
    stack = list(seeds)
    while stack and len(inside) < LARGEST_GROUP:
        for w in after[stack.pop()].tolist():
            if w not in inside and inside.issuperset(before[w].tolist()):
                inside.add(w)
                stack.append(w)
    return inside


def descend(
    arrays: PlacementArrays,
    cluster: IntArray,
    device: IntArray,
    should_stop: Callable[[], bool],
) -> tuple[IntArray, IntArray, float]:
    """Move groups around hubs to other devices as long as that shortens the schedule.

    Operators with equal ``cluster`` move together (Colocate).

    Returns
    -------
    order, device, makespan
        The best plan found; it fits into memory if the assignment ``device`` did.
    """
    work = 40 * (len(arrays.seconds) + len(arrays.source))
    order = np.empty(len(device), dtype=np.int64)

    def judged(candidate: IntArray, threshold: float) -> float:
        order_for.sized(work)(arrays, candidate, order)
        return float(makespan_within.sized(work)(arrays, order, candidate, threshold))

    device = device.copy()
    best = judged(device, np.inf)
    best_order = order.copy()
    before, after = Adjacency(arrays.before_start, arrays.before), Adjacency(arrays.after_start, arrays.after)
    groups = [np.flatnonzero(np.isin(cluster, cluster[group])) for group in groups_around_hubs(before, after)]
    improved = True
    while improved and not should_stop():
        improved = False
        for group in groups:
            if should_stop():
                break
            for k in range(arrays.seconds.shape[1]):
                if (device[group] == k).all() or not np.isfinite(arrays.seconds[group, k]).all():
                    continue
                candidate = device.copy()
                candidate[group] = k
                if not fits(arrays, candidate):
                    continue
                value = judged(candidate, best)
                if value < best * (1 - 1e-12):
                    device, best, best_order, improved = candidate, value, order.copy(), True
    return best_order, device, best
