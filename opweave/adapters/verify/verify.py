"""Verification of a plan on the real model: run both models and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.formats import family_of
from opweave.adapters.verify.report import Verification
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError, plain
from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.pipeline.spec import Stages
from opweave.problems.placement.spec import Schedule
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from onnx import ModelProto
    from torch.export import ExportedProgram

VERIFIABLE = (Ordering, Schedule, Stages)
"""Solutions that can be run: an order; placements and pipelines as parts, one after the other on this machine."""


def verify(
    model: PathLike | ModelProto | torch.nn.Module | ExportedProgram,
    result: Result[Any] | Solution,
    *,
    problem: Problem[Any, Any] | None = None,
    inputs: Mapping[str, NDArray[np.generic]] | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Verification:
    """Run a planned model and the original model on this machine's CPU, and compare them.

    Parameters
    ----------
    model
        ONNX (a file or in memory; runs in ONNX Runtime), or PyTorch (a ``.pt2`` file, an exported program or a module).
        It must be the model that was planned, because operators are found by their ids.
    result
        The plan. An ordering is written into the model; placements and pipelines cut it into parts that run in turn.
    problem
        The problem that was solved, if the result does not know it; only its costs are used, as predicted times.
    inputs
        For ONNX: arrays by name. Generated from ``seed`` by default.
    args, kwargs
        For PyTorch: inputs. A module needs them; for a program they are generated from ``seed`` by default.
    dims
        Sizes for symbolic dimensions of an ONNX model.
    seed
        Seed of generated inputs: normal numbers; zeros and ones for integers.
    threads
        Threads within an operator.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the plan is for another model (the message names the operator), sizes are missing, or a package is missing.
    UnsupportedFeatureError
        For plans that cannot be run here.
    EngineError
        When the runtime fails; with the runtime's message.
    """
    solution = result.solution if isinstance(result, Result) else result
    if problem is None and isinstance(result, Result):
        problem = result.answers
    if solution is None:
        assert isinstance(result, Result)
        raise InvalidInputError(f"the result has no solution to run (status {result.status.value})")
    if not isinstance(solution, VERIFIABLE):
        known = ", ".join(kind.kind for kind in VERIFIABLE)
        raise UnsupportedFeatureError(f"a {solution.kind} cannot be run here; these can: {known}")
    given: Any = model
    family = family_of(model)
    if family == "onnx":
        from opweave.adapters.verify.onnx import verify_onnx

        if args or kwargs:
            raise InvalidInputError("args and kwargs are for PyTorch; pass inputs={name: array} for an ONNX model")
        found = verify_onnx(given, solution, problem, inputs, dims or {}, seed, threads)
    elif family == "torch":
        from opweave.adapters.verify.torch import verify_torch

        if inputs is not None or dims:
            raise InvalidInputError("inputs and dims are for ONNX models; pass args=(...) for a PyTorch model")
        found = verify_torch(given, solution, problem, args, kwargs or {}, seed, threads)
    else:
        name = plain(str(model))
        raise InvalidInputError(
            f"{name:.200}: verify runs the model itself; pass the .onnx or .pt2 file that was planned"
        )
    if not isinstance(result, Result):
        return found
    return found.model_copy(update={"claimed": result.objective, "claimed_assumptions": result.assumptions})
