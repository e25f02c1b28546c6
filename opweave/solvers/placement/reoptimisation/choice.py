"""Which window of a plan is tried next: blocks that start at about the same time, on all devices.

Such a window meets every critical path, which other windows seldom do, and all of a plan is either early or late in it.
Where it lies is drawn, away from the last ones. Its size follows from how hard these were.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Sequence

from opweave.solvers.placement.reoptimisation.timed import ROUNDING, Timed
from opweave.solvers.placement.reoptimisation.window import Block

FIRST_SIZE, LEAST_SIZE = 20.0, 4.0
"""Blocks of the first window, and fewest of any."""

LARGER, SMALLER, SLIGHTLY_SMALLER = 1.1, 0.85, 0.95
"""What the size is multiplied by after a window that was settled early, after one without a plan, and after one with a
plan that was not proved."""

EARLY = 0.3
"""Share of the work of a window that counts as early."""

DRAWS = 4
"""Windows that are drawn each time; the one that is farthest from the last ones is taken."""


def blocks_of(plan: Timed, trees: Sequence[int]) -> list[Block]:
    """Operators of one tree that run one after the other without a break, by start."""
    rows: dict[int, list[Block]] = defaultdict(list)
    touching = ROUNDING * plan.makespan
    for v in (activity for activity in plan.start if isinstance(activity, int)):
        row = rows[plan.device[v]]
        if row and trees[row[-1][-1]] == trees[v] and plan.start[v] - plan.end(row[-1][-1]) <= touching:
            row[-1] += (v,)
        else:
            row.append((v,))
    return sorted((block for row in rows.values() for block in row), key=lambda block: plan.start[block[0]])


class Choice:
    """The choice of windows.

    Attributes
    ----------
    trees
        The tree of every operator: operators of one tree may become one block.
    size
        Blocks of the next window.
    """

    def __init__(self, trees: Sequence[int], seed: int) -> None:
        self.trees, self.size = trees, FIRST_SIZE
        self._draw = random.Random(seed)
        self._last: deque[float] = deque()

    def window(self, plan: Timed) -> tuple[Block, ...]:
        """The blocks of the next window."""
        blocks = blocks_of(plan, self.trees)
        self.size = min(self.size, max(LEAST_SIZE, LARGER * len(blocks)))  # it would grow without end
        size = min(round(self.size), len(blocks))
        drawn = [self._draw.randint(0, len(blocks) - size) for _ in range(DRAWS)]
        count = max(1, len(blocks))
        first = max(drawn, key=lambda each: min((abs(each / count - spot) for spot in self._last), default=1.0))
        self._last.append(first / count)
        while len(self._last) > 2 * len(blocks) // size:
            self._last.popleft()
        return tuple(blocks[first : first + size])

    def learn(self, settled: bool, improved: bool, share: float) -> None:
        """Choose a size after a window that was settled or not, and took a share of the work that it may take."""
        if not settled:
            self.size = max(LEAST_SIZE, self.size * (SLIGHTLY_SMALLER if improved else SMALLER))
        elif share < EARLY:
            self.size *= LARGER
