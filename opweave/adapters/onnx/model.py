"""Preparing an ONNX model for planning: flat and sorted, without weights, with all shapes inferred."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, read_bytes
from opweave.adapters.onnx.sizes import Sized, constant_size, element_type, initializer_size, sized, sparse_size
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph_arrays import Adjacency, find_cycle, topological_order
from opweave.problems.limits import MAX_BYTES, Limits

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

KEPT_CONSTANT_BYTES = 8192
"""Larger constants lose their data before shape inference, which needs only small ones (the shape of a Reshape)."""

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data")

_FIX_SHAPES = (
    "infer shapes first with 'onnxsim in.onnx out.onnx' or onnx.shape_inference.infer_shapes, "
    "or export the model with fixed shapes"
)


def read_model(model: PathLike | ModelProto, limits: Limits) -> tuple[ModelProto, str]:
    """Read a model and name it for error messages; external data is never opened.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When onnx is not installed, or the file is missing, too large, or not an ONNX model.
    """
    if not isinstance(model, str | os.PathLike):
        copy = type(model)()
        copy.CopyFrom(model)
        return copy, "ONNX model"
    where = plain(os.fspath(model))
    try:
        import onnx
    except ImportError:
        raise InvalidInputError(
            f"{where}: reading ONNX needs a package; to get it: pip install 'opweave[onnx]'"
        ) from None
    data = read_bytes(model, limits=limits)
    try:
        parsed = onnx.load_model_from_string(data)
    except Exception:  # protobuf has its own exception tree
        raise InvalidInputError(f"{where}: not an ONNX model, or cut off; export or download it again") from None
    _refuse_broken_names(parsed, where)
    if not parsed.graph.name:
        parsed.graph.name = Path(where).stem
    return parsed, where


def _refuse_broken_names(model: ModelProto, where: str) -> None:
    """Refuse names that are not UTF-8. Protobuf returns them as bytes; they occur only in damaged files."""
    graph = model.graph
    values = (*_values(graph), *graph.initializer)
    names = [graph.name, *(value.name for value in values)]
    names += [dim.dim_param for value in _values(graph) for dim in value.type.tensor_type.shape.dim]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
    broken = next((name for name in names if not isinstance(name, str)), None)
    if broken is not None:
        raise InvalidInputError(f"{where}: the name {broken!r:.80} is not UTF-8; export or download the model again")


def prepare(
    model: ModelProto, where: str, dims: Mapping[str, int], limits: Limits
) -> tuple[GraphProto, dict[str, Sized]]:
    """Make a model's graph flat, sorted and fully shaped, and take the constants out.

    Parameters
    ----------
    model
        The model; it is changed.
    where
        Name of the model in errors.
    dims
        Sizes of symbolic dimensions.
    limits
        Caps on the number of operators.

    Returns
    -------
    tuple
        The graph with inferred shapes and without Constant nodes, and the size of every constant by name.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the node and says how to fix the file.
    """
    from opweave.adapters.onnx.fused import stand_ins

    if model.functions:
        model = inlined(model, where)
    graph = model.graph
    if not graph.node:
        raise InvalidInputError(f"{where}: not an ONNX model, or one without operators; export or download it again")
    if len(graph.node) > limits.operators:
        raise LimitExceededError(f"{where}: {len(graph.node):,} operators, over the limit of {limits.operators:,}")
    _refuse_control_flow(graph, where)
    constants = _constants(graph, where)
    _fix_dims(graph, dims, where)
    _check_inputs(graph, constants, where)
    sort_nodes(graph, where)
    inferred = _infer(stand_ins(model), where)
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    del inferred.node[:]
    inferred.node.extend(nodes)
    return inferred, constants


def title(node: NodeProto) -> str:
    """Name a node for people."""
    return f"node {node.name or ', '.join(node.output)!r} ({node.op_type})"


def tensor_size(name: str, kind: TypeProto | None, maker: str, where: str) -> Sized:
    """Size of a value, from its inferred type.

    Raises
    ------
    InvalidInputError
        When the type, the shape or a dimension is unknown.
    """
    what = f"{where}: {maker}"
    form = None if kind is None else kind.WhichOneof("value")
    if kind is None or form is None:
        raise InvalidInputError(f"{what} makes {name!r} of unknown shape; {_FIX_SHAPES}")
    if form != "tensor_type":
        raise InvalidInputError(
            f"{what} makes {name!r}, a {form.removesuffix('_type')} of unknown size; rewrite that part with tensors"
        )
    tensor = kind.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape"):
        raise InvalidInputError(
            f"{what} makes {name!r} of unknown {'shape' if tensor.elem_type else 'type'}; {_FIX_SHAPES}"
        )
    for position, dim in enumerate(tensor.shape.dim):
        if not dim.HasField("dim_value"):
            label = repr(dim.dim_param) if dim.dim_param else "without a name"
            raise InvalidInputError(
                f"{what} makes {name!r} with an open dimension ({label}, position {position}), which does not follow "
                f"from the inputs' sizes; {_FIX_SHAPES}"
            )
    shape = [int(dim.dim_value) for dim in tensor.shape.dim]
    return sized(shape, element_type(tensor.elem_type), f"{what}, tensor {name!r},")


def has_shape(kind: TypeProto | None) -> bool:
    """Whether anything is known about a value's shape."""
    return kind is not None and kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")


def value_types(graph: GraphProto) -> dict[str, TypeProto]:
    """Types of all values, declared and inferred."""
    return {value.name: value.type for value in _values(graph)}


def _values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from graph.value_info
    yield from graph.output
    yield from graph.input


def inlined(model: ModelProto, where: str) -> ModelProto:
    """Put the bodies of model-local functions at the places where they are called."""
    import onnx.checker
    import onnx.inliner

    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise InvalidInputError(
            f"{where}: its model-local functions cannot be inlined ({' '.join(str(error).split())[:120]}); "
            "inline them with onnx.inliner before loading"
        ) from None


def _refuse_control_flow(graph: GraphProto, where: str) -> None:
    from onnx import AttributeProto

    for node in graph.node:
        inner = any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute)
        if inner or node.op_type in ("If", "Loop", "Scan", "SequenceMap"):
            raise InvalidInputError(
                f"{where}: {title(node)} is control flow, so there is no fixed order to plan; remove it with "
                "'onnxsim in.onnx out.onnx' if its condition is constant, or export the model without it"
            )


def _constants(graph: GraphProto, where: str) -> dict[str, Sized]:
    """Size every constant, and drop the data of all but the smallest ones."""
    found: dict[str, Sized] = {}
    for tensor in graph.initializer:
        found[tensor.name] = initializer_size(tensor, f"{where}: initializer {tensor.name!r}")
        _strip(tensor, found[tensor.name])
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        found[name] = sparse_size(sparse, f"{where}: sparse initializer {name!r}")
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            found[node.output[0]] = constant_size(node, f"{where}: {title(node)}")
            for attribute in node.attribute:
                if attribute.name == "value":
                    _strip(attribute.t, found[node.output[0]])
    return found


def _strip(tensor: TensorProto, size: Sized) -> None:
    from onnx import TensorProto

    if size.bytes > KEPT_CONSTANT_BYTES or tensor.data_location == TensorProto.EXTERNAL:
        for field in _DATA_FIELDS:
            tensor.ClearField(field)
        tensor.ClearField("data_location")


def _fix_dims(graph: GraphProto, dims: Mapping[str, int], where: str) -> None:
    for name, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_BYTES:
            raise InvalidInputError(f"dims[{name!r}] is {size!r}; it must be a whole number from 0 to 2**53")
    known: dict[str, None] = {}
    for value in _values(graph):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param:
                known[dim.dim_param] = None
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    for name in dims:
        if name not in known:
            has = f"its symbolic dimensions: {', '.join(known)}" if known else "it has no symbolic dimension"
            raise InvalidInputError(f"{where}: there is no dimension {name!r}; {has}")


def _check_inputs(graph: GraphProto, constants: Mapping[str, Sized], where: str) -> None:
    """Report open dimensions at the inputs, before inference spreads them."""
    inputs = [value for value in graph.input if value.name not in constants and value.type.HasField("tensor_type")]
    names: dict[str, None] = {}
    for value in inputs:
        for position, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                names[dim.dim_param] = None
            elif not dim.HasField("dim_value"):
                raise InvalidInputError(
                    f"{where}: input {value.name!r} has an open dimension without a name at position {position}; fix "
                    f"it with 'python -m onnxruntime.tools.make_dynamic_shape_fixed --input_name {value.name} "
                    "--input_shape ... in.onnx out.onnx'"
                )
        shape = [int(dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        dtype = element_type(value.type.tensor_type.elem_type)
        sized(shape, dtype, f"{where}: input {value.name!r}")
    if names:
        python = ", ".join(f'"{name}": 1' for name in names)
        words = " ".join(f"--dim {name}=1" for name in names)
        raise InvalidInputError(
            f"{where}: the inputs have open dimensions; give their sizes, e.g. dims={{{python}}}, or on the command "
            f"line {words}"
        )


def sort_nodes(graph: GraphProto, where: str) -> None:
    """Put nodes before their readers, as shape inference needs them; in most files they already are."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    heads = [[maker[name] for name in dict.fromkeys(node.input) if name in maker] for node in graph.node]
    if all(source < index for index, row in enumerate(heads) for source in row):
        return
    successors = Adjacency.from_lists(heads).reversed(len(heads))
    cycle = find_cycle(successors)
    if cycle is not None:
        names = [graph.node[index].name or graph.node[index].output[0] for index in cycle[:8]]
        raise InvalidInputError(f"{where}: the graph has a cycle: {' -> '.join([*names, names[0]])}; correct the model")
    nodes = [graph.node[index] for index in topological_order(successors).tolist()]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _infer(model: ModelProto, where: str) -> GraphProto:
    import onnx
    import onnx.shape_inference

    try:
        return onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidInputError(
            f"{where}: the shapes do not fit together ({reason}); check the model with onnx.checker"
        ) from None
