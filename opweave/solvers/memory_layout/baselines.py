"""Layouts as runtimes and compilers make them, by name: the baselines for better layouts.

Sources: Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020), for ``by_size`` and
``by_breadth``; the memory planners of TensorFlow Lite Micro, ONNX Runtime and ExecuTorch for the rules of their names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.memory_layout.greedy import FIRST_GAP, NEAREST_END, SMALLEST_GAP, Places, place
from opweave.solvers.memory_layout.plans import contradiction, report
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run


class Rule(NamedTuple):
    """A greedy rule: the order in which storages are placed, the choice among gaps, and a sentence about it."""

    order: Callable[[LayoutInstance], IntArray]
    gap: int
    about: str


def _as_listed(instance: LayoutInstance) -> IntArray:
    return np.arange(len(instance))


def _largest_first(instance: LayoutInstance) -> IntArray:
    return np.argsort(-instance.bytes, kind="stable")


def _largest_and_last_first(instance: LayoutInstance) -> IntArray:
    """Blocks by size, the largest first; of equal ones, the last in the list comes first, as in both runtimes."""
    return np.lexsort([-np.arange(len(instance)), -instance.bytes])


def _first_alive_first(instance: LayoutInstance) -> IntArray:
    return np.argsort(instance.begin, kind="stable")


def _first_and_longest_alive_first(instance: LayoutInstance) -> IntArray:
    return np.lexsort([-instance.end, instance.begin])


def _fullest_first(instance: LayoutInstance) -> IntArray:
    """From the section with the most live bytes on, its largest storages first."""
    rank = np.empty(instance.sections, dtype=np.int64)
    rank[np.argsort(-instance.live, kind="stable")] = np.arange(instance.sections)
    spans = zip(instance.begin.tolist(), instance.end.tolist(), strict=True)
    first = [rank[begin:end].min(initial=instance.sections) for begin, end in spans]
    return np.lexsort([-instance.bytes, np.asarray(first, dtype=np.int64)])


RULES = {
    "first_fit": Rule(_as_listed, FIRST_GAP, "every storage as low as it can stand, in the order of the problem"),
    "nearest_end": Rule(
        _first_and_longest_alive_first, NEAREST_END, "an allocator that knows lifetimes: beside what ends with it"
    ),
    "onnxruntime": Rule(
        _first_alive_first,
        SMALLEST_GAP,
        "ONNX Runtime: in the order in which they begin to live, into the smallest gap",
    ),
    "tflm": Rule(
        _largest_and_last_first,
        FIRST_GAP,
        "TensorFlow Lite Micro, and TVM and IREE alike: the largest storage first, into the lowest gap",
    ),
    "by_size": Rule(_largest_first, SMALLEST_GAP, "TensorFlow Lite: the largest storage first, into the smallest gap"),
    "by_breadth": Rule(
        _fullest_first, SMALLEST_GAP, "TensorFlow Lite: the largest storages of the fullest moment first, smallest gap"
    ),
}
"""The rules by name, in the order in which ``auto`` begins with them."""

WASTES = (0.003, 0.01, 0.1, 0.3)
"""What waste counts for more allocators: of ten thousands of storages, they are the best that there is."""


def executorch(instance: LayoutInstance) -> Places:
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
    for j in np.lexsort([-np.arange(len(size)), -size]).tolist():
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
    return Places(offset, np.full(len(instance), 0 if at <= instance.capacity[0] else -1, dtype=np.int64))


def _reach(instance: LayoutInstance, standing: list[int], j: int, top: IntArray) -> int:
    """How high the blocks of an object reach while block j lives."""
    rows = np.asarray(standing, dtype=np.int64)
    together = (instance.begin[rows] < instance.end[j]) & (instance.begin[j] < instance.end[rows])
    return int(top[rows[together]].max(initial=0))


def carry_out(rule: Callable[[LayoutInstance], Places], problem: MemoryLayout, run: Run) -> None:
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
    if (places.pool < 0).any():
        raise NoPlanError("with this rule, a storage fits into no pool that it may stand in")
    report(problem, instance, places, run)


def solve_baselines(problem: MemoryLayout, run: Run) -> Outcome:
    """Report the layouts of all rules, and the live bytes as a bound."""
    instance = lower(problem)
    reason = contradiction(instance)
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    if len(instance.capacity) == 1 and problem.objective == "arena":
        run.proved(int(instance.live.max(initial=0)), "live bytes")
    run.enter("greedy rules")
    for rule in RULES.values():
        report(problem, instance, place(instance, rule.order(instance), rule.gap), run)
        if run.should_stop():
            return Outcome(run.termination())
    order = _first_and_longest_alive_first(instance)
    for waste in WASTES:
        report(problem, instance, place(instance, order, NEAREST_END, waste), run)
        if run.should_stop():
            break
    return Outcome(run.termination())


def _placed(rule: Rule, instance: LayoutInstance) -> Places:
    return place(instance, rule.order(instance), rule.gap)


_BUILDERS: dict[str, tuple[Callable[[LayoutInstance], Places], str]]
_BUILDERS = {name: (partial(_placed, rule), rule.about) for name, rule in RULES.items()}
_BUILDERS["executorch"] = (executorch, "ExecuTorch: objects, which storages by size share in turns or in layers")

for _name, (_build, _about) in _BUILDERS.items():
    register_rule(MemoryLayout, _name, partial(carry_out, _build), _about, supports=(VIOLATIONS,), baseline=True)
