"""The referee of pipelines: one input passes through the stages, and several inputs follow each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from opweave.problems.on_cluster import held
from opweave.problems.pipeline.order import Crossings
from opweave.problems.rules import over_memory
from opweave.problems.solution import Details, Violation, broken
from opweave.problems.spec import Duration, Many, Name, preset
from opweave.problems.timeline import Activities, ActivityKind, Names, Recorder, Resource, Timeline, devices_and_ports

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline, Stage, Stages

Bottleneck = Literal["compute", "transfer", "stage", "channel", "nothing"]


class StageUse(Details):
    """One stage.

    Attributes
    ----------
    device
        Name of the device.
    replicas
        Names of the devices that take turns with it.
    operators
        Number of operators that the stage runs.
    compute_seconds
        Seconds for one input; 0 if the problem ignores computing.
    memory_bytes, memory_limit
        Bytes that the device holds, and the most that it may hold (side constraints included; None for no limit).
    sent_tensors, sent_bytes, send_seconds
        Number and bytes (before compression) of the tensors sent to the next stage, and the seconds that this takes; 0
        for the last stage.
    receive_seconds
        Seconds until everything that the stage reads has come in.
    """

    device: Name
    replicas: Many[Name] = preset(())
    operators: int
    compute_seconds: Duration
    memory_bytes: int
    memory_limit: int | None
    sent_tensors: Many[Name] = preset(())
    sent_bytes: int = 0
    send_seconds: Duration = 0.0


class PipelineDetails(Details):
    """How a pipeline performs.

    Attributes
    ----------
    stages
        In pipeline order.
    bottleneck_seconds
        Seconds between two results when inputs follow each other without a pause.
    bottleneck, bottleneck_stage
        The activity that takes that long: a stage's ``"compute"``, a ``"transfer"`` out of a stage, all that a
        ``"stage"`` does (``load="sum"``), or the shared ``"channel"`` (without a stage); ``"nothing"`` when it takes 0
        seconds.
    inputs_per_second
        1 / bottleneck; None when the bottleneck is 0.
    latency_seconds
        Seconds from the first input's start to its result, when it is alone in the pipeline.
    transfer_seconds
        Sum of all transfers of one input.
    """

    stages: Many[StageUse]
    bottleneck_seconds: Duration
    bottleneck: Bottleneck
    bottleneck_stage: int | None
    inputs_per_second: float | None
    latency_seconds: Duration
    transfer_seconds: Duration


HAIR = 1e-9
"""What misses its turn by at most this share of a period still gets it (rounding)."""


PLAYED_INPUTS = 12
"""Number of inputs in the timeline."""

Slowest = tuple[float, Bottleneck, int | None]
"""Seconds between two results, what takes them, and in which stage."""


class PlayedStages:
    """The stages one after the other, in the simplest way that is correct.

    Attributes
    ----------
    sent
        What every stage sends; the last one sends nothing.
    sending
        Seconds of that; None where no link can carry it.
    """

    def __init__(self, problem: Pipeline, solution: Stages) -> None:
        self._problem, self._solution, self._stages = problem, solution, solution.stages
        seconds = problem.known_seconds
        self._compute = [float(sum(seconds[op][each.device] for op in each.operators)) for each in self._stages]
        order = [name for stage in self._stages for name in stage.operators]
        places = accumulate(len(stage.operators) for stage in self._stages)
        self.sent = Crossings.of(problem.graph, order, problem.inputs).points(places)
        self.memory = problem.memory_by_device(solution)
        links = zip(self.sent, pairwise(stage.device for stage in self._stages), strict=False)
        self.sending = [problem.transfer_seconds(cut.bytes, *ends) for cut, ends in links]
        self._transfers = [seconds or 0.0 for seconds in self.sending]
        self._carrying = float(sum(self._transfers))
        self._latency = float(sum(self._compute)) + self._carrying
        slowest = max(self._busy(), key=lambda each: each[0], default=(0.0, "nothing", None))
        self._bottleneck: Slowest = slowest if slowest[0] > 0 else (0.0, "nothing", None)

    @property
    def objective(self) -> float | None:
        """The problem's objective; None if something cannot be carried."""
        wanted = {"bottleneck": self._bottleneck[0], "latency": self._latency, "transfers": self._carrying}
        wanted["memory"] = max(self.memory.values())
        return None if None in self.sending else wanted[self._problem.objective]

    def _busy(self) -> Iterator[Slowest]:
        """For how long stages, links and the channel are busy with an input; replicas take turns."""
        turns = [len(stage.devices) for stage in self._stages]
        if self._problem.load == "sum":
            loads = map(sum, zip(self._compute, [0.0, *self._transfers], [*self._transfers, 0.0], strict=False))
            yield from ((load / n, "stage", k) for k, (load, n) in enumerate(zip(loads, turns, strict=True)))
            return
        yield from ((own / n, "compute", k) for k, (own, n) in enumerate(zip(self._compute, turns, strict=True)))
        if self._problem.channel == "shared":
            yield self._carrying, "channel", None
        else:
            shared = zip(self._transfers, pairwise(turns), strict=True)
            yield from ((seconds / min(ends), "transfer", k) for k, (seconds, ends) in enumerate(shared))

    def timeline(self) -> Timeline:
        """The first inputs, one after the other; afterwards everything repeats."""
        problem, graph = self._problem, self._problem.graph
        names = Names.of(graph, *(f"stage {number + 1}" for number in range(len(self._stages))))
        resources = devices_and_ports(problem.cluster, ("send_port", "receive_port"))
        if problem.channel == "shared":
            resources = (*resources, Resource("channel", "channel"))
        lives = held(graph, *problem.runs(self._solution), problem.memory).lifetimes()
        activities = self._activities(len(names.texts) - len(self._stages))
        return Timeline("seconds", resources, names, activities, lives, self._bottleneck[0] or None)

    def _tasks(self) -> Iterator[tuple[int, bool, float, tuple[Hashable, ...]]]:
        """What happens to an input: the stage, whether that sends, for how long, and what is occupied meanwhile."""
        for k, seconds in enumerate(self._compute):
            yield k, False, seconds, (k,)
            link: tuple[Hashable, ...] = (k, k + 1) if self._problem.load == "sum" else (("link", k),)
            if k < len(self._transfers):
                yield k, True, self._transfers[k], ("channel",) if self._problem.channel == "shared" else link

    def _turns(self) -> list[tuple[float, float, int, int, bool]]:
        """Start, end, number of the input, stage, and whether that sends: an input enters in every period.

        All inputs do the same at the same time of their rounds. What occupies the same as something earlier of its
        input follows that one in the round, so what is busy for no longer than a period is never wanted twice.
        """
        period, ready, busy = self._bottleneck[0], 0.0, dict[Hashable, float]()
        turns = []
        for stage, sends, seconds, lines in self._tasks():
            start = ready
            for free in (busy[line] for line in lines if line in busy):
                rounds = math.ceil((start - free) / period - HAIR) if period > 0.0 else 0
                start = max(start, free + period * rounds)
            ready = start + seconds
            busy |= dict.fromkeys(lines, ready)
            turns += [(start + n * period, ready + n * period, n, stage, sends) for n in range(PLAYED_INPUTS)]
        return sorted(turns)

    def _activities(self, first_name: int) -> Activities:
        index, count = self._problem.cluster.device_index, len(self._problem.cluster.devices)
        where = [[index[device] for device in stage.devices] for stage in self._stages]
        recorder, latest = Recorder(), dict[int, list[tuple[int, int]]]()
        for start, end, number, stage, sends in self._turns():
            teams = [team[number % len(team)] for team in where]
            after, what = latest.get(number, []), first_name + stage
            if sends:
                port = 3 * count if self._problem.channel == "shared" else count + teams[stage]
                ports, size = (port, 2 * count + teams[stage + 1]), self.sent[stage].bytes
                row = recorder.transfer(ports, what, start, end, size=size, number=number, after=after)
            else:
                row = recorder.activity(ActivityKind.RUN, teams[stage], what, start, end, number=number, after=after)
            latest[number] = [(row, -1)]
        return recorder.activities()

    def violations(self) -> Iterator[Violation]:
        """Cuts, devices, links and memory that are not allowed."""
        problem, stages = self._problem, self._stages
        yield from _wrong_cuts(problem, stages)
        yield from _wrong_devices(problem, stages)
        for number, seconds in enumerate(self.sending):
            if seconds is None:
                tensors, source, target = self.sent[number].tensors, stages[number].device, stages[number + 1].device
                what = f"tensor {tensors[0]!r}" if tensors else f"the end of stage {number + 1}"
                yield broken("no_link", f"no link or chain of links can carry {what} from {source!r} to {target!r}")
        for device in problem.cluster.devices:
            yield from over_memory(device.name, self.memory[device.name], device.memory_bytes)

    def details(self) -> PipelineDetails:
        """All details. A transfer that no link can carry takes no time here."""
        seconds, where, stage = self._bottleneck
        return PipelineDetails(
            stages=tuple(map(self._use, range(len(self._stages)))),
            bottleneck_seconds=seconds,
            bottleneck=where,
            bottleneck_stage=stage,
            inputs_per_second=1.0 / seconds if seconds > 1e-300 else None,
            latency_seconds=self._latency,
            transfer_seconds=self._carrying,
        )

    def _use(self, number: int) -> StageUse:
        stage, passing = self._stages[number], [*self._transfers, 0.0]
        return StageUse(
            device=stage.device,
            replicas=stage.replicas,
            operators=len(stage.operators),
            compute_seconds=self._compute[number],
            memory_bytes=self.memory[stage.device],
            memory_limit=self._problem.memory_limits[stage.device],
            sent_tensors=self.sent[number].tensors,
            sent_bytes=self.sent[number].bytes,
            send_seconds=passing[number],
        )


def unusable(problem: Pipeline, solution: Stages) -> Iterator[Violation]:
    """Check that every operator is in one stage, on a device that can run it, and that all names exist.

    No operator may read a tensor of a later stage.
    """
    graph, index, known = problem.graph, problem.graph.operator_index, problem.cluster.device_index
    counts, stage_of = Counter[str](), np.full(len(index), -1)
    for number, stage in enumerate(solution.stages):
        for device in stage.devices:
            if device not in known:
                yield broken("unknown", f"stage {number + 1} runs on {device!r}, which the cluster does not have")
        if not stage.operators:
            yield broken("missing", f"stage {number + 1} on {stage.device!r} runs no operator")
        counts.update(stage.operators)
        for name in stage.operators:
            if name not in index:
                yield broken("unknown", f"{name!r} is not an operator of the graph")
                continue
            stage_of[index[name]] = number
            if stage.device in known and stage.device not in problem.known_seconds[name]:
                yield broken("device", f"{name!r} cannot run on {stage.device!r}: its time there is not known")
    for name in index:
        if counts[name] != 1:
            where = "in no stage" if not counts[name] else f"listed {counts[name]} times"
            yield broken("repeated" if counts[name] else "missing", f"{name!r} is {where}")
    reads = graph.arrays.reads
    producer = graph.arrays.producer[reads.items]
    made, read = np.where(producer >= 0, stage_of[producer] if len(index) else -1, -1), stage_of[reads.heads()]
    for entry in np.flatnonzero((made > read) & (read >= 0)).tolist():
        name, tensor = graph.operator_ids[reads.heads()[entry]], graph.tensor_ids[reads.items[entry]]
        message = f"{name!r} in stage {read[entry] + 1} reads {tensor!r} of the later stage {made[entry] + 1}"
        yield broken("precedence", message)


def _wrong_cuts(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that every stage is a contiguous part of the order, and that cuts lie where they are allowed."""
    order, allowed = problem.running_order, set(problem.cut_positions)
    begin = 0
    for number, stage in enumerate(stages):
        end = begin + len(stage.operators)
        strangers = set(stage.operators) - set(order[begin:end])
        if strangers:
            yield broken("order", f"stage {number + 1} runs {min(strangers)!r} out of its turn in the order")
        elif begin > 0 and begin not in allowed:
            message = (
                f"the model may not be cut between {order[begin - 1]!r} and {order[begin]!r} (cuts are {problem.cuts})"
            )
            yield broken("cut", message)
        begin = end


def _wrong_devices(problem: Pipeline, stages: Sequence[Stage]) -> Iterator[Violation]:
    """Check that devices have one stage each, and that there are enough stages."""
    names = [device for stage in stages for device in stage.devices]
    for name, count in Counter(names).items():
        if count > 1:
            yield broken("device", f"device {name!r} has {count} stages; a device may have at most one")
    low, high, count = problem.min_stages, problem.max_stages, len(stages)
    if problem.graph.operators and not low <= count <= (count if high is None else high):
        most = "" if high is None else f" and at most {high}"
        yield broken("stages", f"there are {count} stages; at least {low}{most} are required")
    for number, stage in enumerate(stages, 1):
        count = len(stage.devices)
        if stage.replicas and count > problem.max_replicas:
            yield broken("replicas", f"stage {number} has {count} devices; at most {problem.max_replicas} are allowed")
        for device in stage.replicas:
            if not problem.interchangeable(stage.device, device):
                message = f"{device!r} cannot take turns with {stage.device!r} in stage {number}: they differ"
                yield broken("replicas", message)
