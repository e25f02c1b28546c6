"""The referee of batched mapping: batches run on devices, and every input flows along the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray, distinct
from opweave.problems.device_play import DeviceDetails, PlayedRuns, Runs, wrong_names
from opweave.problems.solution import TIME_TOLERANCE, Violation, broken

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule

SHOWN_INPUTS = 8


class BatchedDetails(DeviceDetails):
    """What a batched schedule takes.

    Attributes
    ----------
    inputs_per_second
        Inputs of the whole batch divided by the makespan; None when the makespan is 0.
    """

    inputs_per_second: float | None


class BatchColumns(NamedTuple):
    """The batches of a schedule as columns: operator and device, -1 if unknown, and number of inputs. (batches,) each.

    ``inputs`` has the inputs of all batches, one batch behind the other. (inputs,)
    """

    operator: IntArray
    device: IntArray
    number: IntArray
    inputs: IntArray


class PlayedBatches(PlayedRuns):
    """Every batch and transfer at the times of the schedule."""

    def __init__(self, problem: BatchedMapping, solution: BatchedSchedule) -> None:
        operator, device, count, inputs = columns_of(problem, solution)
        start = np.asarray([batch.start for batch in solution.batches], dtype=np.float64)
        lasts = problem.times[operator, device, np.searchsorted(problem.sizes, count)]
        run_of = np.empty((len(problem.graph.operators), problem.batch), dtype=np.int64)
        run = np.repeat(np.arange(len(operator)), count)
        run_of[operator[run], inputs] = run
        runs, per_input = Runs(operator, device, start, start + lasts, count), problem.transfers == "delay_per_input"
        super().__init__(problem, solution, runs, run_of, per_input=per_input)
        self._solution = solution

    def details(self) -> BatchedDetails:
        """Makespan, speed and memory."""
        speed = self.problem.batch / self.objective if self.objective > 0 else None
        return BatchedDetails(**super().details().model_dump(), inputs_per_second=speed)

    def violations(self) -> Iterator[Violation]:
        """Batches that end at another time than they say, and transfers that carry other inputs than are needed."""
        batches, tolerance = self._solution.batches, TIME_TOLERANCE * self.objective
        for batch, end in zip(batches, self.runs.end.tolist(), strict=True):
            if abs(end - batch.end) > tolerance:
                lasts, said = end - batch.start, batch.end - batch.start
                message = f"the batch of {batch.operator!r} on {batch.device!r} takes {lasts:.6g} s, not {said:.6g} s"
                yield broken("duration", message, abs(end - batch.end))
        for row in np.flatnonzero(self.sent.need[: self.listed] >= 0).tolist():
            made, read = (batches[run[row]].inputs for run in (self.sent.maker, self.sent.taker))
            passed, carried = set(made) & set(read), set(self._solution.transfers[row].inputs)
            if carried != passed:
                what = self.route(self.sent, row)
                yield broken("transfer", f"{what} carries {_inputs(sorted(carried))}, not {_inputs(sorted(passed))}")
        yield from super().violations()


def columns_of(problem: BatchedMapping, solution: BatchedSchedule) -> BatchColumns:
    """The batches of a schedule as columns."""
    operators, devices = problem.graph.operator_index, problem.cluster.device_index
    names, places, inputs = ([*map(attrgetter(what), solution.batches)] for what in ("operator", "device", "inputs"))
    return BatchColumns(
        np.asarray([*map(operators.get, names, repeat(-1))], dtype=np.int64),
        np.asarray([*map(devices.get, places, repeat(-1))], dtype=np.int64),
        np.asarray(list(map(len, inputs)), dtype=np.int64),
        np.fromiter(chain.from_iterable(inputs), dtype=np.int64),
    )


def unusable(problem: BatchedMapping, solution: BatchedSchedule) -> Iterator[Violation]:
    """Check that every operator runs every input once, in batches whose times are known, and that all names exist."""
    operator, device, count, inputs = columns_of(problem, solution)
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
    yield from wrong_names(problem.graph, problem.cluster, solution.transfers)


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


def _inputs(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_INPUTS]))
    more = f", ... ({len(numbers)} in all)" if len(numbers) > SHOWN_INPUTS else ""
    return f"input {shown}" if len(numbers) == 1 else f"inputs {shown}{more}"
