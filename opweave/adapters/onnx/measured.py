"""What ONNX Runtime knows about a model: types by its rules, and shapes that depend on values by one run.

It works in a process of its own, with limits on its time and memory. So a model that never ends, or that crashes the
runtime, is refused in a sentence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.graphs.kinds import element_bits
from opweave.adapters.onnx.model import OnnxFile, inner_graphs, operator_nodes, save_model
from opweave.adapters.onnx.session import (
    default_options,
    import_runtime,
    onnx_session_options,
    open_session,
    profiled_run,
    short,
)
from opweave.adapters.onnx.sizes import SEQUENCE, Sized, element_type, sized
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import Limits
from opweave.solvers.engines.child import ChildLimits, run_in_child

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto, ValueInfoProto
    from onnxruntime import InferenceSession

Given = Any
"""What an input gets: an array, or a list of arrays for a sequence; None for an optional input without a value."""


INSIDE = "opweave/inside/"
"""Beginning of the names of the nodes inside others while their memory is measured."""

INSIDE_SECONDS = 10.0
"""Time for measuring that memory: a model can be planned without it, and a loop may never end."""

Found = dict[str, tuple[str, tuple[int, ...] | None, int]]
"""Element type, shape and bytes by name. A sequence or a map has no shape; the bytes of a tensor follow from both."""


@dataclass(frozen=True, slots=True)
class _Feed:
    """An input of zeros: the type as the runtime names it, and the shape."""

    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    path: str
    feeds: Mapping[str, _Feed | Given]
    wanted: Sequence[str]


def measured(
    file: OnnxFile, model: ModelProto, wanted: Sequence[str], inputs: Mapping[str, Given], limits: Limits
) -> dict[str, Sized]:
    """Run a model once and measure some of its values.

    Parameters
    ----------
    file
        The file, for the weights.
    model
        The model that is run, with fixed input sizes.
    wanted
        Names of the values to measure.
    inputs
        Inputs by name; zeros for all others.
    limits
        Caps on the run.

    Returns
    -------
    dict
        Sizes by name. For a sequence or a map, the bytes of all its content.

    Raises
    ------
    InvalidInputError
        When an input has no shape.
    EngineError
        When the runtime refuses the model or fails, or its time or memory is up.
    """
    found = _in_child("record", file, model, wanted, inputs, limits)
    if found is None:
        raise EngineError(f"the run took more than {limits.run_seconds:g} s")
    if isinstance(found, str):
        raise EngineError(found)
    return {
        name: Sized((), kind, size) if shape is None else sized(shape, kind, f"{file.where}: tensor {name!r}")
        for name, (kind, shape, size) in found.items()
    }


def held_inside(file: OnnxFile, model: ModelProto, inputs: Mapping[str, Given], limits: Limits) -> dict[str, int]:
    """Bytes that the graphs inside a model's nodes hold while they run, beyond the nodes' results, by operator id.

    They are measured in a run in the order of the file; empty if the model cannot be run in :data:`INSIDE_SECONDS`.
    """
    if not limits.run_seconds or find_spec("onnxruntime") is None:
        return {}
    copy = type(model)()
    copy.CopyFrom(model)
    nodes = operator_nodes(copy.graph)
    for name, node in nodes.items():
        node.name = name
    left = [inner for node in nodes.values() for inner in inner_graphs(node)]
    while left:
        for number, node in enumerate(left.pop().node):
            node.name = f"{INSIDE}{number}"
            left += inner_graphs(node)
    try:
        limits = replace(limits, run_seconds=min(limits.run_seconds, INSIDE_SECONDS))
        found = _in_child("inside", file, copy, (), inputs, limits)
    except (EngineError, InvalidInputError):
        return {}
    return {name: size for name, (_, _, size) in found.items()} if isinstance(found, dict) else {}


def is_refused(file: OnnxFile, model: ModelProto, inputs: Mapping[str, Given], limits: Limits) -> bool:
    """Whether a model cannot be run; False if that takes too long to find out, or cannot be found out."""
    if not limits.run_seconds or find_spec("onnxruntime") is None:
        return False
    try:
        return isinstance(_in_child("attempt", file, model, (), inputs, limits), str)
    except EngineError:
        return True


def runtime_types(file: OnnxFile, model: ModelProto, limits: Limits) -> dict[str, TypeProto]:
    """Types of tensors by the rules of ONNX Runtime, which has them for the operators that it fuses, too.

    Weights are not needed: large ones are inputs of the model that it opens. Nothing is run.

    Returns
    -------
    dict
        Types by name, as far as they are known; empty if the runtime refuses the model or is not installed.
    """
    from onnx import TensorProto, helper

    copy = _without_weights(model)
    outputs = {value.name for value in copy.graph.output}
    made = dict.fromkeys(name for node in copy.graph.node for name in node.output if name and name not in outputs)
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in made)
    found = _opened(file, copy, limits)
    return {
        name: helper.make_tensor_type_proto(TensorProto.DataType.Value(kind), shape)
        for name, (kind, shape, _) in (found or {}).items()
        if element_bits(kind) is not None
    }


def openable(file: OnnxFile, model: ModelProto, limits: Limits) -> ModelProto:
    """A model without the shapes that the rules of ONNX Runtime contradict, as it refuses a file with such shapes."""
    from onnx import helper

    if not model.graph.value_info or _opened(file, _without_weights(model), limits) is not None:
        return model
    bare = type(model)()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.CopyFrom(helper.make_empty_tensor_value_info(value.name))
    known = runtime_types(file, bare, limits)
    bare.graph.value_info.extend(value for value in model.graph.value_info if known.get(value.name) == value.type)
    return bare if known else model


def _without_weights(model: ModelProto) -> ModelProto:
    """A model that reads large weights as inputs."""
    from onnx import TensorProto, helper

    copy = type(model)()
    copy.CopyFrom(model)
    graph = copy.graph
    large = [tensor for tensor in graph.initializer if tensor.data_location == TensorProto.EXTERNAL]
    small = [tensor for tensor in graph.initializer if tensor.data_location != TensorProto.EXTERNAL]
    weights = type(graph)(initializer=small).initializer
    graph.ClearField("initializer")
    graph.initializer.extend(weights)
    graph.input.extend(helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in large)
    return copy


def _opened(file: OnnxFile, model: ModelProto, limits: Limits) -> Found | None:
    """Let the runtime open a model and say what it returns; None if it refuses that, or cannot be asked."""
    if not limits.run_seconds or find_spec("onnxruntime") is None:
        return None
    try:
        found = _child("types", file, model, {}, (), limits)
    except (EngineError, InvalidInputError):
        return None
    return found if isinstance(found, dict) else None


def _in_child(
    function: str,
    file: OnnxFile,
    model: ModelProto,
    wanted: Sequence[str],
    inputs: Mapping[str, Given],
    limits: Limits,
) -> Found | str | None:
    """Run a model in a process of its own; a text says why it cannot be run, None that its time is up."""
    from onnx import helper

    if not limits.run_seconds:
        raise EngineError("the limits forbid a run")
    copy = type(model)()
    copy.CopyFrom(model)
    outputs = {value.name for value in copy.graph.output}
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted if name not in outputs)
    weights = {tensor.name for tensor in copy.graph.initializer}
    needed = [value for value in copy.graph.input if value.name not in weights]
    feeds = {value.name: inputs[value.name] if value.name in inputs else _zeros(value) for value in needed}
    return _child(function, file, copy, feeds, wanted, limits)


def _child(
    function: str,
    file: OnnxFile,
    model: ModelProto,
    feeds: Mapping[str, _Feed | Given],
    wanted: Sequence[str],
    limits: Limits,
) -> Found | str | None:
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = save_model(file, model, Path(folder) / "measured.onnx")
        caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
        work = f"opweave.adapters.onnx.measured:{function}"
        found: Found | str | None = run_in_child("ONNX Runtime", work, _Task(str(path), feeds, tuple(wanted)), caps)
    return found


def types(task: _Task, _: Callable[[object], None]) -> Found:
    """In the child: open the model, and describe its outputs; an unknown shape looks like that of a number."""
    return {
        value.name: (_element(value.type), tuple(value.shape), 0)
        for value in _session(task).get_outputs()
        if value.type.startswith("tensor") and value.shape and all(isinstance(size, int) for size in value.shape)
    }


def _zeros(value: ValueInfoProto) -> _Feed:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise InvalidInputError(f"input {value.name!r} has no shape; pass inputs={{{value.name!r}: ...}}")
    return _Feed(element_type(kind.elem_type), tuple(dim.dim_value for dim in kind.shape.dim))


def record(task: _Task, _: Callable[[object], None]) -> Found | str:
    """In the child: run the model, and describe the wanted values, or say why it cannot be run.

    ONNX Runtime runs it; what this runtime lacks, the slow reference implementation of ONNX may still know.
    """
    try:
        return _by_runtime(task)
    except (EngineError, InvalidInputError) as error:
        try:
            return _by_reference(task)
        except Exception:  # the runtime's error tells more
            return str(error)


def inside(task: _Task, _: Callable[[object], None]) -> Found | str:
    """In the child: run a model whose inner nodes are marked by their name, and measure what lives while these run."""
    try:
        feeds = {name: _array(given) for name, given in task.feeds.items()}
        run = profiled_run(Path(task.path), onnx_session_options(), feeds, runs=1)
    except (EngineError, InvalidInputError) as error:
        return str(error)
    found: Found = {}
    highest = reached = 0
    for name, live, mark in zip(run.order, run.live or (), run.marks or (), strict=False):
        if name.startswith(INSIDE):
            highest = max(highest, live)
            continue
        if highest:
            most = max(highest, mark if mark > reached else 0)  # the mark has what kernels take while they run
            found[name] = ("", None, max(most - live, 0))
        highest, reached = 0, max(reached, mark)
    return found


def attempt(task: _Task, _: Callable[[object], None]) -> Found | str:
    """In the child: run the model, or say why the run failed; a runtime that cannot even open it tells nothing."""
    try:
        session = _session(task)
    except (EngineError, InvalidInputError):
        return {}
    try:
        session.run(None, {name: _array(given) for name, given in task.feeds.items()})
    except Exception as error:  # the runtime has its own exception tree
        return short(error)
    return {}


def _session(task: _Task) -> InferenceSession:
    options = default_options()
    options.graph_optimization_level = import_runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    return open_session(Path(task.path), options)


def _by_runtime(task: _Task) -> Found:
    runtime = import_runtime()
    session = _session(task)
    kinds = {value.name: value.type for value in session.get_outputs()}
    feeds = {name: _array(given) for name, given in task.feeds.items()}
    tensors = (
        [name for name in task.wanted if kinds[name].startswith("tensor")]
        if all(map(_is_plain, feeds.values()))
        else []
    )
    others = [name for name in task.wanted if name not in tensors]
    found: Found = {}
    try:
        if tensors:  # as the runtime's own values, because NumPy lacks some element types
            given = {name: runtime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
            for name, value in zip(tensors, session.run_with_ort_values(tensors, given), strict=True):
                found[name] = (_element(value.data_type()), tuple(value.shape()), 0)
        if others:
            found |= {name: _described(value) for name, value in zip(others, session.run(others, feeds), strict=True)}
    except Exception as error:  # the runtime has its own exception tree
        raise EngineError(f"ONNX Runtime failed: {short(error)}") from None
    return found


def _is_plain(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufcOUS"


def _by_reference(task: _Task) -> Found:
    import onnx
    from onnx.reference import ReferenceEvaluator

    feeds = {name: _array(given) for name, given in task.feeds.items()}
    values: Any = ReferenceEvaluator(onnx.load(task.path)).run(None, feeds, intermediate=True)
    return {name: _described(values[name]) for name in task.wanted}


def _described(value: object) -> tuple[str, tuple[int, ...] | None, int]:
    from onnx import TensorProto, helper

    if not isinstance(value, np.ndarray | np.generic):
        return SEQUENCE, None, bytes_of(value)
    text = value.dtype.kind in "OUST"
    kind = TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(value.dtype)
    return element_type(kind), tuple(value.shape), 0


def _array(given: object) -> Any:
    if not isinstance(given, _Feed):
        return given
    if given.kind == "STRING":
        return np.full(given.shape, "", object)
    from onnx import TensorProto, helper

    return np.zeros(given.shape, helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(given.kind)))


def _element(kind: str) -> str:
    """ONNX's name of an element type for the runtime's, such as "tensor(float)"."""
    return kind[kind.index("(") + 1 : -1].upper()


def bytes_of(value: object) -> int:
    """Bytes of a value of any type: an array, a list or a map of arrays, or nothing."""
    if isinstance(value, np.ndarray | np.generic):
        return value.size * 32 if value.dtype.kind in "OUST" else value.nbytes
    if isinstance(value, Mapping):
        return sum(map(bytes_of, [*value.keys(), *value.values()]))
    if isinstance(value, list | tuple):
        return sum(map(bytes_of, value))
    if isinstance(value, str):
        return 32
    return 0 if value is None else 8
