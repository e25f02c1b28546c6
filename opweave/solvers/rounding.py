"""The rounding error of sums in floating point, and the best bound that allows for it.

:mod:`opweave.solvers.linear` says how bounds stay valid.
"""

from __future__ import annotations

import numpy as np

from opweave.solvers.run import Run

SUMMATION = 1e-9
"""Relative allowance for sums of seconds of one sign; it covers nine million additions."""


class Best:
    """The best bound so far; raises the run's bound whenever it improves."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.value = 0.0

    def report(self, value: float, source: str) -> None:
        """Record a bound."""
        safe, known = value * (1.0 - SUMMATION), self.run.objective
        if known is not None and known * (1.0 - 10.0 * SUMMATION) <= safe < known:
            safe = float(known)  # they differ by rounding only
        if np.isfinite(safe) and (safe > self.value or self.run.bound is None):
            self.value = max(safe, self.value)
            self.run.proved(self.value, source)
