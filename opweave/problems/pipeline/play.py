"""Playing a pipeline: one input passes through the stages, and several inputs follow each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.pipeline.details import Bottleneck, PipelineDetails, StageUse
from opweave.problems.pipeline.simulation import simulate
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


class Walk:
    """The stages one after the other, in the simplest way that is correct."""

    def __init__(self, problem: Pipeline, solution: Stages) -> None:
        self._problem = problem
        self._stages = solution.stages
        self.memory = problem.memory_by_device(solution)
        self._compute = [
            sum(problem.known_seconds[name][stage.device] for name in stage.operators) for stage in self._stages
        ]
        self.sent = self._crossing()
        size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
        self._bytes = [sum(size[name] for name in tensors) for tensors in self.sent]
        self.seconds = [
            problem.transfer_seconds(sent, self._stages[number].device, self._stages[number + 1].device)
            for number, sent in enumerate(self._bytes)
        ]

    def _crossing(self) -> list[tuple[str, ...]]:
        """Tensors that cross each cut: they exist before it, and a stage after it reads them."""
        graph = self._problem.graph
        last: dict[str, int] = {}
        first = dict.fromkeys(graph.inputs, 0) if self._problem.inputs == "first" else {}
        for number, stage in enumerate(self._stages):
            for name in stage.operators:
                op = graph.operators[graph.operator_index[name]]
                first |= dict.fromkeys(op.outputs, number)
                last |= dict.fromkeys(op.inputs, number)
        crossing: list[list[str]] = [[] for _ in self._stages[1:]]
        for name, made in first.items():
            for cut in range(made, last.get(name, made)):
                crossing[cut].append(name)
        return [tuple(names) for names in crossing]

    @property
    def _transfers(self) -> list[float]:
        return [seconds or 0.0 for seconds in self.seconds]

    def objective(self) -> float | None:
        """The problem's objective; None if something cannot be sent."""
        if None in self.seconds:
            return None
        if not self._stages:
            return 0.0
        if self._problem.objective == "transfers":
            return float(sum(self._transfers))
        if self._problem.objective == "latency":
            return float(sum(self._compute) + sum(self._transfers))
        return self._bottleneck()[0]

    def _bottleneck(self) -> tuple[float, Bottleneck, int | None]:
        found: list[tuple[float, Bottleneck, int | None]] = [
            (float(seconds), "compute", number) for number, seconds in enumerate(self._compute)
        ]
        if self._problem.channel == "shared":
            found.append((float(sum(self._transfers)), "channel", None))
        else:
            found += [(seconds, "transfer", number) for number, seconds in enumerate(self._transfers)]
        worst = max(found, key=lambda each: each[0])
        return worst if worst[0] > 0 else (0.0, "nothing", None)

    def timeline(self) -> Timeline:
        """The first inputs, one after the other; afterwards everything repeats."""
        names = Names.of(self._problem.graph, *(f"stage {number + 1}" for number in range(len(self._stages))))
        period = self._bottleneck()[0] if self._stages else 0.0
        activities, lifetimes = self._activities(names), self._lifetimes()
        return Timeline("seconds", self._resources(), names, activities, lifetimes, period or None)

    def _resources(self) -> tuple[Resource, ...]:
        ports = devices_and_ports(self._problem.cluster, ("send_port", "receive_port"))
        return (*ports, Resource("channel", "channel")) if self._problem.channel == "shared" else ports

    def _activities(self, names: Names) -> Activities:
        """Computing and sending of every stage, for each input; a shared channel replaces the sending ports."""
        index, count = self._problem.cluster.device_index, len(self._problem.cluster.devices)
        where, shared = [index[stage.device] for stage in self._stages], self._problem.channel == "shared"
        recorder, latest = Recorder(), dict[int, list[tuple[int, int]]]()
        for event in simulate(self._compute, self._transfers, PLAYED_INPUTS, shared=shared):
            after, rows = latest.get(event.input, []), recorder.rows
            add = partial(
                recorder.activity,
                what=len(names.texts) - len(self._stages) + event.stage,
                start=event.start,
                end=event.end,
                number=event.input,
                after=after,
            )
            if event.sends:
                size, k = self._bytes[event.stage], where[event.stage]
                add(ActivityKind.SEND, 3 * count if shared else count + k, size=size, twin=rows + 1)
                add(ActivityKind.RECEIVE, 2 * count + where[event.stage + 1], size=size, twin=rows)
            else:
                add(ActivityKind.RUN, where[event.stage])
            latest[event.input] = [(recorder.rows - 1, -1)]
        return recorder.activities()

    def _lifetimes(self) -> Lifetimes:
        graph, devices = self._problem.graph, self._problem.cluster.device_index
        pairs = [(graph.operator_index[name], devices[one.device]) for one in self._stages for name in one.operators]
        operator, device = np.asarray(pairs, dtype=np.int64).reshape(len(pairs), 2).T
        return lifetimes_held(graph, operator, device, np.ones_like(operator), self._problem.memory)

    def details(self) -> PipelineDetails:
        """All details. A transfer that no link can carry takes no time here."""
        seconds, where, stage = self._bottleneck() if self._stages else (0.0, "nothing", None)
        shared = self._problem.channel == "shared"
        events = simulate(self._compute, self._transfers, SIMULATED_INPUTS, shared=shared)
        ends = {event.input: event.end for event in events if event.stage == len(self._stages) - 1}
        return PipelineDetails(
            stages=tuple(self._use(number) for number in range(len(self._stages))),
            bottleneck_seconds=seconds,
            bottleneck=where,
            bottleneck_stage=stage,
            inputs_per_second=1.0 / seconds if seconds > 1e-300 else None,
            latency_seconds=float(sum(self._compute) + sum(self._transfers)),
            transfer_seconds=float(sum(self._transfers)),
            simulated_ends=tuple(ends.values()),
        )

    def _use(self, number: int) -> StageUse:
        stage = self._stages[number]
        sends = number < len(self.sent)
        return StageUse(
            device=stage.device,
            operators=len(stage.operators),
            compute_seconds=float(self._compute[number]),
            memory_bytes=self.memory[stage.device],
            memory_limit=self._problem.memory_limits[stage.device],
            sent_tensors=self.sent[number] if sends else (),
            sent_bytes=self._bytes[number] if sends else 0,
            send_seconds=self._transfers[number] if sends else 0.0,
        )
