"""Is there a plan within a threshold where devices may have several stages? Labels along the pieces answer that.

A threshold joins pieces to blocks (:mod:`~opweave.solvers.pipeline.blocks`). A label is the beginning of a plan: its
stages, and what every device computes and holds. It is dropped when another label at the
same block can go on in every way that it can, or when the devices that may still run cannot take the rest, at prices of
their seconds and bytes. If no label reaches the end, no plan keeps the threshold.

Relaxed, so that an answer "none" is a proof: a message counts what the stage behind the cut reads and has not had yet,
but not what is passed through it to later stages; numbers of stages and devices, and ``Separate`` do not count. A
parameter that several groups read is held once by each device that runs one of them. What is found is judged by the
referee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.loops import helper, loop
from opweave.solvers.pipeline.blocks import BlockMaker, Blocks

NOTHING, FOUND, OUT = range(3)
"""Answers: a proof that no plan keeps the threshold; a walk that may; no answer within the room or the work allowed."""

MOST_STAGES = 32
"""Most stages of a label's plan."""

ROOM = 40_000
"""Labels that are kept at a time."""

SHARES = (200, 2000)
"""Shares of what a device can take, in which loads and bytes are counted: first roughly, then finely."""

WORK = 200_000_000
"""Steps of one search."""

SWEEP = 8
"""Blocks between comparisons of all labels with each other."""


class Labels(NamedTuple):
    """Storage of labels, one in each row."""

    device: IntArray
    stages: IntArray
    room: FloatArray
    begins: IntMatrix
    devices: IntMatrix
    load: IntMatrix
    held: IntMatrix
    last: IntMatrix
    visits: IntMatrix
    open: IntMatrix
    parts: IntMatrix


def new_labels(rows: int, devices: int, stages: int) -> Labels:
    """Empty storage."""
    tables = [np.zeros((rows, width), dtype=np.int64) for width in (stages, stages, *[devices] * 6)]
    return Labels(np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64), np.zeros(rows), *tables)


@helper
def device_at(labels: Labels, row: int, block: int) -> int:
    """The device that a label's plan has given a block."""
    i = labels.stages[row] - 1
    while labels.begins[row, i] > block:
        i -= 1
    return int(labels.devices[row, i])


@helper
def fits(blocks: Blocks, labels: Labels, row: int, block: int, visits: int) -> bool:
    """Whether the devices that may still run can take the groups from a block on, at the prices."""
    room = 0.0
    for v in range(len(blocks.most_load)):
        if v == labels.device[row] or labels.visits[row, v] < visits:
            room += blocks.load_price[v] * (blocks.most_load[v] + 1 - labels.load[row, v])
            room += blocks.held_price[v] * (blocks.most_held[v] + 1 - labels.held[row, v])
    return bool(blocks.rest[block] <= room)


@helper
def lacks(blocks: Blocks, block: int, low: int, high: int) -> bool:
    """Whether something that blocks between two made is still read from a block on."""
    if low < high:
        for k in range(blocks.live_start[block], blocks.live_start[block + 1]):
            if low <= blocks.live[k] < high:
                return True
    return False


@helper
def lacking(blocks: Blocks, labels: Labels, a: int, b: int, d: int, block: int) -> int:
    """Shares of parameters that a device holds in label b, but not in label a, and that groups from a block on read."""
    missing, shares, k = labels.parts[b, d] & ~labels.parts[a, d], 0, 0
    while missing > 0:
        if missing & 1 and blocks.part_end[k] >= block:
            shares += blocks.part_held[d, k]
        missing >>= 1
        k += 1
    return shares


@helper
def covers(blocks: Blocks, labels: Labels, a: int, b: int, block: int, visits: int) -> bool:
    """Whether a label, on the same device as another one, can go on in every way that the other can."""
    v = labels.device[a]
    begin = labels.begins[a, labels.stages[a] - 1]
    if (
        begin > labels.begins[b, labels.stages[b] - 1]
        or labels.last[a, v] < labels.last[b, v]
        or labels.room[a] < labels.room[b]
    ) and lacks(blocks, block, labels.last[a, v], begin):
        return False
    for d in range(len(blocks.most_load)):
        if labels.visits[a, d] > labels.visits[b, d]:
            return False
        if d != v and lacks(blocks, block, labels.last[a, d], labels.last[b, d]):
            return False
        if (d == v or labels.visits[b, d] < visits) and (
            labels.load[a, d] > labels.load[b, d]
            or labels.held[a, d] + lacking(blocks, labels, a, b, d, block) > labels.held[b, d]
        ):
            return False
    for k in range(blocks.open_start[block], blocks.open_start[block + 1]):
        root = blocks.open_root[k]
        if device_at(labels, a, root) != device_at(labels, b, root):
            return False
    return True


@helper
def copy_label(labels: Labels, source: int, target: int) -> None:
    """Copy a row."""
    labels.device[target], labels.stages[target] = labels.device[source], labels.stages[source]
    labels.room[target] = labels.room[source]
    labels.begins[target][:] = labels.begins[source]
    labels.devices[target][:] = labels.devices[source]
    labels.load[target][:] = labels.load[source]
    labels.held[target][:] = labels.held[source]
    labels.last[target][:] = labels.last[source]
    labels.visits[target][:] = labels.visits[source]
    labels.open[target][:] = labels.open[source]
    labels.parts[target][:] = labels.parts[source]


@helper
def grown(blocks: Blocks, labels: Labels, row: int, block: int, w: int, visits: int) -> bool:
    """Let a label run one more block on a device, in place; whether that is allowed."""
    v, root = labels.device[row], blocks.root[block]
    if blocks.may[w, block] == 0 or (root < block and device_at(labels, row, root) != w):
        return False
    if block == 0 or w != v:
        if labels.visits[row, w] >= visits or labels.stages[row] == labels.begins.shape[1]:
            return False
        if block > 0:
            if labels.visits[row, v] >= visits and labels.open[row, v] > 0:
                return False
            labels.last[row, v] = block
            labels.room[row] = blocks.room[v, w]
        labels.visits[row, w] += 1
        labels.begins[row, labels.stages[row]], labels.devices[row, labels.stages[row]] = block, w
        labels.stages[row] += 1
        labels.device[row] = w
    begin = labels.begins[row, labels.stages[row] - 1]
    for k in range(blocks.read_start[block], blocks.read_start[block + 1]):
        maker = blocks.read_maker[k]
        if maker < begin and maker >= labels.last[row, w] and blocks.read_before[k] < begin:
            labels.room[row] -= blocks.read_bytes[k]
    if labels.room[row] < 0.0:
        return False
    if root == block:
        labels.load[row, w] += blocks.load[w, block]
        labels.held[row, w] += blocks.held[w, block]
        for k in range(blocks.part_start[block], blocks.part_start[block + 1]):
            part = blocks.part[k]
            if labels.parts[row, w] >> part & 1 == 0:
                labels.parts[row, w] |= 1 << part
                labels.held[row, w] += blocks.part_held[w, part]
        if labels.load[row, w] > blocks.most_load[w] or labels.held[row, w] > blocks.most_held[w]:
            return False
        labels.open[row, w] += int(blocks.end[block] > block)
    elif blocks.end[block] == block:
        labels.open[row, w] -= 1
    return fits(blocks, labels, row, block + 1, visits)


@loop
def search_revisits(
    blocks: Blocks, labels: Labels, visits: int, work: int, found: IntMatrix, halt: IntArray
) -> tuple[int, int]:
    """Search for a walk within the threshold; its stages' first blocks and devices go to ``found``.

    Returns
    -------
    tuple
        The answer, and the number of stages.
    """
    devices, count = blocks.load.shape
    rows = len(labels.device)
    free, spare = np.arange(rows), rows - 1  # the first row is the empty plan
    for i in range(spare):
        free[i] = i + 1
    now, after = np.zeros((2, rows), dtype=np.int64)
    held, done, changed = 1, 0, 0
    labels.room[0] = np.inf
    for block in range(count):
        new = 0
        for turn in range(2):  # changes of devices first: they copy the label, which goes on in place
            for i in range(held):
                row = now[i]
                for w in range(devices):
                    stays = block > 0 and w == labels.device[row]
                    if stays != (turn == 1):
                        continue
                    done += 1
                    if spare == 0 or done > work or halt[0] != 0:
                        return OUT, 0
                    target = row if stays else free[spare - 1]
                    if not stays:
                        copy_label(labels, row, target)
                    alive = grown(blocks, labels, target, block, w, visits)
                    if alive:
                        after[new] = target
                        new += 1
                    if alive and not stays:
                        spare -= 1
                    elif stays and not alive:
                        free[spare] = row
                        spare += 1
            if turn == 0:
                changed = new
        if block % SWEEP == 0:
            changed = new
        kept = 0
        for i in range(new):
            target, alive = after[i], True
            if done > work or halt[0] != 0:
                return OUT, 0
            if i < changed:
                for j in range(new):
                    other = after[j]
                    done += 1
                    rival = other >= 0 and i != j and labels.device[other] == labels.device[target]
                    if rival and covers(blocks, labels, other, target, block + 1, visits):
                        alive = False
                        break
            if not alive:
                after[i] = -1
                free[spare] = target
                spare += 1
        for i in range(new):
            if after[i] >= 0:
                now[kept] = after[i]
                kept += 1
        held = kept
        if held == 0:
            return NOTHING, 0
    row = now[0]
    for i in range(labels.stages[row]):
        found[0, i], found[1, i] = labels.begins[row, i], labels.devices[row, i]
    return FOUND, labels.stages[row]


@dataclass(eq=False)
class Revisits:
    """Tests of thresholds.

    Attributes
    ----------
    blocks
        Makes what a test works on.
    halt
        Ends the search as soon as it is raised.
    """

    blocks: BlockMaker
    halt: IntArray

    def test(self, limit: float, shares: int) -> tuple[int, list[tuple[int, int]]]:
        """Whether some walk keeps a threshold; if one does, the point where each stage ends and its device."""
        problem, instance = self.blocks.problem, self.blocks.instance
        first, blocks = self.blocks.at(limit, shares)
        devices, stages = len(instance.devices), problem.stage_limit
        found = np.zeros((2, stages), dtype=np.int64)
        labels = new_labels(ROOM, devices, stages)
        answer, count = search_revisits(blocks, labels, problem.max_visits or stages, WORK, found, self.halt)
        ends = [*first[found[0, 1:count]].tolist(), instance.last]
        return answer, list(zip(ends, found[1, :count].tolist(), strict=False))
