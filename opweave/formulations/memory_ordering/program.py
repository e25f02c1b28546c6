"""The common parts of the integer programs of memory ordering: units, the range of the peak, reasons."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from opweave.formulations.formulation import Formulation
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.errors import InfeasibleError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

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


class OrderingProgram(Formulation[MemoryOrdering, Ordering], ABC):
    """A memory-ordering problem as an integer program; footprints are in units of :class:`Scale`."""

    problem_type: ClassVar[type[MemoryOrdering]] = MemoryOrdering

    def compared(self, problem: MemoryOrdering) -> int:
        """All operators."""
        return len(problem.graph.operators)

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Convert units of the model to bytes, rounded so that a lower bound stays one."""
        return scale_of(lower(problem)).bound(value)

    def counts_units(self, problem: MemoryOrdering) -> bool:
        """Always, unless footprints are too large for the precision of engines."""
        return scale_of(lower(problem)).whole

    @classmethod
    def tells_apart(cls, _problem: MemoryOrdering) -> bool:
        """The row of an order names all its neighbours."""
        return True

    def exclude(self, model: Any, solution: Ordering) -> None:
        """Add the row that not every operator of an order runs before the next one."""
        kept = [model.before(first, second) for first, second in pairwise(solution.order)]
        if not kept:
            raise InfeasibleError
        model.add(sum(kept) <= len(kept) - 1)

    def why_infeasible(self, problem: MemoryOrdering) -> str:
        """Name the limit or the side constraints."""
        rows = "side constraint or an added row" if self.context.extended else "side constraint"
        if problem.limit_bytes is None:
            return f"every order breaks some {rows}"
        limited = f"every order needs more than the limit of {problem.limit_bytes:,} bytes"
        return f"{limited} or breaks some {rows}" if problem.constraints or self.context.extended else limited


def scale_of(instance: OrderingInstance) -> Scale:
    """The unit of an instance. No footprint exceeds all storages and the largest workspace together."""
    workspace = int(instance.workspace.max(initial=0))
    return Scale.of(instance.granularity(), int(instance.size.sum()) + workspace)


def least_peak(problem: MemoryOrdering, lower_bound: int, when: str = "") -> int:
    """The lower bound, in bytes; ``when`` says at which step that much is needed, if it is known.

    Raises
    ------
    InfeasibleError
        When the lower bound exceeds the limit.
    """
    if problem.limit_bytes is not None and lower_bound > problem.limit_bytes:
        raise InfeasibleError(
            f"every order needs at least {lower_bound:,} bytes{when and ' ' + when}, "
            f"{lower_bound - problem.limit_bytes:,} more than the limit of {problem.limit_bytes:,}"
        )
    return lower_bound


def peak_range(scale: Scale, lower_bound: int, caps: Iterable[int | float | None]) -> tuple[float, float]:
    """Bounds of the peak in units: from ``lower_bound`` bytes to the least of the caps, in bytes; None is no cap."""
    most = min((int(cap) for cap in caps if cap is not None), default=None)
    return scale.units(lower_bound), math.inf if most is None else scale.units(scale.room(most))
