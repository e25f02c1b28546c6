"""What is known of the lengths of modules: bounds, plans, and tries by the devices at their ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.bounds.chain_bound import Module
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.placement.module_search import Found

ROUNDED = 2e-6
"""Relative gap that rounding to ticks may leave. No more tries follow below it, although it is no proof."""

NO_MORE = 1_000
"""Number of tries after which a module counts as settled."""


@dataclass(eq=False)
class Lengths:
    """Upper bounds of a class of equal modules: lengths, plans and tries by end devices. Shapes (K, K)."""

    module: Module
    window: Window
    upper: FloatArray = field(init=False)
    tries: IntArray = field(init=False)
    plans: dict[tuple[int, int], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.upper = np.full(self.module.whole.shape, np.inf)
        self.tries = np.zeros(self.module.whole.shape, dtype=np.int64)

    def keep(self, a: int, b: int, found: Found) -> None:
        """Keep a plan if it is the best for its end devices."""
        if found.device[0] >= 0 and found.makespan < self.upper[a, b]:
            self.upper[self.window.cells(a, b)] = found.makespan
            self.plans[self._pair(a, b)] = found

    def plan(self, a: int, b: int) -> Found:
        """The best plan for two end devices."""
        return self.plans[self._pair(a, b)]

    def prove(self, a: int, b: int, value: float) -> None:
        """Raise the lower bound."""
        cells = self.window.cells(a, b)
        self.module.whole[cells] = np.maximum(self.module.whole[cells], value)

    def learn(self, a: int, b: int, bound: float, found: Found) -> None:
        """Take over a try's findings; the pair is settled once bound and plan meet."""
        self.keep(a, b, found)
        self.prove(a, b, bound)
        if bound >= self.upper[a, b] * (1.0 - ROUNDED):
            self.tries[a, b] = NO_MORE
            self.module.settled[self.window.cells(a, b)] = True

    def _pair(self, a: int, b: int) -> tuple[int, int]:
        """End devices, with 0 in place of a missing end."""
        return a if self.window.entry else 0, b if self.window.exit else 0
