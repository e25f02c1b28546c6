"""From a plan to its layout problem: the memory of an order, or of one device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.solution import Answer, Solution, solution_of
from opweave.problems.storage_lives import DeviceLives, Lives, lives_of_order, lives_of_stage
from opweave.problems.words import did_you_mean


def layout_of(
    problem: Problem[Any, Any],
    solution: Solution | Answer[Solution],
    *,
    device: str | None = None,
    pools: Sequence[Pool] | None = None,
) -> MemoryLayout:
    """The layout problem of a plan: its storages and their lifetimes.

    Parameters
    ----------
    problem, solution
        A memory ordering, a placement, a batched mapping or a pipeline, and a plan of it that can be carried out.
    device
        The device whose memory is laid out; an ordering has only one memory, and needs no name for it. A stage of a
        pipeline counts its steps and holds one input at a time.
    pools
        The pools; None for one arena that may grow, or of a device's memory.

    Raises
    ------
    InvalidInputError
        If the plan has no such device, cannot be carried out, or belongs to a problem without storages.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=4), Tensor(id="y", bytes=8)],
    ...     operators=[Operator(id="grow", inputs=["x"], outputs=["y"])],
    ... )
    >>> layout = layout_of(MemoryOrdering(graph), Ordering(order=["grow"]))
    >>> [(each.id, each.begin, each.end, each.bytes) for each in layout.lifetimes]
    [('x', -1.0, 1.0, 4), ('y', 0.0, 1.0, 8)]
    """
    plan = solution_of(solution, Solution)
    if isinstance(problem, MemoryOrdering):
        return _lives(problem, plan, 0).problem([Pool(name="arena")] if pools is None else pools)
    if not isinstance(problem, Placement | BatchedMapping | Pipeline):
        raise InvalidInputError(f"a {type(problem).__name__} says nothing about when storages live")
    known = problem.cluster.device_index
    if device not in known:
        said = "name one with device=" if device is None else f"there is no {device!r}{did_you_mean(device, known)}"
        raise InvalidInputError(f"every device has a memory of its own; {said} (of {', '.join(map(repr, known))})")
    own = Pool(name=device, bytes=problem.memory_limits[device])
    return _lives(problem, plan, known[device]).problem([own] if pools is None else pools)


@singledispatch
def _lives(problem: Problem[Any, Any], plan: Solution, device: int) -> Lives:
    """The storages on a device of a plan whose timeline has the operators' runs in seconds."""
    timeline = problem.play(plan)
    if timeline is None:
        raise _unplayable(problem, plan)
    return DeviceLives(problem.graph, timeline, device).lives()


@_lives.register
def _(problem: MemoryOrdering, plan: Ordering, _device: int) -> Lives:
    timeline = problem.play(plan)
    if timeline is None:
        raise _unplayable(problem, plan)
    return lives_of_order(problem.graph, timeline)


@_lives.register
def _(problem: Pipeline, plan: Stages, device: int) -> Lives:
    """The steps of the stage on a device, with what it passes on and its parameters from the first to the last one."""
    if problem.play(plan) is None:
        raise _unplayable(problem, plan)
    name = problem.cluster.devices[device].name
    number = next((k for k, stage in enumerate(plan.stages) if stage.device == name), None)
    stages = [stage.operators for stage in plan.stages]
    passed = problem.inputs == "first"
    return Lives(problem.graph) if number is None else lives_of_stage(problem.graph, stages, number, passed=passed)


def _unplayable(problem: Problem[Any, Any], plan: Solution) -> InvalidInputError:
    broken = problem.evaluate(plan).violations
    why = broken[0].message if broken else "it is incomplete"
    return InvalidInputError(f"the plan cannot be carried out: {why}")
