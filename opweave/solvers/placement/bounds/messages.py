"""Messages between operators outside the windows and those inside, in the program of counts.

Columns say how often the operators outside that steps of a type read of lie on each device, apart for each device of
the reader. Where both devices differ, a message leaves the one and a message enters the other (:mod:`.outside`). What
an operator outside reads of a milestone, such as an encoding, is sent once to every device that needs it and did not
make it. Ways from device to device have messages of their own.

All of these messages have a *span*: from a milestone before to the end of a step behind. Those that pass one port
follow one another, so they take no longer than the steps of the span, or else the plan waits for the rest of the time,
which comes on top. Steps are counted by types: those of all types in the span have at least its time, and only ways of
types that lie in it as a whole surely have their messages there. The step after the milestone is left out, because the
tensor of the milestone may be its message, too.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.placement.bounds.outside import NOWHERE, Outside
from opweave.solvers.rounding import SUMMATION

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.counts import CountProgram

ANYWHERE = -1
"""The device of a reader that may be on several."""


class Lying(NamedTuple):
    """Columns that count on which devices an operator outside lies, if the reader in steps of a type is on one."""

    type: int
    outside: Outside
    reader: int
    device: IntArray
    column: IntArray


class Fetched(NamedTuple):
    """Columns that say to which devices the tensor of a milestone is sent for operators outside, by type of step."""

    outside: Outside
    types: set[int]
    column: IntArray


def lying(program: CountProgram) -> list[Lying]:
    """Columns for the operators outside, which lie on some device as often as their readers are on one."""
    groups, first, found = dict[tuple[int, int, int], list[IntArray]](), 0, list[Lying]()
    for type_, part in program.parts:
        columns = np.arange(first, first + len(part.ways.device))
        first += len(columns)
        for number, reader in enumerate(part.readers):
            groups.setdefault((type_, number, reader), []).append(columns)
    for (type_, number, reader), with_ in groups.items():
        outside = program.readings[int(np.argmax(program.steps == type_))][number]
        device = np.flatnonzero(np.isfinite(program.whole.arrays.seconds[outside.operator]))
        column = program.more((1, len(device)), program.times[type_])[0]
        row = program.equal.open(np.zeros(1))
        program.equal.put(row, column, 1.0)
        program.equal.put(row, np.concatenate(with_), -1.0)
        found.append(Lying(type_, outside, reader, device, column))
    return found


def _step(program: CountProgram, outside: Outside) -> int:
    """The step that ends with the milestone before an operator outside, -1 if there is none."""
    return int(np.searchsorted(program.last, outside.after)) if outside.after != NOWHERE else NOWHERE


def _fetched(program: CountProgram, lies: list[Lying]) -> list[Fetched]:
    """Columns for the tensors of milestones that operators outside read."""
    found, devices = list[Fetched](), program.whole.devices
    for tensor in {each.outside.tensor for each in lies} - {NOWHERE}:
        users = [each for each in lies if each.outside.tensor == tensor]
        maker = program.steps[_step(program, users[0].outside)]
        if program.times[maker] > 1:  # which of the steps makes it is not known
            continue
        need, come = program.more((2, devices))
        for same in {(each.type, each.outside.operator) for each in users}:
            those = [each for each in users if (each.type, each.outside.operator) == same]
            column, device = (
                np.concatenate([each.column for each in those]),
                np.concatenate([each.device for each in those]),
            )
            program.only_with(np.full(len(column), same[0]), column, need[device])
        rows, made = program.most.open(np.zeros(devices)), np.flatnonzero(program.type == maker)
        program.most.put(rows, need, 1.0)
        program.most.put(rows, come, -1.0)
        program.most.put(rows[program.ways.device[made]], made, -1.0)
        found.append(Fetched(users[0].outside, {each.type for each in users}, come))
    return found


def add_messages(program: CountProgram, lies: list[Lying]) -> None:
    """Rows for all spans: what passes a port takes no longer than the span and the wait."""
    steps = program.steps
    fetched, types = _fetched(program, lies), {each.type for each in lies}
    final = [int(np.flatnonzero(steps == number)[-1]) for number in range(len(program.times))]
    after = {
        number: min(_step(program, each) for at in np.flatnonzero(steps == number) for each in program.readings[at])
        for number in types
    }
    latest = max((final[number] for number in types), default=NOWHERE)
    # also with all later steps of the same types, whose ways have messages
    longer = {(begin, max(final[number] for number in steps[begin + 1 : latest + 1])) for begin in after.values()}
    for begin, end in longer.union(product(after.values(), (final[number] for number in types))):
        within = {number for number in types if after[number] >= begin and final[number] <= end}
        if any(after[number] == begin for number in within):
            inside = [each for each in fetched if each.types <= within]
            _add_span(program, (begin, end), [each for each in lies if each.type in within], inside)


def _add_span(program: CountProgram, span: tuple[int, int], lies: list[Lying], fetched: list[Fetched]) -> None:
    """The rows of one span, from a milestone to the end of a step: one for each port."""
    rows, share, most = program.most, (1.0 - SUMMATION) / program.ceiling, program.ceiling
    between = np.arange(span[0] + 1, span[1] + 1)
    there = np.isin(program.type, program.steps[between])
    enter, leave = rows.open(np.zeros(program.whole.devices)), rows.open(np.zeros(program.whole.devices))
    time = np.flatnonzero(there)
    for port in (enter, leave):
        rows.put(port, np.asarray([program.wait]), -1.0)
        rows.put(port[:, None], time, -program.ways.seconds[time] / program.ceiling * (1.0 + SUMMATION))
    apart = np.append(
        np.delete(program.steps, between), program.steps[[_step(program, each.outside) + 1 for each in fetched]]
    )
    ways = np.flatnonzero(there & ~np.isin(program.type, apart))
    rows.put(enter[program.ways.device[ways]], ways, np.minimum(program.port[ways, 0], most) * share)
    rows.put(leave[program.entry[ways]], ways, np.minimum(program.port[ways, 1], most) * share)
    for each in fetched:
        rows.put(enter, each.column, np.minimum(each.outside.fetch, most) * share)
    for lie in lies:
        if lie.reader != ANYWHERE:
            away = lie.device != lie.reader
            rows.put(enter[[lie.reader]], lie.column[away], min(float(lie.outside.enter[lie.reader]), most) * share)
            leaves = np.minimum(lie.outside.leave[lie.device[away]], most) * share
            rows.put(leave[lie.device[away]], lie.column[away], leaves)
