"""Counts of ways: a milestone chain as a flow in which equal windows are counted, whatever their order.

A *step* is a window with the milestone after it, or all of them between two with bytes. A plan passes every step from
device to device in one of its ways (:mod:`.ways`). Equal steps with equal neighbours are of one *type*. The integer
program decides how often each way of each type is taken:

* All ways of a type together are taken as often as there are such steps. A *passage* counts those of its ways that have
  the same devices at both ends and the same messages; passages are few, and branch and bound decides them first.
* Between two types, a device is left as often as it is reached.
* What the ways hold for sure fits into the memory of every set of devices. A shared parameter counts once a device.
* A device on which steps of a repeated part of the chain begin and end is reached at least once: every set of devices
  with it is entered in that part, from another part or from a device outside.
* Operators outside the windows are somewhere, and messages need time.

What an operator outside reads of a milestone, such as an encoding, is sent once to every device that needs it and did
not make it; where the operator and its reader are apart, there is another message, and ways from device to device have
messages of their own. All of them that follow a milestone and are read in steps up to a last one lie in this *span*.
Those that enter one device take no longer than the steps of the span, or else the plan waits for the rest of the time,
which comes on top; all waits of a plan together suffice for every span. Steps are counted by types: those of all types
that occur in a span have at least its time, and only ways of types that occur nowhere else surely have their messages
there. The step after the milestone is left out, because the tensor of the milestone may be its message, too.

Every plan gives such counts with no more seconds and bytes than its own, so the least seconds bound all plans. The
program does not grow with the number of equal layers, and knows whole layers, unlike prices, and all their orders at
once, unlike paths. Seconds and bytes are rounded in favour of plans.

Source: integer flows that are Eulerian trails, as in the rural postman problem (Corberan and Laporte, "Arc Routing",
chapter 5); Neumaier and Shcherbina for the proof (:mod:`opweave.solvers.tree`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.engines.highs_child import never
from opweave.solvers.linear import Dual, LinearProgram, SparseRows, minimise
from opweave.solvers.placement.bounds.whole_bytes import ANYWHERE, Labels, Passing, composed, passings
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.tree import least_whole

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.prices import Outside, PricedBlock
    from opweave.solvers.placement.bounds.whole_bytes import WholeBytes

CHOICES = 100, 300, 1_000, 3_000
"""Most choices of devices for the largest operators of all different windows, between two devices each, of one program
after the other."""

MOST_COLUMNS = 30_000
"""Most columns of a program."""

NOWHERE = -1
"""The number of a window, milestone or tensor that does not exist."""

OUTSIDE = -1
"""What stands before the first step and after the last one."""


class Step(NamedTuple):
    """Consecutive positions of the chain, one if bytes matter there, and a number that equal steps share."""

    positions: range
    number: int
    light: bool


def count_program(
    whole: WholeBytes, ceiling: float, seconds: Callable[[], float], most: int = CHOICES[0]
) -> CountProgram | None:
    """The program of all plans shorter than ``ceiling``, with most choices; None if too large or not written in time.

    ``seconds`` says how much time is left.
    """
    if not 0.0 < ceiling < math.inf:
        return None
    steps, numbers = _steps(whole), dict[tuple[int, ...], int]()
    around = [OUTSIDE, *(step.number for step in steps), OUTSIDE]
    near = zip(around, around[1:], around[2:], strict=False)
    # steps without bytes differ where their neighbours do, so that no plan passes all layers of one kind first
    places = [
        numbers.setdefault(each if step.light else each[1:2], len(numbers))
        for each, step in zip(near, steps, strict=True)
    ]
    number_at = {place: step.number for place, step in zip(places, steps, strict=True)}
    around = [OUTSIDE, *places, OUTSIDE]
    types = list(zip(around, around[1:], around[2:], strict=False))
    options, slack = dict[int, list[Passing]](), whole.slack(ceiling)
    choices = most // max(1, len({step.number for step in steps if not step.light}))
    for step in steps:
        if step.number not in options:
            if step.light:
                options[step.number] = _through(whole, step.positions, ceiling, slack)
            else:
                options[step.number] = passings(whole, step.positions[0], slack, choices, seconds)
        if seconds() <= 0.0:
            return None
    parts = [(number, each) for number, (_, key, _) in enumerate(Counter(types)) for each in options[number_at[key]]]
    if not parts or sum(len(each.ways.device) for _, each in parts) > MOST_COLUMNS:
        return None
    return CountProgram(whole, [step.positions for step in steps], types, parts, ceiling)


def _steps(whole: WholeBytes) -> list[Step]:
    """The steps of the chain: what lies between two windows or milestones with bytes is one.

    Steps before the milestone after which most operators outside begin, such as an encoder's end, differ from those
    behind it: no plan passes layers of the encoder and of the decoder in turn.
    """
    chain, numbers, found = whole.chain, dict[object, int](), list[Step]()
    after, keys = Counter(each.after for step in chain.sources for each in step), list[object]()
    border = after.most_common(1)[0][0] if after else OUTSIDE
    for position, (kind, members) in enumerate(zip(chain.blocks, chain.members, strict=True)):
        v = chain.milestones[position : position + 1]
        inside, seconds = np.append(members, v), whole.arrays.seconds
        outside = [each._replace(operator=0, after=0, reader=0) for each in chain.sources[position]]
        parts = [seconds[v], whole.own[inside], whole.uses[inside], *(part for each in outside for part in each)]
        for each in chain.sources[position]:
            parts += [inside == each.reader, whole.own[each.operator], np.isfinite(seconds[each.operator])]
        light = not (kind.weight.any() or whole.own[v].any() or whole.uses[v].any() or outside)
        joins = light and bool(found) and found[-1].light and position - 1 not in after
        first = found.pop().positions[0] if joins else position
        keys.append((position > border, id(kind), *(np.asarray(part).tobytes() for part in parts)))
        number = numbers.setdefault(tuple(keys[first:]), len(numbers))
        found.append(Step(range(first, position + 1), number, light))
    return found


def _through(
    whole: WholeBytes, positions: range, ceiling: float, slack: dict[PricedBlock, FloatArray]
) -> list[Passing]:
    """The shortest ways through windows without bytes."""
    chain, devices, found = whole.chain, range(whole.devices), list[Passing]()
    blocks = [chain.blocks[position] for position in positions]
    times = np.where(np.eye(whole.devices, dtype=np.bool_), 0.0, np.inf)
    for position, kind in zip(positions, blocks, strict=True):
        own = whole.arrays.seconds[chain.milestones[position : position + 1]].sum(axis=0)
        times = composed(times, np.where(kind.block.values < slack[kind], kind.block.values, np.inf) + own)
    ways = [whole.ways[kind] for kind in blocks]
    ports = [min((each.port(a, b) for each in ways for a in devices if a != b), default=0.0) for b in devices]
    entry, exit_ = blocks[0].block.window.entry, blocks[-1].block.window.exit
    none, held = np.zeros((1, len(whole.sets)), dtype=np.int64), np.zeros((1, *whole.uses.shape[1:], whole.devices))
    for a, b in product(devices if entry else (0,), devices if exit_ else (0,)):
        time = times[a, b : b + 1]
        if time[0] < ceiling:
            way = Labels(np.full(1, b), time, time, none, held > 0)
            found.append(Passing(a, way, (), ports[b] if entry and exit_ and a != b else 0.0))
    return found


class CountProgram:
    """The rows over counts of ways, shared parameters on devices, and devices used in repeated parts of the chain."""

    def __init__(
        self,
        whole: WholeBytes,
        positions: Sequence[range],
        steps: Sequence[tuple[int, int, int]],
        parts: Sequence[tuple[int, Passing]],
        ceiling: float,
    ) -> None:
        self.whole, self.ceiling, self.parts, types = whole, ceiling, parts, Counter(steps)
        numbers = {each: number for number, each in enumerate(types)}
        self.steps = np.asarray([numbers[each] for each in steps])
        step_of = {position: number for number, step in enumerate(positions) for position in step} | {NOWHERE: NOWHERE}
        self.sources = [
            [each._replace(after=step_of[each.after]) for at in step for each in whole.chain.sources[at]]
            for step in positions
        ]
        lengths = [len(each.ways.device) for _, each in parts]
        self.ways_type = np.repeat([number for number, _ in parts], lengths)
        self.ways = Labels(*(np.concatenate(column) for column in zip(*(each.ways for _, each in parts), strict=True)))
        self.times = np.asarray(list(types.values()), dtype=np.float64)
        ends = np.repeat([(each.entry, each.port) for _, each in parts], lengths, axis=0)
        state = np.column_stack([self.ways_type, self.ways.device, ends])
        passages, group = np.unique(state, axis=0, return_inverse=True)
        self.group, self.port = group.ravel(), passages[:, 3]
        self.type, self.device, self.entry = passages[:, :3].astype(np.int64).T
        borders = {
            border: number for number, border in enumerate({pair for a, b, c in types for pair in ((a, b), (b, c))})
        }
        self.before = np.asarray([borders[a, b] for a, b, _ in types])
        self.after = np.asarray([borders[b, c] for _, b, c in types])
        self.inner = np.asarray([OUTSIDE not in border for border in borders])
        graph = nx.DiGraph(zip(self.before.tolist(), self.after.tolist(), strict=True))
        self.part = np.zeros(len(borders), dtype=np.int64)
        for number, members in enumerate(nx.strongly_connected_components(graph)):
            self.part[list(members)] = number
        self.most, self.equal = SparseRows(), SparseRows()
        self.unit = max(float(whole.room.max(initial=1)), 1.0)
        self.count, self.upper = len(self.ways_type), [self.times[self.ways_type]]
        self.passed = self.more((1, len(passages)), self.times[self.type])[0]
        self.time = self.more((1, len(self.times)))[0]
        self.program = self._program()
        # columns of passages are few and decide most, so they are divided before those of ways
        self.integral = np.where(np.arange(self.count) < len(self.ways_type), 1, 2)
        self.integral[[*self.time, self.wait]] = 0

    def relaxed(self, seconds: float) -> tuple[FloatArray, float]:
        """Seconds per byte of every device: multipliers of the sets that it is in. And what the linear program proves.

        Both are 0 if the time was too short. Shape (devices,). From then on, the program lacks the counts that are 0 in
        plans shorter than the ceiling, by their reduced costs.
        """
        program, sets = self.program, self.whole.sets
        found = minimise(program, seconds)
        if found is None:
            return np.zeros(sets.shape[1]), 0.0
        prices = np.concatenate([found.most_price, found.equal_price])
        value, reduced = Dual(program.cost, *program.rows()).priced(prices, (program.lower, program.upper))
        if math.isfinite(value):
            self._keep((self.integral == 0) | (reduced <= (1.0 - value) * (1.0 + SUMMATION) + SUMMATION))
        multipliers = np.abs(found.most_price[: len(sets)]) @ sets
        return np.asarray(multipliers * self.ceiling / self.unit), self._seconds(value)

    def _keep(self, chosen: BoolArray) -> None:
        """Leave some columns in the program; the others are 0."""
        whole, self.integral = self.program, self.integral[chosen]
        columns = {name: getattr(whole, name)[chosen] for name in ("cost", "lower", "upper")}
        self.program = replace(whole, **columns, equal=whole.equal[:, chosen], most=whole.most[:, chosen])

    def bound(self, seconds: Callable[[], float], report: Callable[[float], object] = never) -> float:
        """The least seconds of all plans that fit, as far as that is proved in the time left; at most the ceiling.

        What is proved on the way is reported.
        """

        def should_stop(share: float) -> bool:
            report(self._seconds(share))
            return seconds() <= 0.0

        report(self.relaxed(seconds())[1])
        none = np.zeros(len(self.integral), dtype=np.bool_)
        return self._seconds(least_whole(self.program, self.integral, none, 1.0, seconds(), should_stop).bound)

    def _seconds(self, share: float) -> float:
        """A bound in seconds, given as a share of the ceiling."""
        return max(0.0, min(share, 1.0)) * self.ceiling * (1.0 - SUMMATION)

    def _program(self) -> LinearProgram:
        """The whole program; its cost is a share of the ceiling."""
        number = np.arange(len(self.ways_type))
        self.equal.put(self.equal.open(self.times)[self.type], self.passed, 1.0)
        row = self.equal.open(np.zeros(len(self.passed)))
        self.equal.put(row, self.passed, -1.0)
        self.equal.put(row[self.group], number, 1.0)
        row = self.equal.open(np.zeros(len(self.time)))
        self.equal.put(row, self.time, -1.0)
        self.equal.put(row[self.ways_type], number, self.ways.seconds * (1.0 - SUMMATION) / self.ceiling)
        located = locate(self)
        self._memory(located)  # these rows are the first of their kind
        self._flow()
        self._connected()
        self.wait = int(self.more((1, 1))[0, 0])
        add_messages(self, located)
        cost = np.zeros(self.count)
        cost[self.time] = 1.0
        cost[self.wait] = 1.0
        return LinearProgram.of(cost, np.concatenate(self.upper), self.most, self.equal)

    def more(self, shape: tuple[int, int], most: float | FloatArray = 1.0) -> IntArray:
        """Numbers of new columns."""
        first, self.count = self.count, self.count + shape[0] * shape[1]
        self.upper.append(np.full(self.count - first, most))
        return np.arange(first, self.count).reshape(shape)

    def _flow(self) -> None:
        """Between two types, a device is left as often as it is reached."""
        borders, devices = len(self.part), self.whole.devices
        row = self.equal.open(np.zeros(borders * devices)).reshape(borders, devices)
        for border, device, sign in (
            (self.after[self.type], self.device, 1.0),
            (self.before[self.type], self.entry, -1.0),
        ):
            inner = np.flatnonzero(self.inner[border])
            self.equal.put(row[border, device][inner], self.passed[inner], sign)

    def _memory(self, located: list[Located]) -> None:
        """What the ways hold fits into every set of devices; shared parameters count once a device."""
        whole, ways, unit = self.whole, self.ways, self.unit
        elsewhere = np.setdiff1d(whole.chain.outside, [each.operator for step in whole.chain.sources for each in step])
        sure = whole.first(np.zeros(whole.devices), self.ceiling, elsewhere).used[0]
        row = self.most.open((whole.room - sure) / unit * (1.0 + SUMMATION) + SUMMATION)
        column, held = np.nonzero(ways.used)
        self.most.put(row[held], column, ways.used[column, held] / unit * (1.0 - SUMMATION))
        for each in located:
            bytes_ = whole.own[each.outside.operator] / unit * (1.0 - SUMMATION)
            self.most.put(row[:, None], each.column, bytes_ * whole.sets[:, each.device])
        there = self.more((len(whole.shared), whole.devices))
        for each in located:
            for used in np.flatnonzero(whole.uses[each.outside.operator]):
                self.only_with(np.full(len(each.column), each.type), each.column, there[used, each.device])
        size = whole.arrays.parameter_bytes[whole.shared, None] / unit * (1.0 - SUMMATION)
        for number, inside in enumerate(whole.sets):
            self.most.put(row[number], there[:, inside], size)
        column, p, device = np.nonzero(ways.held)
        self.only_with(self.ways_type[column], column, there[p, device])

    def only_with(self, type_: IntArray, column: IntArray, with_: IntArray) -> None:
        """Count columns of a type at most as often as there are such steps, and only if a column is 1."""
        pairs, row = np.unique(np.stack([type_, with_]), axis=1, return_inverse=True)
        rows = self.most.open(np.zeros(pairs.shape[1]))
        self.most.put(rows[row.ravel()], column, 1.0)
        self.most.put(rows, pairs[1], -self.times[pairs[0]])

    def _connected(self) -> None:
        """A device on which steps of a part begin and end is reached: all sets with it are entered."""
        begin, end = self.part[self.before[self.type]], self.part[self.after[self.type]]
        for which in np.unique(end[begin == end]):
            begins, ends, used = begin == which, end == which, self.more((1, self.whole.devices))[0]
            here = np.flatnonzero(begins & ends & (self.entry == self.device))
            self.only_with(self.type[here], self.passed[here], used[self.entry[here]])
            for inside in self.whole.sets:
                leaves, arrives = begins & inside[self.entry], ends & inside[self.device]
                rows = self.most.open(np.zeros(int(inside.sum())))
                self.most.put(rows, used[inside], 1.0)
                self.most.put(rows[:, None], self.passed[arrives & ~leaves], -1.0)


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


def _fetched(program: CountProgram, located: list[Located]) -> list[tuple[list[Located], IntArray]]:
    """Columns that say to which devices the tensors of milestones are sent for operators outside."""
    found: list[tuple[list[Located], IntArray]] = []
    for tensor in {each.outside.tensor for each in located} - {NOWHERE}:
        users = [each for each in located if each.outside.tensor == tensor]
        maker = program.steps[users[0].outside.after]
        if program.times[maker] > 1:  # which of the steps makes it is not known
            continue
        need, come = program.more((2, program.whole.devices))
        for each in users:
            program.only_with(np.full(len(each.device), each.type), each.column, need[each.device])
        rows, made = program.most.open(np.zeros(len(need))), np.flatnonzero(program.type == maker)
        program.most.put(rows, need, 1.0)
        program.most.put(rows, come, -1.0)
        program.most.put(rows[program.device[made]], program.passed[made], -1.0)
        found.append((users, come))
    return found


def add_messages(program: CountProgram, located: list[Located]) -> None:
    """Rows for spans of steps: what enters a device in one takes no longer than the steps and a wait.

    A span begins after a milestone and ends with the last step of some type.
    """
    steps, fetched = program.steps, _fetched(program, located)
    at = {each.type: np.flatnonzero(steps == each.type).tolist() for each in located}
    first = {n: min(each.after for position in at[n] for each in program.sources[position]) for n in at}
    share, most = (1.0 - SUMMATION) / program.ceiling, program.ceiling
    for begin, end in product(sorted(set(first.values())), {len(steps) - 1, *(each[-1] for each in at.values())}):
        types = {n for n in at if begin <= first[n] and at[n][-1] <= end}
        sent = [(users[0].outside, come) for users, come in fetched if types.issuperset(each.type for each in users)]
        rows, within = program.most.open(np.zeros(program.whole.devices)), np.unique(steps[begin + 1 : end + 1])
        program.most.put(rows, np.asarray([program.wait]), -1.0)
        program.most.put(rows[:, None], program.time[within], -(1.0 + 4 * SUMMATION))
        parts = steps[: begin + 1], steps[end + 1 :], steps[[outside.after + 1 for outside, _ in sent]]
        ways = np.flatnonzero(np.isin(program.type, np.setdiff1d(within, np.concatenate(parts))))
        program.most.put(rows[program.device[ways]], program.passed[ways], np.minimum(program.port[ways], most) * share)
        for outside, come in sent:
            program.most.put(rows, come, np.minimum(outside.fetch, most) * share)
        for each in located:
            if each.type in types and each.reader != ANYWHERE:
                away, seconds = each.column[each.device != each.reader], float(each.outside.enter[each.reader])
                program.most.put(rows[[each.reader]], away, min(seconds, most) * share)
