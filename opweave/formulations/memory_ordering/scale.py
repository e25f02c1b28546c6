"""Conversion between bytes and the numbers with which an engine computes, rounded so that bounds stay valid."""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST = 2**30
"""Largest coefficient; beyond it, the absolute tolerances of an engine would be coarser than one unit."""

SLACK = 0.01
RELATIVE_SLACK = 1e-10
"""Largest error of an engine's bound, in units and relative to the bound."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale in which one unit is ``unit`` bytes; every footprint is a multiple of ``step`` bytes.

    Examples
    --------
    >>> scale = Scale.of(step=1024, largest=1024 * 6368)
    >>> scale.units(2048), scale.bound(6367.3)
    (2.0, 6520832)
    """

    step: int
    unit: int

    @classmethod
    def of(cls, step: int, largest: int) -> Scale:
        """Make units of ``step`` bytes, or larger ones if ``largest`` bytes would be too many units."""
        return cls(step, step * max(1, math.ceil(largest / (step * LARGEST))))

    @property
    def whole(self) -> bool:
        """Whether every footprint is an integer number of units."""
        return self.unit == self.step

    def units(self, count: int | float) -> float:
        """Convert bytes to units."""
        return count / self.unit

    def room(self, limit: int) -> int:
        """The largest footprint in bytes that a limit allows, a multiple of ``step``."""
        return limit // self.step * self.step

    def bound(self, value: float) -> int:
        """Convert an engine's lower bound to bytes: subtract its possible error, round up to a multiple of ``step``."""
        safe = value - SLACK - RELATIVE_SLACK * abs(value)
        return math.ceil(safe * (self.unit / self.step)) * self.step
