"""Rows of a window's program for messages that take turns at the port of one operator.

The rows of ports (:mod:`.window_program`) say that all messages of a device fit into the window. They do not say that
the second message of an operator leaves after the first, and that its reader still has to run. For an operator u with
several messages, sent one after the other when u has ended, and for an operator v that reads several tensors,

* S[u] + sum_k p x[u,k] + sum of the durations of all messages of u + t w[u] <= L
* h w[v] + sum of the durations of all messages to v <= S[v]

Column w is 1 if any of these messages is sent. Here t is the least time from the start of a reader to the end of the
window, h the least time at which a source of v has ended, over all devices between which a message may be sent.

Proof: messages of u leave through the one port of its device, none before u has ended, so the last of them arrives
after all durations, and its reader needs another t. Messages to v enter through the one port of its device before v
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
