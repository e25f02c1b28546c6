"""What one threshold leaves of a pipeline whose devices may have several stages: blocks of pieces, loads in shares.

Everything that cannot be sent in time stays together: the maker of a tensor that no link carries and its readers are on
one device, and pieces between which nothing that changes devices can send are one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise, proved_value
from opweave.solvers.pipeline.walks import Sendable, shared_parameters, tied_pieces
from opweave.solvers.rounding import SUMMATION

MOST_PARTS = 60
"""Most parameters that several groups read and that are counted, the largest ones: a set of them is one integer."""

NEGLIGIBLE = 0.01
"""Share of the largest message below which a tensor is not counted."""

SLACK = 1e-9
"""Relative tolerance of sums."""


class Blocks(NamedTuple):
    """Blocks of pieces for one threshold.

    Attributes
    ----------
    load, held
        Of a whole group of tied blocks, at its first block; 0 at the others. In shares of what each device can take,
        rounded so that a stage of any length counts at most one share too much. Shapes (devices, blocks).
    may
        Whether a device may run the whole group of a block. Shape (devices, blocks).
    part_start, part
        Parameters that several groups read: those that the group which begins at block k reads are
        ``part[part_start[k]:part_start[k + 1]]``.
    part_held, part_end
        Shares of each of them on each device, rounded down, and the last block whose group reads it. Shapes (devices,
        parts), (parts,).
    root, end
        First and last block of the group of each block. Shapes (blocks,).
    open_start, open_root
        First blocks of the groups that have blocks before block k and from k on.
    read_start, read_bytes, read_maker, read_before
        What each block reads that an earlier block made: bytes, that block, and the last block before that reads it.
    live_start, live
        Blocks that made what is read from block k on, before it.
    room
        Most bytes from device to device. Shape (devices, devices).
    most_load, most_held
        Most shares of each device. Shape (devices,).
    load_price, held_price, rest
        Prices of a share, and the least price of all groups from each block on. Shapes (devices,), (devices,),
        (blocks + 1,).
    """

    load: IntMatrix
    held: IntMatrix
    may: IntMatrix
    part_start: IntArray
    part: IntArray
    part_held: IntMatrix
    part_end: IntArray
    root: IntArray
    end: IntArray
    open_start: IntArray
    open_root: IntArray
    read_start: IntArray
    read_bytes: FloatArray
    read_maker: IntArray
    read_before: IntArray
    live_start: IntArray
    live: IntArray
    room: FloatMatrix
    most_load: IntArray
    most_held: IntArray
    load_price: FloatArray
    held_price: FloatArray
    rest: FloatArray


class _Groups(NamedTuple):
    """Groups of tied blocks; loads and bytes are those of whole groups, at their first blocks.

    Attributes
    ----------
    block, root
        Block of each piece, and first block of each block's group.
    seconds, held, may
        Seconds on each device, bytes, and whether a device may run the group. Shapes (devices, blocks), (blocks,),
        (devices, blocks).
    readers, sizes
        First blocks of the groups that read each parameter of several groups, and its bytes.
    capacity
        Bytes of each device, at most 1 more than everything takes. Shape (devices,).
    """

    block: IntArray
    root: IntArray
    seconds: FloatMatrix
    held: FloatArray
    may: BoolArray
    readers: list[IntArray]
    sizes: FloatArray
    capacity: FloatArray


@dataclass(eq=False)
class BlockMaker:
    """Makes the blocks of thresholds.

    Attributes
    ----------
    problem, instance
        The instance is that of :func:`~opweave.solvers.pipeline.walks.without_ties`.
    least
        After the first threshold, a lower bound on the objective of all plans that keep it, at most that threshold.
    """

    problem: Pipeline
    instance: PipelineInstance

    def __post_init__(self) -> None:
        self._sendable = Sendable.of(self.problem, self.instance)
        self.least = 0.0
        self._prices: tuple[FloatArray, FloatArray] | None = None

    def _soonest(self, size: FloatArray) -> FloatArray:
        """Seconds that messages take at least."""
        linked = self.instance.rate > 0
        if not linked.any():
            return np.full(len(size), np.inf)
        late, rate = self.instance.latency[linked], self.instance.rate[linked]
        return np.asarray((late + size[:, None] / rate).min(axis=1))

    def together(self, limit: float) -> tuple[IntArray, IntArray]:
        """First pieces of blocks, and the group of each piece by its first piece."""
        tensors, pieces = self._sendable, self.instance.last
        top = list(range(pieces))

        def find(piece: int) -> int:
            while top[piece] != piece:
                top[piece] = top[top[piece]]
                piece = top[piece]
            return piece

        def join(first: int, second: int) -> None:
            low, high = sorted((find(first), find(second)))
            top[high] = low

        heavy = self._soonest(tensors.bytes)[tensors.tensor] > limit
        for maker, reader in zip(tensors.maker[tensors.tensor[heavy]], tensors.reader[heavy], strict=True):
            join(int(maker), int(reader))
        for group in tied_pieces(self.problem, self.instance):
            for piece in group[1:]:
                join(group[0], piece)
        first = np.arange(pieces)
        while True:
            groups = np.array([find(piece) for piece in range(pieces)], dtype=np.int64)
            block = np.searchsorted(first, np.arange(pieces), side="right") - 1
            made = block[tensors.maker]
            direct = np.unique(tensors.tensor[block[tensors.reader] == made[tensors.tensor] + 1])
            sure = np.zeros(len(first) + 1)
            np.add.at(sure, made[direct] + 1, tensors.bytes[direct])
            joined = (groups[first] == groups[first - 1]) | (self._soonest(sure[:-1]) > limit)
            joined[0] = False
            if not joined.any():
                return first, groups
            for piece in first[joined].tolist():
                join(piece, piece - 1)
            first = first[~joined]

    def shared_out(self, limit: float) -> float:
        """A lower bound for all plans within a threshold: tied operators have one device, and nothing is sent."""
        self._prices = self._shared(self._grouped(*self.together(math.inf)), limit)
        return self.least

    def _grouped(self, first: IntArray, groups: IntArray) -> _Groups:
        """Loads of groups."""
        instance, count, blocks = self.instance, len(self.instance.devices), len(first)
        block = np.searchsorted(first, np.arange(instance.last), side="right") - 1
        root = block[groups[first]]
        home = root[block]  # of every piece
        seconds, held, refused = np.zeros((count, blocks)), np.zeros(blocks), np.zeros((count, blocks), dtype=np.int64)
        own = np.add.reduceat(instance.seconds, instance.position[:-1], axis=1)
        for v in range(count):
            np.add.at(seconds[v], home, own[v])
            np.add.at(refused[v], home, instance.reach[v, :-1] <= np.arange(instance.last))
        np.add.at(held, home, np.diff(instance.memory).astype(np.float64))
        apart: list[tuple[int, IntArray]] = []
        for size, users in shared_parameters(self.problem, instance):
            readers = np.unique(home[users])
            if len(readers) == 1:
                held[readers[0]] += size
            else:
                apart.append((size, readers))
        apart = sorted(apart, key=lambda each: -each[0])[:MOST_PARTS]
        sizes = np.array([float(size) for size, _ in apart])
        capacity = np.minimum(instance.capacity, held.sum() + sizes.sum() + 1.0).astype(np.float64)
        may = (refused == 0)[:, root]
        return _Groups(block, root, seconds, held, may, [readers for _, readers in apart], sizes, capacity)

    def _shared(self, groups: _Groups, limit: float) -> tuple[FloatArray, FloatArray]:
        """Prices from sharing groups out; some device holds what several of them read."""
        roots = groups.root == np.arange(len(groups.root))
        every = np.ones((len(groups.capacity), len(groups.sizes)), dtype=bool)
        program = sharing_out(
            np.concatenate([groups.seconds[:, roots], np.zeros(every.shape)], axis=1),
            np.concatenate([groups.held[roots], groups.sizes]),
            groups.capacity,
            np.concatenate([groups.may[:, roots], every], axis=1),
            limit,
        )
        return self._priced(program, limit, groups.capacity)

    def at(self, limit: float, shares: int) -> tuple[IntArray, Blocks]:
        """The blocks of a threshold, and their first pieces."""
        instance, count = self.instance, len(self.instance.devices)
        first, pieces = self.together(limit)
        groups, blocks = self._grouped(first, pieces), len(first)
        root, end = groups.root, np.zeros(blocks, dtype=np.int64)
        np.maximum.at(end, root, np.arange(blocks))
        lasting = np.flatnonzero(end[root] > root)
        opened = lasting[root[lasting] == lasting]
        spans = [opened[(opened < k) & (end[opened] >= k)] for k in range(blocks + 1)]
        linked = instance.rate > 0
        room = np.where(linked, (limit - instance.latency) * instance.rate * (1.0 + SLACK), -1.0)
        if self._prices is None:
            self._prices = self._shared(groups, limit)
        second, byte = self._prices
        priced = second[:, None] * groups.seconds + byte[:, None] * groups.held
        least = np.where(root == np.arange(blocks), np.where(groups.may, priced, np.inf).min(axis=0), 0.0)
        for size, readers in zip(groups.sizes.tolist(), groups.readers, strict=True):
            least[readers[0]] += byte.min() * size
        rest = np.append(np.cumsum(least[::-1])[::-1], 0.0) * (1.0 - SLACK)
        load_unit, held_unit = np.full(count, limit / shares), np.maximum(groups.capacity, 1.0) / shares
        plenty = groups.held.sum() + groups.sizes.sum() <= groups.capacity
        part_held = np.floor(groups.sizes / held_unit[:, None]) * ~plenty[:, None]
        part_start, part = self._parts(groups.readers, blocks)
        stages = self.problem.stage_limit
        most = np.full(count, shares + min(self.problem.max_visits or stages, stages))
        return first, Blocks(
            shares_of(groups.seconds, load_unit, groups.seconds.sum(axis=1) <= limit),
            shares_of(np.tile(groups.held, (count, 1)), held_unit, plenty),
            np.ascontiguousarray(groups.may.astype(np.int64)),
            part_start,
            part,
            np.ascontiguousarray(part_held.astype(np.int64)),
            np.array([readers[-1] for readers in groups.readers], dtype=np.int64),
            root,
            end[root],
            np.cumsum([0, *map(len, spans)]),
            np.concatenate(spans),
            *self._reads(groups.block, blocks, float(room.max(initial=0.0))),
            room,
            most,
            most,
            second * load_unit,
            byte * held_unit,
            rest,
        )

    def _parts(self, readers: list[IntArray], blocks: int) -> tuple[IntArray, IntArray]:
        """Parameters that each group reads, as in :class:`Blocks`."""
        part = np.repeat(np.arange(len(readers)), [len(each) for each in readers])
        block = np.concatenate([np.zeros(0, dtype=np.int64), *readers])
        there = np.argsort(block, kind="stable")
        return np.searchsorted(block[there], np.arange(blocks + 1)), part[there].astype(np.int64)

    def _priced(self, program: LinearProgram, limit: float, capacity: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prices of a second and of a byte on each device, and the bound that they prove."""
        count = len(capacity)
        found = minimise(program, None)
        if found is None:
            return np.ones(count), np.zeros(count)
        prices = np.concatenate([found.most_price, found.equal_price])
        value = proved_value(program.cost, *program.rows(), (program.lower, program.upper), prices)
        self.least = max(0.0, min(limit, value * limit * (1.0 - SUMMATION)))
        price = np.abs(found.most_price)
        return price[:count] / limit, price[count:] / np.maximum(capacity, 1.0)

    def _reads(
        self, block: IntArray, blocks: int, most: float
    ) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray]:
        """What each block reads, and what is live, as in :class:`Blocks`."""
        tensors = self._sendable
        kept = tensors.bytes[tensors.tensor] > NEGLIGIBLE * most
        tensor, reader = np.unique(np.stack([tensors.tensor[kept], block[tensors.reader[kept]]]), axis=1)
        maker = block[tensors.maker[tensor]]
        before = np.full(len(tensor), -1)
        again = np.flatnonzero(np.diff(tensor) == 0) + 1
        before[again] = reader[again - 1]
        there = np.flatnonzero(reader > maker)
        there = there[np.argsort(reader[there], kind="stable")]
        start = np.searchsorted(reader[there], np.arange(blocks + 1))
        until = np.zeros(blocks, dtype=np.int64)
        np.maximum.at(until, maker, reader)
        lasting = np.flatnonzero(until > np.arange(blocks))
        live = [lasting[(lasting < k) & (until[lasting] >= k)] for k in range(blocks + 1)]
        return (
            start,
            tensors.bytes[tensor[there]],
            np.ascontiguousarray(maker[there]),
            np.ascontiguousarray(before[there]),
            np.cumsum([0, *map(len, live)]),
            np.concatenate(live),
        )


def shares_of(amounts: FloatMatrix, unit: FloatArray, plenty: BoolArray) -> IntMatrix:
    """Amounts in units; sums over neighbours are at most one too large, 0 on devices that can take everything."""
    ends = np.floor(np.cumsum(amounts, axis=1) / unit[:, None] * (1.0 - SLACK))
    shares = np.diff(ends, axis=1, prepend=0.0).astype(np.int64)
    return np.ascontiguousarray(np.where(plenty[:, None], 0, shares))


def sharing_out(
    seconds: FloatMatrix, held: FloatArray, capacity: FloatArray, may: IntMatrix, limit: float
) -> LinearProgram:
    """The program that shares groups out without messages; the time of the slowest device, in limits, is last."""
    devices, groups = seconds.shape
    column = np.arange(devices * groups).reshape(devices, groups)
    most, equal = SparseRows(), SparseRows()
    rows = most.open(np.zeros(devices))
    most.put(rows[:, None], column, seconds / limit)
    most.put(rows, np.full(devices, column.size), -1.0)
    most.put(most.open(np.ones(devices))[:, None], column, held / np.maximum(capacity, 1.0)[:, None])
    equal.put(equal.open(np.ones(groups)), column, 1.0)
    upper = np.append(may.astype(np.float64).ravel(), 2.0)  # no plan within the limit takes longer
    return LinearProgram.of(column_alone(column.size, column.size + 1), upper, most, equal)
