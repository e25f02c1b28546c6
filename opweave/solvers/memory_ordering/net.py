"""The arrays that the hot loops of memory ordering work on, and one step of an order in either direction.

Direction is data: ``sign`` is +1 where operators are run first to last and -1 where they are undone last to first. A
schedule read backwards visits the same pairs (state, operator), so one set of loops serves both. ``left[s]`` always is
the number of readers of storage s that have not run yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.memory_ordering.instance import BoolArray, OrderingInstance
from opweave.problems.graph_arrays import Adjacency, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.run import never

FORWARD = 1
BACKWARD = -1


class Net(NamedTuple):
    """An :class:`OrderingInstance` as a flat tuple of arrays; adjacencies are (start, items) pairs.

    ``made`` are the bytes that every operator adds to what stays live; ``stay`` adds those of results that nobody
    reads, and the workspace. ``counts`` tells which storages ever count (read by somebody, or kept). ``halt`` ends long
    loops as soon as it is raised (:attr:`~opweave.solvers.run.Run.halt`).
    """

    size: IntArray
    kept: BoolArray
    counts: BoolArray
    producer: IntArray
    made: IntArray
    stay: IntArray
    reads_start: IntArray
    reads: IntArray
    readers_start: IntArray
    readers: IntArray
    before_start: IntArray
    before: IntArray
    after_start: IntArray
    after: IntArray
    over_start: IntArray
    over: IntArray
    slots: IntArray
    start_bytes: int
    halt: IntArray


def net_of(instance: OrderingInstance, halt: IntArray | None = None) -> Net:
    """Flatten an instance, for loops that ``halt`` ends."""
    unread = instance.unread()
    heads = instance.writes.heads()
    sizes = instance.size[instance.writes.items]
    transient = unread[instance.writes.items]
    made = np.zeros(instance.operators, dtype=np.int64)
    stay = instance.workspace.copy()
    np.add.at(made, heads[~transient], sizes[~transient])
    np.add.at(stay, heads, sizes)
    return Net(
        size=instance.size,
        kept=instance.kept,
        counts=~unread,
        producer=instance.producer,
        made=made,
        stay=stay,
        reads_start=instance.reads.start,
        reads=instance.reads.items,
        readers_start=instance.readers.start,
        readers=instance.readers.items,
        before_start=instance.before.start,
        before=instance.before.items,
        after_start=instance.after.start,
        after=instance.after.items,
        over_start=instance.overwrite.start,
        over=instance.overwrite.items,
        slots=instance.slots,
        start_bytes=instance.start_bytes(),
        halt=never() if halt is None else halt,
    )


def with_arcs(net: Net, early: IntArray, late: IntArray) -> Net:
    """The same net with more precedences: ``early[k]`` before ``late[k]``."""
    rows = len(net.made)
    before = Adjacency(net.before_start, net.before)
    joined = Adjacency.from_pairs(rows, np.concatenate([before.heads(), late]), np.concatenate([before.items, early]))
    after = joined.reversed(rows)
    return net._replace(before_start=joined.start, before=joined.items, after_start=after.start, after=after.items)


@inlined
def initial_left(net: Net, sign: int) -> IntArray:
    """Readers of every storage that have not run: all at the front end, none at the back end. Shape (storages,)."""
    storages = len(net.size)
    left = np.zeros(storages, dtype=np.int64)
    if sign == 1:
        for s in range(storages):
            left[s] = net.readers_start[s + 1] - net.readers_start[s]
    return left


@inlined
def initial_bytes(net: Net, sign: int) -> int:
    """Live bytes at the end from which the direction starts."""
    if sign == 1:
        return net.start_bytes
    total = 0
    for s in range(len(net.size)):
        if net.kept[s]:
            total += net.size[s]
    return total


@inlined
def step(net: Net, v: int, live: int, left: IntArray, sign: int) -> tuple[int, int]:
    """Stable footprint of v's step, and the live bytes on its far side.

    ``live`` are the bytes live on the near side. A read storage dies at v (running it) or is born at v (undoing it)
    when no other reader lies on the far side.
    """
    last = (1 + sign) // 2
    dying = 0
    for k in range(net.reads_start[v], net.reads_start[v + 1]):
        s = net.reads[k]
        if left[s] == last and not net.kept[s]:
            dying += net.size[s]
    saved = 0
    used = 0
    before = -1
    for k in range(net.over_start[v], net.over_start[v + 1]):
        s = net.over[k]
        if net.size[s] != before:
            before = net.size[s]
            used = 0
        if left[s] == last and used < net.slots[k]:
            used += 1
            saved += net.size[s]
    far = live + sign * (net.made[v] - dying)
    front = live if sign == 1 else far
    return front + net.stay[v] - saved, far


@inlined
def pass_over(net: Net, v: int, left: IntArray, sign: int) -> None:
    """Update the reader counts for running (+1) or undoing (-1) v."""
    for k in range(net.reads_start[v], net.reads_start[v + 1]):
        left[net.reads[k]] -= sign


@kernel
def footprints(net: Net, order: IntArray) -> IntArray:
    """Stable footprint of every step of an order. Shape (operators,)."""
    left = initial_left(net, 1)
    live = initial_bytes(net, 1)
    cost = np.zeros(len(order), dtype=np.int64)
    for position in range(len(order)):
        v = order[position]
        cost[position], live = step(net, v, live, left, 1)
        pass_over(net, v, left, 1)
    return cost
