"""How long modules are, from above: lengths and plans by the devices at their ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.bounds.chain_bound import Module
from opweave.solvers.placement.bounds.windows import Window
from opweave.solvers.placement.module_search import Found

ROUNDED = 2e-6
"""Relative gap that rounding to ticks may leave: no more is tried then, though it is no proof."""

NO_MORE = 1_000
"""Number of tries after which no more is tried."""


class Known(NamedTuple):
    """What a lane knows of a module between two end devices: a lower bound of its length, and its best plan."""

    bound: float
    plan: Found | None


@dataclass(eq=False)
class Lengths:
    """What is known from above of all modules that are alike: lengths, plans and tries by end devices (K, K)."""

    module: Module
    window: Window
    upper: FloatArray
    tries: IntArray
    plans: dict[tuple[int, int], Found] = field(default_factory=dict)

    def keep(self, a: int, b: int, found: Found) -> None:
        """Remember a plan if it is the best for its end devices."""
        a, b = self._pair(a, b)
        if found.device[0] >= 0 and found.makespan < self.upper[a, b]:
            rows = slice(a, a + 1) if self.window.entry else slice(None)
            columns = slice(b, b + 1) if self.window.exit else slice(None)
            self.upper[rows, columns] = found.makespan
            self.plans[a, b] = found

    def plan(self, a: int, b: int) -> Found:
        """The best plan for two end devices."""
        return self.plans[self._pair(a, b)]

    def prove(self, a: int, b: int, value: float) -> None:
        """Lift the lower bound."""
        rows = slice(a, a + 1) if self.window.entry else slice(None)
        columns = slice(b, b + 1) if self.window.exit else slice(None)
        self.module.whole[rows, columns] = np.maximum(self.module.whole[rows, columns], value)

    def known(self, a: int, b: int) -> Known:
        """What other lanes should know."""
        return Known(float(self.module.whole[a, b]), self.plans.get(self._pair(a, b)))

    def learn(self, a: int, b: int, known: Known) -> None:
        """Learn from another lane; no more is tried once bound and plan have met."""
        if known.plan is not None:
            self.keep(a, b, known.plan)
        self.prove(a, b, known.bound)
        if known.bound >= self.upper[a, b] * (1.0 - ROUNDED):
            self.tries[a, b] = NO_MORE

    def _pair(self, a: int, b: int) -> tuple[int, int]:
        """End devices, 0 in place of an end that does not exist."""
        return a if self.window.entry else 0, b if self.window.exit else 0
