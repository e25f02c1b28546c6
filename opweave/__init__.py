"""opweave plans how a deep-learning model runs on limited hardware, and says how far from the best the plan is.

Everything a user needs is here: load a model, build a problem, solve it, read the result.

Examples
--------
>>> import opweave as ow
>>> graph = ow.OpGraph(
...     tensors=[ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)],
...     operators=[ow.Operator(id="copy", inputs=["x"], outputs=["y"])],
...     outputs=["y"],
... )
>>> ow.solve(ow.MemoryOrdering(graph=graph)).objective
8
"""

from __future__ import annotations

from opweave.adapters import clusters
from opweave.adapters.load import load, load_problem, load_result
from opweave.adapters.views import explain
from opweave.formulations.expressions import express
from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import (
    Colocate,
    Constraint,
    Forbid,
    MaxDevices,
    MemoryCap,
    Pin,
    Precede,
    Separate,
)
from opweave.problems.costs import Costs
from opweave.problems.errors import (
    EngineError,
    InvalidInputError,
    LimitExceededError,
    OpweaveError,
    SolverNotAvailableError,
    UnknownSolverError,
    UnsupportedConstraintError,
    UnsupportedFeatureError,
)
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import Limits
from opweave.problems.memory_ordering import MemoryOrdering, Ordering
from opweave.problems.placement import Placement, Schedule, Transfer
from opweave.problems.problem import Problem
from opweave.problems.result import Incumbent, Result, Status, Termination
from opweave.problems.solution import Evaluation, Solution, Violation
from opweave.solvers.registry import SolverInfo, solvers
from opweave.solvers.run import Progress
from opweave.solvers.solve import solve

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Colocate",
    "Constraint",
    "Costs",
    "Device",
    "EngineError",
    "Evaluation",
    "Forbid",
    "Incumbent",
    "InvalidInputError",
    "LimitExceededError",
    "Limits",
    "MaxDevices",
    "MemoryCap",
    "MemoryOrdering",
    "OpGraph",
    "Operator",
    "OpweaveError",
    "Ordering",
    "Parameter",
    "Pin",
    "Placement",
    "Precede",
    "Problem",
    "Progress",
    "Result",
    "Schedule",
    "Separate",
    "Solution",
    "SolverInfo",
    "SolverNotAvailableError",
    "Status",
    "Tensor",
    "Termination",
    "Transfer",
    "UnknownSolverError",
    "UnsupportedConstraintError",
    "UnsupportedFeatureError",
    "Violation",
    "__version__",
    "clusters",
    "explain",
    "express",
    "load",
    "load_problem",
    "load_result",
    "solve",
    "solvers",
]
