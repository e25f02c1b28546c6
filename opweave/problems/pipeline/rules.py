"""The rules of pipelines: they judge cuts, routes, memory and the choice of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
    if problem.cuts != "ideals":
        yield from _wrong_cuts(problem, stages)
    yield from _wrong_devices(problem, stages)
    yield from _wrong_replicas(problem, stages)
    yield from _not_carried(problem, stages, walk)
    for device, used in walk.memory.items():
        limit = problem.cluster.devices[problem.cluster.device_index[device]].memory_bytes
        if limit is not None and used > limit:
            message = f"device {device!r} holds {used:,} bytes: {used - limit:,} over its memory of {limit:,}"
            yield Violation(rule="memory", message=message, excess=float(used - limit))


def _not_carried(problem: Pipeline, stages: Sequence[Stage], walk: Walk) -> Iterator[Violation]:
    """Check that links, or connections to the common memory, carry what is sent and fetched."""
    for number, (tensors, seconds) in enumerate(zip(walk.sent, walk.sending, strict=True)):
        if seconds is None:
            what = f"tensor {tensors[0]!r}" if tensors else "the end of stage " + str(number + 1)
            if problem.delivery == "host":
                message = f"no connection takes {what} from {stages[number].device!r} to the common memory"
            else:
                source, target = stages[number].device, stages[number + 1].device
                message = f"no link or chain of links can carry {what} from {source!r} to {target!r}"
            yield Violation(rule="no_link", message=message)
    for stage, tensors, seconds in zip(stages, walk.fetched, walk.fetching, strict=True):
        if seconds is None:
            message = f"no connection takes tensor {tensors[0]!r} from the common memory to {stage.device!r}"
            yield Violation(rule="no_link", message=message)


def _wrong_replicas(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that replicas are allowed, interchangeable, and keep nothing between inputs."""
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
        kept = next((name for name in stage.operators if name in problem.stateful), None)
        if kept is not None:
            message = f"stage {number + 1} has replicas, but {kept!r} keeps something between inputs (stateful)"
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
    """Check that devices are usable, have few enough stages, in the given order, and that there are enough stages."""
    names = [device for stage in stages for device in stage.devices]
    usable, visits = problem.usable_devices, problem.max_visits
    for name, count in Counter(names).items():
        if visits is not None and count > visits:
            most = "one" if visits == 1 else f"{visits}"
            message = f"device {name!r} has {count} stages; a device may have at most {most}"
            yield Violation(rule="device", message=message)
        if name not in usable:
            yield Violation(rule="device", message=f"device {name!r} has a stage but must not be used")
    ranks = [usable.index(name) for name in names if name in usable]
    if problem.device_order is not None and ranks != sorted(ranks):
        yield Violation(rule="device", message="the stages do not use the devices in the order that is asked for")
    for number, (stage, following) in enumerate(pairwise(stages)):
        if visits != 1 and stage.device == following.device:
            message = f"stages {number + 1} and {number + 2} are both on {stage.device!r}: they are one stage"
            yield Violation(rule="device", message=message)
    low, high, count = problem.min_stages, problem.max_stages, len(stages)
    if problem.graph.operators and not low <= count <= (count if high is None else high):
        most = "" if high is None else f" and at most {high}"
        yield Violation(rule="stages", message=f"there are {count} stages; at least {low}{most} are asked for")
