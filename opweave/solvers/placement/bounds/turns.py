"""Rows of a window's program for messages that take turns at a port, of one device or of one operator.

All messages that enter a device, and all that leave it, fit into the window with the time before the first and after
the last of them:

* sum of the durations of all messages at the port + (h + t) w <= L

Column w is 1 if the port is used, h the least time at which the source of such a message has ended, and t the least
time from the start of a reader to the end of the window. A message that enters the device of the entry can only come
from an operator to which something was sent before, so h is a whole transfer there.

These rows do not say that the second message of an operator leaves after the first, and that its reader still has to run. For an operator u with
several messages, sent one after the other when u has ended, and for an operator v that reads several tensors,

* S[u] + sum_k p x[u,k] + sum of the durations of all messages of u + t w[u] <= L
* h w[v] + sum of the durations of all messages to v <= S[v]

Column w is 1 if any of these messages is sent. Here t is the least time from the start of a reader to the end of the
window, h the least time at which a source of v has ended, over all devices between which a message may be sent.

Proof: messages of u leave through the one port of its device, none before u has ended, so the last of them arrives
after all durations, and its reader needs another t. The same holds for all messages of a port. Messages to v enter through the one port of its device before v
starts, and the first of them leaves at h or later. If nothing is sent, w is 0, and the rows say S[u] + p <= L and
0 <= S[v]. Equal branches: every relabeling satisfies the rows, hence so does their average, in which a message stands
for as many as its branch does, unless u (or v) lies in the branch itself. All rows are homogeneous. Under ``delay``
messages do not wait for each other, and there are no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.arrays import DELAY

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.window_program import Builder


def write_turns(builder: Builder) -> None:
    """Add the rows for every operator with several messages."""
    arrays, flows = builder.arrays, builder.flows
    if arrays.model == DELAY or not len(flows):
        return
    source, target = arrays.source[flows], arrays.target[flows]
    sent = (builder.upper[builder.z] > 0.0) & ~np.eye(builder.devices, dtype=bool)
    after = _least(builder.p + builder.tails, target, builder.usable, sent.any(axis=1))
    before = _least(builder.heads + builder.p, source, builder.usable, sent.any(axis=2))
    for u in _several(source):
        leaving = np.flatnonzero(source == u)
        own = leaving[np.unique(builder.y[leaving, 0, 0], return_index=True)[1]]
        _write(builder, builder.y[own], builder.load(own, int(u)), float(after[leaving].min()), int(u), leaves=True)
    for v in _several(target):
        entering = np.flatnonzero(target == v)
        own = entering[np.unique(arrays.tensor[flows[entering]], return_index=True)[1]]
        if len(own) > 1:
            _write(builder, builder.z[own], builder.load(own, int(v)), float(before[own].min()), int(v), leaves=False)


def write_ends(builder: Builder, sends: IntArray, receives: IntArray) -> None:
    """Add the times before the first and after the last message to the rows of the ports. Shape of both (devices,)."""
    source, target = builder.arrays.source[builder.flows], builder.arrays.target[builder.flows]
    sent = (builder.upper[builder.z] > 0.0) & (builder.c > 0.0)
    ended = np.where(builder.usable, builder.heads + builder.p, np.inf)[source]
    left = np.where(builder.usable, builder.p + builder.tails, np.inf)[target]
    both = np.where(sent, ended[:, :, None], np.inf), np.where(sent, left[:, None, :], np.inf)
    for rows, others in ((sends, 2), (receives, 1)):
        ends = sum(each.min(axis=(0, others), initial=np.inf) for each in both)
        used = np.flatnonzero(np.isfinite(ends) & (ends > 0.0))
        columns = builder.add(np.ones(len(used)), times=np.zeros(len(used), dtype=bool))
        builder.most.put(rows[used], columns, ends[used])
        own = np.moveaxis(np.where(sent, builder.z, -1), 3 - others, 0)
        for column, k in zip(columns.tolist(), used.tolist(), strict=True):
            there = (own[k] >= 0).any(axis=1)
            _write_used(builder, own[k][there], column)


def _write_used(builder: Builder, flows: IntArray, column: int) -> None:
    """The port is used if any of its flows is sent; every row of ``flows`` lists the columns of one, -1 for none."""
    rows = builder.most.open(np.zeros(len(flows)))
    at, which = np.nonzero(flows >= 0)
    builder.most.put(rows[at], flows[at, which], 1.0)
    builder.most.put(rows, np.asarray([column]), -1.0)


def _several(ends: IntArray) -> IntArray:
    """Operators that several flows have as an end."""
    operators, times = np.unique(ends, return_counts=True)
    return np.asarray(operators[times > 1])


def _least(seconds: FloatArray, ends: IntArray, usable: BoolArray, there: BoolArray) -> FloatArray:
    """The least time of every flow's end on the devices that it may have when the flow is sent; inf without any."""
    return np.asarray(np.where(there & usable[ends], seconds[ends], np.inf).min(axis=1))


def _write(builder: Builder, columns: IntArray, load: FloatArray, rest: float, v: int, *, leaves: bool) -> None:
    """Rows of one operator: the columns of its messages, with their durations, and the time before or after them."""
    if not np.isfinite(rest):
        return
    away, rows = ~np.eye(builder.devices, dtype=bool), builder.most
    row = rows.open(np.zeros(1))
    rows.put(row, columns[:, away], load[:, away])
    moved = builder.add(np.ones(1), times=np.zeros(1, dtype=bool))
    builder.whole[moved] = False  # it is 0 or 1 where the operators' devices are
    rows.put(row, moved, rest)
    if leaves:  # a tensor may go to several devices
        groups = [columns[:, away[:, q], q] for q in range(builder.devices)]
        rows.put(row, builder.x[v], builder.p[v] / builder.branches.times[v])
        rows.put(row, builder.start[v : v + 1], 1.0)
        rows.put(row, np.asarray([builder.length]), -1.0)
    else:
        groups = [columns[:, away]]
        rows.put(row, builder.start[v : v + 1], -1.0)
    for group in groups:
        sent = rows.open(np.zeros(len(group)))
        rows.put(sent[:, None], group, 1.0)
        rows.put(sent, moved, -1.0)
