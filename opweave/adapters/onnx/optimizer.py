"""The model that ONNX Runtime will run: its optimiser's result as a file, which can be planned."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from opweave.adapters.files import PathLike, make_folder
from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.onnx.measured import openable
from opweave.adapters.onnx.model import LARGEST_PROTOBUF, permissions, read_model, rename, save_model
from opweave.adapters.onnx.nodes import named, named_model, reordered
from opweave.adapters.onnx.prepare import Inputs, shape
from opweave.adapters.onnx.read import onnx_runtime_problem
from opweave.adapters.onnx.session import default_options, import_runtime, open_session
from opweave.problems.errors import EngineError, InvalidInputError, LimitExceededError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.solution import HasSolution, solution_of
from opweave.solvers.engines.child import ChildLimits, run_in_child

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

Level = Literal["extended", "layout"]
"""What the optimiser may do: ``extended`` folds constants and fuses operators; ``layout`` also stores the images of
convolutions in blocks, as the kernels for this machine's processor want them."""

_MADE_UP = re.compile(r"Reorder(In|Out)put|reorder|.*_token_\d+")
"""Names that the runtime makes up for changes of layout, and for tensors in blocks."""

_LEVELS: Mapping[Level, str] = {"extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_ALL"}


@dataclass(frozen=True, slots=True)
class _Task:
    source: str
    target: str
    level: Level
    beside: bool


def optimize(
    model: PathLike | ModelProto,
    out: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    level: Level = "layout",
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Write a model as ONNX Runtime's optimiser leaves it, so that a plan is for the operators that will run.

    :func:`~opweave.adapters.onnx.session.onnx_session_options` switch the optimiser off, because it would not keep a
    planned order. A plan for the optimised file loses nothing by that: fused operators and blocked layouts are in the
    file, and the runtime packs weights in any case.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    out
        Path of the new file. Over 2 GiB, its weights go into ``OUT.data`` beside it.
    dims
        Sizes for open dimensions, which are fixed in the new file. The optimiser can do more when it knows all sizes.
    level
        ``"layout"`` is what the runtime does by default; such a file is meant for processors like this machine's.
        ``"extended"`` gives a file for all machines; models with many convolutions run slower from it.
    limits
        Caps on the file and on the run of the optimiser.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is not a model, a size is missing, or the path cannot be written to.
    EngineError
        When onnxruntime is not installed or refuses the model; with its message.
    """
    import_runtime()
    file = read_model(model, limits)
    from opweave.adapters.onnx.shapes import shaped

    found = named(file, shaped(file, dims or {}, limits)).proto
    path = Path(out)
    make_folder(path.parent)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "optimised.onnx"
        save_model(file, openable(file, found, limits), source)
        weights = source.with_name(f"{source.name}.data")
        beside = weights.exists() or source.stat().st_size > LARGEST_PROTOBUF // 2
        task = _Task(str(source), str(target), level, beside)
        caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
        done = run_in_child("ONNX Runtime", "opweave.adapters.onnx.optimizer:write_optimized", task, caps)
        if done is None:
            raise EngineError(f"the optimiser took more than {limits.run_seconds:g} s")
        mode = permissions(file)
        if mode is not None:
            target.chmod(mode)
        optimised = read_model(target, limits)
        _name_stably(optimised.proto.graph)
        return save_model(optimised, optimised.proto, path)


def _name_stably(graph: GraphProto) -> None:
    """Rename what the optimiser numbers differently in every run: changes of layout, and tensors in blocks."""
    nodes, tensors = UniqueNames(), UniqueNames()
    new: dict[str, str] = {}
    for node in graph.node:
        rename(node, new)
        if _MADE_UP.fullmatch(node.name):
            seen = [name for name in (*node.output, *node.input) if name and not _MADE_UP.fullmatch(name)]
            node.name = nodes.take(f"{node.op_type} of {(seen or [''])[0]}")
        for place, name in enumerate(node.output):
            if _MADE_UP.fullmatch(name):
                new[name] = tensors.take(f"{node.name}:{place}")
        rename(node, new)
    for value in (*graph.value_info, *graph.output):
        value.name = new.get(value.name, value.name)


def write_optimized(task: _Task, _: Callable[[object], None]) -> bool:
    """In the child: let the runtime load a model and write what its optimiser made of it."""
    runtime = import_runtime()
    options = default_options()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, _LEVELS[task.level])
    options.optimized_model_filepath = task.target
    if task.beside:
        name = f"{Path(task.target).name}.data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", name)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "8192")
    open_session(Path(task.source), options)
    return True


@contextmanager
def form_of_plan(
    model: PathLike | ModelProto, operators: Collection[str], dims: Mapping[str, int], limits: Limits
) -> Iterator[PathLike | ModelProto]:
    """Find the form of a model for which an order was planned: the model itself, or what the optimiser makes of it.

    Parameters
    ----------
    model
        The model.
    operators
        The ids that the plan lists.
    dims
        Sizes of open dimensions.
    limits
        Caps on the file and on the run of the optimiser.

    Yields
    ------
    PathLike or ModelProto
        The model itself, also if the plan fits neither form; or the optimised file, which is deleted afterwards.
    """
    if set(named_model(model, dims, limits=limits).nodes) == set(operators) or find_spec("onnxruntime") is None:
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        name = Path(model).name if isinstance(model, str | os.PathLike) else "model.onnx"
        try:
            found: PathLike = optimize(model, Path(folder) / name, dims=dims, limits=limits)
            fits = set(named_model(found, limits=limits).nodes) == set(operators)
        except (EngineError, InvalidInputError, LimitExceededError):
            fits = False
        yield found if fits else model


def runtime_form(model: PathLike, dims: Mapping[str, int], inputs: Inputs | None = None) -> MemoryOrdering | None:
    """The problem of ordering the operators that ONNX Runtime's optimiser makes of a model, counted as it runs them.

    None if onnxruntime is not installed or refuses the model. ``dims`` has the sizes of all open dimensions, and
    ``inputs`` the values of inputs on which shapes depend.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is no model, or a size is missing.
    """
    shape(model, dims, inputs, DEFAULT_LIMITS)
    if find_spec("onnxruntime") is None:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
            return onnx_runtime_problem(optimize(model, Path(folder) / Path(model).name, dims=dims), inputs=inputs)
    except (EngineError, InvalidInputError, LimitExceededError):
        return None


def reorder_onnx(
    model: PathLike | ModelProto,
    ordering: Ordering | HasSolution[Ordering],
    out: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Write a model with its nodes in the planned order, each named by its operator id.

    The weights are copied from file to file, so a model of any size takes little memory.

    ONNX Runtime does not follow the order of a file by default. Run the file with
    :func:`~opweave.adapters.onnx.session.onnx_session_options`.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    ordering
        The order that :func:`opweave.solve` found for the graph that :func:`opweave.load` made of this model, or its
        result. An order for the model as ONNX Runtime's optimiser leaves it (as ``opweave plan`` makes them) is written
        into that form of the model.
    out
        Path of the new file, which gets the permissions of the model's. It contains the weights; over 2 GiB they go
        into ``OUT.data`` beside it.
    dims
        Sizes for open dimensions, if the order was planned with some. They are fixed in the new file, so that the
        runtime knows every shape before it runs.
    limits
        Caps on file size.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the order does not fit this model (the message names the node), or a file cannot be read or written.
    """
    wanted = solution_of(ordering, Ordering)
    with form_of_plan(model, wanted.order, dims or {}, limits) as planned:
        found = named_model(planned, None if planned is not model else dims, limits=limits)
        return save_model(found.file, openable(found.file, reordered(found, wanted), limits), out)
