"""ONNX models in memory without their weights: reading, nodes in order, names that nodes read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, mapped
from opweave.adapters.onnx.wire import LARGE_BYTES, Cut, hollow, marked
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph_arrays import Adjacency, find_cycle, topological_order
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model that was read without its weights.

    Attributes
    ----------
    proto
        The model. Tensors with more than :data:`~opweave.adapters.onnx.wire.LARGE_BYTES` have no data; they look as if
        their data were external.
    where
        Name of the model in errors.
    path
        The file; None for a model that was in memory.
    token
        Marks the tensors whose data was cut.
    cuts
        What was cut, by the numbers in these marks.
    """

    proto: ModelProto
    where: str
    path: Path | None
    token: str
    cuts: Sequence[Cut]


@dataclass(frozen=True, slots=True)
class Shaped:
    """A model that is flat, sorted, and shaped as far as its operators' rules go.

    Attributes
    ----------
    model
        The model. Functions are inlined, every If with a known condition is replaced by its branch, open dimensions
        that got a size have it, and an initialiser is no input.
    types
        Types of all values, as far as they are known.
    conflicts
        Nodes whose inputs contradict their operator's rules, and what the rules say.
    """

    model: ModelProto
    types: Mapping[str, TypeProto]
    conflicts: Mapping[str, str]


def read_model(model: PathLike | ModelProto, limits: Limits) -> OnnxFile:
    """Read a model and name it for error messages; large and external data is not read.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When onnx is not installed, or the file is missing, too large, or not an ONNX model.
    """
    token = f"cut-{secrets.token_hex(8)}"
    if not isinstance(model, str | os.PathLike):
        copy = type(model)()
        copy.CopyFrom(model)
        return OnnxFile(copy, "ONNX model", None, token, _hollow_in_memory(copy, token))
    where = plain(os.fspath(model))
    try:
        import onnx
    except ImportError:
        raise InvalidInputError(
            f"{where}: reading ONNX needs a package; to get it: pip install 'opweave[onnx]'"
        ) from None
    with mapped(model, limits=limits) as data:
        try:
            content, cuts = hollow(data, Path(model), token)
            parsed = onnx.load_model_from_string(content)
        except Exception:  # protobuf has its own exception tree
            raise InvalidInputError(f"{where}: not an ONNX model, or cut off; export or download it again") from None
    _refuse_broken_names(parsed, where)
    if not parsed.graph.name:
        parsed.graph.name = Path(where).stem
    return OnnxFile(parsed, where, Path(model), token, cuts)


def _hollow_in_memory(model: ModelProto, token: str) -> list[Cut]:
    """Take large raw data out of a model that was not read from a file."""
    cuts: list[Cut] = []
    for tensor in _tensors(model.graph):
        if len(tensor.raw_data) > LARGE_BYTES:
            tensor.MergeFromString(marked(token, len(cuts)))
            cuts.append(Cut(9, tensor.raw_data))
            tensor.ClearField("raw_data")
    return cuts


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in graphs_of(attribute):
                yield from _tensors(inner)


def _refuse_broken_names(model: ModelProto, where: str) -> None:
    """Refuse names that are not UTF-8. Protobuf returns them as bytes; they occur only in damaged files."""
    graph = model.graph
    values = (*values_of(graph), *graph.initializer)
    names = [graph.name, *(value.name for value in values), *(entry.domain for entry in model.opset_import)]
    names += [dim.dim_param for value in values_of(graph) for dim in value.type.tensor_type.shape.dim]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
    broken = next((name for name in names if not isinstance(name, str)), None)
    if broken is not None:
        raise InvalidInputError(f"{where}: the name {broken!r:.80} is not UTF-8; export or download the model again")


def title(node: NodeProto) -> str:
    """Name a node for people."""
    return f"node {node.name or ', '.join(node.output)!r} ({node.op_type})"


def values_of(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """The declared values of a graph."""
    yield from graph.value_info
    yield from graph.output
    yield from graph.input


def graphs_of(attribute: AttributeProto) -> Sequence[GraphProto]:
    """The graphs inside an attribute, such as the body of a Loop."""
    return [attribute.g] if attribute.HasField("g") else attribute.graphs


def inner_graphs(node: NodeProto) -> list[GraphProto]:
    """The graphs inside a node."""
    return [graph for attribute in node.attribute for graph in graphs_of(attribute)]


def reads_of(node: NodeProto) -> list[str]:
    """Names of the values that a node reads: its inputs, then what the graphs inside it take from outside."""
    inner = inner_graphs(node)
    if not inner:
        return [name for name in node.input if name]
    names = dict.fromkeys(name for name in node.input if name)
    for graph in inner:
        names |= dict.fromkeys(_outer_names(graph))
    return list(names)


def _outer_names(graph: GraphProto) -> list[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in reads_of(node)]
    return [name for name in [*read, *(value.name for value in graph.output)] if name not in own]


def inlined(model: ModelProto, where: str) -> ModelProto:
    """Put the bodies of model-local functions at the places where they are called."""
    import onnx.checker
    import onnx.inliner

    if not model.functions:
        return model
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise InvalidInputError(
            f"{where}: its model-local functions cannot be inlined ({' '.join(str(error).split())[:120]}); "
            "export the model without functions"
        ) from None


def sort_nodes(graph: GraphProto, where: str) -> None:
    """Put nodes before their readers, as shape inference needs them; in most files they already are."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    heads = [[maker[name] for name in dict.fromkeys(reads_of(node)) if name in maker] for node in graph.node]
    if all(source < index for index, row in enumerate(heads) for source in row):
        return
    successors = Adjacency.from_lists(heads).reversed(len(heads))
    cycle = find_cycle(successors)
    if cycle is not None:
        names = [graph.node[index].name or graph.node[index].output[0] for index in cycle[:8]]
        raise InvalidInputError(f"{where}: the graph has a cycle: {' -> '.join([*names, names[0]])}; correct the model")
    replace_nodes(graph, [graph.node[index] for index in topological_order(successors).tolist()])


def replace_nodes(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    """Give a graph other nodes, which may be some of its own."""
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def dims_of(kind: TypeProto | None) -> tuple[int, ...] | None:
    """The dimensions of a tensor; None if one of them is unknown."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


def complete(kind: TypeProto | None) -> bool:
    """Whether a type is that of a tensor with known dimensions."""
    return kind is not None and dims_of(kind) is not None and bool(kind.tensor_type.elem_type)
