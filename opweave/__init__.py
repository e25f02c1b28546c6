"""opweave plans how a deep-learning model runs on limited hardware, and bounds how far from optimal the plan is.

This module exports everything a user needs to load a model, build a problem, solve it and read the result.

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

import logging
from typing import TYPE_CHECKING

from opweave.adapters import clusters
from opweave.adapters.costs.calibrate import calibrate
from opweave.adapters.load import geometry, load, load_costs, load_problem, load_result
from opweave.adapters.onnx.nodes import reorder_onnx
from opweave.adapters.onnx.pieces import Piece, PieceRunner, split_onnx
from opweave.adapters.onnx.read import onnx_runtime_problem
from opweave.adapters.onnx.session import onnx_session_options
from opweave.adapters.report.progress_figure import progress_figure
from opweave.adapters.report.views import explain
from opweave.adapters.runtimes.groups import (
    Group,
    layer_counts,
    schedule_groups,
    split_points,
    tensor_split,
    vllm_partition,
)
from opweave.adapters.torch.dispatch import trace_step, trace_training
from opweave.adapters.torch.stages import split_torch
from opweave.adapters.verify.report import Verification
from opweave.adapters.verify.verify import verify
from opweave.formulations.build import build_model, read_solution
from opweave.formulations.export.write import ModelFile, write_model
from opweave.formulations.expressions import express
from opweave.formulations.formulation import Formulation, register_formulation
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule, BatchTransfer
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
    Share,
)
from opweave.problems.costs import Calibration, Costs, Efficiency
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
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.problems.problem import Problem
from opweave.problems.result import Incumbent, Result, Status, Termination
from opweave.problems.shown import shown_by
from opweave.problems.slicing.spec import Geometry, Slice, Slices, Slicing
from opweave.problems.solution import Details, Evaluation, Solution, Violation
from opweave.problems.timeline import Timeline
from opweave.solvers.compiling.warm import Warmed, warm
from opweave.solvers.constraint_table import HonouredConstraints, constraint_table
from opweave.solvers.engines.listed import FormulationInfo, list_formulations
from opweave.solvers.own import solver_for
from opweave.solvers.questions.compare import Comparison, compare
from opweave.solvers.questions.conflict import Conflict, Proof, conflict
from opweave.solvers.questions.mend import Mend
from opweave.solvers.questions.pareto import Front, pareto
from opweave.solvers.questions.sweep import Sweep, sweep
from opweave.solvers.registry import Solver, SolverInfo, register_solver, solvers
from opweave.solvers.run import Outcome, Progress, Run
from opweave.solvers.solve import solve
from opweave.solvers.trivial import trivial_bound

if TYPE_CHECKING:
    from opweave.solvers.slicing.pareto import pareto_front

__version__ = "0.1.0"

shown_by("opweave.adapters.report.questions")
shown_by("opweave.adapters.report.conflict")
logging.getLogger("opweave").addHandler(logging.NullHandler())  # silent until the application asks for it

__all__ = [
    "Batch",
    "BatchTransfer",
    "BatchedMapping",
    "BatchedSchedule",
    "Calibration",
    "Cluster",
    "Colocate",
    "Comparison",
    "Conflict",
    "Constraint",
    "Costs",
    "Details",
    "Device",
    "Efficiency",
    "EngineError",
    "Evaluation",
    "Forbid",
    "Formulation",
    "FormulationInfo",
    "Front",
    "Geometry",
    "Group",
    "HonouredConstraints",
    "Incumbent",
    "InvalidInputError",
    "LimitExceededError",
    "Limits",
    "Linear",
    "LinearModel",
    "MaxDevices",
    "MemoryCap",
    "MemoryOrdering",
    "Mend",
    "ModelFile",
    "OpGraph",
    "Operator",
    "OpweaveError",
    "Ordering",
    "Outcome",
    "Parameter",
    "Piece",
    "PieceRunner",
    "Pin",
    "Pipeline",
    "Placement",
    "Precede",
    "Problem",
    "Progress",
    "Proof",
    "Result",
    "Run",
    "Schedule",
    "Separate",
    "Share",
    "Slice",
    "Slices",
    "Slicing",
    "Solution",
    "Solver",
    "SolverInfo",
    "SolverNotAvailableError",
    "Stage",
    "Stages",
    "Status",
    "Sweep",
    "Tensor",
    "Termination",
    "Timeline",
    "Transfer",
    "UnknownSolverError",
    "UnsupportedConstraintError",
    "UnsupportedFeatureError",
    "Verification",
    "Violation",
    "Warmed",
    "__version__",
    "build_model",
    "calibrate",
    "clusters",
    "compare",
    "conflict",
    "constraint_table",
    "explain",
    "express",
    "geometry",
    "layer_counts",
    "list_formulations",
    "load",
    "load_costs",
    "load_problem",
    "load_result",
    "onnx_runtime_problem",
    "onnx_session_options",
    "pareto",
    "pareto_front",
    "progress_figure",
    "read_solution",
    "register_formulation",
    "register_solver",
    "reorder_onnx",
    "schedule_groups",
    "solve",
    "solver_for",
    "solvers",
    "split_onnx",
    "split_points",
    "split_torch",
    "sweep",
    "tensor_split",
    "trace_step",
    "trace_training",
    "trivial_bound",
    "verify",
    "vllm_partition",
    "warm",
    "write_model",
]


def __getattr__(name: str) -> object:
    """Import heavy names on first use, so that ``import opweave`` stays fast."""
    if name == "pareto_front":
        from opweave.solvers.slicing.pareto import pareto_front

        return pareto_front
    raise AttributeError(f"module 'opweave' has no attribute {name!r}")
