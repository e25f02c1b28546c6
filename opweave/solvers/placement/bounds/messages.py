"""Messages between operators outside the windows and those inside, in the program of counts.

Columns say how often the operators outside that steps of a type read of are on each device, for each device of the
reader. Where both devices differ, a message leaves the one and a message enters the other (:mod:`.outside`). What
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


class Located(NamedTuple):
    """Columns that count how often an operator outside is on each device, for steps of a type and a reader's device."""

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


def _fetched(program: CountProgram, located: list[Located]) -> list[Fetched]:
    """Columns for the tensors of milestones that operators outside read."""
    found, devices = list[Fetched](), program.whole.devices
    for tensor in {each.outside.tensor for each in located} - {NOWHERE}:
        users = [each for each in located if each.outside.tensor == tensor]
        maker = program.steps[users[0].outside.after]
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
        program.most.put(rows[program.device[made]], program.passed[made], -1.0)
        found.append(Fetched(users[0].outside, {each.type for each in users}, come))
    return found


def add_messages(program: CountProgram, located: list[Located]) -> None:
    """Rows for all spans: what passes a port takes no longer than the span and the wait."""
    steps = program.steps
    fetched, types = _fetched(program, located), {each.type for each in located}
    final = [int(np.flatnonzero(steps == number)[-1]) for number in range(len(program.times))]
    after = {
        number: min(each.after for at in np.flatnonzero(steps == number) for each in program.sources[at])
        for number in types
    }
    latest = max((final[number] for number in types), default=NOWHERE)
    # also with all later steps of the same types, whose ways have messages
    longer = {(begin, max(final[number] for number in steps[begin + 1 : latest + 1])) for begin in after.values()}
    for begin, end in longer.union(product(after.values(), (final[number] for number in types))):
        within = {number for number in types if after[number] >= begin and final[number] <= end}
        if any(after[number] == begin for number in within):
            inside = [each for each in fetched if each.types <= within]
            _add_span(program, (begin, end), [each for each in located if each.type in within], inside)


def _add_span(program: CountProgram, span: tuple[int, int], located: list[Located], fetched: list[Fetched]) -> None:
    """The rows of one span, from a milestone to the end of a step: one for each port."""
    rows, share, most = program.most, (1.0 - SUMMATION) / program.ceiling, program.ceiling
    between = np.arange(span[0] + 1, span[1] + 1)
    there = np.isin(program.type, program.steps[between])
    inside = np.unique(program.steps[between])
    enter, leave = rows.open(np.zeros(program.whole.devices)), rows.open(np.zeros(program.whole.devices))
    for port in (enter, leave):
        rows.put(port, np.asarray([program.wait]), -1.0)
        rows.put(port[:, None], program.time[inside], -(1.0 + 4 * SUMMATION))
    apart = np.append(np.delete(program.steps, between), program.steps[[each.outside.after + 1 for each in fetched]])
    ways = np.flatnonzero(there & ~np.isin(program.type, apart))
    rows.put(enter[program.device[ways]], program.passed[ways], np.minimum(program.port[ways, 0], most) * share)
    rows.put(leave[program.entry[ways]], program.passed[ways], np.minimum(program.port[ways, 1], most) * share)
    for sent in fetched:
        rows.put(enter, sent.column, np.minimum(sent.outside.fetch, most) * share)
    for each in located:
        if each.reader != ANYWHERE:
            away = each.device != each.reader
            rows.put(enter[[each.reader]], each.column[away], min(float(each.outside.enter[each.reader]), most) * share)
            leaves = np.minimum(each.outside.leave[each.device[away]], most) * share
            rows.put(leave[each.device[away]], each.column[away], leaves)
