"""The integer program over counts: how many times each option of a module occurs in each stretch of a chain.

Columns, all integers: x[r,k,o] modules at place k of stretch r's period that take option o; on[r,k,j,d] those whose
operator j is on device d; hand[r,d] the operator between stretches r - 1 and r runs on d (hand[0]: the first operator);
held[p,d] device d holds the shared parameter p. With T[r] repetitions of a period of K places, rows:

* sum_d hand[0,d] = 1, sum_o x[r,k,o] = T[r]
* the cut point before place k on d: x[r,k-1,o] that leave to d = x[r,k,o] that enter from d. Before place 0, hand[r,d]
  enters from outside and hand[r+1,d] leaves; if T[r] > 1, place K - 1 leads back there.
* on[r,k,j,d] = sum of x[r,k,o] over options with operator j on d
* device d: bytes of what is on it <= its memory
* on[r,k,j,d] <= T[r] x held[p,d] for every parameter p of operator j
* set S of (place, device) that counts use but do not reach: options that pass one <= T[r] x those that come into S

The objective is the seconds of all options, minimised. A chain's plan is a walk over (place, device) in every stretch,
so its counts obey all rows. Counts are a walk if their arcs are connected, since they are balanced (Euler). The rows
for sets S say so; those that matter are added when counts break them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.solvers.language.chain import ModuleChain
from opweave.solvers.linear import LinearProgram, SparseRows

FULL = 100.0
"""Units of memory per device."""

SECONDS = 1000.0
"""Units of time in the longest plan."""

SLACK = 1e-6
"""Relative tolerance above a known plan within which options are kept."""


class CountProgram:
    """Rows and columns for a chain.

    Attributes
    ----------
    chain
        The chain.
    unit
        Seconds of one unit of the objective.
    hand
        Columns. Shape (stretches + 1, devices).
    place
        For every stretch and place: the columns of the options of its module.
    on
        For every stretch and place: columns. Shape (operators of the module, devices).
    """

    def __init__(self, chain: ModuleChain) -> None:
        self.chain = chain
        self.ceiling = np.inf
        self.unit = chain.longest / SECONDS or 1.0
        count, devices = len(chain.stretches), chain.devices
        self._columns = 0
        self.hand = self._new((count + 1) * devices).reshape(count + 1, devices)
        self.modules = [
            [chain.modules[number] for number in chain.classes[stretch.first :][: stretch.period]]
            for stretch in chain.stretches
        ]
        self.place = [[self._new(len(module.seconds)) for module in row] for row in self.modules]
        self.on = [
            [self._new(module.bytes.size * devices).reshape(-1, devices) for module in row] for row in self.modules
        ]
        self.held = {p: self._new(devices) for p in chain.shared_bytes}
        self.equal, self.most = SparseRows(), SparseRows()
        self._limits: list[int] = []
        self._together: list[tuple[IntArray, IntArray]] = []
        self._flow()
        self._memory()
        self._shared()
        self._use()

    def linear(self, spare: float = 0.0) -> LinearProgram:
        """The program without integrality, with a part of the memory left free."""
        cost, upper = np.zeros(self._columns), np.ones(self._columns)
        first = self.chain.first_seconds
        short = np.isfinite(first) & (first <= self.ceiling) & (self.chain.first_bytes <= self.chain.capacity)
        cost[self.hand[0]] = np.where(short, first, 0.0) / self.unit
        upper[self.hand[0]] = short
        for r, stretch in enumerate(self.chain.stretches):
            for module, columns, on in zip(self.modules[r], self.place[r], self.on[r], strict=True):
                short = module.seconds <= self.ceiling
                cost[columns] = np.where(short, module.seconds, 0.0) / self.unit
                upper[columns] = np.where(short, stretch.times, 0)
                fits = self.chain.capacity // np.maximum(module.bytes[:, None], 1)
                upper[on] = np.where(module.bytes[:, None] > 0, np.minimum(stretch.times, fits), stretch.times)
        for p, held in self.held.items():
            upper[held] = self.chain.shared_bytes[p] <= self.chain.capacity
        for columns, most in self._together:
            upper[columns] = most
        program = LinearProgram.of(cost, upper, self.most, self.equal)
        program.most_right[self._limits] -= spare * FULL
        return program

    def narrow(self, seconds: float) -> None:
        """Leave out options that alone take longer than a known plan, and count time in parts of that plan's.

        Hours on one device would otherwise drown microseconds on another one in rounding.
        """
        self.ceiling = seconds * (1.0 + SLACK)
        self.unit = seconds / SECONDS or 1.0

    def connect(self, r: int, nodes: set[tuple[int, int]]) -> None:
        """Add rows of stretch ``r`` for a set of places on devices: what passes one of them comes in from outside."""
        stretch = self.chain.stretches[r]
        inside = np.zeros((stretch.period, self.chain.devices), dtype=bool)
        for k, d in nodes:
            inside[k, d] = True
        coming = []
        for k, columns in enumerate(self.place[r]):
            module = self.modules[r][k]
            coming.append(columns[~inside[k, module.entry] & inside[(k + 1) % stretch.period, module.exit]])
        rows = self.most.open(np.zeros(len(nodes)))
        self.most.put(rows[:, None], np.concatenate([*coming, self.hand[r][inside[0]]]), -float(stretch.times))
        for row, (k, d) in zip(rows.tolist(), sorted(nodes), strict=True):
            passing = self.place[r][k][self.modules[r][k].entry == d]
            self.most.put(np.asarray([row]), passing, 1.0)

    def stranded(self, point: IntArray) -> list[tuple[int, set[tuple[int, int]]]]:
        """For every stretch, the places on devices that its counts pass but that its first one does not lead to."""
        found = []
        for r, stretch in enumerate(self.chain.stretches):
            arcs = []
            if stretch.times == 1:
                continue
            for k, columns in enumerate(self.place[r]):
                module, there = self.modules[r][k], point[columns] > 0
                after = (k + 1) % stretch.period
                arcs += [((k, a), (after, b)) for a, b in zip(module.entry[there], module.exit[there], strict=True)]
            reached = {(0, int(np.flatnonzero(point[self.hand[r]])[0]))}
            grown = True
            while grown:
                more = {b for a, b in arcs if a in reached} - reached
                reached |= more
                grown = bool(more)
            left = {(k, int(d)) for k, d in {a for a, _ in arcs} - reached}
            if left:
                found.append((r, left))
        return found

    def _new(self, count: int) -> IntArray:
        columns = np.arange(self._columns, self._columns + count, dtype=np.int64)
        self._columns += count
        return columns

    def _flow(self) -> None:
        devices, equal = self.chain.devices, self.equal
        equal.put(equal.open(np.ones(1)), self.hand[0], 1.0)
        for r, stretch in enumerate(self.chain.stretches):
            repeats = stretch.times > 1
            for k, columns in enumerate(self.place[r]):
                equal.put(equal.open(np.full(1, float(stretch.times))), columns, 1.0)
                rows = equal.open(np.zeros(devices))
                equal.put(rows[self.modules[r][k].entry], columns, 1.0)
                if k:
                    equal.put(rows[self.modules[r][k - 1].exit], self.place[r][k - 1], -1.0)
                else:
                    equal.put(rows, self.hand[r], -1.0)
                    if repeats:
                        equal.put(rows[self.modules[r][-1].exit], self.place[r][-1], -1.0)
                        equal.put(rows, self.hand[r + 1], 1.0)
            if not repeats:
                rows = equal.open(np.zeros(devices))
                equal.put(rows[self.modules[r][-1].exit], self.place[r][-1], 1.0)
                equal.put(rows, self.hand[r + 1], -1.0)

    def _memory(self) -> None:
        """Bytes on every device."""
        chain = self.chain
        every = [(self.held[p], size, 1) for p, size in chain.shared_bytes.items()]
        every.append((self.hand[0], chain.first_bytes, 1))
        for stretch, row, places in zip(chain.stretches, self.modules, self.on, strict=True):
            for module, on in zip(row, places, strict=True):
                every += [
                    (columns, size, stretch.times) for columns, size in zip(on, module.bytes.tolist(), strict=True)
                ]
        for d in np.flatnonzero(chain.capacity != NO_LIMIT).tolist():
            self._limits.append(self.most.count)
            self._within(d, every)

    def _within(self, d: int, held: Sequence[tuple[IntArray, int, int]]) -> None:
        """What is on a device takes at most its memory; what is too large is never there.

        Pieces of one size are counted together, too: to divide their number settles more than to divide one place's.
        """
        limit = int(self.chain.capacity[d])
        pieces = [(columns[d], size, times) for columns, size, times in held if 0 < size <= limit]
        columns, takes, times = np.asarray(pieces, dtype=np.int64).reshape(-1, 3).T
        sizes, kind = np.unique(takes, return_inverse=True)
        counts = np.zeros(len(sizes), dtype=np.int64)
        np.add.at(counts, kind, times)
        together = self._new(len(sizes))
        self._together.append((together, np.minimum(counts, limit // sizes)))
        rows = self.equal.open(np.zeros(len(sizes)))
        self.equal.put(rows[kind], columns, 1.0)
        self.equal.put(rows, together, -1.0)
        self.most.put(self.most.open(np.full(1, FULL)), together, sizes.astype(np.float64) * (FULL / max(limit, 1)))

    def _shared(self) -> None:
        for p in self.chain.first_shared:
            self._needs(self.hand[0], 1, p)
        for r, row in enumerate(self.modules):
            for module, on in zip(row, self.on[r], strict=True):
                for j, shared in enumerate(module.shared):
                    for p in shared:
                        self._needs(on[j], self.chain.stretches[r].times, p)

    def _needs(self, columns: IntArray, times: int, p: int) -> None:
        """What is on a device needs a parameter there."""
        rows = self.most.open(np.zeros(self.chain.devices))
        self.most.put(rows, columns, 1.0)
        self.most.put(rows, self.held[p], -float(times))

    def _use(self) -> None:
        """Count the operators on every device; one of them uses the device."""
        for r, row in enumerate(self.modules):
            for module, columns, on in zip(row, self.place[r], self.on[r], strict=True):
                for j, counted in enumerate(on):
                    rows = self.equal.open(np.zeros(self.chain.devices))
                    self.equal.put(rows[module.device[:, j + 1]], columns, 1.0)
                    self.equal.put(rows, counted, -1.0)
