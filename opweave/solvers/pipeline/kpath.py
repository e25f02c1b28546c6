"""The paper's placement: partitions matched to devices class by class, along paths found by colour coding.

Source: Parthasarathy and Krishnamachari (2022), Algorithms 2 and 3. Transfer sizes are sorted into classes; For each
class from the highest down, and for each run of that class from the longest down, a path of devices is found that joins
the fixed devices on both sides over links as fast as possible (a binary search on the slowest link). If that fails, it
is tried again with fewer classes, as the paper suggests. The paper leaves two points open. Here links are classed by
that threshold alone, and used devices are removed from the graph, except the two ends of a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import numpy as np
from numpy.random import Generator

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance
from opweave.formulations.pipeline.partition_graph import smallest_sum_cuts
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import InvalidInputError
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.baselines import NOT_EVERYWHERE, one_device
from opweave.solvers.pipeline.color_coding import find_path
from opweave.solvers.pipeline.plans import PipelinePlan, carry_out, is_valid, value_of
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

CLASSES = (20, 17, 14, 11, 8, 5, 2)
"""The numbers of classes of the paper's evaluation."""

CLASSES_OPTION = "classes"
"""Option: number of classes of transfers. Without it, the best of :data:`CLASSES` counts."""

Over = Callable[[], bool]
"""A function that tells whether time is up."""


def kpath(instance: PipelineInstance, seed: int, over: Over) -> PipelinePlan:
    """The best plan over the paper's numbers of classes, as far as these are tried before time is ``over``."""
    plans, reason = [], "there was no time to look for paths of devices"
    for classes in CLASSES:
        if over():
            break
        try:
            plans.append(kpath_with(classes, instance, seed, over))
        except NoPlanError as error:
            reason = str(error)
    if not plans:
        raise NoPlanError(reason)
    return min(plans, key=lambda plan: value_of(instance, plan))


def kpath_with(classes: int, instance: PipelineInstance, seed: int, over: Over) -> PipelinePlan:
    """Run with a number of classes, and after each failure with fewer, until time is ``over``.

    Raises
    ------
    NoPlanError
        When no number of classes gives a plan.
    """
    cuts = smallest_sum_cuts(instance)
    if cuts is None:
        raise NoPlanError(NOT_EVERYWHERE)
    if len(cuts) >= instance.most:
        raise NoPlanError(f"the partitions are {len(cuts) + 1}, but at most {instance.most} devices may be used")
    if not cuts:
        return one_device(instance, seed)
    random, tried = np.random.default_rng(seed), set()
    for count in range(classes, 0, -1):
        kinds = classes_of(instance.sent[list(cuts)], count)
        if kinds in tried or over():
            continue
        tried.add(kinds)
        devices = _matched(instance, kinds, random, over)
        if devices is not None:
            plan = PipelinePlan(cuts, devices)
            if is_valid(instance, plan):
                return plan
    raise NoPlanError("no path of devices was found for the partitions, with any number of classes")


def classes_of(values: FloatArray, count: int) -> tuple[int, ...]:
    """Sort values into ``count`` classes of about equal size by rank, 0 the lowest; equal values share a class."""
    ranked = np.searchsorted(np.sort(values), values, side="left")
    return tuple((ranked * count // max(1, len(values))).tolist())


def _matched(instance: PipelineInstance, kinds: Sequence[int], random: Generator, over: Over) -> tuple[int, ...] | None:
    """Algorithm 3: devices for the stages, one class of transfers after the other."""
    runs = []
    for kind, members in groupby(range(len(kinds)), key=kinds.__getitem__):
        where = list(members)
        runs.append((kind, where[0], len(where)))
    chosen = np.full(len(kinds) + 1, -1, dtype=np.int64)
    for _, first, length in sorted(runs, key=lambda run: (-run[0], -run[2], run[1])):
        if not _join(instance, chosen, first, length, random, over):
            return None
    return tuple(chosen.tolist())


def _join(instance: PipelineInstance, chosen: IntArray, first: int, length: int, random: Generator, over: Over) -> bool:
    """Algorithm 2: the path over the fastest links for the stages ``first`` to ``first + length``."""
    begin, end = (int(chosen[at]) if chosen[at] >= 0 else None for at in (first, first + length))
    free = np.ones(len(instance.devices), dtype=bool)
    free[chosen[chosen >= 0]] = False
    for fixed in (begin, end):
        if fixed is not None:
            free[fixed] = True
    usable = np.where(free[:, None] & free[None, :], instance.rate, 0.0)
    speeds = np.unique(usable[usable > 0])[::-1]
    low, high, best = 0, len(speeds), None
    while low < high and not over():
        middle = (low + high) // 2
        path = find_path(usable >= speeds[middle], length + 1, begin, end, random)
        if path is None:
            low = middle + 1
        else:
            high, best = middle, path
    if best is None:
        return False
    chosen[first : first + length + 1] = best
    return True


def _carry_out(problem: Pipeline, run: Run) -> None:
    """Report the plan for the number of classes in the option, else the best plan over all numbers."""
    build: Callable[[PipelineInstance, int, Over], PipelinePlan] = kpath
    if CLASSES_OPTION in run.options:
        classes = run.option(CLASSES_OPTION, default=CLASSES[0])
        assert isinstance(classes, int)
        if classes < 1:
            raise InvalidInputError(f"option {CLASSES_OPTION!r} needs at least 1 class of transfers, not {classes}")
        build = partial(kpath_with, classes)
    carry_out(lambda instance, seed: build(instance, seed, run.should_stop), problem, run)


register_rule(
    Pipeline,
    "kpath",
    _carry_out,
    "the paper's method: smallest sum of transfers, then paths by colour coding (best of 7 numbers of classes)",
    supports=SUPPORTS,
    options={CLASSES_OPTION: "number of classes of transfers; without it, several numbers are tried"},
    baseline=True,
)
