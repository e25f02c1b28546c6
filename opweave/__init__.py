"""opweave decides how a deep-learning model runs on the hardware that you have, with a proved lower bound.

Everything that a user needs is a name of this module; ``help(ow.NAME)`` explains it.

models and machines
    ``load``, ``OpGraph``, ``Operator``, ``Tensor``, ``Parameter``; ``Cluster``, ``Device``, ``clusters`` (presets);
    ``Costs``, ``Efficiency``, ``calibrate``, ``load_costs``
problems and their solutions
    ``MemoryOrdering`` (``Ordering``), ``Placement`` (``Schedule``), ``BatchedMapping`` (``BatchedSchedule``),
    ``Pipeline`` (``Stages``), ``Slicing`` (``Slices``), ``MemoryLayout`` (``Layout`` of every ``Lifetime`` in a
    ``Pool``), ``ServingFlow`` (``LayerBlocks`` over a ``layer_chain``); ``load_problem``
side constraints
    ``Pin``, ``Forbid``, ``Colocate``, ``Separate``, ``Precede``, ``MaxDevices``, ``MemoryCap``, ``Share``; a subclass
    of ``Constraint`` is one of your own, and ``express`` teaches it to formulations
solving
    ``solve``, ``list_solvers``, ``compare``, ``sweep``, ``pareto``, ``conflict``, ``constraint_table``, ``warm``
models for other solvers, solvers of your own
    ``list_formulations``, ``build_model``, ``write_model``, ``read_solution``, ``pymoo_problem``, ``partition_graph``,
    ``GenEFlow``; ``solver_for``, ``register_solver``, ``Solver``; ``extend`` has the classes for problems and
    formulations of your own
results
    ``Result`` with ``plot``, ``to_pandas``, ``report``, ``explain``, ``save``; ``progress_figure``, ``verify``,
    ``load_result``; ``results`` has the classes that functions return
frameworks and runtimes
    ``onnx``, ``torch``, ``keras``, ``llm``, ``runtimes``, ``cluster``: functions that read models and carry out plans
errors
    ``OpweaveError`` is the base of all of them; ``InvalidInputError`` refuses invalid data, ``RuleError`` reports an
    exception in your code

Examples
--------
>>> import opweave as ow
>>> graph = ow.OpGraph(
...     tensors=[ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)],
...     operators=[ow.Operator(id="copy", inputs=["x"], outputs=["y"])],
...     outputs=["y"],
... )
>>> ow.solve(ow.MemoryOrdering(graph)).objective
8
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from opweave import interrupts as _interrupts  # noqa: F401  (before what takes long to import)
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
from opweave.problems.errors import (
    EngineError,
    ImplausibleWarning,
    InfeasibleError,
    InvalidInputError,
    InvalidSpecError,
    LimitExceededError,
    OpweaveError,
    RuleError,
    SolverNotAvailableError,
    UnknownSolverError,
    UnsupportedConstraintError,
    UnsupportedFeatureError,
)
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import Limits
from opweave.problems.result import Result, Status
from opweave.problems.shown import shown_by
from opweave.problems.words import did_you_mean
from opweave.solvers.registry import Solver, list_solvers, register_solver
from opweave.solvers.solve import solve

if TYPE_CHECKING:
    from opweave import extend, results
    from opweave.adapters import cluster, clusters, keras, llm, onnx, runtimes, torch
    from opweave.adapters.costs.calibrate import calibrate
    from opweave.adapters.load import geometry, load, load_costs, load_problem, load_result
    from opweave.adapters.onnx import *  # noqa: F403  (its names can be reached without it)
    from opweave.adapters.report.curves import progress_figure
    from opweave.adapters.report.views import explain as explain
    from opweave.adapters.runtimes import *  # noqa: F403
    from opweave.adapters.torch import *  # noqa: F403
    from opweave.adapters.verify.verify import verify
    from opweave.formulations.build import build_model, read_solution
    from opweave.formulations.export.write import write_model
    from opweave.formulations.expressions import express
    from opweave.formulations.pipeline.partition_graph import partition_graph
    from opweave.formulations.slicing.geneflow import GenEFlow
    from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule
    from opweave.problems.cluster import Cluster, Device
    from opweave.problems.costs import Costs, Efficiency
    from opweave.problems.memory_layout.spec import Layout, Lifetime, MemoryLayout, Pool
    from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
    from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
    from opweave.problems.placement.spec import Placement, Schedule
    from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow, layer_chain
    from opweave.problems.slicing.spec import Geometry, Slice, Slices, Slicing
    from opweave.solvers.constraint_table import constraint_table
    from opweave.solvers.engines.registration import list_formulations
    from opweave.solvers.evolution.objectives import pymoo_problem
    from opweave.solvers.loops import warm
    from opweave.solvers.own import solver_for
    from opweave.solvers.questions.compare import compare
    from opweave.solvers.questions.conflict import conflict
    from opweave.solvers.questions.pareto import pareto
    from opweave.solvers.questions.sweep import sweep

__version__ = "0.2.0"

shown_by("opweave.adapters.report.shown")
shown_by("opweave.adapters.report.questions")
logging.getLogger("opweave").addHandler(logging.NullHandler())  # silent until the application asks for it

__all__ = [
    "Batch",
    "BatchedMapping",
    "BatchedSchedule",
    "Cluster",
    "Colocate",
    "Constraint",
    "Costs",
    "Device",
    "Efficiency",
    "EngineError",
    "Forbid",
    "GenEFlow",
    "Geometry",
    "ImplausibleWarning",
    "InfeasibleError",
    "InvalidInputError",
    "InvalidSpecError",
    "LayerBlocks",
    "Layout",
    "Lifetime",
    "LimitExceededError",
    "Limits",
    "MaxDevices",
    "MemoryCap",
    "MemoryLayout",
    "MemoryOrdering",
    "OpGraph",
    "Operator",
    "OpweaveError",
    "Ordering",
    "Parameter",
    "Pin",
    "Pipeline",
    "Placement",
    "Pool",
    "Precede",
    "Result",
    "RuleError",
    "Schedule",
    "Separate",
    "ServingFlow",
    "Share",
    "Slice",
    "Slices",
    "Slicing",
    "Solver",
    "SolverNotAvailableError",
    "Stage",
    "Stages",
    "Status",
    "Tensor",
    "UnknownSolverError",
    "UnsupportedConstraintError",
    "UnsupportedFeatureError",
    "__version__",
    "build_model",
    "calibrate",
    "cluster",
    "clusters",
    "compare",
    "conflict",
    "constraint_table",
    "express",
    "extend",
    "geometry",
    "keras",
    "layer_chain",
    "list_formulations",
    "list_solvers",
    "llm",
    "load",
    "load_costs",
    "load_problem",
    "load_result",
    "onnx",
    "pareto",
    "partition_graph",
    "progress_figure",
    "pymoo_problem",
    "read_solution",
    "register_solver",
    "results",
    "runtimes",
    "solve",
    "solver_for",
    "sweep",
    "torch",
    "verify",
    "warm",
    "write_model",
]


_NAMESPACES = ("keras", "onnx", "runtimes", "torch")
"""Functions of frameworks and runtimes; all of their names can be reached without the namespace, too."""

_LAZY = (*_NAMESPACES, "cluster", "clusters", "llm")
"""Modules that are imported on first use."""

_HOMES = {
    "adapters.costs.calibrate": ("calibrate",),
    "adapters.load": ("geometry", "load", "load_costs", "load_problem", "load_result"),
    "adapters.report.curves": ("progress_figure",),
    "adapters.report.views": ("explain",),
    "adapters.verify.verify": ("verify",),
    "formulations.build": ("build_model", "read_solution"),
    "formulations.export.write": ("write_model",),
    "formulations.expressions": ("express",),
    "formulations.pipeline.partition_graph": ("partition_graph",),
    "formulations.slicing.geneflow": ("GenEFlow",),
    "problems.batched_mapping.spec": ("Batch", "BatchedMapping", "BatchedSchedule"),
    "problems.cluster": ("Cluster", "Device"),
    "problems.costs": ("Costs", "Efficiency"),
    "problems.memory_layout.spec": ("Layout", "Lifetime", "MemoryLayout", "Pool"),
    "problems.memory_ordering.spec": ("MemoryOrdering", "Ordering"),
    "problems.pipeline.spec": ("Pipeline", "Stage", "Stages"),
    "problems.placement.spec": ("Placement", "Schedule"),
    "problems.serving_flow.spec": ("LayerBlocks", "ServingFlow", "layer_chain"),
    "problems.slicing.spec": ("Geometry", "Slice", "Slices", "Slicing"),
    "solvers.constraint_table": ("constraint_table",),
    "solvers.engines.registration": ("list_formulations",),
    "solvers.evolution.objectives": ("pymoo_problem",),
    "solvers.loops": ("warm",),
    "solvers.own": ("solver_for",),
    "solvers.questions.compare": ("compare",),
    "solvers.questions.conflict": ("conflict",),
    "solvers.questions.pareto": ("pareto",),
    "solvers.questions.sweep": ("sweep",),
}
"""Names that not every solve needs, by the modules that they are imported from on first use."""

_LAYERS = ("adapters", "formulations", "problems", "solvers")

_GROUPS = ("extend", "results")
"""Modules of names that extenders need, and of names that users only receive; their short names work, too."""


def __getattr__(name: str) -> object:
    """Import what not every solve needs on first use, so that ``import opweave`` stays fast."""
    if name in _LAZY:
        return importlib.import_module(f"opweave.adapters.{name}")
    if name in (*_LAYERS, *_GROUPS):
        return importlib.import_module(f"opweave.{name}")
    for module, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(f"opweave.{module}"), name)  # asked for once
            return found
    homes = (*(f"opweave.{group}" for group in _GROUPS), *(f"opweave.adapters.{each}" for each in _NAMESPACES))
    for module in () if name.startswith("_") else homes:
        home = importlib.import_module(module)
        if name in home.__all__:
            return getattr(home, name)
    if name == "__all__":  # ``from opweave import *`` asks for it first, and then takes the names that are here
        for module, names in _HOMES.items():
            globals().update((each, __getattr__(each)) for each in names if module.startswith("problems."))
    hint = "" if name.startswith("_") else did_you_mean(name, _PUBLIC)  # tools ask for such names, people do not
    raise AttributeError(f"module 'opweave' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """The names of the public face."""
    return [*_PUBLIC]


_PUBLIC = tuple(__all__)
del __all__  # or help(opweave) would print every class in full
