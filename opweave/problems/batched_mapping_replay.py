"""The referee of batched mapping: replays batches on devices, input by input along the data, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opweave.problems.activity import Activity
from opweave.problems.batched_mapping_details import BatchedDetails
from opweave.problems.device_replay import (
    Arrival,
    Event,
    Line,
    Need,
    Route,
    Work,
    critical_path,
    early_starts,
    overfull,
    overlaps,
    ranks,
    sending,
    table_of,
    timelines,
    unknown_ends,
    wrong_times,
)
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.batched_mapping import Batch, BatchedMapping, BatchedSchedule, BatchTransfer

SHOWN_INPUTS = 8


def replay(problem: BatchedMapping, solution: BatchedSchedule) -> Evaluation[BatchedDetails]:
    """Judge everything but the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played = _Replay(problem, solution)
    return Evaluation(objective=played.makespan, violations=tuple(played.violations()), details=played.details())


def _unusable(problem: BatchedMapping, solution: BatchedSchedule) -> Iterator[Violation]:
    """Every input of every operator once, in batches whose times are known; no names that do not exist."""
    for batch in solution.batches:
        yield from _wrong_batch(problem, batch)
    pairs = Counter((batch.operator, batch.device) for batch in solution.batches)
    for (operator, device), count in pairs.items():
        if count > 1:
            message = f"{operator!r} runs {count} batches on {device!r}; the inputs on a device run as one batch"
            yield Violation(rule="batch", message=message)
    runs: dict[str, Counter[int]] = {name: Counter() for name in problem.known_seconds}
    for batch in solution.batches:
        if batch.operator in runs:
            runs[batch.operator].update(batch.inputs)
    for name, seen in runs.items():
        missing = [number for number in range(problem.batch) if number not in seen]
        twice = [number for number, count in seen.items() if count > 1]
        if missing:
            yield Violation(rule="missing", message=f"{name!r} never runs {_inputs(missing)}")
        if twice:
            yield Violation(rule="twice", message=f"{name!r} runs {_inputs(twice)} more than once")
    for sent in solution.transfers:
        yield from _wrong_names(problem, sent)


def _wrong_batch(problem: BatchedMapping, batch: Batch) -> Iterator[Violation]:
    costs = problem.known_seconds.get(batch.operator)
    if costs is None:
        yield Violation(rule="unknown", message=f"{batch.operator!r} is not an operator of the graph")
        return
    what = f"a batch of {batch.operator!r}"
    wrong = [number for number in batch.inputs if number >= problem.batch]
    if wrong:
        yield Violation(rule="unknown", message=f"{what} has {_inputs(wrong)}; the inputs are 0 to {problem.batch - 1}")
    if batch.device not in problem.cluster.device_index:
        yield Violation(rule="unknown", message=f"{what} runs on {batch.device!r}, which the cluster does not have")
    elif batch.device not in costs:
        message = f"{batch.operator!r} cannot run on {batch.device!r}: its time there is not known"
        yield Violation(rule="device", message=message)
    elif len(batch.inputs) not in costs[batch.device]:
        sizes = ", ".join(map(str, costs[batch.device]))
        message = f"{what} on {batch.device!r} has {len(batch.inputs)} inputs; the sizes that can run there are {sizes}"
        yield Violation(rule="size", message=message)


def _wrong_names(problem: BatchedMapping, sent: BatchTransfer) -> Iterator[Violation]:
    if sent.tensor not in problem.graph.tensor_index:
        yield Violation(rule="unknown", message=f"a transfer sends {sent.tensor!r}, which the graph does not have")
    if sent.consumer not in problem.graph.operator_index:
        message = f"{sent.tensor!r} is sent for {sent.consumer!r}, which is no operator"
        yield Violation(rule="unknown", message=message)
    yield from unknown_ends(problem.cluster, sent.tensor, sent.source, sent.target)


@dataclass(frozen=True, slots=True)
class _Need(Need):
    """With the batch that reads, and the inputs that both batches have."""

    reader: Work
    inputs: frozenset[int]


class _Replay:
    """Runs every batch and transfer at the times of the schedule, and looks whether they could."""

    def __init__(self, problem: BatchedMapping, solution: BatchedSchedule) -> None:
        self._problem, self._solution = problem, solution
        self._rank = ranks(problem.graph)
        self._inputs = {Work(batch.operator, batch.device): frozenset(batch.inputs) for batch in solution.batches}
        self._runs: dict[Work, Event] = {}
        for batch in solution.batches:
            run = Work(batch.operator, batch.device)
            lasts = problem.known_seconds[batch.operator][batch.device][len(batch.inputs)]
            self._runs[run] = Activity(run, self._rank[batch.operator], batch.start, batch.start + lasts)
        self.makespan = max((event.end for event in self._runs.values()), default=0.0)
        self._tolerance = TIME_TOLERANCE * self.makespan
        self._kept: list[tuple[Work, Work, str]] = []
        self._needs: dict[Route, _Need] = {}
        self._trace_data()
        self._sent: dict[Route, list[tuple[Event, frozenset[int]]]] = {}
        for sent in solution.transfers:
            route = Route(sent.tensor, sent.consumer, sent.source, sent.target)
            event = sending(problem.graph, self._rank, route, sent.start, sent.end)
            self._sent.setdefault(route, []).append((event, frozenset(sent.inputs)))
        self._unlisted = dict(self._delays())

    def _trace_data(self) -> None:
        """Follow every input along every tensor: which batch made it, and which one reads it."""
        graph = self._problem.graph
        by_operator: dict[str, list[Work]] = {}
        for run in self._inputs:
            by_operator.setdefault(run.operator, []).append(run)
        for op in graph.operators:
            for tensor in dict.fromkeys(op.inputs):
                producer = graph.producer.get(tensor)
                for made in by_operator[producer] if producer is not None else ():
                    for reader in by_operator[op.id]:
                        shared = self._inputs[made] & self._inputs[reader]
                        if shared and made.device == reader.device:
                            self._kept.append((made, reader, tensor))
                        elif shared:
                            self._need(tensor, made, reader, shared)

    def _need(self, tensor: str, made: Work, reader: Work, inputs: frozenset[int]) -> None:
        size = self._problem.graph.tensors[self._problem.graph.tensor_index[tensor]].bytes * len(inputs)
        seconds = self._problem.transfer_seconds(tensor, len(inputs), made.device, reader.device)
        route = Route(tensor, reader.operator, made.device, reader.device)
        self._needs[route] = _Need(made, size, seconds, reader, inputs)

    def _delays(self) -> Iterator[tuple[Route, Event]]:
        """Every transfer starts the moment its tensor is there, listed or not."""
        for route, need in self._needs.items():
            if need.seconds is not None:
                made = self._runs[need.producer].end
                yield route, sending(self._problem.graph, self._rank, route, made, made + need.seconds)

    def violations(self) -> Iterator[Violation]:
        """Whatever is wrong, rule by rule."""
        for batch in self._solution.batches:
            lasts = self._runs[Work(batch.operator, batch.device)]
            off = abs(lasts.end - batch.end)
            if off > self._tolerance:
                message = (
                    f"the batch of {batch.operator!r} on {batch.device!r} takes {lasts.end - lasts.start:.6g} s, not "
                    f"{batch.end - batch.start:.6g} s"
                )
                yield Violation(rule="duration", message=message, excess=off)
        yield from self._wrong_transfers()
        yield from early_starts(self._arrivals(), self._runs, self._tolerance)
        for device, runs in self._timelines.items():
            yield from overlaps("overlap", f"device {device!r} runs", runs, self._tolerance)
        yield from overfull(self._problem.cluster, self._memory)

    def _wrong_transfers(self) -> Iterator[Violation]:
        """A link for every need; of what is listed none needless, each as long as it takes and after its producer."""
        for route, need in self._needs.items():
            if need.seconds is None:
                yield Violation(rule="no_link", message=f"no link or chain of links can carry {route}")
        for route, listed in self._sent.items():
            wanted = self._needs.get(route)
            if wanted is None:
                yield Violation(rule="transfer", message=f"nobody needs {route}")
                continue
            if len(listed) > 1:
                yield Violation(rule="transfer", message=f"the schedule sends {route} {len(listed)} times")
            for event, inputs in listed:
                if inputs != wanted.inputs:
                    message = f"{route} carries {_inputs(sorted(inputs))}, not {_inputs(sorted(wanted.inputs))}"
                    yield Violation(rule="transfer", message=message)
                made = self._runs[wanted.producer]
                yield from wrong_times(event, made, wanted.seconds, self._tolerance)

    def _arrivals(self) -> Iterator[Arrival]:
        """Batch, tensor that it reads, and what must have ended before it may start."""
        for made, reader, tensor in self._kept:
            yield Arrival(reader, tensor, [self._runs[made]])
        for route, need in self._needs.items():
            listed = [event for event, _ in self._sent.get(route, ())]
            unlisted = [self._unlisted[route]] if route in self._unlisted else []
            yield Arrival(need.reader, route.tensor, [*listed, *unlisted, self._runs[need.producer]])

    @cached_property
    def _timelines(self) -> dict[str, list[Event]]:
        return timelines(self._problem.cluster, self._runs.values())

    @cached_property
    def _memory(self) -> dict[str, int]:
        return dict(self._problem.memory_by_device(self._solution))

    def details(self) -> BatchedDetails:
        """Everything that can be measured."""
        ends: dict[str, float] = {}
        for run, event in self._runs.items():
            ends[run.operator] = max(ends.get(run.operator, 0.0), event.end)
        return BatchedDetails(
            makespan=self.makespan,
            inputs_per_second=self._problem.batch / self.makespan if self.makespan > 0 else None,
            ends=FrozenDict(ends),
            **table_of(self._problem.cluster, self._runs.values(), self._needs, self.makespan),
            memory_bytes=FrozenDict(self._memory),
            memory_limits=FrozenDict(self._problem.memory_limits),
            batch_count=len(self._runs),
            transfer_count=len(self._needs),
            critical_path=critical_path(self._runs, dict(self._travelling()), self._arrivals(), self._lines()),
        )

    def _travelling(self) -> Iterator[tuple[Event, Work | None]]:
        """All transfers, with the batches that make their tensors."""
        for route, event in self._unlisted.items():
            yield event, self._needs[route].producer
        for route, listed in self._sent.items():
            need = self._needs.get(route)
            yield from ((event, None if need is None else need.producer) for event, _ in listed)

    def _lines(self) -> Iterator[Line]:
        for runs in self._timelines.values():
            yield "device", runs


def _inputs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_INPUTS]))
    more = f", ... ({len(numbers)} in all)" if len(numbers) > SHOWN_INPUTS else ""
    return f"input {shown}" if len(numbers) == 1 else f"inputs {shown}{more}"
