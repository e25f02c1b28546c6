"""Geometry of ONNX operators, from the attributes of their nodes and the shapes of the graph's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.graphs import geometry_fit as fit
from opweave.adapters.onnx.model import read_model
from opweave.adapters.onnx.read import operator_nodes
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.limits import Limits
from opweave.problems.slicing.geometry import Geometry, Layout

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

LAYOUT: Layout = "channels_first"
WEIGHTS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Position of the input of a convolution that holds its weights."""


def onnx_geometry(
    model: PathLike | ModelProto, graph: OpGraph, dims: Mapping[str, int], limits: Limits
) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one; the values of weights and external data are not read."""
    file = read_model(model, limits)
    from opweave.adapters.onnx.shapes import shaped

    proto = shaped(file, dims, limits).model
    operators = {op.id: op for op in graph.operators}
    constants, shapes = _constants(proto.graph), fit.shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for name, node in operator_nodes(proto.graph).items():
        op, read = operators.get(name), _READERS.get(node.op_type)
        if op is not None and op.kind == node.op_type and read is not None:
            found[name] = read(_Node(node, op, shapes, constants))
    return fit.fitting(found, graph, LAYOUT)


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    makers = [node for node in graph.node if node.op_type == "Constant"]
    return found | {node.output[0]: given.t for node in makers for given in node.attribute if given.name == "value"}


@dataclass(frozen=True, slots=True)
class _Node:
    """A node with its operator."""

    node: NodeProto
    op: Operator
    shapes: fit.Shapes
    constants: Mapping[str, TensorProto]

    def numbers(self, name: str) -> list[int]:
        """An attribute of one or several integers; empty if it is not set."""
        for given in self.node.attribute:
            if given.name == name:
                return list(given.ints) or [given.i]
        return []

    def word(self, name: str) -> str:
        """A text attribute; empty if it is not set."""
        return next((given.s.decode("ascii", "replace") for given in self.node.attribute if given.name == name), "")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first computed input; empty if unknown."""
        return self.shapes[self.op.inputs[0]] if self.op.inputs else ()

    def reads_only(self, position: int) -> bool:
        """Whether that input is the only computed one."""
        return len(self.op.inputs) == 1 and self.node.input[position] == self.op.inputs[0]


def _conv(node: _Node) -> Geometry | None:
    if not node.reads_only(0):  # computed weights, or a fused sum
        return None
    kernel = node.numbers("kernel_shape") or _kernel(node)
    return _window(node, kernel, groups=(node.numbers("group") or [1])[0])


def _kernel(node: _Node) -> list[int]:
    weights = node.constants.get(node.node.input[WEIGHTS[node.op.kind]])
    return [] if weights is None else list(weights.dims)[2:]


def _pool(node: _Node) -> Geometry | None:
    return _window(node, node.numbers("kernel_shape"), pooling=True)


def _window(node: _Node, kernel: list[int], *, groups: int = 1, pooling: bool = False) -> Geometry | None:
    if len(kernel) != 2 or len(node.shape) != 4:
        return None
    stride, dilation = (node.numbers("strides") or [1])[0], (node.numbers("dilations") or [1])[0]
    match node.word("auto_pad"):
        case "SAME_UPPER":
            padding = fit.same_padding(node.shape[2], kernel[0], stride, dilation)[0]
        case "SAME_LOWER":
            padding = fit.same_padding(node.shape[2], kernel[0], stride, dilation)[1]
        case "VALID":
            padding = 0
        case _:
            padding = (node.numbers("pads") or [0])[0]
    return fit.window(kernel[0], stride, padding, dilation=dilation, groups=groups, pooling=pooling)


def _global_pool(node: _Node) -> Geometry | None:
    return fit.GLOBAL_POOL if len(node.shape) == 4 else None


def _reduction(node: _Node) -> Geometry | None:
    """A reduction of a feature map over rows and columns, which equals global pooling."""
    axes = node.numbers("axes")
    if len(node.node.input) > 1:
        given = node.constants.get(node.node.input[1])
        axes = [] if given is None else _integers(given)
    return fit.GLOBAL_POOL if len(node.shape) == 4 and sorted(axis % 4 for axis in axes) == [2, 3] else None


def _integers(tensor: TensorProto) -> list[int]:
    from onnx import TensorProto, numpy_helper

    if tensor.data_type != TensorProto.INT64 or tensor.data_location == TensorProto.EXTERNAL:
        return []
    return [int(number) for number in numpy_helper.to_array(tensor).flat]


def _dense(node: _Node) -> Geometry | None:
    return fit.dense_on(node.shape, LAYOUT) if node.reads_only(0) else None


def _concat(node: _Node) -> Geometry | None:
    axis = (node.numbers("axis") or [1])[0]
    whole = len(node.op.inputs) == len(node.node.input)
    return fit.JOINED if whole and fit.along_channels(axis, len(node.shape), LAYOUT) else None


def _split(node: _Node) -> Geometry | None:
    axis = (node.numbers("axis") or [0])[0]
    return fit.SPLIT if fit.along_channels(axis, len(node.shape), LAYOUT) else None


_READERS: dict[str, Callable[[_Node], Geometry | None]] = {
    **dict.fromkeys(WEIGHTS, _conv),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"), _reduction),
    **dict.fromkeys(("Gemm", "MatMul"), _dense),
    "Concat": _concat,
    "Split": _split,
}
