"""The referee of batched mapping: batches run on devices, and every input flows along the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems import device_play
from opweave.problems.arrays import BoolArray, IntArray, distinct
from opweave.problems.device_play import Needs, Played, Reads, Runs, Sent, codes, positions_in
from opweave.problems.measures import DeviceDetails
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation, broken

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule

SHOWN_INPUTS = 8


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


def judge(problem: BatchedMapping, solution: BatchedSchedule) -> Evaluation[BatchedDetails]:
    """Judge a solution against all rules except the side constraints."""
    columns = columns_of(problem, solution)
    wrong = tuple(_unusable(problem, solution, columns))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    played = play(problem, solution, columns)
    runs, end = played.runs, played.timeline.end
    held = problem.memory_of_runs(runs.operator, runs.device, runs.count)

    def details() -> BatchedDetails:
        last = np.zeros(len(problem.graph.operators))
        np.maximum.at(last, runs.operator, runs.end)
        ends = dict(zip(problem.graph.operator_ids, last.tolist(), strict=True))
        return BatchedDetails(
            **device_play.device_details(played.timeline, ends, held, problem.memory_limits, len(played.needs)),
            inputs_per_second=problem.batch / end if end > 0 else None,
            batch_count=len(runs.operator),
        )

    found = (
        *_durations(solution, runs, TIME_TOLERANCE * end),
        *_wrong_transfers(solution, played),
        *played.in_time(),
        *device_play.overfull(problem.cluster, held),
    )
    judged: Evaluation[BatchedDetails] = Evaluation(objective=end, violations=found)
    return judged.with_timeline(played.timeline).with_details(details)


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
    graph, cluster = problem.graph, problem.cluster
    runs = _runs(problem, solution, columns)
    needs, reads, taker = _needs(problem, columns.inputs, runs)
    sent = _meeting(problem, solution, needs)
    met = np.zeros(len(needs), dtype=bool)
    met[sent.need[sent.need >= 0]] = True
    count, sent = len(sent), device_play.with_unlisted(sent, runs, needs, met)
    lives = lifetimes_held(graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_play.device_timeline(graph, cluster, runs, sent, reads, lives, ports=False, inputs=problem.batch)
    return Played(graph, cluster, timeline, runs, needs, taker, sent, count)


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
    timed = count[crosses] if problem.transfers == "delay" else np.ones_like(count[crosses])
    ends = runs.device[maker], runs.device[taker]
    needs = device_play.needs_of(problem.graph, problem.cluster, moved, runs.operator[taker], *ends, maker, timed)
    return replace(needs, count=count[crosses]), Reads(read, tensor[entry], made, need), taker


def _meeting(problem: BatchedMapping, solution: BatchedSchedule, needs: Needs) -> Sent:
    """The transfers of the schedule with the needs that they meet."""
    graph, cluster = problem.graph, problem.cluster
    sent = device_play.listed(graph, cluster, solution.transfers)
    need = positions_in(codes(graph, cluster, needs), codes(graph, cluster, sent))
    maker = np.where(need >= 0, np.append(needs.maker, -1)[need], -1)
    return replace(
        sent,
        need=need,
        maker=maker,
        count=np.asarray([len(each.inputs) for each in solution.transfers], dtype=np.int64),
    )


def _unusable(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Iterator[Violation]:
    """Check that every operator runs every input once, in batches whose times are known, and that all names exist."""
    operator, device, count, inputs = columns
    numbers = np.minimum(inputs, problem.batch)  # larger ones have their own rule
    for row in np.flatnonzero(_is_wrong(problem, operator, device, count, numbers)).tolist():
        yield from _wrong_batch(problem, solution.batches[row])
    if len(distinct(operator * len(problem.cluster.devices) + device)) < len(operator):
        for (name, place), several in Counter((each.operator, each.device) for each in solution.batches).items():
            if several > 1:
                message = f"{name!r} runs {several} batches on {place!r}; the inputs on a device run as one batch"
                yield broken("batch", message)
    times = _times(problem, operator, count, numbers)
    for row in np.flatnonzero((times != 1).any(axis=1)).tolist():
        name = problem.graph.operator_ids[row]
        missing, twice = (np.flatnonzero(wrong).tolist() for wrong in (times[row] == 0, times[row] > 1))
        if missing:
            yield broken("missing", f"{name!r} never runs {_inputs(missing)}")
        if twice:
            yield broken("twice", f"{name!r} runs {_inputs(twice)} more than once")
    yield from device_play.wrong_names(problem.graph, problem.cluster, solution.transfers)


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


def _times(problem: BatchedMapping, operator: IntArray, count: IntArray, numbers: IntArray) -> IntArray:
    """How often every operator runs every input of the problem. Shape (operators, batch)."""
    rows, batch = len(problem.graph.operators), problem.batch
    cells = np.repeat(np.where(operator < 0, rows, operator), count) * (batch + 1) + numbers
    return np.bincount(cells, minlength=(rows + 1) * (batch + 1)).reshape(rows + 1, batch + 1)[:rows, :batch]


def _wrong_batch(problem: BatchedMapping, batch: Batch) -> Iterator[Violation]:
    """Say what is wrong with a batch."""
    costs, place = problem.known_seconds.get(batch.operator), batch.device
    if costs is None:
        yield broken("unknown", f"{batch.operator!r} is not an operator of the graph")
        return
    what = f"a batch of {batch.operator!r}"
    wrong = [number for number in batch.inputs if number >= problem.batch]
    if wrong:
        yield broken("unknown", f"{what} has {_inputs(wrong)}; the inputs are 0 to {problem.batch - 1}")
    if place not in problem.cluster.device_index:
        yield broken("unknown", f"{what} runs on {place!r}, which the cluster does not have")
    elif place not in costs:
        yield broken("device", f"{batch.operator!r} cannot run on {place!r}: its time there is not known")
    elif len(batch.inputs) not in costs[place]:
        sizes = ", ".join(map(str, costs[place]))
        message = f"{what} on {place!r} has {len(batch.inputs)} inputs; the sizes that can run there are {sizes}"
        yield broken("size", message)


def _durations(solution: BatchedSchedule, runs: Runs, tolerance: float) -> Iterator[Violation]:
    """Batches that end at another time than they say."""
    for batch, end in zip(solution.batches, runs.end.tolist(), strict=True):
        if abs(end - batch.end) > tolerance:
            lasts, said = end - batch.start, batch.end - batch.start
            message = f"the batch of {batch.operator!r} on {batch.device!r} takes {lasts:.6g} s, not {said:.6g} s"
            yield broken("duration", message, abs(end - batch.end))


def _wrong_transfers(solution: BatchedSchedule, played: Played) -> Iterator[Violation]:
    """Check the transfers.

    Every need must have a link. A listed transfer must be needed, listed once, and carry exactly the inputs needed.
    """
    yield from played.without_link()
    yield from played.needless()
    for row, need in enumerate(played.sent.need[: played.listed].tolist()):
        if need >= 0:
            made, read = (solution.batches[run[need]].inputs for run in (played.needs.maker, played.taker))
            passed, carried = set(made) & set(read), set(solution.transfers[row].inputs)
            if carried != passed:
                what = played.route(played.sent, row)
                yield broken("transfer", f"{what} carries {_inputs(sorted(carried))}, not {_inputs(sorted(passed))}")


def _inputs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_INPUTS]))
    more = f", ... ({len(numbers)} in all)" if len(numbers) > SHOWN_INPUTS else ""
    return f"input {shown}" if len(numbers) == 1 else f"inputs {shown}{more}"
