"""Labels along the pipeline: a beam search for plans, and an exact search that remembers only the relevant devices.

A label is a way to begin a stage at a point on a device, with the set of devices used before. A label is dropped when
it cannot be completed within the budget (by the completions of priced walks), or when another label at the same point
and device dominates it: it costs no more and uses a subset of the devices. On arrival at device w, the set is reduced
to (set & memory of w) | {w}. With full memories the search is exact but long. With small memories it searches a
relaxation (ng-routes, Baldacci, Mingozzi and Roberti 2011), and if it finds nothing there, that is a proof.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix, WordMatrix
from opweave.solvers.loops import helper, loop
from opweave.solvers.pipeline.arrays import PipelineArrays, Window, seconds_between
from opweave.solvers.pipeline.priced_walks import Table, is_simple

Words = NDArray[np.uint64]

NOTHING, FOUND, FULL, OUT_OF_WORK = 0, 1, 2, 3

WORD = 64

TOP, DROPPED, WORK, LUCK = 0, 1, 2, 3
"""Entries of a search's tally: labels in use, labels dropped, steps, the state of its random numbers."""

LOOKS = 2
"""Comparisons of two labels that take as long as one step."""


class Labels(NamedTuple):
    """Storage for labels; ``links`` chain the labels at one place, newest first, -1 at the end.

    Attributes
    ----------
    point, device, number, parent, links
        Shape (labels,). ``number`` counts the stages, including the one that begins here.
    cost
        Cost of everything before the stage. Shape (labels,).
    used
        Set of devices, 64 to a word. Shape (labels, words).
    head
        First label of every place. Shape (points, devices).
    """

    point: IntArray
    device: IntArray
    number: IntArray
    parent: IntArray
    links: IntArray
    cost: FloatArray
    used: WordMatrix
    head: IntMatrix


class Hunt(NamedTuple):
    """The goal and the parameters of a search.

    Attributes
    ----------
    price
        Price of a visit, by device.
    stage_weight, link_weight
        Cost of a second of computing or sending. Without the second, any walk ends the search; else the cheapest is
        found.
    budget
        Largest cost of a walk.
    memory
        Sets of devices that each device remembers. Shape (devices, words).
    barrier
        Devices that must not come before each one. Shape (devices, words).
    width
        Most labels at one place (point and device); 0 for no limit.
    noise
        Random share added to costs, so that full beams do not all keep the same.
    seed
        Seed of the noise.
    work
        Most steps.
    """

    price: FloatArray
    stage_weight: float
    link_weight: float
    budget: float
    memory: WordMatrix
    barrier: WordMatrix
    width: int
    noise: float
    seed: int
    work: int


def new_labels(size: int, points: int, devices: int) -> Labels:
    """Empty room."""
    whole = [np.zeros(size, dtype=np.int64) for _ in range(5)]
    words = (devices + WORD - 1) // WORD
    used = np.zeros((size, words), dtype=np.uint64)
    point, device, number, parent, links = whole
    head = np.full((points, devices), -1, dtype=np.int64)
    return Labels(point, device, number, parent, links, np.zeros(size), used, head)


def small_memories(devices: int) -> Words:
    """Memories in which every device remembers only itself."""
    memory = np.zeros((devices, (devices + WORD - 1) // WORD), dtype=np.uint64)
    for v in range(devices):
        memory[v, v // WORD] |= np.uint64(1) << np.uint64(v % WORD)
    return memory


def barriers(twin: IntArray) -> Words:
    """For each device, the devices that may not come before it: itself and its later twins."""
    barrier = small_memories(len(twin))
    for v in range(len(twin)):
        for u in range(v + 1, len(twin)):
            if twin[u] == twin[v]:
                barrier[v, u // WORD] |= np.uint64(1) << np.uint64(u % WORD)
    return barrier


@helper
def counts_stages(arrays: PipelineArrays) -> bool:
    """Whether labels obey the largest number of stages.

    If every device may have a stage, every plan obeys the limit. A walk that repeats devices may have more stages and
    still dominate the beginning of a plan, so it has to be found and excluded before a proof.
    """
    return bool(arrays.most < len(arrays.twin))


@helper
def beats(labels: Labels, i: int, j: int, arrays: PipelineArrays) -> bool:
    """Whether label i is at least as good as label j in every respect."""
    if labels.cost[i] > labels.cost[j] + 1e-12 * abs(labels.cost[j]):
        return False
    if counts_stages(arrays) and labels.number[i] > labels.number[j]:
        return False
    if min(labels.number[i], arrays.least) < min(labels.number[j], arrays.least):
        return False
    subset = True
    for k in range(labels.used.shape[1]):
        subset = subset and labels.used[i, k] & ~labels.used[j, k] == 0
    return subset


@helper
def insert(labels: Labels, new: int, arrays: PipelineArrays, width: int, tally: IntArray) -> int:
    """Insert a label: 1 if inserted, 0 if dominated, 2 if it replaces another of a full beam, -1 if dropped."""
    b, w = labels.point[new], labels.device[new]
    size, worst, before = 0, -1, -1
    looks = 0
    i = labels.head[b, w]
    while i >= 0:
        looks += 1
        if looks % LOOKS == 0:
            tally[WORK] += 1
        if beats(labels, i, new, arrays):
            return 0
        if beats(labels, new, i, arrays):
            if before < 0:
                labels.head[b, w] = labels.links[i]
            else:
                labels.links[before] = labels.links[i]
        else:
            size += 1
            if worst < 0 or labels.cost[i] > labels.cost[worst]:
                worst = i
            before = i
        i = labels.links[i]
    if width > 0 and size >= width:
        if labels.cost[new] >= labels.cost[worst]:
            return -1
        labels.cost[worst], labels.number[worst] = labels.cost[new], labels.number[new]
        labels.parent[worst] = labels.parent[new]
        labels.used[worst][:] = labels.used[new]
        return 2
    labels.links[new] = labels.head[b, w]
    labels.head[b, w] = new
    return 1


@helper
def _begin(labels: Labels, table: Table, budget: float, tally: IntArray) -> None:
    """Create one label for each device that may begin."""
    labels.head[:] = -1
    for v in range(len(labels.head[0])):
        if table.cost[0, 0, v] <= budget:
            top = tally[TOP]
            labels.point[top], labels.device[top], labels.number[top], labels.parent[top] = 0, v, 1, -1
            labels.links[top], labels.cost[top] = -1, 0.0
            labels.used[top][:] = np.uint64(0)
            labels.used[top, v // 64] = np.uint64(1) << np.uint64(v % 64)
            labels.head[0, v] = top
            tally[TOP] += 1


@helper
def _blocked(labels: Labels, i: int, barrier: Words, w: int) -> bool:
    """Whether a device must not follow a label."""
    blocked = False
    for k in range(labels.used.shape[1]):
        blocked = blocked or labels.used[i, k] & barrier[w, k] != 0
    return blocked


@helper
def _grow(
    arrays: PipelineArrays,
    window: Window,
    table: Table,
    hunt: Hunt,
    labels: Labels,
    tally: IntArray,
    i: int,
    e: int,
    here: float,
) -> bool:
    """Let the stage of label i end at a point and continue on every device; False when the storage is full."""
    v = labels.device[i]
    layer = e if len(arrays.neighbour) > 1 else 0
    tally[WORK] += window.links[e, v]
    for j in range(window.links[e, v]):
        w = arrays.neighbour[layer, v, j]
        rest = table.cost[0, e, w] if table.device[0, e, w] != v else table.cost[1, e, w]
        if here + rest > hunt.budget or _blocked(labels, i, hunt.barrier, w):
            continue
        cost = here
        if hunt.link_weight > 0.0:
            cost += hunt.link_weight * seconds_between(arrays, e, v, w)
            if cost + rest > hunt.budget:
                continue
        top = tally[TOP]
        if top >= len(labels.point):
            return False
        if hunt.noise > 0.0:
            tally[LUCK] = tally[LUCK] * 16807 % 2147483647
            cost *= 1.0 + hunt.noise * (tally[LUCK] / 2147483647.0)
        labels.point[top], labels.device[top], labels.parent[top], labels.cost[top] = e, w, i, cost
        labels.number[top] = labels.number[i] + 1
        for k in range(labels.used.shape[1]):
            labels.used[top, k] = labels.used[i, k] & hunt.memory[w, k]
        labels.used[top, w // 64] |= np.uint64(1) << np.uint64(w % 64)
        fate = insert(labels, top, arrays, hunt.width, tally)
        if fate == 1:
            tally[TOP] += 1
        elif fate != 0:
            tally[DROPPED] += 1
    return True


@loop
def search_labels(
    arrays: PipelineArrays, window: Window, table: Table, hunt: Hunt, labels: Labels, stages: IntArray, ends: IntArray
) -> tuple[int, int, float, int]:
    """Search for a walk within the budget that repeats no device within its memories.

    Returns
    -------
    tuple
        The answer (``NOTHING`` is a proof unless labels were dropped), the number of stages found, the walk's cost, and
        the number of labels that a full beam dropped.
    """
    devices, points = arrays.reach.shape
    tally = np.zeros(4, dtype=np.int64)
    tally[LUCK] = hunt.seed % 2147483646 + 1
    best, best_label = hunt.budget, -1
    most = arrays.most if counts_stages(arrays) else points
    _begin(labels, table, best, tally)
    for b in range(points - 1):
        for v in range(devices):
            i = labels.head[b, v]
            while i >= 0:
                base = labels.cost[i] + hunt.price[v] - hunt.stage_weight * arrays.elapsed[v, b]
                for e in range(window.end[v, b], b, -1):
                    here = base + hunt.stage_weight * arrays.elapsed[v, e]
                    if e == points - 1:
                        better = here < best or (best_label < 0 and here <= best)
                        if better and arrays.least <= labels.number[i] <= most:
                            best, best_label = here, i
                            if hunt.link_weight == 0.0:
                                count = _trace(labels, best_label, points, stages, ends)
                                return FOUND, count, best, tally[DROPPED]
                    elif (
                        labels.number[i] < most
                        and here + table.onward[0, e, v] <= best
                        and not _grow(arrays, window, table, hunt, labels, tally, i, e, here)
                    ):
                        return FULL, 0, best, tally[DROPPED]
                i = labels.links[i]
                if tally[WORK] > hunt.work or arrays.halt[0] != 0:
                    return OUT_OF_WORK, 0, best, tally[DROPPED]
    if best_label < 0:
        return NOTHING, 0, best, tally[DROPPED]
    return FOUND, _trace(labels, best_label, points, stages, ends), best, tally[DROPPED]


@helper
def _trace(labels: Labels, label: int, points: int, stages: IntArray, ends: IntArray) -> int:
    """Write the walk that leads to a last stage; return its number of stages."""
    end, count = points - 1, labels.number[label]
    for i in range(count - 1, -1, -1):
        stages[i], ends[i] = labels.device[label], end
        end = labels.point[label]
        label = labels.parent[label]
    return int(count)


@loop
def remember_repeats(arrays: PipelineArrays, memory: WordMatrix, stages: IntArray, count: int) -> bool:
    """For each repetition in a walk, make the devices between both visits remember it; return False for a plan."""
    if is_simple(arrays, stages, count):
        return False
    repeated = False
    for q in range(count):
        for p in range(q):
            u, w = stages[p], stages[q]
            if arrays.twin[u] == arrays.twin[w] and u >= w:
                repeated = True
                for r in range(p + 1, q):
                    memory[stages[r], u // 64] |= np.uint64(1) << np.uint64(u % 64)
    return repeated
