"""What is known of the lengths of modules: bounds, plans, and tries by the devices at their ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.bounds.chain_bound import Module
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.placement.module_search import Found

ROUNDED = 2e-6
"""Relative gap that rounding to ticks may leave. No more tries follow below it, although it is no proof."""

NO_MORE = 1_000
"""Number of tries after which a module counts as settled."""


class Known(NamedTuple):
    """What is known of a module between two end devices: a lower bound of its length, and its best plan."""

    bound: float
    plan: Found | None


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

    def known(self, a: int, b: int) -> Known:
        """The knowledge to share with other lanes."""
        return Known(float(self.module.whole[a, b]), self.plans.get(self._pair(a, b)))

    def learn(self, a: int, b: int, known: Known) -> None:
        """Take over a try's findings; the pair is settled once bound and plan meet."""
        if known.plan is not None:
            self.keep(a, b, known.plan)
        self.prove(a, b, known.bound)
        if known.bound >= self.upper[a, b] * (1.0 - ROUNDED):
            self.tries[a, b] = NO_MORE
            self.module.settled[self.window.cells(a, b)] = True

    def _pair(self, a: int, b: int) -> tuple[int, int]:
        """End devices, with 0 in place of a missing end."""
        return a if self.window.entry else 0, b if self.window.exit else 0
