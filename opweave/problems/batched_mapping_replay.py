"""The referee of batched mapping: replays batches on devices, input by input along the data, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from opweave.problems.activity import Activity, clashes, in_time
from opweave.problems.batched_mapping_details import BatchedDetails
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement_details import CriticalStep, Wait
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
    for device in dict.fromkeys((sent.source, sent.target)):
        if device not in problem.cluster.device_index:
            message = f"a transfer of {sent.tensor!r} names device {device!r}, which the cluster does not have"
            yield Violation(rule="unknown", message=message)


class _Run(NamedTuple):
    """A batch of an operator on a device."""

    operator: str
    device: str

    def __str__(self) -> str:
        return f"{self.operator!r} on {self.device!r}"


class _Route(NamedTuple):
    """What tells one transfer from another."""

    tensor: str
    consumer: str
    source: str
    target: str

    def __str__(self) -> str:
        return f"tensor {self.tensor!r} from {self.source!r} to {self.target!r} for {self.consumer!r}"


_Activity = Activity[_Run | _Route]


@dataclass(frozen=True, slots=True)
class _Need:
    """A transfer that the chosen batches make necessary; ``seconds`` is None where no link leads."""

    producer: _Run
    reader: _Run
    inputs: frozenset[int]
    bytes: int
    seconds: float | None


class _Replay:
    """Runs every batch and transfer at the times of the schedule, and looks whether they could."""

    def __init__(self, problem: BatchedMapping, solution: BatchedSchedule) -> None:
        self._problem, self._solution = problem, solution
        order = topological_order(problem.graph.arrays.successors).tolist()
        rank = {problem.graph.operators[index].id: 2 * place for place, index in enumerate(order)}
        self._rank = rank
        self._inputs = {_Run(batch.operator, batch.device): frozenset(batch.inputs) for batch in solution.batches}
        self._runs: dict[_Run, _Activity] = {}
        for batch in solution.batches:
            run = _Run(batch.operator, batch.device)
            lasts = problem.known_seconds[batch.operator][batch.device][len(batch.inputs)]
            self._runs[run] = Activity(run, rank[batch.operator], batch.start, batch.start + lasts)
        self.makespan = max((activity.end for activity in self._runs.values()), default=0.0)
        self._tolerance = TIME_TOLERANCE * self.makespan
        self._kept: list[tuple[_Run, _Run, str]] = []
        self._needs: dict[_Route, _Need] = {}
        self._trace_data()
        self._sent: dict[_Route, list[tuple[_Activity, frozenset[int]]]] = {}
        for sent in solution.transfers:
            route = _Route(sent.tensor, sent.consumer, sent.source, sent.target)
            activity: _Activity = Activity(route, rank[sent.consumer] - 1, sent.start, sent.end)
            self._sent.setdefault(route, []).append((activity, frozenset(sent.inputs)))
        self._unlisted = dict(self._delays())

    def _trace_data(self) -> None:
        """Follow every input along every tensor: which batch made it, and which one reads it."""
        graph = self._problem.graph
        by_operator: dict[str, list[_Run]] = {}
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

    def _need(self, tensor: str, made: _Run, reader: _Run, inputs: frozenset[int]) -> None:
        size = self._problem.graph.tensors[self._problem.graph.tensor_index[tensor]].bytes * len(inputs)
        seconds = self._problem.transfer_seconds(tensor, len(inputs), made.device, reader.device)
        route = _Route(tensor, reader.operator, made.device, reader.device)
        self._needs[route] = _Need(made, reader, inputs, size, seconds)

    def _delays(self) -> Iterator[tuple[_Route, _Activity]]:
        """Every transfer starts the moment its tensor is there, listed or not."""
        for route, need in self._needs.items():
            if need.seconds is not None:
                made = self._runs[need.producer].end
                yield route, Activity(route, self._rank[route.consumer] - 1, made, made + need.seconds)

    def violations(self) -> Iterator[Violation]:
        """Whatever is wrong, rule by rule."""
        for batch in self._solution.batches:
            lasts = self._runs[_Run(batch.operator, batch.device)]
            off = abs(lasts.end - batch.end)
            if off > self._tolerance:
                message = (
                    f"the batch of {batch.operator!r} on {batch.device!r} takes {lasts.end - lasts.start:.6g} s, not "
                    f"{batch.end - batch.start:.6g} s"
                )
                yield Violation(rule="duration", message=message, excess=off)
        yield from self._wrong_transfers()
        yield from self._early_starts()
        for device, runs in self._timelines.items():
            for first, second, shared in clashes(runs, self._tolerance):
                message = f"device {device!r} runs {_name(first)} and {_name(second)} at the same time"
                yield Violation(rule="overlap", message=message, excess=shared)
        yield from self._overfull()

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
            for activity, inputs in listed:
                if inputs != wanted.inputs:
                    message = f"{route} carries {_inputs(sorted(inputs))}, not {_inputs(sorted(wanted.inputs))}"
                    yield Violation(rule="transfer", message=message)
                yield from self._wrong_times(activity, wanted)

    def _wrong_times(self, activity: _Activity, need: _Need) -> Iterator[Violation]:
        early = self._runs[need.producer].end - activity.start
        if early > self._tolerance:
            message = f"{activity} starts {early:.6g} s before {need.producer} has made it"
            yield Violation(rule="precedence", message=message, excess=early)
        lasts = activity.end - activity.start
        if need.seconds is not None and abs(lasts - need.seconds) > self._tolerance:
            message = f"{activity} takes {need.seconds:.6g} s, not {lasts:.6g} s"
            yield Violation(rule="transfer", message=message, excess=abs(lasts - need.seconds))

    def _early_starts(self) -> Iterator[Violation]:
        """No batch before the data of its own inputs is on its device."""
        for reader, tensor, sources in self._arrivals():
            arrived = max(source.end for source in sources)
            early = arrived - self._runs[reader].start
            if early > self._tolerance:
                message = (
                    f"{reader} starts at {self._runs[reader].start:.6g} s, but its input {tensor!r} is there only from "
                    f"{arrived:.6g} s"
                )
                yield Violation(rule="precedence", message=message, excess=early)

    def _arrivals(self) -> Iterator[tuple[_Run, str, list[_Activity]]]:
        """Batch, tensor that it reads, and what must have ended before it may start."""
        for made, reader, tensor in self._kept:
            yield reader, tensor, [self._runs[made]]
        for route, need in self._needs.items():
            listed = [activity for activity, _ in self._sent.get(route, ())]
            unlisted = [self._unlisted[route]] if route in self._unlisted else []
            yield need.reader, route.tensor, [*listed, *unlisted, self._runs[need.producer]]

    @cached_property
    def _timelines(self) -> dict[str, list[_Activity]]:
        runs: dict[str, list[_Activity]] = {device.name: [] for device in self._problem.cluster.devices}
        for run, activity in self._runs.items():
            runs[run.device].append(activity)
        return {device: in_time(activities) for device, activities in runs.items()}

    @cached_property
    def _memory(self) -> dict[str, int]:
        return dict(self._problem.memory_by_device(self._solution))

    def _overfull(self) -> Iterator[Violation]:
        for device in self._problem.cluster.devices:
            held, limit = self._memory[device.name], device.memory_bytes
            if limit is not None and held > limit:
                message = f"device {device.name!r} holds {held:,} bytes: {held - limit:,} over its memory of {limit:,}"
                yield Violation(rule="memory", message=message, excess=float(held - limit))

    def details(self) -> BatchedDetails:
        """Everything that can be measured."""
        devices = [device.name for device in self._problem.cluster.devices]
        busy, send, receive = (dict.fromkeys(devices, 0.0) for _ in range(3))
        bytes_in, bytes_out = dict.fromkeys(devices, 0), dict.fromkeys(devices, 0)
        ends: dict[str, float] = {}
        for run, activity in self._runs.items():
            busy[run.device] += activity.end - activity.start
            ends[run.operator] = max(ends.get(run.operator, 0.0), activity.end)
        for route, need in self._needs.items():
            send[route.source] += need.seconds or 0.0
            receive[route.target] += need.seconds or 0.0
            bytes_out[route.source] += need.bytes
            bytes_in[route.target] += need.bytes
        return BatchedDetails(
            makespan=self.makespan,
            inputs_per_second=self._problem.batch / self.makespan if self.makespan > 0 else None,
            ends=FrozenDict(ends),
            busy_seconds=FrozenDict(busy),
            idle_seconds=FrozenDict({name: max(0.0, self.makespan - seconds) for name, seconds in busy.items()}),
            send_seconds=FrozenDict(send),
            receive_seconds=FrozenDict(receive),
            bytes_in=FrozenDict(bytes_in),
            bytes_out=FrozenDict(bytes_out),
            memory_bytes=FrozenDict(self._memory),
            memory_limits=FrozenDict(self._problem.memory_limits),
            batch_count=len(self._runs),
            transfer_count=len(self._needs),
            critical_path=self._critical_path(),
        )

    def _critical_path(self) -> tuple[CriticalStep, ...]:
        """Walk back from the last end, always to what ended last of all that had to end before."""
        before = self._blockers()
        current: _Activity | None = max(self._runs.values(), key=lambda activity: activity.end, default=None)
        path: list[CriticalStep] = []
        seen: set[_Activity] = set()  # in a schedule that breaks the rules it could lead in a circle
        while current is not None:
            seen.add(current)
            open_ = [(wait, other) for wait, other in before.get(current, ()) if other not in seen]
            if not open_:
                path.append(_step(current, "nothing"))
                break
            wait, previous = max(open_, key=lambda pair: pair[1].end)
            path.append(_step(current, wait))
            current = previous
        return tuple(reversed(path))

    def _blockers(self) -> dict[_Activity, list[tuple[Wait, _Activity]]]:
        """What had to end before each activity, its data first."""
        before: dict[_Activity, list[tuple[Wait, _Activity]]] = {}
        for reader, _, sources in self._arrivals():
            before.setdefault(self._runs[reader], []).extend(("data", source) for source in sources)
        travelling = [*self._unlisted.values(), *(one for listed in self._sent.values() for one, _ in listed)]
        for activity in travelling:
            assert isinstance(activity.what, _Route)
            need = self._needs.get(activity.what)
            before[activity] = [] if need is None else [("data", self._runs[need.producer])]
        for line in self._timelines.values():
            for earlier, later in pairwise(line):
                before.setdefault(later, []).append(("device", earlier))
        return before


def _step(activity: _Activity, wait: Wait) -> CriticalStep:
    what, start, end = activity.what, activity.start, activity.end
    if isinstance(what, _Run):
        return CriticalStep(
            operator=what.operator, source=what.device, target=what.device, start=start, end=end, waited_for=wait
        )
    return CriticalStep(
        tensor=what.tensor,
        consumer=what.consumer,
        source=what.source,
        target=what.target,
        start=start,
        end=end,
        waited_for=wait,
    )


def _name(activity: _Activity) -> str:
    return repr(activity.what.operator) if isinstance(activity.what, _Run) else str(activity)


def _inputs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_INPUTS]))
    more = f", ... ({len(numbers)} in all)" if len(numbers) > SHOWN_INPUTS else ""
    return f"input {shown}" if len(numbers) == 1 else f"inputs {shown}{more}"
