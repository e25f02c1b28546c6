"""The common parts of the integer programs of memory ordering: units, the range of the peak, reasons."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import Formulation
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.scale import Scale
from opweave.formulations.modeling.linear import InfeasibleError
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


class OrderingProgram(Formulation[MemoryOrdering, Ordering], ABC):
    """A memory-ordering problem as an integer program; footprints are in units of :class:`Scale`."""

    problem_type: ClassVar[type[MemoryOrdering]] = MemoryOrdering

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Convert units of the model to bytes, rounded so that a lower bound stays one."""
        return scale_of(lower(problem)).bound(value)

    def counts_units(self, problem: MemoryOrdering) -> bool:
        """Always, unless footprints are too large for the precision of engines."""
        return scale_of(lower(problem)).whole

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


def instance_of(problem: MemoryOrdering) -> OrderingInstance:
    """Write the problem as arrays.

    Raises
    ------
    InfeasibleError
        If its order constraints contradict each other.
    """
    try:
        return lower(problem)
    except ContradictionError as error:
        raise InfeasibleError(str(error)) from error


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


def peak_column(model: LinearModel, scale: Scale, lower_bound: int, caps: Iterable[int | float | None]) -> None:
    """The peak in units, from ``lower_bound`` bytes to the least of the caps, each a number of bytes or None."""
    most = min((int(cap) for cap in caps if cap is not None), default=None)
    high = np.inf if most is None else scale.units(scale.room(most))
    model.columns("peak", (None,), scale.units(lower_bound), high, scale.whole)
