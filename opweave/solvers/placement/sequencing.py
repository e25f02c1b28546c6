"""Optimal times of operators and transfers with given devices: branch and bound over overlapping pairs.

Jobs are operators and transfers; each occupies up to two machines (a device, or a send and a receive port). A node
starts every job as early as the arcs allow. If two jobs of one machine then overlap, one of them has to come first,
which gives two branches. If none overlap, the earliest starts are the best schedule of the node.

Source: Carlier and Pinson, "An algorithm for solving the job-shop problem" (heads, tails, one-machine bounds, immediate
selections).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.loops import helper

CLOSE = 1e-9
"""Relative improvement that is not worth searching for."""

DEEPEST = 400


class Jobs(NamedTuple):
    """Jobs of one assignment, and memory for the search over their orders; there is room for more jobs.

    Attributes
    ----------
    heads, lasts, tails
        Least start, seconds, and least time from the end to the end of the schedule. Shape (jobs or more,).
    machines
        Two machines of every job, -1 for none. Shape (jobs or more, 2).
    lag
        Least time from the end of one job to the start of another, -1 without an arc. Shape (jobs or more, the same).
    starts
        Starts of the jobs in the best schedule.
    members, filled
        The jobs of every machine, and how many these are.
    node_heads, node_tails, branches
        Heads and tails of every node on the way, its pair of jobs, and how many orders of these have been tried.
    stack, waits
        Jobs whose heads have changed, and whether each is among them.
    """

    heads: FloatArray
    lasts: FloatArray
    tails: FloatArray
    machines: IntMatrix
    lag: FloatMatrix
    starts: FloatArray
    members: IntMatrix
    filled: IntArray
    node_heads: FloatMatrix
    node_tails: FloatMatrix
    branches: IntMatrix
    stack: IntArray
    waits: IntArray


def room_for(jobs: int, machines: int) -> Jobs:
    """Memory for so many jobs."""
    return Jobs(
        heads=np.zeros(jobs),
        lasts=np.zeros(jobs),
        tails=np.zeros(jobs),
        machines=np.full((jobs, 2), -1),
        lag=np.full((jobs, jobs), -1.0),
        starts=np.zeros(jobs),
        members=np.zeros((machines, jobs), dtype=np.int64),
        filled=np.zeros(machines, dtype=np.int64),
        node_heads=np.zeros((DEEPEST + 1, jobs)),
        node_tails=np.zeros((DEEPEST + 1, jobs)),
        branches=np.zeros((DEEPEST + 1, 3), dtype=np.int64),
        stack=np.zeros(jobs + 1, dtype=np.int64),
        waits=np.zeros(jobs, dtype=np.int64),
    )


@helper
def machine_bound(heads: FloatArray, lasts: FloatArray, tails: FloatArray, members: IntArray, count: int) -> float:
    """The largest least head + work + least tail over sets of jobs of one machine, chosen by head and by tail.

    Afterwards, ``members`` begins with the jobs of the largest heads.
    """
    best = 0.0
    for i in range(1, count):
        v, j = members[i], i
        while j > 0 and heads[members[j - 1]] < heads[v]:
            members[j] = members[j - 1]
            j -= 1
        members[j] = v
    for j in range(count):
        t, total = tails[members[j]], 0.0
        for i in range(count):
            v = members[i]
            if tails[v] >= t:
                total += lasts[v]
                best = max(best, heads[v] + total + t)
    return best


@helper
def push(jobs: Jobs, count: int, back: bool, row: int, first: int, limit: float) -> bool:
    """Raise a node's heads after a job whose head has changed; False when one passes the limit.

    With ``back``, the tails of the jobs before it are raised.
    """
    times = jobs.node_tails if back else jobs.node_heads
    lag, stack, waits, filled = jobs.lag, jobs.stack, jobs.waits, 1
    stack[0] = first
    for i in range(count):
        waits[i] = 0
    while filled:
        filled -= 1
        i = stack[filled]
        waits[i] = 0
        end = times[row, i] + jobs.lasts[i]
        if end > limit:
            return False
        for j in range(count):
            between = lag[j, i] if back else lag[i, j]
            if between >= 0.0 and end + between > times[row, j]:
                times[row, j] = end + between
                if waits[j] == 0:
                    waits[j] = 1
                    stack[filled] = j
                    filled += 1
    return True


@helper
def node_bound(jobs: Jobs, count: int, depth: int) -> float:
    """Longest path and one-machine bounds."""
    heads, tails, best = jobs.node_heads[depth], jobs.node_tails[depth], 0.0
    for i in range(count):
        best = max(best, heads[i] + jobs.lasts[i] + tails[i])
    for m in range(len(jobs.filled)):
        if jobs.filled[m] > 1:
            best = max(best, machine_bound(heads, jobs.lasts, tails, jobs.members[m], jobs.filled[m]))
    return best


@helper
def collision(jobs: Jobs, depth: int) -> tuple[int, int]:
    """The overlapping pair that costs most to resolve, in its cheaper order; (-1, -1) when none overlaps."""
    heads, tails, lasts, members = jobs.node_heads[depth], jobs.node_tails[depth], jobs.lasts, jobs.members
    first, second, worst = -1, -1, -1.0
    for m in range(len(jobs.filled)):
        for x in range(jobs.filled[m]):
            i = members[m, x]
            for y in range(x + 1, jobs.filled[m]):
                j = members[m, y]
                if jobs.lag[i, j] >= 0.0 or jobs.lag[j, i] >= 0.0:
                    continue
                if heads[i] >= heads[j] + lasts[j] or heads[j] >= heads[i] + lasts[i]:
                    continue
                one = heads[i] + lasts[i] + lasts[j] + tails[j]
                other = heads[j] + lasts[j] + lasts[i] + tails[i]
                if min(one, other) > worst:
                    worst = min(one, other)
                    first, second = (i, j) if one <= other else (j, i)
    return first, second


@helper
def sequence(jobs: Jobs, count: int, upper: float, budget: int) -> tuple[float, int]:
    """The shortest schedule of the first ``count`` jobs below ``upper``; fills their starts.

    Returns
    -------
    tuple
        The makespan (``upper`` when nothing better exists), and the rest of the node budget. A negative rest means that
        the budget ran out; a better schedule may then exist.
    """
    members, filled, heads, tails = jobs.members, jobs.filled, jobs.node_heads, jobs.node_tails
    branches = jobs.branches
    for m in range(len(filled)):
        filled[m] = 0
    for i in range(count):
        heads[0, i] = tails[0, i] = 0.0
        for side in range(2):
            m = jobs.machines[i, side]
            if m >= 0:
                members[m, filled[m]] = i
                filled[m] += 1
    for i in range(2 * count):
        if not push(jobs, count, i >= count, 0, i % count, upper):
            return upper, budget
    depth, fresh = 0, True
    while depth >= 0:
        if fresh:
            budget -= 1
            if budget < 0 or depth == DEEPEST:
                return upper, -1
            branches[depth, 0], branches[depth, 2] = -1, 2
            if node_bound(jobs, count, depth) < upper * (1.0 - CLOSE):
                branches[depth, 0], branches[depth, 1] = collision(jobs, depth)
                branches[depth, 2] = 0
                if branches[depth, 0] < 0:
                    upper = 0.0
                    for v in range(count):
                        jobs.starts[v] = heads[depth, v]
                        upper = max(upper, heads[depth, v] + jobs.lasts[v])
                    branches[depth, 2] = 2
        i, j, tried = branches[depth, 0], branches[depth, 1], branches[depth, 2]
        if tried > 0 and i >= 0:  # remove the arc of the finished branch
            if tried == 1:
                jobs.lag[i, j] = -1.0
            else:
                jobs.lag[j, i] = -1.0
        if tried == 2:
            depth -= 1
            fresh = False
            continue
        if tried == 1:
            i, j = j, i
        branches[depth, 2] += 1
        jobs.lag[i, j] = 0.0
        for v in range(count):
            heads[depth + 1, v], tails[depth + 1, v] = heads[depth, v], tails[depth, v]
        fresh = True
        for side in range(2):
            fresh = fresh and push(jobs, count, side == 1, depth + 1, j if side == 1 else i, upper)
        depth += 1 if fresh else 0
    return upper, budget
