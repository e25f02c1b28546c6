"""Orders folded where tied operators meet: a pair of stages in front and behind becomes one stage of a chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.plans import Plan
from opweave.solvers.pipeline.walks import Sendable, shared_parameters

TAILS, TAIL_SHARE = 4, 0.1
"""Most last stages that are tried for tied operators, and how far from them they begin, as a share of the points."""

Layout = list[tuple[int, int]]
"""The point where each stage ends, and its device."""

Fold = list[tuple[int, int]]
"""Pairs of points, from the two ends of the order to one point in the middle."""


def folds_of(problem: Pipeline, instance: PipelineInstance) -> Iterator[Fold]:
    """Ways to fold the order so that tied operators meet; none if ties do not lie inside each other."""
    last, points, sent = instance.last, np.arange(instance.last + 1)[:, None], instance.sent
    sides, spans = _sides(problem, instance)
    low, high = int(sides[:, 1].max(initial=0)), int(sides[:, 2].min(initial=last - 1))
    if low >= high or (np.diff(sides[np.lexsort((-sides[:, 2], sides[:, 1])), 2]) > 0).any():
        return
    near, far = (sides[:, 1] < points).sum(axis=1), (sides[:, 2] >= points).sum(axis=1)
    spans = np.concatenate([spans, sides[:, :2], sides[:, 2:]])
    free = np.asarray(~((spans[:, 0] < points) & (points <= spans[:, 1])).any(axis=1))
    cheapest = {0: last}
    for count in range(1, len(sides)):
        there = np.flatnonzero(free & (far == count) & (points[:, 0] > high))
        if len(there):
            cheapest[count] = int(there[sent[there].argmin()])
    outer = [(a, cheapest[near[a]]) for a in range(low + 1) if free[a] and near[a] in cheapest]
    tails = np.flatnonzero(free[: high + 1])
    tails = tails[tails > max(low, high - 1 - int(TAIL_SHARE * last))]
    cheap = tails[np.argsort(sent[tails], kind="stable")][:TAILS]
    for tail in dict.fromkeys([*tails[-1:].tolist(), *cheap.tolist()]):
        yield [*outer, *((a, tail) for a in range(low + 1, tail + 1) if free[a])]


def _sides(problem: Pipeline, instance: PipelineInstance) -> tuple[IntMatrix, IntMatrix]:
    """Of ties across the middle, the first and last pieces on the near side and on the far side; spans of the others.

    The middle is that of the widest gap between tied pieces. Shapes (ties, 4) and (others, 2).
    """
    place, ends = {name: k for k, name in enumerate(instance.names)}, instance.position
    rules = [each.ops for each in problem.constraints if means(each, Colocate)]
    tied = [np.unique([np.searchsorted(ends, place[op], side="right") - 1 for op in ops]) for ops in rules]
    gaps = [(int(step), int(k)) for each in tied for step, k in zip(np.diff(each), each, strict=False) if step > 1]
    step, begin = max(gaps, default=(0, instance.last))
    parts = [(each[each <= begin + step // 2], each[each > begin + step // 2]) for each in tied]
    sides = [(a[0], a[-1], b[0], b[-1]) for a, b in parts if len(a) and len(b)]
    spans = [(each[0], each[-1]) for each, (a, b) in zip(tied, parts, strict=True) if not (len(a) and len(b))]
    return np.array(sides, dtype=np.int64).reshape(-1, 4), np.array(spans, dtype=np.int64).reshape(-1, 2)


def folded(problem: Pipeline, instance: PipelineInstance, fold: Fold) -> PipelineInstance:
    """Arrays of a folded order: a stage between two of its points runs what lies between both in front and behind.

    A transfer counts as the larger of both. What a device kept from its first stage is not sent to its second one.
    """
    front, back = np.array(fold, dtype=np.int64).T
    position = instance.position
    runs = [
        np.r_[position[a] : position[b], position[d] : position[c]]
        for a, b, c, d in zip(front[:-1], front[1:], back[:-1], back[1:], strict=True)
    ]
    order, sizes = np.concatenate(runs), np.cumsum([0, *map(len, runs)])
    seconds = np.ascontiguousarray(instance.seconds[:, order])
    elapsed = np.concatenate([np.zeros((len(seconds), 1)), np.cumsum(seconds, axis=1)], axis=1)[:, sizes]
    memory = np.array(instance.memory)
    held = np.concatenate([[0], np.diff(memory[front]) - np.diff(memory[back])])
    for size, users in shared_parameters(problem, instance):
        held[_places(front, back, users).min()] += size
    memory = np.cumsum(held).astype(np.int64)
    refused = np.cumsum([np.zeros(len(seconds), dtype=int), *(instance.reach[:, :-1] <= np.arange(instance.last)).T], 0)
    blocked = refused[front[1:]] - refused[front[:-1]] + refused[back[:-1]] - refused[back[1:]]
    points = np.arange(len(fold))
    reach = np.empty((len(seconds), len(fold)), dtype=np.int64)
    for v, capacity in enumerate(instance.capacity.tolist()):
        room = np.searchsorted(memory, memory + min(capacity, int(memory[-1])), side="right") - 1
        walls = np.append(np.flatnonzero(blocked[:, v]), len(fold) - 1)
        reach[v] = np.maximum(points, np.minimum(room, walls[np.searchsorted(walls, np.minimum(points, walls[-1]))]))
    sent = np.maximum(*_sent_around(problem, instance, front, back))
    return replace(
        instance,
        names=tuple(instance.names[k] for k in order.tolist()),
        position=sizes,
        sent=sent,
        seconds=seconds,
        elapsed=np.ascontiguousarray(elapsed),
        reach=reach,
        memory=memory,
    )


def _places(front: IntArray, back: IntArray, pieces: IntArray) -> IntArray:
    """The point of a fold behind each piece."""
    behind = len(front) - np.searchsorted(back[::-1], pieces, side="right")
    return np.where(pieces < front[-1], np.searchsorted(front, pieces, side="right"), behind)


def _sent_around(
    problem: Pipeline, instance: PipelineInstance, front: IntArray, back: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Bytes that cross each point of a fold in front and behind it. Shapes (points of the fold,)."""
    tensors, tail, points = Sendable.of(problem, instance), front[-1], len(front)
    made, read = _places(front, back, tensors.maker), _places(front, back, tensors.reader)
    farthest, nearest = np.zeros_like(made), made.copy()
    np.maximum.at(farthest, tensors.tensor, read)
    returned = tensors.reader >= tail
    np.minimum.at(nearest, tensors.tensor[returned], read[returned])
    ahead, behind = np.zeros((2, points + 1))
    out = (tensors.maker < tail) & (farthest > made)
    for sums, kept, begin, end in ((ahead, out, made, farthest), (behind, nearest < made, nearest, made)):
        np.add.at(sums, begin[kept], tensors.bytes[kept])
        np.add.at(sums, end[kept], -tensors.bytes[kept])
    ahead, behind = np.cumsum(ahead), np.cumsum(behind)
    return ahead[:-1], np.where(back < instance.last, behind[:-1], 0.0)


def unfolded(fold: Fold, plan: Plan) -> Layout:
    """The stages of a plan on a folded order."""
    cuts = [0, *plan.cuts]
    ends = [fold[cut][0] for cut in cuts[1:]]
    ends += [fold[cut][1] for cut in cuts[::-1]]
    layout: Layout = []
    for end, v in zip(ends, [*plan.devices, *plan.devices[-2::-1]], strict=True):
        if layout and layout[-1][1] == v:
            layout[-1] = (end, v)
        elif not layout or end > layout[-1][0]:
            layout.append((end, v))
    return layout
