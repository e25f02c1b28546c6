"""Layouts as runtimes and compilers make them, by name: the baselines for better layouts.

Sources: Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020), for ``by_size`` and
``by_breadth``; the memory planners of TensorFlow Lite Micro, ONNX Runtime and ExecuTorch for the rules of their names.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.memory_layout.greedy import (
    FIRST_GAP,
    NOWHERE,
    SMALLEST_GAP,
    Places,
    Taste,
    best_fit,
    fastest_first,
    life_of,
    nearest_end,
    place,
)
from opweave.solvers.memory_layout.plans import contradiction, report
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

CLASS_BITS = 3
"""Leading bits of a size class: a storage leaves at most a fifth of a slot of its own class unused."""

LARGER = 2
"""A storage takes a free slot of at most this many times its size, because a new slot costs more than what it wastes;
but not in the fastest of several pools, where bytes are rare."""

Rule = Callable[[LayoutInstance], Places | None]


def first_fit(instance: LayoutInstance) -> Places | None:
    """Every storage as low as it can stand, in the order of the problem."""
    return place(instance, np.arange(len(instance)), FIRST_GAP)


def tflm(instance: LayoutInstance) -> Places | None:
    """TensorFlow Lite Micro, and TVM and IREE alike: the largest storage first, into the lowest gap."""
    return place(instance, _largest_and_last_first(instance.bytes), FIRST_GAP)


def by_size(instance: LayoutInstance) -> Places | None:
    """TensorFlow Lite: the largest storage first, into the smallest gap."""
    return place(instance, np.argsort(-instance.bytes, kind="stable"), SMALLEST_GAP)


def by_lifetime(instance: LayoutInstance) -> Places | None:
    """The storage that lives longest first, into the lowest gap."""
    return place(instance, np.lexsort([-instance.bytes, -_lifetime(instance)]), FIRST_GAP)


def by_area(instance: LayoutInstance) -> Places | None:
    """The largest product of bytes and lifetime first, into the lowest gap."""
    area = instance.bytes * _lifetime(instance).astype(np.float64)
    return place(instance, np.argsort(-area, kind="stable"), FIRST_GAP)


def by_breadth(instance: LayoutInstance) -> Places | None:
    """TensorFlow Lite: from the section with the most live bytes on, its largest storages first, smallest gap."""
    rank = np.empty(instance.sections, dtype=np.int64)
    rank[np.argsort(-instance.live, kind="stable")] = np.arange(instance.sections)
    first = [
        rank[begin:end].min(initial=instance.sections)
        for begin, end in zip(instance.begin.tolist(), instance.end.tolist(), strict=True)
    ]
    return place(instance, np.lexsort([-instance.bytes, np.asarray(first, dtype=np.int64)]), SMALLEST_GAP)


def onnxruntime(instance: LayoutInstance) -> Places | None:
    """ONNX Runtime's memory pattern planner: in the order in which they begin to live, into the smallest gap."""
    return place(instance, np.argsort(instance.begin, kind="stable"), SMALLEST_GAP)


def executorch(instance: LayoutInstance) -> Places | None:
    """ExecuTorch's greedy planner: objects one after another, which storages by size share in turns or in layers.

    Raises
    ------
    NoPlanError
        With several pools or fixed offsets, which the rule does not know.
    """
    if len(instance.capacity) > 1 or (instance.fixed >= 0).any():
        raise NoPlanError("ExecuTorch's rule knows one arena and no fixed offsets")
    step = int(np.maximum(instance.alignment, instance.pool_alignment[0]).max(initial=1))
    size = -(-np.where(instance.end > instance.begin, instance.bytes, 0) // step) * step
    objects: list[list[int]] = []
    inside = np.zeros(len(instance), dtype=np.int64)
    for j in _largest_and_last_first(size).tolist():
        below = [_reach(instance, each, j, inside + size) for each in objects]
        turns = next((n for n, reached in enumerate(below) if reached == 0), None)
        layers = (n for n, each in enumerate(objects) if below[n] + size[j] <= size[each[0]])
        chosen = next(layers, None) if turns is None else turns
        if chosen is None:
            objects.append([j])
        else:
            inside[j] = below[chosen]
            objects[chosen].append(j)
    offset, at = inside, 0
    for each in objects:
        offset[each] += at
        at += int(size[each[0]])
    return Places(offset, np.zeros(len(instance), dtype=np.int64)) if at <= instance.capacity[0] else None


def size_classes(instance: LayoutInstance) -> Places | None:
    """An allocator with size classes: the smallest free slot up to twice its size, or a new one; fast, but wasteful.

    Of several pools, every storage takes the fastest that has a free slot of its own class or room for a new one.

    Raises
    ------
    NoPlanError
        With fixed offsets, or storages that have to share a pool or must not.
    """
    if np.bincount(instance.team).max(initial=0) > 1 or len(instance.apart):
        raise NoPlanError("an allocator with size classes knows no storages that belong together or apart")
    rows, _, _, events = life_of(instance, Taste())
    step = int(max(instance.alignment.max(initial=1), instance.pool_alignment.max(initial=1)))
    finest = 2.0 ** (np.frexp(instance.bytes[rows].astype(np.float64))[1] - CLASS_BITS)
    unit = np.maximum(finest, step).astype(np.int64)  # both are powers of two
    sizes, found = np.unique(-(-instance.bytes[rows] // unit) * unit, return_inverse=True)
    beyond = np.searchsorted(sizes, (LARGER if len(instance.capacity) == 1 else 1) * sizes, side="right").tolist()
    slot, own, size = found.tolist(), found.tolist(), sizes.tolist()
    prefer, capacity, count = fastest_first(instance), instance.capacity.tolist(), len(slot)
    kinds, kind = prefer[rows[:1]], np.zeros(count, dtype=np.int64)
    if (prefer[rows] != kinds).any():
        kinds, kind = np.unique(prefer[rows], axis=0, return_inverse=True)
    ways = [[p for p in pools if p != NOWHERE] for pools in kinds.tolist()]
    choices = [ways[each] for each in kind.ravel().tolist()]
    free: list[list[list[int]]] = [[[] for _ in size] for _ in capacity]
    vacant: list[list[int]] = [[] for _ in capacity]  # the classes of which there are free slots, ascending
    at, chosen, top = [0] * count, [0] * count, [0] * len(capacity)
    for event in events:
        j = event % count
        if event < count:
            same = free[chosen[j]][slot[j]]
            if not same:
                insort(vacant[chosen[j]], slot[j])
            same.append(at[j])
            continue
        k = own[j]
        for p in choices[j]:
            n = bisect_left(vacant[p], k)
            if n < len(vacant[p]) and vacant[p][n] < beyond[k]:
                slot[j] = vacant[p][n]
                chosen[j], at[j] = p, free[p][slot[j]].pop()
                if not free[p][slot[j]]:
                    del vacant[p][n]
                break
            if top[p] + size[k] <= capacity[p]:
                chosen[j], at[j], top[p] = p, top[p], top[p] + size[k]
                break
        else:
            return None
    offset, pool = np.zeros(len(instance), dtype=np.int64), prefer[:, 0].copy()
    offset[rows], pool[rows] = at, chosen
    return Places(offset, pool)


def _reach(instance: LayoutInstance, standing: list[int], j: int, top: IntArray) -> int:
    """How high the blocks of an object reach while block j lives."""
    rows = np.asarray(standing, dtype=np.int64)
    together = (instance.begin[rows] < instance.end[j]) & (instance.begin[j] < instance.end[rows])
    return int(top[rows[together]].max(initial=0))


def _largest_and_last_first(size: IntArray) -> IntArray:
    """Blocks by size, the largest first; of equal ones, the last in the list comes first, as in both runtimes."""
    return np.lexsort([-np.arange(len(size)), -size])


def _lifetime(instance: LayoutInstance) -> IntArray:
    return instance.end - instance.begin


BY_NAME: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        first_fit,
        tflm,
        by_size,
        by_lifetime,
        by_area,
        by_breadth,
        onnxruntime,
        executorch,
        best_fit,
        nearest_end,
        size_classes,
    )
}

QUICK: tuple[Rule, ...] = (
    size_classes,
    best_fit,
    nearest_end,
    onnxruntime,
    by_lifetime,
    tflm,
    by_size,
    by_area,
    first_fit,
)
"""What ``auto`` begins with; the others are seldom better."""


def carry_out(rule: Rule, problem: MemoryLayout, run: Run) -> None:
    """Report the layout of a rule.

    Raises
    ------
    NoPlanError
        When a storage fits nowhere.
    """
    instance = lower(problem)
    reason = contradiction(instance)
    if reason is not None:
        raise NoPlanError(reason)
    places = rule(instance)
    if places is None:
        raise NoPlanError("with this rule, a storage fits into no pool that it may stand in")
    report(problem, instance, places, run)


for _name, _rule in BY_NAME.items():
    _about = (_rule.__doc__ or "").split("\n", maxsplit=1)[0].rstrip(".")
    register_rule(MemoryLayout, _name, partial(carry_out, _rule), _about, supports=(VIOLATIONS,), baseline=True)
