"""The rules of batched mapping: they judge batches on devices, and follow every input along the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray, distinct
from opweave.problems.batched_mapping.details import BatchedDetails
from opweave.problems.device_details import critical_path
from opweave.problems.device_play import device_table, needless, overfull, route, unknown_ends, without_link
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule, BatchTransfer
from opweave.problems.batched_mapping.play import Columns, Played, columns_of, play

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
