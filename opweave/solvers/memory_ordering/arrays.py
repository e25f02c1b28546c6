"""The arrays of memory ordering's hot loops, and one step of an order in either direction.

The direction is an argument: ``sign`` is +1 to run operators first to last and -1 to undo them last to first. An order
read backwards visits the same pairs (state, operator), so one set of loops serves both directions. ``left[s]`` is
always the number of readers of storage s that have not run yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.loops import helper
from opweave.solvers.run import Run

FORWARD = 1
BACKWARD = -1

LIVE, READY, TRAIL, HASH = 0, 1, 2, 3
"""Entries of :attr:`PartialOrder.scalars`."""


class OrderingArrays(NamedTuple):
    """An :class:`OrderingInstance` as a flat tuple of arrays; adjacencies are (start, items) pairs.

    ``made`` holds the bytes that every operator adds to the live bytes; ``stay`` also includes results that no operator
    reads, and the workspace. ``counts`` marks the storages that ever count (read by some operator, or kept).
    ``script`` says once more, in one piece, what the step of an operator does, from ``script[v]`` on: made, stay, where
    the reads end from here, (storage, bytes that can die) of every read, (storage, bytes, slots) of what it overwrites.
    """

    size: IntArray
    kept: BoolArray
    counts: BoolArray
    producer: IntArray
    made: IntArray
    stay: IntArray
    readers_start: IntArray
    readers: IntArray
    before_start: IntArray
    before: IntArray
    after_start: IntArray
    after: IntArray
    over_start: IntArray
    over: IntArray
    slots: IntArray
    script: IntArray
    start_bytes: int


class PartialOrder(NamedTuple):
    """An order that a search prolongs from one end, as moves over operators, changed in place.

    Attributes
    ----------
    script
        As in :class:`OrderingArrays`.
    enters_start, enters
        For every operator, those that come after it in the search's direction.
    left
        Unread readers of every storage.
    waiting
        For every operator, the number of operators that must still come before it in the search's direction.
    ready, place
        Operators that can come next, and every operator's position among them.
    trail, lives
        Moves so far, and the live bytes before each.
    bits, mark
        The state as a bit set, and a random word for every operator; the XOR of those on the trail is its hash.
    fars
        Live bytes after each of the moves that are sorted.
    scalars
        Live bytes, number of ready operators, number of moves, hash.
    """

    script: IntArray
    enters_start: IntArray
    enters: IntArray
    left: IntArray
    waiting: IntArray
    ready: IntArray
    place: IntArray
    trail: IntArray
    lives: IntArray
    bits: NDArray[np.uint64]
    mark: IntArray
    fars: IntArray
    scalars: IntArray


def arrays_of(instance: OrderingInstance) -> OrderingArrays:
    """Flatten an instance."""
    return OrderingArrays(
        size=instance.size,
        kept=instance.kept,
        counts=~instance.unread(),
        producer=instance.producer,
        made=instance.made(),
        stay=instance.stay(),
        readers_start=instance.readers.start,
        readers=instance.readers.items,
        before_start=instance.before.start,
        before=instance.before.items,
        after_start=instance.after.start,
        after=instance.after.items,
        over_start=instance.overwrite.start,
        over=instance.overwrite.items,
        slots=instance.slots,
        script=_script(instance),
        start_bytes=instance.start_bytes(),
    )


def _script(instance: OrderingInstance) -> IntArray:
    """What the step of every operator does, in one piece; see :class:`OrderingArrays`."""
    reads, over, count = np.diff(instance.reads.start), np.diff(instance.overwrite.start), instance.operators
    start = count + 1 + np.concatenate([[0], np.cumsum(3 + 2 * reads + 3 * over)])
    script, at = np.zeros(start[-1], dtype=np.int64), start[:-1]
    script[: count + 1] = start
    script[at], script[at + 1], script[at + 2] = instance.made(), instance.stay(), 3 + 2 * reads
    for rows, offset, width in ((instance.reads, 3 + 0 * reads, 2), (instance.overwrite, 3 + 2 * reads, 3)):
        heads, items = rows.heads(), rows.items
        place = at[heads] + offset[heads] + width * (np.arange(len(items)) - rows.start[heads])
        script[place] = items
        script[place + 1] = instance.size[items] * (~instance.kept[items] if width == 2 else 1)
        if width == 3:
            script[place + 2] = instance.slots
    return script


def with_arcs(arrays: OrderingArrays, early: IntArray, late: IntArray) -> OrderingArrays:
    """The same arrays with additional precedences: ``early[k]`` before ``late[k]``."""
    rows = len(arrays.made)
    before = Adjacency(arrays.before_start, arrays.before)
    joined = Adjacency.from_pairs(rows, np.concatenate([before.heads(), late]), np.concatenate([before.items, early]))
    after = joined.reversed(rows)
    return arrays._replace(before_start=joined.start, before=joined.items, after_start=after.start, after=after.items)


def initial_left(arrays: OrderingArrays, sign: int) -> IntArray:
    """Readers of every storage that have not run: all at the front end, none at the back end. Shape (storages,)."""
    return np.diff(arrays.readers_start) if sign == FORWARD else np.zeros(len(arrays.size), dtype=np.int64)


def initial_bytes(arrays: OrderingArrays, sign: int) -> int:
    """Live bytes at the end from which the direction starts."""
    return arrays.start_bytes if sign == FORWARD else int(arrays.size[arrays.kept].sum())


def arcs_ahead(arrays: OrderingArrays, sign: int) -> tuple[IntArray, IntArray]:
    """For every operator, those that come after it in a direction: (start, items)."""
    return (arrays.after_start, arrays.after) if sign == FORWARD else (arrays.before_start, arrays.before)


def beginning(arrays: OrderingArrays, sign: int) -> PartialOrder:
    """The state at the end from which the direction starts."""
    count = len(arrays.made)
    waiting = np.diff(arcs_ahead(arrays, -sign)[0])
    ready = np.flatnonzero(waiting == 0)
    place = np.zeros(count, dtype=np.int64)
    place[ready] = np.arange(len(ready))
    enters_start, enters = arcs_ahead(arrays, sign)
    return PartialOrder(
        script=arrays.script,
        enters_start=enters_start,
        enters=enters,
        left=initial_left(arrays, sign),
        waiting=waiting,
        ready=np.concatenate([ready, np.zeros(count - len(ready), dtype=np.int64)]),
        place=place,
        trail=np.zeros(count, dtype=np.int64),
        lives=np.zeros(count + 1, dtype=np.int64),
        bits=np.zeros((count + 63) // 64, dtype=np.uint64),
        mark=np.random.default_rng(0).integers(1, 1 << 62, size=count, dtype=np.int64),
        fars=np.zeros(count, dtype=np.int64),
        scalars=np.asarray([initial_bytes(arrays, sign), len(ready), 0, 0], dtype=np.int64),
    )


@helper
def step(script: IntArray, v: int, live: int, left: IntArray, sign: int) -> tuple[int, int]:
    """Stable footprint of v's step, and the live bytes on its far side.

    ``live`` are the bytes live on the near side. When no other reader lies on the far side, running v frees a storage
    that it reads, and undoing v makes it live again.
    """
    last = (1 + sign) // 2
    at, end = script[v], script[v + 1]
    middle = at + script[at + 2]
    dying = 0
    for k in range(at + 3, middle, 2):
        if left[script[k]] == last:
            dying += script[k + 1]
    saved = 0
    used = 0
    before = -1
    for k in range(middle, end, 3):
        if script[k + 1] != before:
            before = script[k + 1]
            used = 0
        if left[script[k]] == last and used < script[k + 2]:
            used += 1
            saved += before
    far = live + sign * (script[at] - dying)
    front = live if sign == 1 else far
    return front + script[at + 1] - saved, far


@helper
def pass_over(script: IntArray, v: int, left: IntArray, sign: int) -> None:
    """Update the reader counts for running (+1) or undoing (-1) v."""
    at = script[v]
    for k in range(at + 3, at + script[at + 2], 2):
        left[script[k]] -= sign


def footprints(arrays: OrderingArrays, order: IntArray) -> IntArray:
    """Stable footprint of every step of a whole order. Shape (operators,).

    No loop: it judges the first order of a large graph before any loop is compiled.
    """
    when = np.empty(len(order), dtype=np.int64)
    when[order] = np.arange(len(order))
    read = arrays.readers_start[1:] > arrays.readers_start[:-1]
    last = np.full(len(arrays.size), -1, dtype=np.int64)
    if len(arrays.readers):
        last[read] = np.maximum.reduceat(when[arrays.readers], arrays.readers_start[:-1][read])
    dies = read & ~arrays.kept
    freed = np.zeros(len(order), dtype=np.int64)
    np.add.at(freed, last[dies], arrays.size[dies])
    live = arrays.start_bytes + np.cumsum(arrays.made[order] - freed)
    near = np.concatenate(([arrays.start_bytes], live[:-1]))[: len(order)]
    return np.asarray(near + arrays.stay[order] - _overwritten(arrays, when, last), dtype=np.int64)


def _overwritten(arrays: OrderingArrays, when: IntArray, last: IntArray) -> IntArray:
    """Bytes that every step writes over storages that die in it. Shape (operators,)."""
    saved = np.zeros(len(when), dtype=np.int64)
    step_of = when[np.repeat(np.arange(len(when)), np.diff(arrays.over_start))]
    dying = np.flatnonzero(last[arrays.over] == step_of)
    if len(dying):
        at, size = step_of[dying], arrays.size[arrays.over[dying]]
        # storages of one size stand together
        new = np.concatenate(([True], (at[1:] != at[:-1]) | (size[1:] != size[:-1])))
        rank = np.arange(len(dying)) - np.maximum.accumulate(np.where(new, np.arange(len(dying)), 0))
        used = rank < arrays.slots[dying]
        np.add.at(saved, at[used], size[used])
    return saved


def peak(arrays: OrderingArrays, order: IntArray) -> int:
    """Largest footprint of an order, or the bytes live before its first step."""
    return max(arrays.start_bytes, int(footprints(arrays, order).max(initial=0)))


def total(arrays: OrderingArrays, order: IntArray) -> int:
    """Sum of the footprints of an order."""
    return int(footprints(arrays, order).sum())


def report(problem: MemoryOrdering, order: IntArray, run: Run) -> None:
    """Report an order, unless it needs more than the limit."""
    instance = lower(problem)
    arrays = arrays_of(instance)
    value = peak(arrays, order)
    if problem.limit_bytes is None or value <= problem.limit_bytes:
        run.found(instance.ordering(order), value if problem.objective == "peak" else total(arrays, order))
