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
    """Jobs of one assignment.

    Attributes
    ----------
    lasts
        Seconds; only the first jobs count. Shape (jobs or more,).
    machines
        Two machines of every job, -1 for none. Shape (jobs or more, 2).
    lag
        Least time from the end of one job to the start of another, -1 without an arc. Shape (jobs, jobs).
    """

    lasts: FloatArray
    machines: IntMatrix
    lag: FloatMatrix


@helper
def machine_bound(heads: FloatArray, lasts: FloatArray, tails: FloatArray, members: IntArray, count: int) -> float:
    """The largest least head + work + least tail over sets of jobs of one machine, chosen by head and by tail."""
    best = 0.0
    for i in range(count):
        h = heads[members[i]]
        for j in range(count):
            t = tails[members[j]]
            total = 0.0
            for m in range(count):
                v = members[m]
                if heads[v] >= h and tails[v] >= t:
                    total += lasts[v]
            if total > 0.0:
                best = max(best, h + total + t)
    return best


@helper
def push(jobs: Jobs, back: bool, times: FloatMatrix, row: int, first: int, limit: float, stack: IntArray) -> bool:
    """Raise the heads after a job whose head has changed; False when one passes the limit.

    ``times[row]`` holds the heads; with ``back``, it holds the tails, and those before the job are raised.
    """
    lasts, lag, count = jobs.lasts, jobs.lag, len(jobs.lag)
    stack[0] = first
    filled = 1
    waits = np.zeros(count, dtype=np.bool_)
    while filled:
        filled -= 1
        i = stack[filled]
        waits[i] = False
        end = times[row, i] + lasts[i]
        if end > limit:
            return False
        for j in range(count):
            between = lag[j, i] if back else lag[i, j]
            if between >= 0.0 and end + between > times[row, j]:
                times[row, j] = end + between
                if not waits[j]:
                    waits[j] = True
                    stack[filled] = j
                    filled += 1
    return True


@helper
def node_bound(jobs: Jobs, heads: FloatArray, tails: FloatArray, members: IntArray, filled: IntArray) -> float:
    """Longest path and one-machine bounds."""
    best = 0.0
    for i in range(len(heads)):
        best = max(best, heads[i] + jobs.lasts[i] + tails[i])
    for m in range(len(filled)):
        if filled[m] > 1:
            best = max(best, machine_bound(heads, jobs.lasts, tails, members[m], filled[m]))
    return best


@helper
def collision(jobs: Jobs, heads: FloatArray, tails: FloatArray, members: IntArray, filled: IntArray) -> tuple[int, int]:
    """The overlapping pair that costs most to resolve, in its cheaper order; (-1, -1) when none overlaps."""
    first, second, worst = -1, -1, -1.0
    for m in range(len(filled)):
        for x in range(filled[m]):
            i = members[m, x]
            for y in range(x + 1, filled[m]):
                j = members[m, y]
                if jobs.lag[i, j] >= 0.0 or jobs.lag[j, i] >= 0.0:
                    continue
                if heads[i] >= heads[j] + jobs.lasts[j] or heads[j] >= heads[i] + jobs.lasts[i]:
                    continue
                one = heads[i] + jobs.lasts[i] + jobs.lasts[j] + tails[j]
                other = heads[j] + jobs.lasts[j] + jobs.lasts[i] + tails[i]
                if min(one, other) > worst:
                    worst = min(one, other)
                    first, second = (i, j) if one <= other else (j, i)
    return first, second


@helper
def sequence(jobs: Jobs, machines: int, upper: float, budget: int, starts: FloatArray) -> tuple[float, int]:
    """The shortest schedule below ``upper``; fills its starts.

    Returns
    -------
    tuple
        The makespan (``upper`` when nothing better exists), and the rest of the node budget. A negative rest means that
        the budget ran out; a better schedule may then exist.
    """
    count = len(jobs.lag)
    members = np.zeros((machines, count), dtype=np.int64)
    filled = np.zeros(machines, dtype=np.int64)
    for i in range(count):
        for side in range(2):
            m = jobs.machines[i, side]
            if m >= 0:
                members[m, filled[m]] = i
                filled[m] += 1
    stack = np.zeros(count * count + 1, dtype=np.int64)
    heads, tails = np.zeros((DEEPEST + 1, count)), np.zeros((DEEPEST + 1, count))
    for i in range(count):
        for back in range(2):
            if not push(jobs, back == 1, tails if back == 1 else heads, 0, i, upper, stack):
                return upper, budget
    early, late = np.zeros(DEEPEST + 1, dtype=np.int64), np.zeros(DEEPEST + 1, dtype=np.int64)
    tried = np.zeros(DEEPEST + 1, dtype=np.int64)
    depth, fresh = 0, True
    while depth >= 0:
        if fresh:
            budget -= 1
            if budget < 0 or depth == DEEPEST:
                return upper, -1
            early[depth], tried[depth] = -1, 2
            if node_bound(jobs, heads[depth], tails[depth], members, filled) < upper * (1.0 - CLOSE):
                early[depth], late[depth] = collision(jobs, heads[depth], tails[depth], members, filled)
                tried[depth] = 0
                if early[depth] < 0:
                    upper = 0.0
                    for v in range(count):
                        starts[v] = heads[depth, v]
                        upper = max(upper, starts[v] + jobs.lasts[v])
                    tried[depth] = 2
        i, j = early[depth], late[depth]
        if tried[depth] > 0 and i >= 0:
            # remove the arc of the finished branch
            if tried[depth] == 1:
                jobs.lag[i, j] = -1.0
            else:
                jobs.lag[j, i] = -1.0
        if tried[depth] == 2:
            depth -= 1
            fresh = False
            continue
        if tried[depth] == 1:
            i, j = j, i
        tried[depth] += 1
        jobs.lag[i, j] = 0.0
        for v in range(count):
            heads[depth + 1, v], tails[depth + 1, v] = heads[depth, v], tails[depth, v]
        passable = push(jobs, False, heads, depth + 1, i, upper, stack)
        passable = passable and push(jobs, True, tails, depth + 1, j, upper, stack)
        fresh = passable
        if passable:
            depth += 1
    return upper, budget
