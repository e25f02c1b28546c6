"""What tests of windows that are decided anew do in a child process, as HiGHS and CP-SAT cannot be loaded by one."""

from __future__ import annotations

from opweave.problems.arrays import IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.reoptimisation import child
from opweave.solvers.placement.reoptimisation.child import Times, decide
from opweave.solvers.placement.reoptimisation.choice import blocks_of
from opweave.solvers.placement.reoptimisation.timed import Timed, network_of, timed_from

Windows = list[list[int]]
"""Operators of each window."""

Task = tuple[PlacementArrays, IntArray, Times, Windows]


def _told(plan: Timed) -> Times:
    return Times(plan.makespan, *plan.arrays())


def decide_all(work: list[Task], send: Send) -> None:
    """Decide the windows of every problem in turn, its operators one by one, and send the last plan."""
    child.WORK = 5.0
    for arrays, cluster, first, windows in work:
        plan = timed_from(network_of(arrays, cluster), first.device, first.start, first.begins)
        for window in windows:
            if plan.makespan > 0.0:
                blocks = tuple((v,) for v in window)
                plan = decide(plan, blocks, 0, 20.0).plan or plan
        send(_told(plan))


def decide_blocks(work: list[Task], send: Send) -> None:
    """The same, but all operators of a window that run without a break are one block."""
    for arrays, cluster, first, windows in work:
        plan = timed_from(network_of(arrays, cluster), first.device, first.start, first.begins)
        for window in windows:
            trees = [0 if v in window else -1 - v for v in range(len(arrays.seconds))]
            blocks = tuple(block for block in blocks_of(plan, trees) if set(block) <= set(window))
            if plan.makespan > 0.0 and blocks:
                plan = decide(plan, blocks, 0, 20.0).plan or plan
        send(_told(plan))
