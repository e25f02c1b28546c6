"""The rules of pipelines: they judge cuts, routes, memory and the choice of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.pipeline.details import PipelineDetails
from opweave.problems.pipeline.play import Walk
from opweave.problems.solution import Evaluation, Violation

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline, Stage, Stages


def judge(problem: Pipeline, solution: Stages) -> Evaluation[PipelineDetails]:
    """Judge a solution against all rules except the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    walk = Walk(problem, solution)
    broken = tuple(_violations(problem, solution.stages, walk))
    judged: Evaluation[PipelineDetails] = Evaluation(objective=walk.objective(), violations=broken)
    return judged.with_timeline(walk.timeline).with_details(walk.details)


def _unusable(problem: Pipeline, solution: Stages) -> Iterator[Violation]:
    """Check that every operator is in one stage, on a device that can run it, and that all names exist.

    No operator may read a tensor of a later stage.
    """
    if _is_whole(problem, solution):
        return
    stage_of: dict[str, int] = {}
    for number, stage in enumerate(solution.stages):
        for device in stage.devices:
            if device not in problem.cluster.device_index:
                message = f"stage {number + 1} runs on {device!r}, which the cluster does not have"
                yield Violation(rule="unknown", message=message)
        if not stage.operators:
            yield Violation(rule="missing", message=f"stage {number + 1} on {stage.device!r} runs no operator")
        for name in stage.operators:
            if name not in problem.graph.operator_index:
                yield Violation(rule="unknown", message=f"{name!r} is not an operator of the graph")
            elif stage.device in problem.cluster.device_index and stage.device not in problem.known_seconds[name]:
                message = f"{name!r} cannot run on {stage.device!r}: its time there is not known"
                yield Violation(rule="device", message=message)
            stage_of[name] = number
    counts = Counter(name for stage in solution.stages for name in stage.operators)
    for name in problem.graph.operator_index:
        if counts[name] != 1:
            where = "in no stage" if not counts[name] else f"listed {counts[name]} times"
            yield Violation(rule="missing" if not counts[name] else "repeated", message=f"{name!r} is {where}")
    for op in problem.graph.operators:
        for tensor in dict.fromkeys(op.inputs):
            producer = problem.graph.producer.get(tensor)
            if producer in stage_of and op.id in stage_of and stage_of[producer] > stage_of[op.id]:
                message = f"{op.id!r} in stage {stage_of[op.id] + 1} reads {tensor!r} of the later stage "
                yield Violation(rule="precedence", message=f"{message}{stage_of[producer] + 1}")


def _is_whole(problem: Pipeline, solution: Stages) -> bool:
    """Whether :func:`_unusable` has nothing to say, found out for all operators at once."""
    graph, index, seconds = problem.graph, problem.graph.operator_index, problem.known_seconds
    names = [name for stage in solution.stages for name in stage.operators]
    if len(names) != len(index) or set(names) != index.keys():
        return False
    if not all(
        stage.operators and problem.cluster.device_index.keys() >= set(stage.devices) for stage in solution.stages
    ):
        return False
    if not all(stage.device in seconds[name] for stage in solution.stages for name in stage.operators):
        return False
    stage_of = np.empty(len(names), dtype=np.int64)
    sizes = [len(stage.operators) for stage in solution.stages]
    stage_of[[index[name] for name in names]] = np.repeat(np.arange(len(sizes)), sizes)
    before = graph.arrays.predecessors
    return bool((stage_of[before.items] <= stage_of[before.heads()]).all())


def _violations(problem: Pipeline, stages: Sequence[Stage], walk: Walk) -> Iterator[Violation]:
    """All violations, rule by rule."""
    yield from _wrong_cuts(problem, stages)
    yield from _wrong_devices(problem, stages)
    yield from _wrong_replicas(problem, stages)
    for number, seconds in enumerate(walk.sending):
        if seconds is None:
            tensors, source, target = walk.sent[number], stages[number].device, stages[number + 1].device
            what = f"tensor {tensors[0]!r}" if tensors else f"the end of stage {number + 1}"
            message = f"no link or chain of links can carry {what} from {source!r} to {target!r}"
            yield Violation(rule="no_link", message=message)
    for device, used in walk.memory.items():
        limit = problem.cluster.devices[problem.cluster.device_index[device]].memory_bytes
        if limit is not None and used > limit:
            message = f"device {device!r} holds {used:,} bytes: {used - limit:,} over its memory of {limit:,}"
            yield Violation(rule="memory", message=message, excess=float(used - limit))


def _wrong_replicas(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that replicas are allowed and interchangeable."""
    for number, stage in enumerate(stages):
        if not stage.replicas:
            continue
        if len(stage.devices) > problem.max_replicas:
            message = f"stage {number + 1} has {len(stage.devices)} devices; at most {problem.max_replicas} are allowed"
            yield Violation(rule="replicas", message=message)
        for device in stage.replicas:
            if not problem.interchangeable(stage.device, device):
                message = f"{device!r} cannot take turns with {stage.device!r} in stage {number + 1}: they differ"
                yield Violation(rule="replicas", message=message)


def _wrong_cuts(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that every stage is a contiguous part of the order, and that cuts lie where they are allowed."""
    order, allowed = problem.running_order, set(problem.cut_positions)
    begin = 0
    for number, stage in enumerate(stages):
        end = begin + len(stage.operators)
        strangers = set(stage.operators) - set(order[begin:end])
        if strangers:
            message = f"stage {number + 1} runs {min(strangers)!r} out of its turn in the order"
            yield Violation(rule="order", message=message)
        elif begin > 0 and begin not in allowed:
            message = (
                f"the model may not be cut between {order[begin - 1]!r} and {order[begin]!r} (cuts are {problem.cuts})"
            )
            yield Violation(rule="cut", message=message)
        begin = end


def _wrong_devices(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that devices are usable, have one stage each, in the given order, and that there are enough stages."""
    names = [device for stage in stages for device in stage.devices]
    usable = problem.usable_devices
    for name, count in Counter(names).items():
        if count > 1:
            message = f"device {name!r} has {count} stages; a device may have at most one"
            yield Violation(rule="device", message=message)
        if name not in usable:
            yield Violation(rule="device", message=f"device {name!r} has a stage but must not be used")
    ranks = [usable.index(name) for name in names if name in usable]
    if problem.device_order is not None and ranks != sorted(ranks):
        yield Violation(rule="device", message="the stages do not use the devices in the order that is asked for")
    low, high, count = problem.min_stages, problem.max_stages, len(stages)
    if problem.graph.operators and not low <= count <= (count if high is None else high):
        most = "" if high is None else f" and at most {high}"
        yield Violation(rule="stages", message=f"there are {count} stages; at least {low}{most} are asked for")
