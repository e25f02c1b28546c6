"""Layouts as runtimes and compilers make them, by name: the baselines for better layouts.

Sources: Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020), for ``by_size`` and
``by_breadth``; the memory planners of TensorFlow Lite Micro, ONNX Runtime and ExecuTorch for the rules of their names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.memory_layout.greedy import FIRST_GAP, SMALLEST_GAP, Places, place
from opweave.solvers.memory_layout.plans import contradiction, report
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

Rule = Callable[[LayoutInstance], Places | None]


def first_fit(instance: LayoutInstance) -> Places | None:
    """Every storage as low as it can stand, in the order of the problem."""
    return place(instance, np.arange(len(instance)), FIRST_GAP)


def tflm(instance: LayoutInstance) -> Places | None:
    """TensorFlow Lite Micro, and TVM and IREE alike: the largest storage first, into the lowest gap."""
    return place(instance, np.argsort(-instance.bytes, kind="stable"), FIRST_GAP)


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
    """ExecuTorch's greedy planner: storages by size share objects of the closest size, which lie one after another.

    Raises
    ------
    NoPlanError
        With several pools or fixed offsets, which the rule does not know.
    """
    if len(instance.capacity) > 1 or (instance.fixed >= 0).any():
        raise NoPlanError("ExecuTorch's rule knows one arena and no fixed offsets")
    objects: list[list[int]] = []
    for j in np.argsort(-instance.bytes, kind="stable").tolist():
        free = [
            each
            for each in objects
            if all(instance.end[i] <= instance.begin[j] or instance.end[j] <= instance.begin[i] for i in each)
        ]
        if free:
            min(free, key=lambda each: int(instance.bytes[each[0]] - instance.bytes[j])).append(j)
        else:
            objects.append([j])
    offset, at = np.zeros(len(instance), dtype=np.int64), 0
    for each in objects:
        step = int(max(*instance.alignment[each], instance.pool_alignment[0]))
        at = -(-at // step) * step
        offset[each] = at
        at += int(instance.bytes[each[0]])
    return Places(offset, np.zeros(len(instance), dtype=np.int64)) if at <= instance.capacity[0] else None


def _lifetime(instance: LayoutInstance) -> IntArray:
    return instance.end - instance.begin


BY_NAME: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (first_fit, tflm, by_size, by_lifetime, by_area, by_breadth, onnxruntime, executorch)
}

QUICK: tuple[Rule, ...] = (by_lifetime, tflm, by_size, by_area, onnxruntime, first_fit)
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
