"""Engines that run a formulation of placement, from the best list schedule and the best quick lower bound.

Both shrink the windows in which operators can run, and with them the constants and rows of every formulation.
"""

from __future__ import annotations

import math

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement import assignment, moirai, programs  # noqa: F401 - they register themselves
from opweave.formulations.placement.instance import lower
from opweave.formulations.placement.windows import windows_of
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.bounds.area import quick_bounds
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run


def lower_bound(problem: Placement, _stop: object = None) -> float | None:
    """The largest quick lower bound, in seconds; None when there is no plan, so that the formulation reports why.

    None for bytes, too: the formulation knows more of them.
    """
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    if length == math.inf or not instance.operators or problem.objective == "memory":  # links are missing
        return None if instance.operators else length
    best = Best(Run())
    quick_bounds(instance, arrays_of(instance, problem), best)
    return max(length, best.value)


KNOWN_BEFORE = HeadStart(initial=best_list_schedule, lower_bound=lower_bound)

register_engines(Placement, "a mixed-integer program with constants from the data", KNOWN_BEFORE)
register_cp_sat(Placement, "intervals that are there or not", KNOWN_BEFORE)
