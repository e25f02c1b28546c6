"""What kinds of ONNX operators do, ONNX Runtime's fused ones included: views, floating-point operations, geometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.graphs import geometry_fit as fit
from opweave.adapters.graphs.element_flops import Macs, element_flops, macs
from opweave.adapters.onnx.model import operator_nodes, read_model
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.limits import Limits
from opweave.problems.slicing.geometry import Geometry, Layout

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

VIEW_KINDS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose output shares the storage of their first input, as in ONNX Runtime."""

LAYOUT: Layout = "channels_first"
WEIGHTS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Position of the input of a convolution that holds its weights."""

Shape = tuple[int, ...]

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool", "NhwcMaxPool", "QLinearAveragePool"})

_QUANTIZED = "QLinear"
"""Start of the names of operators that compute on integers what the rest of the name says."""


def node_flops(node: NodeProto, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of an operator.

    Parameters
    ----------
    node
        The operator.
    shapes
        Shapes of its inputs by position; () also for omitted inputs.
    made
        Shape of its first output.

    Returns
    -------
    float
        Two for a multiply-accumulate. Matrix products, convolutions, recurrent layers and attention are counted by
        their formulas, with one more per output element for a fused activation; pools by their windows; everything else
        by :func:`~opweave.adapters.graphs.element_flops.element_flops`. Operators on integers count as if on floats.

    Examples
    --------
    >>> from onnx import helper
    >>> node_flops(helper.make_node("MatMul", ["a", "b"], ["c"]), [(2, 3), (3, 4)], (2, 4))
    48.0
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    outputs = math.prod(made)
    fused = outputs if "activation" in attributes else 0
    try:
        if node.op_type in _MACS:
            return macs(_MACS[node.op_type], shapes, made) + fused
        if node.op_type in _FORMULAS:
            return float(_FORMULAS[node.op_type](_Call(attributes, shapes, made)) + fused)
    except IndexError:  # an input that the formula needs is missing, so the file violates its schema
        return 0.0
    if node.op_type in _POOLS:
        window = attributes.get("kernel_shape")
        return float(outputs * math.prod(window.ints if window is not None else (1,)))
    kind = node.op_type.removeprefix(_QUANTIZED)
    return element_flops(kind, math.prod(shapes[0]) if shapes else 0, outputs)


@dataclass(frozen=True, slots=True)
class _Call:
    """The inputs of the formulas: attributes by name, input shapes by position, shape of the first output."""

    attributes: Mapping[str, AttributeProto]
    shapes: Sequence[Shape]
    made: Shape


Formula = Callable[[_Call], float]


def _product(call: _Call) -> float:
    """Rows times columns times the summed dimension: the last one of A, or the rows of a transposed A.

    The rows of A precede its columns, or all batches if these were swapped as well.
    """
    turned, swapped = (name in call.attributes and call.attributes[name].i for name in ("transA", "transBatchA"))
    return 2.0 * math.prod(call.made) * call.shapes[0][(0 if swapped else -2) if turned else -1]


def _einsum(call: _Call) -> float:
    terms = call.attributes["equation"].s.decode().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    rest = 1
    for term, shape in zip(terms, call.shapes, strict=False):
        before, dots, after = term.partition("...")
        sizes |= dict(zip(before, shape, strict=False))
        sizes |= dict(zip(reversed(after), reversed(shape), strict=False))
        if dots:
            rest = max(rest, math.prod(shape[len(before) : len(shape) - len(after)]))
    return (2.0 if len(terms) > 1 else 1.0) * rest * math.prod(sizes.values())


def _recurrent(call: _Call) -> float:
    """Both weight matrices of every direction, once for each step of each sequence."""
    return 2.0 * math.prod(call.shapes[0][:2]) * (math.prod(call.shapes[1]) + math.prod(call.shapes[2]))


def _attention(past: int) -> Formula:
    """Attention with its input projection; ``past`` is the position of earlier keys and values, of five dimensions."""

    def count(call: _Call) -> float:
        batch, steps, width = call.shapes[0]
        projected = math.prod(call.shapes[1][1:])
        value = call.made[-1]
        scores = (projected - value) // 2 + value  # width of the queries plus width of the values
        return 2.0 * batch * steps * (width * projected + (steps + _past(call, past, 5)) * scores)

    return count


def _standard_attention(call: _Call) -> float:
    """Queries times keys, and scores times values; (batch, steps, width) or (batch, heads, steps, width)."""
    if "num_heads" in call.attributes:  # ONNX Runtime's operator of this name
        return _attention(4)(call)
    query, keys = call.shapes[:2]
    return 2.0 * math.prod(query[:-1]) * (keys[-2] + _past(call, 4, 4)) * (query[-1] + call.made[-1])


def _multi_head_attention(call: _Call) -> float:
    """Keys are (batch, steps, width), (batch, heads, steps, width), packed with values, or packed with queries."""
    query, keys = call.shapes[0], call.shapes[1] if len(call.shapes) > 1 else ()
    length = keys[2] if len(keys) == 4 else keys[1] if keys else query[1]
    width = query[-1] if len(query) == 3 else call.made[-1]
    return 2.0 * math.prod(call.made[:2]) * (length + _past(call, 6, 4)) * (width + call.made[-1])


def _grouped_attention(call: _Call) -> float:
    return 4.0 * math.prod(call.made) * (call.shapes[0][-2] + _past(call, 3, 4))


def _past(call: _Call, position: int, rank: int) -> int:
    """Steps of the earlier keys, the last dimension but one of that input; 0 if it is omitted."""
    shape = call.shapes[position] if position < len(call.shapes) else ()
    return shape[-2] if len(shape) == rank else 0


_PRODUCTS = """
    DynamicQuantizeMatMul FusedGemm FusedMatMul Gemm GemmFastGelu MatMul MatMulBnb4 MatMulFpQ4 MatMulInteger
    MatMulIntegerToFloat MatMulNBits QGemm QLinearMatMul TransposeMatMul
"""
_CONVOLUTIONS = "Conv ConvInteger DeformConv FusedConv NhwcConv NhwcFusedConv"

_MACS: Mapping[str, Macs] = {
    "ConvTranspose": (0, 1, 1, None),
    "QLinearConv": (None, 3, 1, None),
    **dict.fromkeys(_CONVOLUTIONS.split(), (None, 1, 1, None)),
}

_FORMULAS: dict[str, Formula] = {
    "Attention": _standard_attention,
    "DecoderMaskedSelfAttention": _attention(4),
    "Einsum": _einsum,
    "GroupQueryAttention": _grouped_attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _attention(8),
    **dict.fromkeys(_PRODUCTS.split(), _product),
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"), _recurrent),
}


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


def _joined(node: _Node) -> Geometry | None:
    whole = len(node.op.inputs) == len(node.node.input)
    return (
        fit.JOINED if whole and fit.along_channels((node.numbers("axis") or [1])[0], len(node.shape), LAYOUT) else None
    )


def _split(node: _Node) -> Geometry | None:
    return fit.SPLIT if fit.along_channels((node.numbers("axis") or [0])[0], len(node.shape), LAYOUT) else None


_READERS: dict[str, Callable[[_Node], Geometry | None]] = {
    "Concat": _joined,
    "Split": _split,
    **dict.fromkeys(WEIGHTS, _conv),
    **dict.fromkeys(
        ("MaxPool", "AveragePool", "LpPool"), lambda node: _window(node, node.numbers("kernel_shape"), pooling=True)
    ),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
        lambda node: fit.GLOBAL_POOL if len(node.shape) == 4 else None,
    ),
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"), _reduction),
    **dict.fromkeys(("Gemm", "MatMul"), lambda node: fit.dense_on(node.shape, LAYOUT) if node.reads_only(0) else None),
}
