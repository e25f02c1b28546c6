"""Engines that run a formulation of serving flows."""

from __future__ import annotations

from opweave.formulations.serving_flow import milp  # noqa: F401 - it registers itself
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.trivial import trivial_bound

register_engines(
    ServingFlow, "a mixed-integer program of blocks and shares of tokens", HeadStart(lower_bound=trivial_bound)
)
