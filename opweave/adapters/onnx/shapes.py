"""Shapes of all values of an ONNX model, node by node, with the values of small constants and of computed shapes.

Once the inputs have sizes, most shapes follow from the operators' rules. Where a rule needs a value, such as the target
of a Reshape, the value usually follows from constants and from other shapes, so it is computed here. What is left
depends on the inputs' values; :mod:`opweave.adapters.onnx.measured` finds it out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import (
    FunctionProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)

from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.onnx.branches import Branch, chosen_graph, unfolded
from opweave.adapters.onnx.dims import fix_dimensions
from opweave.adapters.onnx.fused import stand_in
from opweave.adapters.onnx.model import (
    OnnxFile,
    Shaped,
    complete,
    dims_of,
    inlined,
    inner_graphs,
    reads_of,
    replace_nodes,
    sort_nodes,
    title,
    values_of,
)
from opweave.adapters.onnx.wire import LARGE_BYTES
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import GraphProto, ModelProto, SparseTensorProto

Arrays = Mapping[str, "NDArray[np.generic]"]

_COMPUTED = """
    Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Compress Concat Constant ConstantOfShape CumSum Div Equal Expand
    Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Mean Min Mod Mul
    Neg NonZero Not OneHot Or Pad Pow Range ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round
    ScatterElements ScatterND Sign Slice Split Sqrt Squeeze Sub Sum Tile TopK Transpose Trilu Unique Unsqueeze Where Xor
"""
COMPUTED = frozenset(_COMPUTED.split())
"""Kinds that are computed when all their inputs are known and their output is small."""

_AS_LONG_AS_INPUT = frozenset({"Compress", "NonZero", "Unique"})
"""Kinds whose output has an unknown shape before they are computed, but cannot be much larger than the input."""

_ZERO_OF_RESULT = 8
"""Position of the zero point of a QGemm's result."""

STANDARD = ("", "ai.onnx")


def shaped(file: OnnxFile, dims: Mapping[str, int], limits: Limits) -> Shaped:
    """Make a model flat and sorted, give its open dimensions their sizes, and infer all shapes.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    model = inlined(file.proto, file.where)
    graph = model.graph
    if not graph.node:
        raise InvalidInputError(
            f"{file.where}: not an ONNX model, or one without operators; export or download it again"
        )
    _check_count(len(graph.node), file.where, limits)
    _drop_constant_inputs(model)
    fix_dimensions(graph, dims, file.where)
    sort_nodes(graph, file.where)
    inference = _Inference(model, {})
    replace_nodes(graph, inference.unfold(file.where, limits))
    return Shaped(model, inference.types, inference.conflicts)


def with_values(found: Shaped, inputs: Arrays) -> Shaped:
    """Infer the shapes again, now that the inputs' values are known; the graph stays as it is."""
    inference = _Inference(found.model, inputs)
    inference.follow(found.model.graph.node)
    return Shaped(found.model, inference.types, inference.conflicts)


def _check_count(count: int, where: str, limits: Limits) -> None:
    if count > limits.operators:
        raise LimitExceededError(f"{where}: {count:,} operators, over the limit of {limits.operators:,}")


def _drop_constant_inputs(model: ModelProto) -> None:
    """Until version 3 of the format, every initialiser was listed among the inputs."""
    if model.ir_version > 3:
        return
    weights = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[len(kept) :]
    for place, value in enumerate(kept):
        model.graph.input[place].CopyFrom(value)
    model.ir_version = 4


class _Inference:
    """Types and small values of everything, node by node."""

    def __init__(self, model: ModelProto, inputs: Arrays) -> None:
        self._graph = model.graph
        self._opsets = {entry.domain: entry.version for entry in model.opset_import}
        self._opsets[""] = self._opsets.get("", self._opsets.get("ai.onnx", 1))
        self._imports = [OperatorSetIdProto(domain=name, version=number) for name, number in self._opsets.items()]
        self._ir_version = model.ir_version
        self._names = UniqueNames(_all_names(model.graph))
        self._declared = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
        self._data: dict[str, TensorProto] = {}
        self._dims: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, TypeProto] = {}
        self.conflicts: dict[str, str] = {}
        self._elements: dict[str, int] = {}
        for value in model.graph.input:
            self.types[value.name] = value.type
        self._add_weights(model.graph.initializer, model.graph.sparse_initializer)
        for name, array in inputs.items():
            if isinstance(array, np.ndarray) and array.nbytes <= LARGE_BYTES:
                self._data[name] = numpy_helper.from_array(array, name)

    def _add_weights(self, weights: Iterable[TensorProto], sparse: Iterable[SparseTensorProto]) -> None:
        for tensor in weights:
            self._dims[tensor.name] = tuple(tensor.dims)
            self.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            if tensor.data_location != TensorProto.EXTERNAL:
                self._data[tensor.name] = tensor
        for each in sparse:
            self.types[each.values.name] = helper.make_tensor_type_proto(each.values.data_type, each.dims)

    def unfold(self, where: str, limits: Limits) -> list[NodeProto]:
        """Infer all nodes, and replace each If with a known condition by its branch; return the nodes."""
        waiting, found = deque(self._graph.node), list[NodeProto]()
        while waiting:
            node = waiting.popleft()
            branch = self._branch(node)
            if branch is None:
                self._infer(node)
                found.append(node)
                _check_count(len(found), where, limits)
                continue
            inside = self._inside(node, branch)
            self._graph.initializer.extend(inside.weights)
            self._graph.sparse_initializer.extend(inside.sparse)
            waiting.extendleft(reversed(inside.nodes))
        return found

    def follow(self, nodes: Sequence[NodeProto]) -> None:
        """Infer all nodes; of an If with a known condition, only its branch."""
        for node in nodes:
            branch = self._branch(node)
            if branch is None:
                self._infer(node)
            else:
                self.follow(self._inside(node, branch).nodes)

    def _inside(self, node: NodeProto, branch: GraphProto) -> Branch:
        inside = unfolded(node, branch, self._names)
        self._declared |= {value.name: value.type for value in inside.values}
        self._add_weights(inside.weights, inside.sparse)
        return inside

    def _branch(self, node: NodeProto) -> GraphProto | None:
        if node.op_type != "If" or node.domain not in STANDARD or not node.input or node.input[0] not in self._data:
            return None
        condition = self._array(node.input[0])
        return None if condition is None or condition.size != 1 else chosen_graph(node, bool(condition.flat[0]))

    def _array(self, name: str) -> NDArray[np.generic] | None:
        try:
            return numpy_helper.to_array(self._data[name])
        except (ValueError, TypeError, OverflowError):  # data that does not fit its dims
            return None

    def _infer(self, node: NodeProto) -> None:
        replaced = stand_in(node, self._opsets[""], self._dims)
        if replaced is None:
            self._infer_standard(node)
            return
        self.types |= {
            tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in replaced[1]
        }
        # Rules of standard operators refuse 8-bit numbers where those of quantised operators want them.
        held = {name: self.types[name] for name in node.input if _is_of_bytes(self.types.get(name))}
        self.types |= {name: _with_element(kind, TensorProto.FLOAT) for name, kind in held.items()}
        if held and _makes_bytes(node):
            kept = next(iter(held.values())).tensor_type.elem_type
            self._elements |= dict.fromkeys(node.output, kept)
        for each in replaced[0]:
            self._infer_standard(each)
        self.types |= held

    def _infer_standard(self, node: NodeProto) -> None:
        schema, reads = self._schema(node), reads_of(node)
        outputs: Mapping[str, TypeProto] = {}
        if schema is not None and all(name in self.types for name in reads):
            types = {name: self.types[name] for name in reads}
            data = {name: self._data[name] for name in node.input if name in self._data}
            try:
                outputs = shape_inference.infer_node_outputs(
                    schema, node, types, data, opset_imports=self._imports, ir_version=self._ir_version
                )
                if not all(map(complete, outputs.values())):
                    outputs = {**outputs, **self._by_function(schema, node)}
            except Exception as error:  # the rules of broken nodes raise errors of several trees
                self.conflicts[title(node)] = " ".join(str(error).split())[:200]
        for name in filter(None, node.output):
            found = outputs.get(name)
            if found is not None and name in self._elements:
                found = _with_element(found, self._elements[name])
            kind = _merged(found, self._declared.get(name))
            if kind is not None:
                self.types[name] = kind
        self._compute(node)

    def _schema(self, node: NodeProto) -> Any:
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            return defs.get_schema(node.op_type, self._opsets.get(domain, 1), domain)
        except defs.SchemaError:
            return None

    def _by_function(self, schema: Any, node: NodeProto) -> dict[str, TypeProto]:
        """Types of the outputs of an operator that is defined by other operators."""
        kinds = [self.types[name] if name else TypeProto() for name in node.input]
        if schema.has_function:
            body = schema.function_body
        elif schema.has_context_dependent_function:
            given = [kind.SerializeToString() for kind in kinds]
            body = FunctionProto.FromString(schema.get_context_dependent_function(node.SerializeToString(), given))
        else:
            return {}
        found = shape_inference.infer_function_output_types(body, kinds, list(node.attribute))
        return {name: kind for name, kind in zip(node.output, found, strict=False) if name and complete(kind)}

    def _compute(self, node: NodeProto) -> None:
        """Compute the outputs of a node if they are small and follow from what is known."""
        if node.domain not in STANDARD or not node.output:
            return
        if node.op_type in ("Shape", "Size"):
            dims = dims_of(self.types.get(node.input[0])) if node.input else None
            if dims is not None:
                self._keep(node.output[0], _shape_value(node, dims))
            return
        if node.op_type not in COMPUTED or not all(name in self._data for name in node.input if name):
            return
        if node.op_type not in _AS_LONG_AS_INPUT and not all(map(self._is_small, filter(None, node.output))):
            return
        arrays = {name: self._array(name) for name in node.input if name}
        if any(array is None for array in arrays.values()) or _has_hollow(node):
            return
        for name, value in _computed(node, arrays, self._opsets[""]).items():
            self._keep(name, value)

    def _is_small(self, name: str) -> bool:
        dims = dims_of(self.types.get(name))
        return dims is not None and math.prod(dims) <= LARGE_BYTES

    def _keep(self, name: str, value: NDArray[np.generic]) -> None:
        if value.nbytes <= LARGE_BYTES * 8:
            self._data[name] = numpy_helper.from_array(value, name)
            self.types[name] = helper.make_tensor_type_proto(self._data[name].data_type, value.shape)


def _all_names(graph: GraphProto) -> set[str]:
    found = {value.name for value in values_of(graph)} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        found |= {*node.input, *node.output}
        for inner in inner_graphs(node):
            found |= _all_names(inner)
    return found


def _is_of_bytes(kind: TypeProto | None) -> bool:
    return kind is not None and kind.tensor_type.elem_type in (TensorProto.INT8, TensorProto.UINT8)


def _with_element(kind: TypeProto, element: int) -> TypeProto:
    changed = TypeProto()
    changed.CopyFrom(kind)
    if changed.HasField("tensor_type"):
        changed.tensor_type.elem_type = element
    return changed


def _makes_bytes(node: NodeProto) -> bool:
    """Whether a quantised operator makes numbers of the type that it reads."""
    if node.op_type == "QGemm":  # with a zero point for the result; floats without it
        return len(node.input) > _ZERO_OF_RESULT and bool(node.input[_ZERO_OF_RESULT])
    return node.op_type.startswith(("QLinear", "Nhwc"))


def _merged(found: TypeProto | None, declared: TypeProto | None) -> TypeProto | None:
    """An inferred type, with what only the file knows."""
    if found is None or declared is None or found.WhichOneof("value") is None:
        return declared if found is None or found.WhichOneof("value") is None else found
    if not found.HasField("tensor_type") or not declared.HasField("tensor_type"):
        return found
    ours, theirs = found.tensor_type, declared.tensor_type
    ours.elem_type = ours.elem_type or theirs.elem_type
    if not theirs.HasField("shape"):
        return found
    if not ours.HasField("shape"):
        ours.shape.CopyFrom(theirs.shape)
    elif len(ours.shape.dim) == len(theirs.shape.dim):
        for dim, other in zip(ours.shape.dim, theirs.shape.dim, strict=True):
            if not dim.HasField("dim_value") and other.dim_value > 0:
                dim.dim_value = other.dim_value
    return found


def _shape_value(node: NodeProto, dims: Sequence[int]) -> NDArray[np.generic]:
    if node.op_type == "Size":
        return np.array(math.prod(dims), np.int64)
    given = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(dims[given.get("start", 0) : given.get("end", len(dims))], np.int64)


def _has_hollow(node: NodeProto) -> bool:
    return any(attribute.t.data_location == TensorProto.EXTERNAL for attribute in node.attribute)


def _computed(node: NodeProto, arrays: Mapping[str, object], opset: int) -> dict[str, NDArray[np.generic]]:
    """The outputs of a node by name; empty if the reference implementation refuses it."""
    from onnx.reference import ReferenceEvaluator

    values = [helper.make_empty_tensor_value_info(name) for name in arrays]
    made = [name for name in node.output if name]
    graph = helper.make_graph([node], "one", values, [helper.make_empty_tensor_value_info(name) for name in made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        found = ReferenceEvaluator(model).run(None, dict(arrays))
    except Exception:  # whatever a broken node makes NumPy raise
        return {}
    return {name: value for name, value in zip(made, found, strict=True) if isinstance(value, np.ndarray)}
