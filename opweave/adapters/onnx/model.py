"""ONNX models without their weights: reading, writing, nodes in order, names that nodes read.

Large data of tensors is taken out of a model when it is read, so that copies of the model are small, and put back when
it is written. External data is never read; it is copied from file to file.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.files import PathLike, make_folder, mapped, write_bytes
from opweave.adapters.graphs.kinds import FrameworkKinds
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError, LimitExceededError, plain
from opweave.problems.graph_arrays import Adjacency, find_cycle, topological_order
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto


KINDS = FrameworkKinds(__file__)
"""What is known of operator kinds."""

LARGE_BYTES = 8192
"""Data of more bytes is taken out. Shape inference needs only small constants, such as the shape of a Reshape."""

LARGEST_PROTOBUF = 2**31 - 1
"""Largest model in bytes that fits into one file; a larger one keeps its weights beside it."""

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model that was read without its weights.

    Attributes
    ----------
    proto
        The model. Tensors with more than :data:`LARGE_BYTES` have no data; they look as if their data were external.
        Long lists in attributes of operators that are not ONNX's own are empty, and their text is the mark.
    where
        Name of the model in errors.
    path
        The file; None for a model that was in memory.
    token
        Marks the tensors whose data was taken out. It is random, so that no file can pretend to be one of them.
    data
        What was taken out, by the numbers in these marks.
    """

    proto: ModelProto
    where: str
    path: Path | None
    token: str
    data: Sequence[bytes]


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
    """Read a model and name it for error messages; external data is not read.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When onnx is not installed, or the file is missing, too large, or not an ONNX model.
    """
    token = f"cut-{secrets.token_hex(8)}"
    if not isinstance(model, str | os.PathLike):
        copy = type(model)()
        copy.CopyFrom(model)
        return OnnxFile(copy, "ONNX model", None, token, _taken_out(copy, token))
    where = plain(os.fspath(model))
    try:
        import onnx
    except ImportError:
        raise InvalidInputError(
            f"{where}: reading ONNX needs a package; to get it: pip install 'opweave[onnx]'"
        ) from None
    with mapped(model, limits=limits) as data:
        try:
            parsed = onnx.load_model_from_string(bytes(data))
        except Exception:  # protobuf has its own exception tree
            raise InvalidInputError(f"{where}: not an ONNX model, or cut off; export or download it again") from None
    _refuse_broken_names(parsed, where)
    if not parsed.graph.name:
        parsed.graph.name = Path(where).stem
    return OnnxFile(parsed, where, Path(model), token, _taken_out(parsed, token))


def _taken_out(model: ModelProto, token: str) -> list[bytes]:
    """Take large raw data out of a model."""
    data: list[bytes] = []
    for tensor in _tensors(model.graph):
        if len(tensor.raw_data) > LARGE_BYTES:
            tensor.external_data.add(key=token, value=str(len(data)))
            tensor.data_location = type(tensor).EXTERNAL
            data.append(tensor.raw_data)
            tensor.ClearField("raw_data")
    for table in _tables(model.graph):
        if len(table.ints) + len(table.floats) + len(table.strings) > LARGE_BYTES // 8:
            data.append(table.SerializeToString())
            left = type(table)(name=table.name, type=table.type, doc_string=f"{token} {len(data) - 1}")
            table.CopyFrom(left)
    return data


def save_model(file: OnnxFile, model: ModelProto, out: PathLike) -> Path:
    """Write a model atomically; over 2 GiB, its weights go into ``OUT.data`` beside it.

    Parameters
    ----------
    file
        The file that the model was read from, which still holds external weights. Its permissions are kept.
    model
        The model, or any other with weights of that file.
    out
        Path of the new file.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to, or external data cannot be read.
    """
    path, whole, mode = Path(out), type(model)(), permissions(file)
    make_folder(path.parent)
    whole.CopyFrom(model)
    for table in _tables(whole.graph):
        mark, _, number = table.doc_string.partition(" ")
        if mark == file.token:
            table.ParseFromString(file.data[int(number)])
    held = [(tensor, data) for tensor in _tensors(whole.graph) if (data := _data_of(file, tensor)) is not None]
    inside = whole.ByteSize() + sum(len(data) for _, data in held) <= LARGEST_PROTOBUF
    beside, total = list[bytes | memoryview](), 0
    for tensor, data in held:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        if inside:
            tensor.raw_data = bytes(data)
            continue
        padding, size = -total % _PAGE, len(data)  # so that a runtime can map the weights
        for key, value in (("location", f"{path.name}.data"), ("offset", total + padding), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = type(tensor).EXTERNAL
        beside += [bytes(padding), data]
        total += padding + size
    if beside:
        write_bytes(path.with_name(f"{path.name}.data"), *beside, mode=mode)
    write_bytes(path, whole.SerializeToString(), mode=mode)
    return path


def permissions(file: OnnxFile) -> int | None:
    """The permissions of the file that a model was read from; None for a model in memory."""
    return stat.S_IMODE(file.path.stat().st_mode) if file.path is not None and file.path.is_file() else None


def _data_of(file: OnnxFile, tensor: TensorProto) -> bytes | memoryview | None:
    """The data that a tensor lacks."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if file.token in entries:
        return file.data[int(entries[file.token])]
    if tensor.data_location != type(tensor).EXTERNAL or file.path is None:
        return None
    return _external(tensor.name, entries, file.path, file.where)


def _external(name: str, entries: dict[str, str], path: Path, where: str) -> bytes | memoryview:
    """Find a tensor's external data, which must lie in a file in or below the model's folder.

    Raises
    ------
    InvalidInputError
        When there is no such data; the message names the file.
    """
    location = entries.get("location", "")
    place = (path.parent / location).resolve()
    what = f"{where}: the external data of {name!r}, {location!r:.80},"
    if not location or not place.is_relative_to(path.parent.resolve()):
        raise InvalidInputError(f"{what} lies outside the model's folder; export the model again")
    if not place.is_file():
        raise InvalidInputError(f"{what} cannot be read; put the data file next to the model")
    size = place.stat().st_size
    try:
        begin = int(entries.get("offset", 0))
        length = int(entries.get("length", size - begin))
    except ValueError:
        raise InvalidInputError(f"{what} has no readable offset and length; export the model again") from None
    if begin < 0 or length < 0 or begin + length > size:
        raise InvalidInputError(f"{what} ends before its weights do; download the data file again")
    return np.memmap(place, np.uint8, "r").data[begin : begin + length] if length else b""


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in graphs_of(attribute):
                yield from _tensors(inner)


def _tables(graph: GraphProto) -> Iterator[AttributeProto]:
    """The attributes of operators that are not ONNX's own, such as those that list the nodes of decision trees."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in graphs_of(attribute):
                yield from _tables(inner)
            if node.domain:
                yield attribute


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


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Give the values that a node reads and makes other names, also inside the graphs that it contains."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in inner_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for each in graph.node for name in each.output}
        outer = {old: new for old, new in names.items() if old not in own}
        for each in graph.node:
            rename(each, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)


def operator_nodes(graph: GraphProto) -> dict[str, NodeProto]:
    """Name every node but constants once; names from the file come first, so that no generated name displaces them."""
    names, nodes = UniqueNames(), [node for node in graph.node if node.op_type != "Constant"]
    ids = [names.take(node.name) if node.name else "" for node in nodes]
    return {
        name or names.take(f"{node.op_type}_{index}"): node
        for index, (name, node) in enumerate(zip(ids, nodes, strict=True))
    }


def inlined(model: ModelProto, where: str, limits: Limits) -> ModelProto:
    """Put the bodies of model-local functions at the places where they are called, if these are not too many."""
    import onnx.checker
    import onnx.inliner

    if not model.functions:
        return model
    bodies, known = {(each.domain, each.name): each.node for each in model.functions}, dict[tuple[str, str], int]()

    def count(nodes: Iterable[NodeProto], deep: int) -> int:
        total = 0
        if deep > limits.nesting:
            raise LimitExceededError(f"{where}: its functions cannot be inlined, which are over {limits.nesting} deep")
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in bodies and key not in known:
                known[key] = count(bodies[key], deep + 1)
            total += known.get(key, 1) + sum(count(inner.node, deep + 1) for inner in inner_graphs(node))
            if total > limits.operators:
                raise LimitExceededError(f"{where}: its functions call one another too often; see Limits.operators")
        return total

    count(model.graph.node, 0)
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
