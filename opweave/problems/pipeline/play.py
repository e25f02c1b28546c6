"""Playing a pipeline: one input passes through the stages, and several inputs follow each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.pipeline.carried import carried
from opweave.problems.pipeline.details import Bottleneck, PipelineDetails, StageUse
from opweave.problems.pipeline.simulation import Task, in_rounds
from opweave.problems.timeline import (
    Activities,
    ActivityKind,
    Lifetimes,
    Names,
    Recorder,
    Resource,
    Timeline,
    devices_and_ports,
)

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline, Stages

SIMULATED_INPUTS = 6
"""Number of inputs whose ends are measured."""

PLAYED_INPUTS = 12
"""Number of inputs in the timeline."""

Slowest = tuple[float, Bottleneck, int | None]
"""Seconds between two results, what takes them, and in which stage."""

NOTHING: Slowest = (0.0, "nothing", None)


class Walk:
    """The stages one after the other, in the simplest way that is correct.

    Attributes
    ----------
    sent
        Tensors that every stage sends; the last one sends nothing.
    sending
        Seconds of that; None where no link can carry it.
    """

    def __init__(self, problem: Pipeline, solution: Stages) -> None:
        self._problem = problem
        self._stages = solution.stages
        self.memory = problem.memory_by_device(solution)
        self._compute = [
            float(sum(problem.known_seconds[name][stage.device] for name in stage.operators)) for stage in self._stages
        ]
        self.sent = carried(problem, self._stages)
        sizes = dict(zip(problem.graph.tensor_ids, problem.graph.arrays.tensor_bytes.tolist(), strict=True))
        self._bytes = [sum(sizes[name] for name in tensors) for tensors in self.sent]
        links = zip(self._bytes, pairwise(stage.device for stage in self._stages), strict=False)
        self.sending = [problem.transfer_seconds(size, *ends) for size, ends in links]
        self._transfers = [seconds or 0.0 for seconds in self.sending]
        self._carrying = float(sum(self._transfers))
        self._latency = float(sum(self._compute)) + self._carrying
        slowest = max(self._busy(), key=lambda each: each[0], default=NOTHING)
        self._bottleneck = slowest if slowest[0] > 0 else NOTHING

    def objective(self) -> float | None:
        """The problem's objective; None if something cannot be carried."""
        wanted = {"bottleneck": self._bottleneck[0], "latency": self._latency, "transfers": self._carrying}
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
        names = Names.of(self._problem.graph, *(f"stage {number + 1}" for number in range(len(self._stages))))
        resources = devices_and_ports(self._problem.cluster, ("send_port", "receive_port"))
        if self._problem.channel == "shared":
            resources = (*resources, Resource("channel", "channel"))
        activities = self._activities(len(names.texts) - len(self._stages))
        return Timeline("seconds", resources, names, activities, self._lifetimes(), self._bottleneck[0] or None)

    def _tasks(self) -> Iterator[Task]:
        """What happens to an input, in turn, and what that occupies."""
        for k, seconds in enumerate(self._compute):
            yield Task(k, sends=False, seconds=seconds, lines=(k,))
            link: tuple[Hashable, ...] = (k, k + 1) if self._problem.load == "sum" else (("link", k),)
            if k < len(self._transfers):
                lines = ("channel",) if self._problem.channel == "shared" else link
                yield Task(k, sends=True, seconds=self._transfers[k], lines=lines)

    def _activities(self, first_name: int) -> Activities:
        """Computing and sending of every stage, for each input; a shared channel replaces the sending ports."""
        index, count = self._problem.cluster.device_index, len(self._problem.cluster.devices)
        where = [[index[device] for device in stage.devices] for stage in self._stages]
        recorder, latest = Recorder(), dict[int, list[tuple[int, int]]]()
        for start, end, number, task in in_rounds(list(self._tasks()), self._bottleneck[0], PLAYED_INPUTS):
            teams = [team[number % len(team)] for team in where]
            after, what = latest.get(number, []), first_name + task.stage
            add = partial(recorder.activity, what=what, start=start, end=end, number=number, after=after)
            if task.sends:
                row, size = recorder.rows, self._bytes[task.stage]
                port = 3 * count if self._problem.channel == "shared" else count + teams[task.stage]
                add(ActivityKind.SEND, port, size=size, twin=row + 1)
                add(ActivityKind.RECEIVE, 2 * count + teams[task.stage + 1], size=size, twin=row)
            else:
                add(ActivityKind.RUN, teams[task.stage])
            latest[number] = [(recorder.rows - 1, -1)]
        return recorder.activities()

    def _lifetimes(self) -> Lifetimes:
        graph, devices = self._problem.graph, self._problem.cluster.device_index
        pairs = [
            (graph.operator_index[name], devices[device])
            for stage in self._stages
            for device in stage.devices
            for name in stage.operators
        ]
        operator, device = np.asarray(pairs, dtype=np.int64).reshape(len(pairs), 2).T
        return lifetimes_held(graph, operator, device, np.ones_like(operator), self._problem.memory)

    def details(self) -> PipelineDetails:
        """All details. A transfer that no link can carry takes no time here."""
        seconds, where, stage = self._bottleneck
        turns = in_rounds(list(self._tasks()), seconds, SIMULATED_INPUTS)
        return PipelineDetails(
            stages=tuple(map(self._use, range(len(self._stages)))),
            bottleneck_seconds=seconds,
            bottleneck=where,
            bottleneck_stage=stage,
            inputs_per_second=1.0 / seconds if seconds > 1e-300 else None,
            latency_seconds=self._latency,
            transfer_seconds=self._carrying,
            simulated_ends=tuple(turn.end for turn in turns if turn.task.stage == len(self._stages) - 1),
        )

    def _use(self, number: int) -> StageUse:
        stage, passing = self._stages[number], [0.0, *self._transfers, 0.0]
        return StageUse(
            device=stage.device,
            replicas=stage.replicas,
            operators=len(stage.operators),
            compute_seconds=self._compute[number],
            memory_bytes=self.memory[stage.device],
            memory_limit=self._problem.memory_limits[stage.device],
            sent_tensors=self.sent[number],
            sent_bytes=self._bytes[number],
            send_seconds=passing[number + 1],
            receive_seconds=passing[number],
        )
