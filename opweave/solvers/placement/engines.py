"""Engines that run a formulation of placement, with a local search and the quick bounds as a head start."""

from __future__ import annotations

from opweave.formulations.placement import cp, milp, milp_paper  # noqa: F401 - they register themselves
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.placement.head_start import (
    brief_head_start_within,
    good_schedule,
    head_start_within,
    lower_bound,
    quick_lower_bound,
)

KNOWN_BEFORE = HeadStart(initial=good_schedule, lower_bound=lower_bound, within=head_start_within)

register_engines(Placement, "a mixed-integer program with constants from the data", KNOWN_BEFORE)
register_cp_sat(
    Placement,
    "intervals that are there or not",
    HeadStart(initial=good_schedule, lower_bound=quick_lower_bound, within=brief_head_start_within),
)
