"""Reading ONNX models: operators, tensor sizes and constants, but never a weight's value or external data."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from typing import TYPE_CHECKING

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.files import PathLike
from opweave.adapters.graphs.in_place import INPLACE_KINDS, runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.onnx.flops import node_flops
from opweave.adapters.onnx.model import has_shape, prepare, read_model, tensor_size, title, value_types
from opweave.adapters.onnx.sizes import Sized
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

VIEW_KINDS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose output shares the storage of their first input, as in ONNX Runtime."""

_NOT_FOLDED = """
    Bernoulli DequantizeLinear Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
"""
NOT_FOLDED = frozenset(_NOT_FOLDED.split())
"""Operators that remain although all their inputs are constant: random ones, and those that keep weights small."""

_RUNTIME_KINDS = """
    Cast Celu Clip Elu HardSigmoid LeakyRelu LogSoftmax Relu ScatterElements Selu Sigmoid Softmax Softplus Softsign
    Tanh ThresholdedRelu Trilu
"""

RUNTIME_INPLACE_KINDS: Set[str] = frozenset(_RUNTIME_KINDS.split())
"""Kinds whose CPU kernels write over their first input when it is not needed afterwards.

They were found by running every elementwise kind on a dying input and reading the arena's counter before and after
(ONNX Runtime 1.31.1, optimisations off). Sums, products, roots, exponentials and normalisations could run in place, but
take new memory."""


def from_onnx(
    model: PathLike | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from an ONNX model.

    * Shapes are inferred, also through the operators that ONNX Runtime fuses (see
      :mod:`opweave.adapters.onnx.fused`), so its optimised models load; weights are sized from their dims and type.
      External data is never opened.
    * Initialisers (also sparse ones), Constant nodes, and values that depend only on them become parameters, because
      ONNX Runtime computes all of these before it runs. Constants that no operator reads are omitted, and so are graph
      outputs that are constants, because they take no planned memory.
    * :data:`VIEW_KINDS` make aliases; a view of a constant is not an operator, only another name for the constant.
    * An output that no operator reads and whose shape is unknown (the mask of an old Dropout) is omitted.
    * Model-local functions are inlined. Control flow is refused, because it has no fixed order.
    * An operator's id is its node's name, or its kind and position; repeated names get a number.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    dims
        Sizes for symbolic dimensions, for example ``{"batch": 1}``.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on file and graph size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the node and says how to fix the file.
    """
    proto, where = read_model(model, limits)
    graph, constants = prepare(proto, where, dims or {}, limits)
    try:
        content = _Builder(graph, constants, where, inplace_kinds).content()
    except ValidationError as error:  # from one operator or tensor, such as a name with thousands of characters
        raise complaint(error, f"{where}: {error.title}") from None
    return validated(OpGraph, content, where)


def operator_ids(graph: GraphProto) -> list[str]:
    """Name every node once; names from the file come first, so that no generated name displaces them."""
    names = UniqueNames()
    ids = [names.take(node.name) if node.name else "" for node in graph.node]
    return [name or names.take(f"{graph.node[index].op_type}_{index}") for index, name in enumerate(ids)]


def follows(node: NodeProto, fixed: Container[str]) -> bool:
    """Whether a node is no operator because it depends only on constants, whose names are ``fixed``."""
    reads = [name for name in node.input if name]
    if node.op_type in VIEW_KINDS and reads and reads[0] in fixed:
        return True
    return all(name in fixed for name in reads) and not node.domain and node.op_type not in NOT_FOLDED


class _Builder:
    """Converts the prepared graph to opweave's graph, value by value."""

    def __init__(self, graph: GraphProto, constants: Mapping[str, Sized], where: str, inplace_kinds: Set[str]) -> None:
        self._graph = graph
        self._constants = dict(constants)
        self._where = where
        self._inplace_kinds = inplace_kinds
        self._types = value_types(graph)
        self._constant_name = {name: name for name in constants}
        self._tensors: dict[str, Tensor] = {}
        self._ids = operator_ids(graph)
        self._wanted = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}

    def content(self) -> dict[str, object]:
        for value in self._graph.input:
            if value.name not in self._constants:
                self._add_tensor(value.name, "the caller", None)
        operators = [op for index, node in enumerate(self._graph.node) if (op := self._operator(index, node))]
        used = {name for op in operators for name in op.parameters}
        return {
            "name": self._graph.name or "graph",
            "operators": operators,
            "tensors": list(self._tensors.values()),
            "parameters": [
                Parameter(id=name, bytes=size.bytes) for name, size in self._constants.items() if name in used
            ],
            "outputs": [value.name for value in self._graph.output if value.name not in self._constant_name],
        }

    def _operator(self, index: int, node: NodeProto) -> Operator | None:
        reads = [name for name in node.input if name]
        view = node.op_type in VIEW_KINDS and bool(reads)
        constant = follows(node, self._constant_name)
        if constant and view:
            self._constant_name |= dict.fromkeys(node.output, self._constant_name[reads[0]])
            return None
        writes = [name for name in node.output if name and (name in self._wanted or has_shape(self._types.get(name)))]
        if constant:
            for name in writes:
                self._constants[name] = tensor_size(name, self._types.get(name), title(node), self._where)
                self._constant_name[name] = name
            return None
        for name in writes:
            self._add_tensor(name, title(node), reads[0] if view else None)
        return Operator(
            id=self._ids[index],
            kind=node.op_type,
            inputs=tuple(name for name in reads if name not in self._constant_name),
            outputs=tuple(writes),
            parameters=tuple(dict.fromkeys(self._constant_name[name] for name in reads if name in self._constant_name)),
            flops=node_flops(
                node, [self._shape(name) for name in node.input], self._shape(writes[0]) if writes else ()
            ),
            inplace_ok=not view and runs_in_place(node.op_type, self._inplace_kinds),
        )

    def _add_tensor(self, name: str, maker: str, alias_of: str | None) -> None:
        size = tensor_size(name, self._types.get(name), maker, self._where)
        self._tensors[name] = Tensor(id=name, bytes=size.bytes, alias_of=alias_of, shape=size.shape, dtype=size.dtype)

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self._constant_name:
            return self._constants[self._constant_name[name]].shape
        tensor = self._tensors.get(name)
        return (tensor.shape if tensor is not None else None) or ()


def onnx_runtime_problem(model: PathLike | ModelProto, dims: Mapping[str, int] | None = None) -> MemoryOrdering:
    """Read a model as a memory-ordering problem that counts what ONNX Runtime's CPU provider uses.

    It holds for :func:`~opweave.adapters.onnx.session.onnx_session_options`, byte for byte at every step. Plain
    ``in_place="any"`` predicts less memory than the runtime needs, because it lets sums and products overwrite an
    input, which the runtime does not do; ``in_place="none"`` predicts more.

    * Inputs are the caller's arrays and are not copied: ``inputs="excluded"``.
    * Outputs come from the runtime's arena and live to the end: ``outputs="kept"``.
    * :data:`RUNTIME_INPLACE_KINDS` overwrite a dying first input, but never with a graph output, and never a graph
      input. A view that is a graph output is a copy.

    Parameters
    ----------
    model
        A file, or a model in memory.
    dims
        Sizes for symbolic dimensions.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`~opweave.adapters.onnx.read.from_onnx`.
    """
    graph = from_onnx(model, dims=dims, inplace_kinds=RUNTIME_INPLACE_KINDS)
    outputs = frozenset(graph.outputs)
    tensors = (each.model_copy(update={"alias_of": None}) if each.id in outputs else each for each in graph.tensors)
    operators = (
        op.model_copy(update={"inplace_ok": op.inplace_ok and outputs.isdisjoint(op.outputs)}) for op in graph.operators
    )
    counted = OpGraph(
        name=graph.name,
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=graph.parameters,
        outputs=graph.outputs,
    )
    return MemoryOrdering(graph=counted, in_place="first", inputs="excluded", outputs="kept")
