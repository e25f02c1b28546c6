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
from opweave.solvers.pipeline.arrays import PipelineArrays, Table, WalkWindow, seconds_between, told_apart

Words = NDArray[np.uint64]

NOTHING, FOUND, FULL, PAUSED = 0, 1, 2, 3

WORD = 64

TOP, DROPPED, WORK, LUCK, PLACE, HERE, CHEAPEST = range(7)
"""Entries of a search's tally: labels in use, labels dropped, steps, the state of its random numbers; the place and the
label where it goes on; the last label of the cheapest walk."""

LOOKS = 2
"""Comparisons of two labels that take as long as one step."""


class WalkLabels(NamedTuple):
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
    """

    price: FloatArray
    stage_weight: float
    link_weight: float
    budget: float
    memory: WordMatrix
    barrier: WordMatrix
    width: int
    noise: float


def new_labels(size: int, points: int, devices: int) -> WalkLabels:
    """Empty room."""
    whole = [np.zeros(size, dtype=np.int64) for _ in range(5)]
    words = (devices + WORD - 1) // WORD
    used = np.zeros((size, words), dtype=np.uint64)
    point, device, number, parent, links = whole
    head = np.full((points, devices), -1, dtype=np.int64)
    return WalkLabels(point, device, number, parent, links, np.zeros(size), used, head)


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
def beats(labels: WalkLabels, i: int, j: int, arrays: PipelineArrays) -> bool:
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
def insert(labels: WalkLabels, new: int, arrays: PipelineArrays, width: int, tally: IntArray) -> int:
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
        for k in range(labels.used.shape[1]):
            labels.used[worst, k] = labels.used[new, k]
        return 2
    labels.links[new] = labels.head[b, w]
    labels.head[b, w] = new
    return 1


@helper
def _blocked(labels: WalkLabels, i: int, barrier: WordMatrix, w: int) -> bool:
    """Whether a device must not follow a label."""
    blocked = False
    for k in range(labels.used.shape[1]):
        blocked = blocked or labels.used[i, k] & barrier[w, k] != 0
    return blocked


@helper
def _grow(
    arrays: PipelineArrays,
    window: WalkWindow,
    table: Table,
    hunt: Hunt,
    labels: WalkLabels,
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
    arrays: PipelineArrays,
    window: WalkWindow,
    table: Table,
    hunt: Hunt,
    labels: WalkLabels,
    tally: IntArray,
    best: FloatArray,
    until: int,
) -> int:
    """Search for a walk within the budget that repeats no device within its memories, until a number of steps.

    Parameters
    ----------
    tally
        The state of the search, which can go on where it left off.
    best
        The budget, then the cost of the cheapest walk. Shape (1,).

    Returns
    -------
    int
        The answer. ``NOTHING`` is a proof unless labels were dropped; after ``PAUSED`` the search may go on.
    """
    devices, points = arrays.reach.shape
    most = arrays.most if counts_stages(arrays) else points
    b, v, i = tally[PLACE] // devices, tally[PLACE] % devices, tally[HERE]
    while b < points - 1:
        if i < 0:
            tally[PLACE] += 1
            b, v = tally[PLACE] // devices, tally[PLACE] % devices
            i = labels.head[b, v]
            continue
        if tally[WORK] > until:
            tally[HERE] = i
            return PAUSED
        base = labels.cost[i] + hunt.price[v] - hunt.stage_weight * arrays.elapsed[v, b]
        for e in range(window.end[v, b], b, -1):
            here = base + hunt.stage_weight * arrays.elapsed[v, e]
            if e == points - 1:
                better = here < best[0] or (tally[CHEAPEST] < 0 and here <= best[0])
                if better and arrays.least <= labels.number[i] <= most:
                    best[0], tally[CHEAPEST] = here, i
                    if hunt.link_weight == 0.0:
                        return FOUND
            elif (
                labels.number[i] < most
                and here + table.onward[0, v, e] <= best[0]
                and not _grow(arrays, window, table, hunt, labels, tally, i, e, here)
            ):
                return FULL
        i = labels.links[i]
    return NOTHING if tally[CHEAPEST] < 0 else FOUND


def begin(labels: WalkLabels, table: Table, budget: float, seed: int) -> IntArray:
    """Create one label for each device that may begin; the tally of a new search."""
    devices = np.flatnonzero(table.cost[0, 0] <= budget)
    count = len(devices)
    labels.head[:] = -1
    labels.head[0, devices] = np.arange(count)
    labels.point[:count], labels.device[:count], labels.number[:count] = 0, devices, 1
    labels.parent[:count], labels.links[:count], labels.cost[:count] = -1, -1, 0.0
    labels.used[:count] = small_memories(table.cost.shape[2])[devices]
    tally = np.zeros(7, dtype=np.int64)
    tally[[TOP, LUCK, HERE, CHEAPEST]] = count, seed % 2147483646 + 1, labels.head[0, 0], -1
    return tally


def walk_to(labels: WalkLabels, label: int, end: int) -> tuple[list[int], list[int]]:
    """The devices and the ends of the walk whose last stage begins at a label."""
    stages, ends = list[int](), list[int]()
    while label >= 0:
        stages.append(int(labels.device[label]))
        ends.append(end)
        label, end = int(labels.parent[label]), int(labels.point[label])
    return stages[::-1], ends[::-1]


def remember_repeats(twin: IntArray, memory: Words, stages: list[int]) -> bool:
    """For each repetition in a walk, make the devices between both visits remember it; return False for a plan."""
    if told_apart(twin, stages) is not None:
        return False
    repeated = False
    for q, w in enumerate(stages):
        for p, u in enumerate(stages[:q]):
            if twin[u] == twin[w] and u >= w:
                repeated = True
                memory[stages[p + 1 : q], u // WORD] |= np.uint64(1) << np.uint64(u % WORD)
    return repeated
