"""The default plan for placement: floors, list schedulers, bounds, local search and decomposition.

It contains every named heuristic, so it is never worse than any of them; "do not split" is the first of them.
"""

from __future__ import annotations

import math

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower
from opweave.problems.placement import Placement, Schedule
from opweave.problems.placement_shortage import shortage
from opweave.problems.result import Termination
from opweave.solvers.placement.bounds.best import bound
from opweave.solvers.placement.decompose import solve_decompose
from opweave.solvers.placement.heuristics import run_heuristics
from opweave.solvers.placement.local import UNTIMED_ROUNDS, LocalSearch, empty_search, search_from
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
