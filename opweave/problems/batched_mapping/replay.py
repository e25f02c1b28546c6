"""The referee of batched mapping: replays batches on devices, input by input along the data, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.details import BatchedDetails
from opweave.problems.critical_path import critical_path
from opweave.problems.device_play import (
    Needs,
    Reads,
    Runs,
    Sent,
    codes,
    device_table,
    device_timeline,
    needless,
    overfull,
    positions_in,
    route,
    together,
    transfer_times,
    unknown_ends,
    unlisted,
    without_link,
)
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule, BatchTransfer

SHOWN_INPUTS = 8


def replay(problem: BatchedMapping, solution: BatchedSchedule) -> Evaluation[BatchedDetails]:
    """Judge everything but the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played, held = play(problem, solution), problem.memory_by_device(solution)
    broken, details = tuple(_violations(problem, solution, played, held)), _details(problem, played, held)
    judged = Evaluation(objective=played.timeline.end, violations=broken, details=details)
    return judged.with_timeline(played.timeline)


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


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and what it made necessary; ``listed`` transfers come first in ``sent``.

    ``passed`` has the inputs of every need.
    """

    timeline: Timeline
    runs: Runs
    needs: Needs
    passed: list[frozenset[int]]
    sent: Sent
    listed: int


def play(problem: BatchedMapping, solution: BatchedSchedule) -> Played:
    """Run every batch and transfer at the times of the schedule; what is not listed starts when its tensor is there."""
    runs = _runs(problem, solution)
    needs, reads, passed = _needs(problem, solution)
    listed = _listed(problem, solution, needs)
    met = np.zeros(len(needs), dtype=bool)
    met[listed.need[listed.need >= 0]] = True
    sent = together(listed, unlisted(runs, needs, met))
    lives = lifetimes_held(problem.graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_timeline(
        problem.graph, problem.cluster, runs, sent, reads, lives, ports=False, inputs=problem.batch
    )
    return Played(timeline, runs, needs, passed, sent, len(listed))


def _runs(problem: BatchedMapping, solution: BatchedSchedule) -> Runs:
    known, index, batches = problem.known_seconds, problem.cluster.device_index, solution.batches
    start = np.asarray([batch.start for batch in batches], dtype=np.float64)
    lasts = [known[batch.operator][batch.device][len(batch.inputs)] for batch in batches]
    return Runs(
        operator=np.asarray([problem.graph.operator_index[batch.operator] for batch in batches], dtype=np.int64),
        device=np.asarray([index[batch.device] for batch in batches], dtype=np.int64),
        start=start,
        end=start + np.asarray(lasts, dtype=np.float64),
        count=np.asarray([len(batch.inputs) for batch in batches], dtype=np.int64),
    )


def _needs(problem: BatchedMapping, solution: BatchedSchedule) -> tuple[Needs, Reads, list[frozenset[int]]]:
    """Follow every input along every tensor: which batch made it, and which one reads it."""
    graph, index = problem.graph, problem.cluster.device_index
    inputs = [frozenset(batch.inputs) for batch in solution.batches]
    device = [index[batch.device] for batch in solution.batches]
    by_operator: dict[int, list[int]] = {}
    for run, batch in enumerate(solution.batches):
        by_operator.setdefault(graph.operator_index[batch.operator], []).append(run)
    reads: list[tuple[int, int, int, int]] = []
    needs: list[tuple[int, int, int, int, int]] = []
    passed: list[frozenset[int]] = []
    arrays = graph.arrays
    for v in range(len(graph.operators)):
        for tensor in arrays.reads[v].tolist():
            producer = int(arrays.producer[tensor])
            for made in by_operator[producer] if producer >= 0 else ():
                for reader in by_operator[v]:
                    shared = inputs[made] & inputs[reader]
                    if not shared:
                        continue
                    crosses = device[made] != device[reader]
                    reads.append((reader, tensor, made, len(needs) if crosses else -1))
                    if crosses:
                        needs.append((tensor, v, device[made], device[reader], made))
                        passed.append(shared)
    tensor_, reader_, source, target, maker = np.asarray(needs, dtype=np.int64).reshape(len(needs), 5).T
    count = np.asarray([len(shared) for shared in passed], dtype=np.int64)
    size = arrays.tensor_bytes[tensor_]
    seconds = transfer_times(problem.cluster, source, target, _moved(problem, size, count))
    found = Needs(tensor_, reader_, source, target, maker, size, count, ~np.isnan(seconds), seconds)
    return found, Reads(*np.asarray(reads, dtype=np.int64).reshape(len(reads), 4).T), passed


def _moved(problem: BatchedMapping, size: IntArray, count: IntArray) -> FloatArray:
    """Bytes that a transfer's time is counted for."""
    inputs = count if problem.transfers == "delay" else np.ones_like(count)
    return size.astype(np.float64) * inputs


def _listed(problem: BatchedMapping, solution: BatchedSchedule, needs: Needs) -> Sent:
    graph, index = problem.graph, problem.cluster.device_index
    transfers = solution.transfers
    rows = [
        (graph.tensor_index[sent.tensor], graph.operator_index[sent.consumer], index[sent.source], index[sent.target])
        for sent in transfers
    ]
    columns = np.asarray(rows, dtype=np.int64).reshape(len(rows), 4).T
    known = codes(graph, problem.cluster, needs.tensor, needs.reader, needs.source, needs.target)
    need = positions_in(known, codes(graph, problem.cluster, *columns))
    maker = np.full(len(rows), -1, dtype=np.int64)
    maker[need >= 0] = needs.maker[need[need >= 0]]
    tensor, reader, source, target = columns
    return Sent(
        tensor=tensor,
        reader=reader,
        source=source,
        target=target,
        start=np.asarray([sent.start for sent in transfers], dtype=np.float64),
        end=np.asarray([sent.end for sent in transfers], dtype=np.float64),
        need=need,
        maker=maker,
        count=np.asarray([len(sent.inputs) for sent in transfers], dtype=np.int64),
    )


def _violations(
    problem: BatchedMapping, solution: BatchedSchedule, played: Played, held: Mapping[str, int]
) -> Iterator[Violation]:
    """Whatever is wrong, rule by rule."""
    timeline, tolerance = played.timeline, TIME_TOLERANCE * played.timeline.end
    for batch, end in zip(solution.batches, played.runs.end.tolist(), strict=True):
        if abs(end - batch.end) > tolerance:
            message = (
                f"the batch of {batch.operator!r} on {batch.device!r} takes {end - batch.start:.6g} s, not "
                f"{batch.end - batch.start:.6g} s"
            )
            yield Violation(rule="duration", message=message, excess=abs(end - batch.end))
    yield from _wrong_transfers(problem, solution, played)
    lasts = np.full(len(timeline.activities), np.nan)
    met = np.flatnonzero(played.sent.need[: played.listed] >= 0)
    lasts[len(solution.batches) + met] = played.needs.seconds[played.sent.need[met]]
    yield from lasts_as_long(timeline, lasts, tolerance)
    yield from causes_first(timeline, tolerance)
    yield from one_at_a_time(timeline, tolerance)
    yield from overfull(problem.cluster, held)


def _wrong_transfers(problem: BatchedMapping, solution: BatchedSchedule, played: Played) -> Iterator[Violation]:
    """A link for every need; of what is listed none needless or twice, each with the inputs that it is needed for."""
    needs, sent = played.needs, played.sent
    yield from without_link(problem.graph, problem.cluster, needs)
    yield from needless(problem.graph, problem.cluster, sent, played.listed)
    for row, listed in enumerate(solution.transfers):
        need = int(sent.need[row])
        if need < 0 or frozenset(listed.inputs) == played.passed[need]:
            continue
        what = route(problem.graph, problem.cluster, sent, row)
        message = f"{what} carries {_inputs(sorted(set(listed.inputs)))}, not {_inputs(sorted(played.passed[need]))}"
        yield Violation(rule="transfer", message=message)


def _details(problem: BatchedMapping, played: Played, held: Mapping[str, int]) -> BatchedDetails:
    """Everything that can be measured."""
    runs, needs, timeline = played.runs, played.needs, played.timeline
    last = np.zeros(len(problem.graph.operators))
    np.maximum.at(last, runs.operator, runs.end)
    names = (op.id for op in problem.graph.operators)
    return BatchedDetails(
        makespan=timeline.end,
        inputs_per_second=problem.batch / timeline.end if timeline.end > 0 else None,
        ends=FrozenDict(dict(zip(names, last.tolist(), strict=True))),
        **device_table(timeline),
        memory_bytes=FrozenDict(held),
        memory_limits=FrozenDict(problem.memory_limits),
        batch_count=len(runs.operator),
        transfer_count=len(needs),
        critical_path=critical_path(timeline),
    )


def _inputs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_INPUTS]))
    more = f", ... ({len(numbers)} in all)" if len(numbers) > SHOWN_INPUTS else ""
    return f"input {shown}" if len(numbers) == 1 else f"inputs {shown}{more}"
