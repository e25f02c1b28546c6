"""What is proved of a few operators by themselves, the batch unsplit: DiviML's OPT(M), or a bound in its place.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B2. An OPT that is not solved to the end enters with its own
lower bound, else nothing that is built on it is one.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.unsplit import unsplit
from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.bounds.energetic import energetic
from opweave.solvers.placement.heft import heft
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.rules import NoPlanError


def least_span(problem: BatchedMapping, nodes: int, halt: IntArray) -> float:
    """The length of the shortest unsplit plan, or a lower bound on it, in seconds.

    Parameters
    ----------
    nodes
        Of the search, at most: so that the answer is the same on every machine.
    halt
        Ends the search when it is raised.
    """
    same = unsplit(problem)
    if same is None:
        return 0.0
    instance = lower(same)
    arrays = arrays_of(instance, same)
    reach = reach_of(arrays)
    path = longest(arrays, reach)
    if not np.isfinite(path):
        return 0.0
    low = energetic(arrays, reach, path)
    try:
        high = heft(instance, arrays).makespan
    except NoPlanError:
        high = np.inf
    found = search_module(arrays, high, low, nodes, halt)
    return float(found.makespan) if found.proved and np.isfinite(found.makespan) else low
