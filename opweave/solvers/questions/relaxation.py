"""Which of two problems asks less: its bound then holds for the other one, and a plan of the other one fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opweave.formulations.batched_mapping.instance import lower as batched_arrays
from opweave.formulations.batched_mapping.retime import retimed as retimed_batches
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower as placement_arrays
from opweave.formulations.placement.messages import messages_of, retimed, timetable
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import (
    Colocate,
    Constraint,
    Forbid,
    MaxDevices,
    MemoryCap,
    Pin,
    Precede,
    Separate,
    Share,
    means,
)
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.problem import Problem
from opweave.problems.slicing.spec import Slicing
from opweave.problems.solution import Evaluation, Solution

AnyProblem = Problem[Any, Any]

OPWEAVES = (Colocate, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate, Share)
"""Constraints that ask the same whatever memory and links there are."""


def relaxes(problem: AnyProblem, other: AnyProblem) -> bool:
    """Whether a problem is the other one, or asks less: then its lower bounds hold for the other one too.

    A problem asks less if it differs only in more memory, faster links, a higher ``limit_bytes``, more stages allowed,
    more compression, or fewer side constraints. This is a judgement of the data alone: False means "not known".

    With a rule of a user's own, whose meaning may depend on any field, only the side constraints may differ.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> graph = OpGraph(tensors=[], operators=[Operator(id="p")])
    >>> loose, tight = MemoryOrdering(graph=graph), MemoryOrdering(graph=graph, limit_bytes=8)
    >>> relaxes(loose, tight), relaxes(tight, loose)
    (True, False)
    """
    if problem is other:
        return True
    if type(problem) is not type(other):
        return False
    rules = _RULES.get(type(problem), {})
    own = not all(means(each, *OPWEAVES) for each in (*problem.constraints, *other.constraints))
    if own:
        rules = {name: rule for name, rule in rules.items() if name == "constraints"}
    for name in type(problem).model_fields:
        mine, theirs = getattr(problem, name), getattr(other, name)
        if mine is theirs:
            continue
        if not (rules[name](problem, other) if name in rules else mine == theirs):
            return False
    return True


Rule = Callable[[Any, Any], bool]


def _no_less(field: str) -> Rule:
    """The rule of a field that limits: the higher, the looser, and None is no limit."""

    def rule(problem: AnyProblem, other: AnyProblem) -> bool:
        mine, theirs = getattr(problem, field), getattr(other, field)
        return mine is None or (theirs is not None and bool(mine >= theirs))

    return rule


def _no_more(field: str) -> Rule:
    return lambda problem, other: getattr(problem, field) <= getattr(other, field)


def _fewer_constraints(problem: AnyProblem, other: AnyProblem) -> bool:
    """Every constraint of the problem is asked of the other one too, at least as strictly."""
    if _most_devices(problem.constraints) < _most_devices(other.constraints) or not _more_memory(problem, other):
        return False
    asked = [each for each in other.constraints if not means(each, MaxDevices, MemoryCap)]
    return all(each in asked for each in problem.constraints if not means(each, MaxDevices, MemoryCap))


def _most_devices(constraints: tuple[Constraint, ...]) -> float:
    return min((each.count for each in constraints if means(each, MaxDevices)), default=np.inf)


def _more_memory(problem: Any, other: Any) -> bool:
    """Every device may hold at least as much, side constraints included."""
    if isinstance(problem, MemoryOrdering):
        return True
    mine, theirs = problem.memory_limits, other.memory_limits
    if isinstance(problem, Slicing) and problem.dimension == "rule":
        return bool(mine == theirs)  # the rule chooses dimensions by the memory there is, so more may be worse
    return mine.keys() == theirs.keys() and all(
        limit is None or (theirs[name] is not None and limit >= theirs[name]) for name, limit in mine.items()
    )


def _better_cluster(problem: Any, other: Any) -> bool:
    """The same devices with at least as much memory, and links that are nowhere slower."""
    mine, theirs = problem.cluster, other.cluster
    if len(mine.devices) != len(theirs.devices) or not _more_memory(problem, other):
        return False
    for own, their in zip(mine.devices, theirs.devices, strict=True):
        if own != their and own.model_copy(update={"memory_bytes": their.memory_bytes}) != their:
            return False
    if isinstance(problem, Slicing):
        return _nowhere_slower((problem.rates, problem.latencies), (other.rates, other.latencies))
    return _described(mine) == _described(theirs) and _nowhere_slower(_links(mine), _links(theirs))


def _described(cluster: Cluster) -> list[bool]:
    return [links is None for links in (cluster.bandwidth, cluster.rates, cluster.shared)]


def _links(cluster: Cluster) -> tuple[Any, Any]:
    return cluster.effective_bandwidth, cluster.effective_latency


def _nowhere_slower(mine: tuple[Any, Any], theirs: tuple[Any, Any]) -> bool:
    return bool(np.all(np.asarray(mine[0]) >= theirs[0]) and np.all(np.asarray(mine[1]) <= theirs[1]))


_ON_CLUSTER: Mapping[str, Rule] = {"cluster": _better_cluster, "constraints": _fewer_constraints}

_RULES: Mapping[type, Mapping[str, Rule]] = {
    MemoryOrdering: {"constraints": _fewer_constraints, "limit_bytes": _no_less("limit_bytes")},
    Placement: {**_ON_CLUSTER, "max_calls": _no_less("max_calls"), "host_cores": _no_less("host_cores")},
    BatchedMapping: _ON_CLUSTER,
    Slicing: _ON_CLUSTER,
    Pipeline: {
        **_ON_CLUSTER,
        "max_stages": _no_less("max_stages"),
        "min_stages": _no_more("min_stages"),
        "max_tensors": _no_less("max_tensors"),
        "compression": _no_less("compression"),
    },
}
"""By problem, the fields in which a problem may ask less, and how. Its subclasses may mean something else by them."""


def plan_for(problem: AnyProblem, other: AnyProblem, plan: Solution) -> tuple[Solution, Evaluation[Any]] | None:
    """Find what the plan of another problem is worth in this one: as it stands, or with its times worked out anew.

    Returns
    -------
    tuple or None
        A valid plan of ``problem`` and the referee's judgement; None if the other plan does not help.
    """
    if type(problem) is not type(other):
        return None
    found = [(each, problem.evaluate(each)) for each in (plan, _retimed(problem, other, plan)) if each is not None]
    valid = [(each, judged) for each, judged in found if judged.feasible and judged.objective is not None]
    return min(valid, key=lambda pair: pair[1].objective or 0, default=None)


def _retimed(problem: AnyProblem, other: AnyProblem, plan: Solution) -> Solution | None:
    """The same devices in the same order, with times that suit this problem; None where plans contain no times."""
    try:
        if isinstance(problem, Placement) and isinstance(other, Placement) and isinstance(plan, Schedule):
            if problem.reading is not None or problem.transfers != other.transfers:
                return None
            mine, theirs = placement_arrays(problem), placement_arrays(other)
            table = timetable(theirs, messages_of(theirs, other.transfers), plan)
            messages = messages_of(mine, problem.transfers)
            if mine.devices != theirs.devices or mine.names != theirs.names:
                return None
            return retimed(problem.transfers, mine, messages, table.device, table.start, table.sent)
        if isinstance(problem, BatchedMapping) and isinstance(plan, BatchedSchedule):
            return _batches_retimed(problem, plan)
    except ContradictionError:
        return None
    return None


def _batches_retimed(problem: BatchedMapping, plan: BatchedSchedule) -> BatchedSchedule | None:
    instance = batched_arrays(problem)
    row, column = ({name: k for k, name in enumerate(names)} for names in (instance.names, instance.devices))
    where = np.full((len(row), problem.batch), -1, dtype=np.int64)
    start = np.zeros((len(row), len(column)))
    for batch in plan.batches:
        inputs = list(batch.inputs)
        if batch.operator not in row or batch.device not in column or max(inputs) >= problem.batch:
            return None
        known = problem.known_seconds[batch.operator].get(batch.device, {})
        if len(inputs) not in known:
            return None
        where[row[batch.operator], inputs] = column[batch.device]
        start[row[batch.operator], column[batch.device]] = batch.start
    return None if (where < 0).any() else retimed_batches(instance, where, start)
