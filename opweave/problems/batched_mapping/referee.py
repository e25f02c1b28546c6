"""The rules of batched mapping: they judge batches on devices, and follow every input along the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray, distinct
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
from opweave.problems.measures import DeviceDetails, critical_path
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule, BatchTransfer


class BatchedDetails(DeviceDetails):
    """How a batched schedule uses the devices; each reading operator has transfers of its own.

    Attributes
    ----------
    inputs_per_second
        Inputs of the whole batch divided by the makespan; None when the makespan is 0.
    batch_count
        Number of batches that run.
    """

    inputs_per_second: float | None
    batch_count: int


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and the transfers that it makes necessary.

    ``sent`` begins with the ``listed`` transfers; ``taker`` has the run that waits for every need.
    """

    timeline: Timeline
    runs: Runs
    needs: Needs
    taker: IntArray
    sent: Sent
    listed: int


class Columns(NamedTuple):
    """The batches of a schedule as columns: operator and device, -1 if unknown, and number of inputs. (batches,) each.

    ``inputs`` has the inputs of all batches, one batch behind the other. (inputs,)
    """

    operator: IntArray
    device: IntArray
    number: IntArray
    inputs: IntArray


def play(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Played:
    """Run every batch and transfer at the times of the schedule, whose columns are given.

    A transfer that is not listed starts as soon as its tensor is available.
    """
    runs = _runs(problem, solution, columns)
    needs, reads, taker = _needs(problem, columns.inputs, runs)
    listed = _listed(problem, solution, needs)
    met = np.zeros(len(needs), dtype=bool)
    met[listed.need[listed.need >= 0]] = True
    sent = together(listed, unlisted(runs, needs, met))
    lives = lifetimes_held(problem.graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_timeline(
        problem.graph, problem.cluster, runs, sent, reads, lives, ports=False, inputs=problem.batch
    )
    return Played(timeline, runs, needs, taker, sent, len(listed))


def _runs(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Runs:
    start = np.asarray([batch.start for batch in solution.batches], dtype=np.float64)
    operator, device, count, _ = columns
    lasts = problem.times[operator, device, np.searchsorted(problem.sizes, count)]
    return Runs(operator, device, start, start + lasts, count)


def columns_of(problem: BatchedMapping, solution: BatchedSchedule) -> Columns:
    """The batches of a schedule as columns."""
    operators, devices = problem.graph.operator_index, problem.cluster.device_index
    names, places, inputs = ([*map(attrgetter(what), solution.batches)] for what in ("operator", "device", "inputs"))
    return Columns(
        np.asarray([*map(operators.get, names, repeat(-1))], dtype=np.int64),
        np.asarray([*map(devices.get, places, repeat(-1))], dtype=np.int64),
        np.asarray(list(map(len, inputs)), dtype=np.int64),
        np.fromiter(chain.from_iterable(inputs), dtype=np.int64),
    )


def _needs(problem: BatchedMapping, inputs: IntArray, runs: Runs) -> tuple[Needs, Reads, IntArray]:
    """Follow every input along every tensor, from the batch that makes it to the batch that reads it.

    Returns
    -------
    tuple
        The needs, the reads, and the run that waits for every need.
    """
    arrays, devices = problem.graph.arrays, len(problem.cluster.devices)
    run_of = np.empty((len(problem.graph.operators), problem.batch), dtype=np.int64)
    run = np.repeat(np.arange(len(runs.operator)), runs.count)
    run_of[runs.operator[run], inputs] = run
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    reader, tensor = reader[inner], tensor[inner]
    made, read = run_of[arrays.producer[tensor]], run_of[reader]
    flows = (np.arange(len(tensor))[:, None] * devices + runs.device[made]) * devices + runs.device[read]
    _, first, count = np.unique(flows, return_index=True, return_counts=True)
    entry, made, read = first // problem.batch, made.ravel()[first], read.ravel()[first]
    order = np.lexsort((read, made, entry))  # in the order of the solution's batches
    entry, made, read, count = entry[order], made[order], read[order], count[order]
    crosses = runs.device[made] != runs.device[read]
    need = np.where(crosses, np.cumsum(crosses) - 1, -1)
    maker, taker, moved = made[crosses], read[crosses], tensor[entry[crosses]]
    size, source, target = arrays.tensor_bytes[moved], runs.device[maker], runs.device[taker]
    seconds = transfer_times(problem.cluster, source, target, _moved(problem, size, count[crosses]))
    found = Needs(moved, runs.operator[taker], source, target, maker, size, count[crosses], ~np.isnan(seconds), seconds)
    return found, Reads(read, tensor[entry], made, need), taker


def _moved(problem: BatchedMapping, size: IntArray, count: IntArray) -> FloatArray:
    """Bytes that determine the duration of a transfer."""
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


SHOWN_INPUTS = 8


def judge(problem: BatchedMapping, solution: BatchedSchedule) -> Evaluation[BatchedDetails]:
    """Judge a solution against all rules except the side constraints."""
    columns = columns_of(problem, solution)
    unusable = list(_unusable(problem, solution, columns))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played = play(problem, solution, columns)
    held = problem.memory_of_runs(played.runs.operator, played.runs.device, played.runs.count)
    broken = tuple(_violations(problem, solution, played, held))
    judged: Evaluation[BatchedDetails] = Evaluation(objective=played.timeline.end, violations=broken)
    return judged.with_timeline(played.timeline).with_details(lambda: _details(problem, played, held))


def _unusable(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Iterator[Violation]:
    """Check that every operator runs every input once, in batches whose times are known, and that all names exist."""
    operator, device, count, inputs = columns
    numbers = np.minimum(inputs, problem.batch)  # larger ones have their own rule
    for row in np.flatnonzero(_is_wrong(problem, operator, device, count, numbers)).tolist():
        yield from _wrong_batch(problem, solution.batches[row])
    if len(distinct(operator * len(problem.cluster.devices) + device)) < len(operator):
        yield from _several_batches(solution)
    times = _times(problem, operator, count, numbers)
    for row in np.flatnonzero((times != 1).any(axis=1)).tolist():
        name = problem.graph.operators[row].id
        missing, twice = (np.flatnonzero(wrong).tolist() for wrong in (times[row] == 0, times[row] > 1))
        if missing:
            yield Violation(rule="missing", message=f"{name!r} never runs {_inputs(missing)}")
        if twice:
            yield Violation(rule="twice", message=f"{name!r} runs {_inputs(twice)} more than once")
    for sent in solution.transfers:
        yield from _wrong_names(problem, sent)


def _is_wrong(
    problem: BatchedMapping, operator: IntArray, device: IntArray, count: IntArray, numbers: IntArray
) -> BoolArray:
    """Whether each batch has unknown names, a size whose time is not known, or an input too many. Shape (batches,)."""
    size = np.searchsorted(problem.sizes, count)
    known = np.append(np.asarray(problem.sizes, dtype=np.int64), -1)[size] == count
    wrong: BoolArray = (operator < 0) | (device < 0) | ~known
    there = np.flatnonzero(~wrong)
    wrong[there] = np.isnan(problem.times[operator[there], device[there], size[there]])
    wrong[np.repeat(np.arange(len(count)), count)[numbers >= problem.batch]] = True
    return wrong


def _several_batches(solution: BatchedSchedule) -> Iterator[Violation]:
    pairs = Counter((batch.operator, batch.device) for batch in solution.batches)
    for (operator, device), count in pairs.items():
        if count > 1:
            message = f"{operator!r} runs {count} batches on {device!r}; the inputs on a device run as one batch"
            yield Violation(rule="batch", message=message)


def _times(problem: BatchedMapping, operator: IntArray, count: IntArray, numbers: IntArray) -> IntArray:
    """How often every operator runs every input of the problem. Shape (operators, batch)."""
    rows, batch = len(problem.graph.operators), problem.batch
    cells = np.repeat(np.where(operator < 0, rows, operator), count) * (batch + 1) + numbers
    return np.bincount(cells, minlength=(rows + 1) * (batch + 1)).reshape(rows + 1, batch + 1)[:rows, :batch]


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


def _violations(
    problem: BatchedMapping, solution: BatchedSchedule, played: Played, held: Mapping[str, int]
) -> Iterator[Violation]:
    """All violations, rule by rule."""
    timeline, tolerance = played.timeline, TIME_TOLERANCE * played.timeline.end
    claimed = np.asarray([batch.end for batch in solution.batches], dtype=np.float64)
    for row in np.flatnonzero(np.abs(played.runs.end - claimed) > tolerance).tolist():
        batch, end = solution.batches[row], float(played.runs.end[row])
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
    """Check the transfers.

    Every need must have a link. A listed transfer must be needed, listed once, and carry exactly the inputs needed.
    """
    needs, sent = played.needs, played.sent
    yield from without_link(problem.graph, problem.cluster, needs)
    yield from needless(problem.graph, problem.cluster, sent, played.listed)
    for row, listed in enumerate(solution.transfers):
        need = int(sent.need[row])
        if need < 0:
            continue
        made, read = (solution.batches[run[need]].inputs for run in (needs.maker, played.taker))
        passed, carried = set(made) & set(read), set(listed.inputs)
        if carried != passed:
            what = route(problem.graph, problem.cluster, sent, row)
            message = f"{what} carries {_inputs(sorted(carried))}, not {_inputs(sorted(passed))}"
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
