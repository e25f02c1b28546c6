"""Playing a pipeline: one input passes through the stages, and several inputs follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.pipeline.carried import carried
from opweave.problems.pipeline.details import Bottleneck, PipelineDetails, StageUse
from opweave.problems.pipeline.simulation import Event, Task, in_rounds, simulate
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


class Walk:
    """The stages one after the other, in the simplest way that is correct.

    Attributes
    ----------
    sent, fetched
        As in :class:`~opweave.problems.pipeline.carried.Carried`.
    sending, fetching
        Seconds of them; None if something cannot be carried. With a common memory, both have an entry for every stage;
        otherwise nothing is fetched, and the last stage sends nothing.
    """

    def __init__(self, problem: Pipeline, solution: Stages) -> None:
        self._problem = problem
        self._stages = solution.stages
        self.memory = problem.memory_by_device(solution)
        self._compute = [
            sum(problem.known_seconds[name][stage.device] for name in stage.operators) for stage in self._stages
        ]
        self.sent, self.fetched = carried(problem, self._stages)
        sizes = problem.graph.arrays.tensor_bytes.tolist()
        self._size = dict(zip(problem.graph.tensor_ids, sizes, strict=True))
        self._bytes = [self._sum(tensors) for tensors in self.sent]
        self.sending, self.fetching = self._by_host() if problem.delivery == "host" else self._by_links()

    def _sum(self, tensors: Sequence[str]) -> int:
        return sum(self._size[name] for name in tensors)

    def _by_links(self) -> tuple[list[float | None], list[float | None]]:
        ends = [stage.device for stage in self._stages]
        pairs = zip(self._bytes, ends[:-1], ends[1:], strict=True)
        return [self._problem.transfer_seconds(*pair) for pair in pairs] if ends else [], [0.0] * len(ends)

    def _by_host(self) -> tuple[list[float | None], list[float | None]]:
        def seconds(tensors: Sequence[str], device: str) -> float | None:
            return self._problem.host_seconds(self._sum(tensors), device) if tensors else 0.0

        ends = [stage.device for stage in self._stages]
        return list(map(seconds, self.sent, ends)), list(map(seconds, self.fetched, ends))

    @cached_property
    def _transfers(self) -> list[float]:
        return [seconds or 0.0 for seconds in self.sending]

    @cached_property
    def _fetches(self) -> list[float]:
        return [seconds or 0.0 for seconds in self.fetching]

    def objective(self) -> float | None:
        """The problem's objective; None if something cannot be carried."""
        if None in self.sending or None in self.fetching:
            return None
        if not self._stages:
            return 0.0
        if self._problem.objective == "transfers":
            return self._carrying()
        if self._problem.objective == "latency":
            return self._latency()
        return self._bottleneck()[0]

    def _carrying(self) -> float:
        return float(sum(self._transfers) + sum(self._fetches))

    def _latency(self) -> float:
        return float(sum(self._compute) + sum(self._transfers) + sum(self._fetches))

    def _bottleneck(self) -> Slowest:
        found = self._summed() if self._problem.load == "sum" else self._overlapping()
        worst = max(found, key=lambda each: each[0])
        return worst if worst[0] > 0 else (0.0, "nothing", None)

    def _overlapping(self) -> list[Slowest]:
        """Every device computes, sends and receives at the same time."""
        found = self._by_device(self._compute, "compute")
        turns = [len(stage.devices) for stage in self._stages]
        if self._problem.channel == "shared":
            found.append((float(sum(self._transfers)), "channel", None))
        elif self._problem.delivery == "host":
            found += self._by_device(self._transfers, "transfer") + self._by_device(self._fetches, "fetch")
        else:
            shares = map(min, turns[:-1], turns[1:])
            found += [(t / n, "transfer", k) for k, (t, n) in enumerate(zip(self._transfers, shares, strict=True))]
        return found

    def _summed(self) -> list[Slowest]:
        """Every device does one thing at a time."""
        received = self._fetches if self._problem.delivery == "host" else [0.0, *self._transfers]
        sent = self._transfers if self._problem.delivery == "host" else [*self._transfers, 0.0]
        together = [sum(each) for each in zip(self._compute, received, sent, strict=True)]
        return self._by_device(together, "stage")

    def _by_device(self, seconds: Sequence[float], what: Bottleneck) -> list[Slowest]:
        """What devices need for an input in all of their stages, each with its first stage; replicas take turns."""
        found: dict[str, tuple[float, int]] = {}
        for number, (stage, each) in enumerate(zip(self._stages, seconds, strict=True)):
            before, first = found.get(stage.device, (0.0, number))
            found[stage.device] = (before + each / len(stage.devices), first)
        return [(float(total), what, first) for total, first in found.values()]

    def timeline(self) -> Timeline:
        """The first inputs, one after the other; afterwards everything repeats."""
        names = Names.of(self._problem.graph, *(f"stage {number + 1}" for number in range(len(self._stages))))
        period = self._bottleneck()[0] if self._stages else 0.0
        activities, lifetimes = self._activities(names), self._lifetimes()
        return Timeline("seconds", self._resources(), names, activities, lifetimes, period or None)

    def _events(self, inputs: int) -> tuple[Event, ...]:
        problem, shared = self._problem, self._problem.channel == "shared"
        usual = problem.load == "overlap" and problem.delivery == "relay"
        if usual and problem.max_visits == problem.max_replicas == 1:
            return simulate(self._compute, self._transfers, inputs, shared=shared)
        return in_rounds(self._tasks(), self._bottleneck()[0] if self._stages else 0.0, inputs)

    def _tasks(self) -> list[Task]:
        """What happens to an input, in turn, and what that occupies."""
        host, alone = self._problem.delivery == "host", self._problem.load == "sum"
        tasks = []
        for number, stage in enumerate(self._stages):
            device = stage.device
            if host:
                line = device if alone else ("in", device)
                tasks.append(Task(number, sends=False, fetches=True, seconds=self._fetches[number], lines=(line,)))
            tasks.append(Task(number, sends=False, fetches=False, seconds=self._compute[number], lines=(device,)))
            if number < len(self.sent):
                tasks.append(Task(number, True, False, self._transfers[number], self._send_lines(number)))
        return tasks

    def _send_lines(self, number: int) -> tuple[object, ...]:
        """What the transfer behind a stage occupies."""
        problem, device = self._problem, self._stages[number].device
        if problem.channel == "shared":
            return ("channel",)
        if problem.delivery == "host":
            return (device,) if problem.load == "sum" else (("out", device),)
        return (device, self._stages[number + 1].device) if problem.load == "sum" else (number,)

    def _resources(self) -> tuple[Resource, ...]:
        # every transfer has a link of its own, so a device with several stages may send several things at a time
        exclusive = self._problem.max_visits == 1 or self._problem.delivery == "host"
        ports = devices_and_ports(self._problem.cluster, ("send_port", "receive_port"), exclusive=exclusive)
        return (*ports, Resource("channel", "channel")) if self._problem.channel == "shared" else ports

    def _activities(self, names: Names) -> Activities:
        """Computing and sending of every stage, for each input; a shared channel replaces the sending ports."""
        index, count = self._problem.cluster.device_index, len(self._problem.cluster.devices)
        where = [[index[device] for device in stage.devices] for stage in self._stages]
        shared, host = self._problem.channel == "shared", self._problem.delivery == "host"
        recorder, latest = Recorder(), dict[int, list[tuple[int, int]]]()
        for event in self._events(PLAYED_INPUTS):
            after, rows = latest.get(event.input, []), recorder.rows
            k = where[event.stage][event.input % len(where[event.stage])]
            add = partial(
                recorder.activity,
                what=len(names.texts) - len(self._stages) + event.stage,
                start=event.start,
                end=event.end,
                number=event.input,
                after=after,
            )
            if event.fetches:
                add(ActivityKind.RECEIVE, 2 * count + k, size=self._sum(self.fetched[event.stage]))
            elif event.sends and host:
                add(ActivityKind.SEND, count + k, size=self._bytes[event.stage])
            elif event.sends:
                size, target = self._bytes[event.stage], where[event.stage + 1]
                add(ActivityKind.SEND, 3 * count if shared else count + k, size=size, twin=rows + 1)
                onto = target[event.input % len(target)]
                add(ActivityKind.RECEIVE, 2 * count + onto, size=size, twin=rows)
            else:
                add(ActivityKind.RUN, k)
            latest[event.input] = [(recorder.rows - 1, -1)]
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
        seconds, where, stage = self._bottleneck() if self._stages else (0.0, "nothing", None)
        last = len(self._stages) - 1
        ends = {event.input: event.end for event in self._events(SIMULATED_INPUTS) if event.stage == last}
        return PipelineDetails(
            stages=tuple(self._use(number) for number in range(len(self._stages))),
            bottleneck_seconds=seconds,
            bottleneck=where,
            bottleneck_stage=stage,
            inputs_per_second=1.0 / seconds if seconds > 1e-300 else None,
            latency_seconds=self._latency(),
            transfer_seconds=self._carrying(),
            simulated_ends=tuple(ends.values()),
        )

    def _use(self, number: int) -> StageUse:
        stage = self._stages[number]
        sends, host = number < len(self.sent), self._problem.delivery == "host"
        received = self._fetches[number] if host else [0.0, *self._transfers][number]
        return StageUse(
            device=stage.device,
            replicas=stage.replicas,
            operators=len(stage.operators),
            compute_seconds=float(self._compute[number]),
            memory_bytes=self.memory[stage.device],
            memory_limit=self._problem.memory_limits[stage.device],
            sent_tensors=self.sent[number] if sends else (),
            sent_bytes=self._bytes[number] if sends else 0,
            send_seconds=self._transfers[number] if sends else 0.0,
            receive_seconds=received,
        )
