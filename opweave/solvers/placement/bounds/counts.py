"""Memory and time together: one linear program counts how often equal windows and milestones use which devices.

Columns are totals over equal pieces of the milestone chain: X[m,k] milestones of class m on device k; F[c,a,b]
windows of class c whose ends are on a and b; and for every (c, a, b) the columns of the window's linear program
(:mod:`.window_program`), with all right-hand sides multiplied by F. Rows:

* sum F[c] = windows of the class; on every device, X is the number of windows that enter, and that leave, the
  milestones of a class
* Len[c,a,b] >= B(c; a, b) F[c,a,b], B being the milestone bound's table
* device k: bytes of X and of the windows' operators on k <= its memory

with the objective sum X p + sum Len. The objective is minimised. Proof: take the 0/1 point of every window of a
schedule and add the points of equal windows with equal ends. Every row is homogeneous in F, hence satisfied by the sum.
The memory rows hold because the pieces of the chain have no operator in common. The objective is at most the makespan
because milestones and windows are disjoint in time. Equal branches may be averaged as in the window program when each
is charged the least memory among them. Operators outside the chain take no memory here, which only lowers the bound. It
equals the best Lagrangian bound on memory, without iteration.

The bound never exceeds a ceiling, so no window is longer than the ceiling and all columns lie in a finite box. The
bound is the value that the engine's prices prove over that box.

Source: M3, the linear program over counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise, proved_value
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory, memory_of
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones
from opweave.solvers.placement.bounds.window_program import serial_length
from opweave.solvers.rounding import SUMMATION

MOST_COLUMNS = 60_000
"""Most columns of window programs. Classes beyond it keep their tables' bounds, those with the least memory first."""

WRITTEN_SHARE = 0.5
"""Share of the time for writing the program; what is written later could not be solved."""

FULL = 100.0
"""Units of memory per device, which keeps coefficients moderate."""


class Counts(NamedTuple):
    """A lower bound in seconds, and the seconds that one more byte on each device saves. Prices: shape (devices,)."""

    bound: float
    price: FloatArray


@dataclass(eq=False)
class Kind:
    """Equal windows: their block, the bytes of their operators, their milestones' classes (-1: none), their number."""

    block: Block
    bytes: FloatArray
    before: int
    after: int
    count: int = 0


@dataclass(eq=False)
class Tally:
    """The chain as counts of equal windows and milestones.

    Attributes
    ----------
    kinds
        Windows by class.
    seconds, bytes, count
        Run times (one row per class), bytes and number of the milestones of a class.
    """

    kinds: list[Kind]
    seconds: FloatArray
    bytes: FloatArray
    count: IntArray


def tally(chain: Milestones, arrays: PlacementArrays, memory: Memory) -> Tally:
    """Count equal pieces of a chain; milestones are equal only between equal windows."""
    blocks: list[tuple[Block, IntArray]] = []
    milestones: list[int] = []
    for position, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
        inner = window.operators[module.inner]
        blocks += [
            (block, window.operators[members]) for block, members in zip(module.blocks, module.members, strict=True)
        ]
        milestones += inner.tolist()
        milestones += chain.cuts[position : position + 1].tolist()
    marks = []
    for block, operators in blocks:
        own = memory.bytes[operators].copy()
        own[: int(block.window.entry)] = 0.0
        own[len(own) - int(block.window.exit) :] = 0.0
        marks.append((id(block), own.tobytes()))
    classes: dict[object, int] = {}
    numbers, members_of_class = [], []
    for i, v in enumerate(milestones):
        mark = (arrays.seconds[v].tobytes(), float(memory.bytes[v]), marks[i], marks[i + 1])
        if mark not in classes:
            classes[mark] = len(classes)
            members_of_class.append(v)
        numbers.append(classes[mark])
    kinds: dict[object, Kind] = {}
    around = [-1, *numbers, -1]
    for i, (block, _) in enumerate(blocks):
        own = np.frombuffer(marks[i][1])
        kind = kinds.setdefault((marks[i], around[i], around[i + 1]), Kind(block, own, around[i], around[i + 1]))
        kind.count += 1
    frequency = Counter(numbers)
    return Tally(
        list(kinds.values()),
        arrays.seconds[members_of_class],
        memory.bytes[members_of_class],
        np.asarray([frequency[c] for c in range(len(classes))], dtype=np.int64),
    )


@dataclass(eq=False)
class _Program:
    """The linear program under construction; after ``end`` on the clock, windows are no longer copied."""

    tally: Tally
    memory: Memory
    ceiling: float
    end: float
    equal: SparseRows = field(default_factory=SparseRows)
    most: SparseRows = field(default_factory=SparseRows)
    cost: list[FloatArray] = field(default_factory=list)
    upper: list[FloatArray] = field(default_factory=list)
    columns: int = 0

    def add(self, cost: FloatArray, upper: FloatArray) -> IntArray:
        """Add columns and return their numbers."""
        numbers = np.arange(self.columns, self.columns + len(cost), dtype=np.int64)
        self.columns += len(cost)
        self.cost.append(cost)
        self.upper.append(upper)
        return numbers

    def build(self, copied: set[int]) -> None:
        """Write all rows; the kinds in ``copied`` get their windows' programs."""
        seconds = self.tally.seconds
        classes, devices = seconds.shape
        usable = np.isfinite(seconds)
        top = np.where(usable, self.tally.count[:, None], 0.0)
        x = self.add(np.where(usable, seconds, 0.0).ravel(), top.ravel()).reshape(classes, devices)
        self.rows = self.most.open(np.full(devices, FULL))
        limited = np.isfinite(self.memory.capacity)
        self.unit = np.where(limited, FULL / np.maximum(np.where(limited, self.memory.capacity, 1.0), 1.0), 0.0)
        self.most.put(self.rows[None, :], x, self.tally.bytes[:, None] * self.unit)
        self.equal.put(self.equal.open(self.tally.count.astype(np.float64))[:, None], x, 1.0)
        flows = self.equal.open(np.zeros(2 * classes * devices)).reshape(2, classes, devices)
        self.equal.put(flows, x[None], -1.0)
        for number, kind in enumerate(self.tally.kinds):
            self._kind(kind, flows, copy=number in copied)

    def _kind(self, kind: Kind, flows: IntArray, *, copy: bool) -> None:
        """Write the windows of one class: their ends, lengths and, with ``copy`` and in time, their operators."""
        devices = flows.shape[2]
        total = self.equal.open(np.asarray([float(kind.count)]))
        window = kind.block.window
        for a in range(devices if window.entry else 1):
            for b in range(devices if window.exit else 1):
                value = float(kind.block.values[a, b])
                if value > self.ceiling * (1.0 + SUMMATION):
                    continue
                copied = copy and perf_counter() < self.end
                number = self.add(np.asarray([0.0 if copied else value]), np.asarray([float(kind.count)]))
                self.equal.put(total, number, 1.0)
                if kind.after >= 0:
                    self.equal.put(flows[0, kind.after, b : b + 1], number, 1.0)
                if kind.before >= 0:
                    self.equal.put(flows[1, kind.before, a : a + 1], number, 1.0)
                if copied:
                    self._copy(kind, a, b, number)

    def _copy(self, kind: Kind, a: int, b: int, number: IntArray) -> None:
        """Copy the window's program, with right-hand sides multiplied by the number of windows with these ends."""
        from scipy.sparse import coo_matrix

        block = kind.block
        value = float(block.values[a, b])
        program = block.program(a, b, self.ceiling)
        if program is None:  # no plan below the ceiling contains such a window
            self.upper[-1] = np.zeros(1)
            return
        linear = program.linear
        columns = self.add(linear.cost * program.scale, linear.upper * kind.count)
        for rows, matrix, right in (
            (self.equal, linear.equal, linear.equal_right),
            (self.most, linear.most, linear.most_right),
        ):
            entries = coo_matrix(matrix)
            numbers = rows.open(np.zeros(len(right)))
            rows.put(numbers[entries.row], columns[entries.col], entries.data)
            rows.put(numbers, number, -right)
        row = self.most.open(np.zeros(1))
        self.most.put(row, number, value / program.scale)
        self.most.put(row, columns[program.length : program.length + 1], -1.0)
        # branches with equal times may differ in memory: each takes the least memory among them
        least = np.full(len(kind.bytes), np.inf)
        np.minimum.at(least, block.branches.leader, kind.bytes)
        there = np.flatnonzero(program.x[:, 0] >= 0)
        bytes_ = least[block.branches.leader[there]]
        self.most.put(self.rows[None, :], columns[program.x[there]], bytes_[:, None] * self.unit)

    def solve(self, time_limit: float) -> Counts:
        """The optimum and the prices of memory, or what is proved of them when time is up."""
        cost, upper = np.concatenate(self.cost), np.concatenate(self.upper)
        linear = LinearProgram.of(cost / self.ceiling, upper, self.most, self.equal)
        found = minimise(linear, time_limit, unfinished=True)
        if found is None:
            return Counts(0.0, np.zeros(len(self.unit)))
        prices = np.concatenate([found.most_price, found.equal_price])
        value = proved_value(linear.cost, *linear.rows(), (linear.lower, linear.upper), prices)
        bound = max(0.0, min(1.0, value) * (1.0 - SUMMATION)) * self.ceiling
        return Counts(bound, np.maximum(0.0, -found.most_price[self.rows]) * self.unit * self.ceiling)


def binding(memory: Memory) -> bool:
    """Whether some device cannot hold all operators."""
    return bool((memory.capacity < memory.bytes.sum()).any())


def priced_counts(
    chain: Milestones,
    instance: PlacementInstance,
    arrays: PlacementArrays,
    time_limit: float,
    ceiling: float | None = None,
) -> Counts:
    """The bound and the prices of memory; zeros when memory cannot bind or nothing was proved in time.

    Parameters
    ----------
    chain
        Milestones with their tables; better tables give a better bound.
    instance, arrays
        The problem.
    time_limit
        Seconds, at most half of them for writing the program. Windows that are not written in time count with their
        lengths alone.
    ceiling
        Length of a known plan; None for none. The bound never exceeds it.
    """
    memory = memory_of(instance)
    highest = serial_length(arrays) if ceiling is None else ceiling
    if memory is None or not binding(memory) or not 0.0 < highest < np.inf:
        return Counts(0.0, np.zeros(len(instance.devices)))
    parts = tally(chain, arrays, memory)
    copied: set[int] = set()
    room = MOST_COLUMNS
    by_memory = sorted(range(len(parts.kinds)), key=lambda c: -parts.kinds[c].bytes.sum() * parts.kinds[c].count)
    for c in by_memory:
        block = parts.kinds[c].block
        devices = block.values.shape[0]
        kept = block.branches.kept
        flows = int((kept[block.window.arrays.source] & kept[block.window.arrays.target]).sum())
        pairs = devices ** (int(block.window.entry) + int(block.window.exit))
        need = pairs * devices * (block.size + devices * flows)
        if parts.kinds[c].bytes.any() and need <= room:
            copied.add(c)
            room -= need
    begin = perf_counter()
    program = _Program(parts, memory, highest, begin + WRITTEN_SHARE * time_limit)
    program.build(copied)
    return program.solve(max(time_limit - (perf_counter() - begin), 0.0))
