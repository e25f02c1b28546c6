"""Operators outside the windows of a milestone chain, such as the keys and values that decoders make of an encoding.

Such an operator comes after some milestone, and another one, in a window far behind, reads what becomes of it. Windows
do not see it, so its bytes could lie anywhere for nothing. But where both are on different devices, a tensor on the
way from one to the other enters the device of the second, between the milestone and the end of the window. If such ways
have no tensors in common, these messages follow one another at every port.

In the program of counts, columns say how often the operators outside that steps of a type read of are on each device,
for each device of the reader. What an operator outside reads of a milestone, such as an encoding, is sent once to every
device that needs it and did not make it. Ways from device to device have messages of their own.

All of these messages have a *span*: from a milestone before to the end of a step behind. Those that enter one device
take no longer than the steps of the span, or else the plan waits for the rest of the time, which comes on top. Steps
are counted by types: those of all types in the span have at least its time, and only ways of types that lie in it as a
whole surely have their messages there. The step after the milestone is left out, because the tensor of the milestone
may be its message, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations, order_of_graph
from opweave.solvers.rounding import SUMMATION

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.counts import CountProgram

NOWHERE = -1
"""The number of a window, or a milestone, that does not exist."""


class Outside(NamedTuple):
    """An operator outside the windows and its reader.

    Attributes
    ----------
    operator, reader
        Their positions in the problem.
    after
        The number of the last milestone before the operator, -1 if there is none.
    tensor
        What it reads of this milestone, -1 for nothing.
    fetch
        Least seconds of a message with this tensor to each device. Shape (devices,).
    enter
        Least seconds of a message on the way to each device. Shape (devices,).
    """

    operator: int
    reader: int
    after: int
    tensor: int
    fetch: FloatArray
    enter: FloatArray


def read_outside(arrays: PlacementArrays, outside: IntArray, window: IntArray, milestones: IntArray) -> list[Outside]:
    """The operators of ``outside`` that have a reader, if transfers use ports.

    ``window`` has the number of the window of every operator, -1 outside. Shape (operators,).
    """
    found = list[Outside]()
    if arrays.model == DELAY or not len(arrays.source):
        return found
    after, away = _milestones_before(arrays, milestones), durations(arrays)
    away[:, np.eye(away.shape[1], dtype=np.bool_)] = np.inf
    enter = away.min(axis=1)
    used = set[int]()
    for v in outside.tolist():
        way = _way(arrays, v, window)
        names = {int(arrays.tensor[f]) if arrays.model == PORT_TENSOR else f for f in way}
        if way and not names & used:
            used |= names
            last = int(milestones[after[v]]) if after[v] != NOWHERE else NOWHERE
            read = arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]]
            read = read[arrays.source[read] == last][:1]
            tensor, fetch = int(arrays.tensor[read].max(initial=NOWHERE)), enter[read].min(axis=0, initial=np.inf)
            ends = v, int(arrays.target[way[-1]]), int(after[v])
            found.append(Outside(*ends, tensor, fetch, enter[way].min(axis=0)))
    return found


def _way(arrays: PlacementArrays, v: int, window: IntArray) -> list[int]:
    """Flows from an operator to the first one found in a window, through others outside; empty if there is none."""
    ways, seen = [(v, list[int]())], {v}
    while ways:
        u, way = ways.pop()
        for f in arrays.outgoing[arrays.out_start[u] : arrays.out_start[u + 1]].tolist():
            w = int(arrays.target[f])
            if window[w] != NOWHERE:
                return [*way, f]
            if w not in seen:
                seen.add(w)
                ways.append((w, [*way, f]))
    return []


def _milestones_before(arrays: PlacementArrays, milestones: IntArray) -> IntArray:
    """The number of the last milestone before every operator, -1 if there is none. Shape (operators,)."""
    last, number = np.full(len(arrays.seconds), NOWHERE), np.full(len(arrays.seconds), NOWHERE)
    number[milestones] = np.arange(len(milestones))
    for v in order_of_graph(arrays).tolist():
        before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]]
        last[v] = np.maximum(last[before], number[before]).max(initial=NOWHERE)
    return last


ANYWHERE = -1
"""The device of a reader that may be on several."""


class Located(NamedTuple):
    """Columns that count how often an operator outside is on each device, for steps of a type and a reader's device."""

    type: int
    outside: Outside
    reader: int
    device: IntArray
    column: IntArray


def locate(program: CountProgram) -> list[Located]:
    """Columns for operators outside: they are somewhere as often as their readers are on a device."""
    groups, first, found = dict[tuple[int, int, int], list[IntArray]](), 0, list[Located]()
    for type_, part in program.parts:
        columns = np.arange(first, first + len(part.ways.device))
        first += len(columns)
        for number, reader in enumerate(part.readers):
            groups.setdefault((type_, number, reader), []).append(columns)
    for (type_, number, reader), with_ in groups.items():
        outside = program.sources[int(np.argmax(program.steps == type_))][number]
        device = np.flatnonzero(np.isfinite(program.whole.arrays.seconds[outside.operator]))
        column = program.more((1, len(device)), program.times[type_])[0]
        row = program.equal.open(np.zeros(1))
        program.equal.put(row, column, 1.0)
        program.equal.put(row, np.concatenate(with_), -1.0)
        found.append(Located(type_, outside, reader, device, column))
    return found


def _fetched(program: CountProgram, located: list[Located]) -> list[tuple[Outside, IntArray]]:
    """Columns that say to which devices the tensors of milestones are sent for operators outside."""
    found, devices = list[tuple[Outside, IntArray]](), program.whole.devices
    for tensor in {each.outside.tensor for each in located} - {NOWHERE}:
        users = [each for each in located if each.outside.tensor == tensor]
        maker = program.steps[users[0].outside.after]
        if program.times[maker] > 1:  # which of the steps makes it is not known
            continue
        need, come = program.more((2, devices))
        for each in users:
            program.only_with(np.full(len(each.device), each.type), each.column, need[each.device])
        rows, made = program.most.open(np.zeros(devices)), np.flatnonzero(program.type == maker)
        program.most.put(rows, need, 1.0)
        program.most.put(rows, come, -1.0)
        program.most.put(rows[program.device[made]], program.passed[made], -1.0)
        found.append((users[0].outside, come))
    return found


def add_messages(program: CountProgram, located: list[Located]) -> None:
    """Rows for what follows a milestone: what enters a device takes no longer than the steps behind and a wait."""
    steps, fetched, types = program.steps, _fetched(program, located), {each.type for each in located}
    after = {n: min(each.after for at in np.flatnonzero(steps == n) for each in program.sources[at]) for n in types}
    share, most = (1.0 - SUMMATION) / program.ceiling, program.ceiling
    for begin in sorted(set(after.values())):
        inside = [each for each in located if after[each.type] >= begin and each.reader != ANYWHERE]
        sent = [(outside, come) for outside, come in fetched if outside.after >= begin]
        rows, behind = program.most.open(np.zeros(program.whole.devices)), np.unique(steps[begin + 1 :])
        program.most.put(rows, np.asarray([program.wait]), -1.0)
        program.most.put(rows[:, None], program.time[behind], -(1.0 + 4 * SUMMATION))
        apart = np.append(steps[: begin + 1], steps[[outside.after + 1 for outside, _ in sent]])
        ways = np.flatnonzero(np.isin(program.type, np.setdiff1d(behind, apart)))
        program.most.put(rows[program.device[ways]], program.passed[ways], np.minimum(program.port[ways], most) * share)
        for outside, come in sent:
            program.most.put(rows, come, np.minimum(outside.fetch, most) * share)
        for each in inside:
            away, seconds = each.column[each.device != each.reader], float(each.outside.enter[each.reader])
            program.most.put(rows[[each.reader]], away, min(seconds, most) * share)
