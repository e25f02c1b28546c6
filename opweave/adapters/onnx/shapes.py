"""Shapes of all values of an ONNX model, node by node, with the values of small constants and of computed shapes.

Once the inputs have sizes, most shapes follow from the operators' rules. Where a rule needs a value, such as the target
of a Reshape, the value usually follows from constants and from other shapes, so it is computed here. What is left
depends on the inputs' values; :mod:`opweave.adapters.onnx.measured` finds it out. Operators that only ONNX Runtime has
get their types from it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from opweave.adapters.onnx.dims import fix_dimensions, open_dimensions
from opweave.adapters.onnx.measured import runtime_types
from opweave.adapters.onnx.model import (
    KINDS,
    LARGE_BYTES,
    OnnxFile,
    Shaped,
    complete,
    dims_of,
    inlined,
    inner_graphs,
    reads_of,
    rename,
    replace_nodes,
    sort_nodes,
    title,
    values_of,
)
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import GraphProto, ModelProto, SparseTensorProto, ValueInfoProto

Arrays = Mapping[str, "NDArray[np.generic]"]

_COMPUTED = KINDS.names("computed")

_AS_LONG_AS_INPUT = frozenset({"Compress", "NonZero", "Unique"})
"""Kinds whose output has an unknown shape before they are computed, but cannot be much larger than the input."""

STANDARD = ("", "ai.onnx")


def shaped(file: OnnxFile, dims: Mapping[str, int], limits: Limits) -> Shaped:
    """Make a model flat and sorted, give its open dimensions their sizes, and infer all shapes.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    model = inlined(file.proto, file.where, limits)
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
    if (inference.conflicts or inference.lacks_rules()) and not open_dimensions(graph):
        known = runtime_types(file, model, limits)
        for name, kind in known.items():
            graph.value_info.add(name=name).type.CopyFrom(kind)
        inference = _Inference(model, {}, known)
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

    def __init__(self, model: ModelProto, inputs: Arrays, known: Mapping[str, TypeProto] | None = None) -> None:
        self._graph, self._known = model.graph, known or {}
        self._opsets = {entry.domain: entry.version for entry in model.opset_import}
        self._opsets[""] = self._opsets.get("", self._opsets.get("ai.onnx", 1))
        self._imports = [OperatorSetIdProto(domain=name, version=number) for name, number in self._opsets.items()]
        self._ir_version = model.ir_version
        self._names = UniqueNames(_all_names(model.graph))
        self._declared = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
        self._data: dict[str, TensorProto] = {}
        self.types: dict[str, TypeProto] = {}
        self.conflicts: dict[str, str] = {}
        for value in model.graph.input:
            self.types[value.name] = value.type
        self._add_weights(model.graph.initializer, model.graph.sparse_initializer)
        for name, array in inputs.items():
            if isinstance(array, np.ndarray) and array.nbytes <= LARGE_BYTES:
                self._data[name] = numpy_helper.from_array(array, name)

    def _add_weights(self, weights: Iterable[TensorProto], sparse: Iterable[SparseTensorProto]) -> None:
        for tensor in weights:
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

    def lacks_rules(self) -> bool:
        """Whether an output has no type because ONNX has no rule for its operator."""
        made = (name for node in self._graph.node if self._schema(node) is None for name in node.output if name)
        return not all(complete(self.types.get(name)) for name in made)

    def _inside(self, node: NodeProto, branch: GraphProto) -> _Branch:
        inside = _unfolded(node, branch, self._names)
        self._declared |= {value.name: value.type for value in inside.values}
        self._add_weights(inside.weights, inside.sparse)
        return inside

    def _branch(self, node: NodeProto) -> GraphProto | None:
        if node.op_type != "If" or node.domain not in STANDARD or not node.input or node.input[0] not in self._data:
            return None
        condition = self._array(node.input[0])
        return None if condition is None or condition.size != 1 else _chosen_graph(node, bool(condition.flat[0]))

    def _array(self, name: str) -> NDArray[np.generic] | None:
        try:
            return numpy_helper.to_array(self._data[name])
        except (ValueError, TypeError, OverflowError):  # data that does not fit its dims
            return None

    def _infer(self, node: NodeProto) -> None:
        schema, reads = self._schema(node), reads_of(node)
        outputs: Mapping[str, TypeProto] = {}
        if schema is not None and all(name in self.types for name in reads):
            types = {name: self.types[name] for name in reads}
            data = {name: self._data[name] for name in node.input if name in self._data}
            try:
                outputs = shape_inference.infer_node_outputs(
                    schema, _explicit(node), types, data, opset_imports=self._imports, ir_version=self._ir_version
                )
                if not all(map(complete, outputs.values())):
                    outputs = {**outputs, **self._by_function(schema, node)}
            except Exception as error:  # the rules of broken nodes raise errors of several trees
                self.conflicts[title(node)] = " ".join(str(error).split())[:200]
        for name in filter(None, node.output):
            found = outputs.get(name)
            kind = self._known.get(name) or _merged(found, self._declared.get(name))
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
        if node.op_type not in _COMPUTED or not all(name in self._data for name in node.input if name):
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


@dataclass(frozen=True, slots=True)
class _Branch:
    """What a branch brings into the graph around it."""

    nodes: list[NodeProto]
    weights: list[TensorProto]
    sparse: list[SparseTensorProto]
    values: list[ValueInfoProto]


def _chosen_graph(node: NodeProto, condition: bool) -> GraphProto | None:
    """The branch of an If for a condition; None in a broken file."""
    wanted = "then_branch" if condition else "else_branch"
    return next((each.g for each in node.attribute if each.name == wanted and each.HasField("g")), None)


def _unfolded(node: NodeProto, branch: GraphProto, names: UniqueNames) -> _Branch:
    """Copy a branch so that its nodes make the outputs of its If; other values get names that are free outside."""
    inner = type(branch)()
    inner.CopyFrom(branch)
    made = {name for each in inner.node for name in each.output if name}
    own = [*made, *(tensor.name for tensor in inner.initializer)]
    own += [sparse.values.name for sparse in inner.sparse_initializer]
    new: dict[str, str] = {}
    for value, name in zip(inner.output, node.output, strict=False):
        if name and value.name in made and value.name not in new:
            new[value.name] = name
    taken = set(new)
    new |= {name: names.take(name) for name in own if name not in taken}
    nodes = list(inner.node)
    for each in nodes:
        rename(each, new)
    for value, name in zip(inner.output, node.output, strict=False):
        if name and new.get(value.name) != name:
            nodes.append(helper.make_node("Identity", [new.get(value.name, value.name)], [name], name=node.name))
    for named in (*inner.initializer, *inner.value_info, *(sparse.values for sparse in inner.sparse_initializer)):
        named.name = new.get(named.name, named.name)
    return _Branch(nodes, list(inner.initializer), list(inner.sparse_initializer), list(inner.value_info))


def _explicit(node: NodeProto) -> NodeProto:
    """A node with the default that the rule of a short-time Fourier transform forgets: half of the spectrum."""
    if node.op_type != "STFT" or any(given.name == "onesided" for given in node.attribute):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.attribute.append(helper.make_attribute("onesided", 1))
    return copy


def _all_names(graph: GraphProto) -> set[str]:
    found = {value.name for value in values_of(graph)} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        found |= {*node.input, *node.output}
        for inner in inner_graphs(node):
            found |= _all_names(inner)
    return found


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
