"""Which window of a plan is tried next.

A way to choose windows joins operators to blocks, coarsely or finely, and takes blocks around one of them that is
drawn. The size of its windows follows from how hard the last ones were, and its turns from what they gained.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from opweave.solvers.placement.reoptimisation.timed import Timed
from opweave.solvers.placement.reoptimisation.window import Block

FIRST_SIZE, LEAST_SIZE = 20.0, 4.0
"""Blocks of the first windows, and fewest of any."""

LARGER, SMALLER, SLIGHTLY_SMALLER = 1.1, 0.85, 0.95
"""What sizes are multiplied by after a window that was settled early, after one without a plan, and after one with a
plan that was not proved."""

EARLY = 0.3
"""Share of the work of a window that counts as early."""

FIRST_GAIN, FIRST_COST, FADING = 0.001, 2.0, 0.95
"""What a way has gained and cost before its first window, and what both are multiplied by with every window."""

LEAST_COST = 0.1
"""Cost of a window that takes no work, as a share of one that takes all of its work."""

TOUCHING = 1e-12
"""Idle time, as a share of the makespan, that is no more than rounding."""


def blocks_of(plan: Timed, trees: Sequence[int]) -> list[Block]:
    """Operators of one tree that run one after the other without a break, by start."""
    rows: dict[int, list[Block]] = defaultdict(list)
    for v in (activity for activity in plan.start if isinstance(activity, int)):
        row = rows[plan.device[v]]
        if row and trees[row[-1][-1]] == trees[v] and plan.start[v] - plan.end(row[-1][-1]) <= TOUCHING * plan.makespan:
            row[-1] += (v,)
        else:
            row.append((v,))
    return sorted((block for row in rows.values() for block in row), key=lambda block: plan.start[block[0]])


Pick = Callable[[Timed, Sequence[Block], int, int], tuple[Block, ...]]
"""Blocks of a window: from a plan, its blocks by start, the position of one of them, and how many."""


def at_one_time(_: Timed, blocks: Sequence[Block], focus: int, size: int) -> tuple[Block, ...]:
    """Blocks that start around the time of one of them."""
    first = max(0, min(focus - size // 2, len(blocks) - size))
    return tuple(blocks[first : first + size])


def in_one_place(plan: Timed, blocks: Sequence[Block], focus: int, size: int) -> tuple[Block, ...]:
    """Blocks that one of them is connected with, those that start at about the same time first."""
    network, middle = plan.network, plan.start[blocks[focus][0]]
    number = {v: i for i, block in enumerate(blocks) for v in block}
    seen, waiting, found = {focus}, [(0.0, focus)], list[Block]()
    while waiting and len(found) < size:
        found.append(blocks[heappop(waiting)[1]])
        for u in found[-1]:
            for i in {number[v] for v in (*network.before[u], *network.after[u])} - seen:
                seen.add(i)
                heappush(waiting, (abs(plan.start[blocks[i][0]] - middle), i))
    return tuple(found)


@dataclass(eq=False)
class Way:
    """A way to choose windows.

    Attributes
    ----------
    pick
        Takes blocks around one of them.
    trees
        The tree of every operator: operators of one tree may become one block.
    size
        Blocks of the next window.
    gained, cost
        What its last windows gained, relative to the plan, and what they cost, in windows that take all of their work.
    """

    pick: Pick
    trees: Sequence[int]
    size: float = FIRST_SIZE
    gained: float = FIRST_GAIN
    cost: float = FIRST_COST

    @property
    def worth(self) -> float:
        """Gain for its cost."""
        return self.gained / self.cost

    def window(self, plan: Timed, draw: random.Random) -> tuple[Block, ...]:
        """The blocks of the next window."""
        blocks = blocks_of(plan, self.trees)
        return self.pick(plan, blocks, draw.randrange(len(blocks)), min(round(self.size), len(blocks)))

    def learn(self, settled: bool, gain: float, share: float, most: int) -> None:
        """Learn from a window.

        Parameters
        ----------
        settled
            Whether its shortest plan is known, or that none is shorter.
        gain
            What it gained.
        share
            The share of its work that it took.
        most
            Number of operators.
        """
        self.gained, self.cost = FADING * self.gained + gain, FADING * self.cost + max(LEAST_COST, share)
        if not settled:
            self.size *= SLIGHTLY_SMALLER if gain else SMALLER
        elif share < EARLY:
            self.size *= LARGER
        self.size = max(LEAST_SIZE, min(self.size, float(most)))


def ways_of(trees: Sequence[Sequence[int]]) -> list[Way]:
    """All ways to choose windows, given the trees of every operator, from fine to coarse."""
    return [Way(pick, each) for each in trees for pick in (at_one_time, in_one_place)]
