"""The trivial bound of memory ordering; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.bounds import own_footprints
from opweave.solvers.trivial import own_bound


@own_bound(MemoryOrdering)
def _(problem: MemoryOrdering) -> int:
    """What the operators read and write and their workspace; results may at best overwrite inputs."""
    steps = own_footprints(lower(problem.model_copy(update={"constraints": ()})))
    return int(steps.max(initial=0) if problem.objective == "peak" else steps.sum())
