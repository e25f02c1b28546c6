"""The referee of batched mapping: batches run on devices, and every input flows along the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems import device_play
from opweave.problems.arrays import IntArray, distinct
from opweave.problems.device_play import DeviceDetails, Played, Runs
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation, broken
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule

SHOWN_INPUTS = 8


class BatchedDetails(DeviceDetails):
    """What a batched schedule takes.

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
    held = problem.memory_by_device(solution)
    details = BatchedDetails(
        makespan=end,
        memory_bytes=FrozenDict(held),
        memory_limits=FrozenDict(problem.memory_limits),
        inputs_per_second=problem.batch / end if end > 0 else None,
        batch_count=len(runs.operator),
    )
    found = (
        *_durations(solution, runs, TIME_TOLERANCE * end),
        *_wrong_transfers(solution, played),
        *played.in_time(),
        *device_play.overfull(problem.cluster, held),
    )
    return Evaluation(objective=end, violations=found, details=details).with_timeline(played.timeline)


class Columns(NamedTuple):
    """The batches of a schedule as columns: operator and device, -1 if unknown, and number of inputs. (batches,) each.

    ``inputs`` has the inputs of all batches, one batch behind the other. (inputs,)
    """

    operator: IntArray
    device: IntArray
    number: IntArray
    inputs: IntArray


def play(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Played:
    """Run every batch and transfer at the times of the schedule, whose columns are given."""
    operator, device, count, inputs = columns
    start = np.asarray([batch.start for batch in solution.batches], dtype=np.float64)
    lasts = problem.times[operator, device, np.searchsorted(problem.sizes, count)]
    run_of = np.empty((len(problem.graph.operators), problem.batch), dtype=np.int64)
    run = np.repeat(np.arange(len(operator)), count)
    run_of[operator[run], inputs] = run
    runs, per_input = Runs(operator, device, start, start + lasts, count), problem.transfers == "delay_per_input"
    return device_play.play(problem, runs, run_of, solution.transfers, per_input=per_input)


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


def _unusable(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Iterator[Violation]:
    """Check that every operator runs every input once, in batches whose times are known, and that all names exist."""
    operator, device, count, inputs = columns
    numbers = np.minimum(inputs, problem.batch)  # larger ones have their own rule
    for batch in solution.batches:
        yield from _wrong_batch(problem, batch)
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
    if max(batch.inputs) >= problem.batch:
        wrong = [number for number in batch.inputs if number >= problem.batch]
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
