"""Operators that ONNX Runtime writes into its optimised models, and for which ONNX has no shape rules.

For shape inference only, each is replaced by a stand-in: standard operators whose outputs have the same shapes. The
values that a stand-in computes do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx import NodeProto, TensorProto, helper

if TYPE_CHECKING:
    from onnx import AttributeProto

_LAYER_NORMALIZATION_SINCE = 17

_FIRST_ONLY = """
    BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm QLinearLeakyRelu
    QLinearSigmoid QLinearSoftmax QuickGelu RotaryEmbedding SimplifiedLayerNormalization
"""
_SAME_AS_INPUT = {
    **dict.fromkeys(_FIRST_ONLY.split(), (0,)),
    **dict.fromkeys(("BiasDropout", "SkipGroupNorm"), (0, 1)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (0, 3)),
}
"""Operators, with the positions of the outputs that have the shape and type of the first input."""

_EXTRA = frozenset({"activation", "activation_alpha", "activation_beta", "activation_gamma", "activation_params"})


def stand_in(
    node: NodeProto, opset: int, dims: Mapping[str, tuple[int, ...]]
) -> tuple[list[NodeProto], list[TensorProto]] | None:
    """The nodes that stand in for a fused operator in shape inference, and their weights, which have no data.

    Parameters
    ----------
    node
        Any node; None is returned if it is not a fused operator that is known here.
    opset
        Version of the standard operators.
    dims
        Dimensions of the model's weights.
    """
    rule = _rule(node, opset)
    if rule is None:
        return None
    weights: list[TensorProto] = []
    try:
        return list(rule(_Fused(node, dims, weights))), weights
    except (IndexError, KeyError):  # an input or attribute that the operator must have is missing
        return None


@dataclass(frozen=True, slots=True)
class _Fused:
    """A fused node, the dims of the model's weights, and a list for the weights of stand-ins, which have no data."""

    node: NodeProto
    dims: Mapping[str, tuple[int, ...]]
    weights: list[TensorProto]

    def weight(self, name: str, *dims: int, kind: int = TensorProto.FLOAT) -> str:
        self.weights.append(TensorProto(name=name, dims=dims, data_type=kind))
        return name


Rule = Callable[[_Fused], "Iterator[NodeProto]"]


def _rule(node: NodeProto, opset: int) -> Rule | None:
    if node.domain in ("", "ai.onnx"):
        old = node.op_type == "LayerNormalization" and opset < _LAYER_NORMALIZATION_SINCE
        return _same if old or node.op_type == "SimplifiedLayerNormalization" else None
    if node.domain == "com.microsoft.nchwc":
        return _BLOCKED.get(node.op_type)
    if not node.domain.startswith("com.m"):
        return None
    return _same if node.op_type in _SAME_AS_INPUT else _RULES.get(node.op_type)


def _same(fused: _Fused) -> Iterator[NodeProto]:
    for position in _SAME_AS_INPUT.get(fused.node.op_type, (0,)):
        if position < len(fused.node.output) and fused.node.output[position]:
            yield _node("Identity", fused.node.input[:1], fused.node.output[position])


def _node(kind: str, inputs: Sequence[str], output: str, like: NodeProto | None = None, **given: Any) -> NodeProto:
    """A node with one output; ``like`` is a node whose attributes it takes, except those of a fused activation."""
    made = helper.make_node(kind, inputs, [output], **given)
    if like is not None:
        made.attribute.extend(attribute for attribute in like.attribute if attribute.name not in _EXTRA)
    return made


def _standard(kind: str, inputs: int) -> Rule:
    """The standard operator of that kind, with the fused operator's attributes except those of the activation."""

    def rule(fused: _Fused) -> Iterator[NodeProto]:
        yield _node(kind, fused.node.input[:inputs], fused.node.output[0], fused.node)

    return rule


def _channels_last(kind: str, inputs: int) -> Rule:
    """The standard operator between two transpositions."""

    def rule(fused: _Fused) -> Iterator[NodeProto]:
        first, last = f"{fused.node.output[0]}/first", f"{fused.node.output[0]}/last"
        yield _node("Transpose", fused.node.input[:1], first, perm=[0, 3, 1, 2])
        yield _node(kind, [first, *fused.node.input[1:inputs]], last, fused.node)
        yield _node("Transpose", [last], fused.node.output[0], perm=[0, 2, 3, 1])

    return rule


def _reorder_output(fused: _Fused) -> Iterator[NodeProto]:
    """Return to the plain layout, without the channels that pad the blocks."""
    given = _attributes(fused.node)
    weight = fused.weight(f"{fused.node.output[0]}/weight", given["channels"].i, 1, 1, 1)
    last = "channels_last" in given and given["channels_last"].i
    plain = f"{fused.node.output[0]}/plain" if last else fused.node.output[0]
    yield _node("Conv", [fused.node.input[0], weight], plain)
    if last:
        yield _node("Transpose", [plain], fused.node.output[0], perm=[0, 2, 3, 1])


def _reorder_input(fused: _Fused) -> Iterator[NodeProto]:
    given = _attributes(fused.node)
    if "channels_last" in given and given["channels_last"].i:
        yield _node("Transpose", fused.node.input[:1], fused.node.output[0], perm=[0, 3, 1, 2])
    else:
        yield _node("Identity", fused.node.input[:1], fused.node.output[0])


def _upsample(fused: _Fused) -> Iterator[NodeProto]:
    """An image that grows by whole factors has the shape of copies side by side."""
    source, scales = fused.node.input[0], list(_attributes(fused.node)["scales"].ints)
    for axis, scale in enumerate(scales):
        target = fused.node.output[0] if axis == len(scales) - 1 else f"{fused.node.output[0]}/{axis}"
        yield _node("Concat", [source] * max(scale, 1), target, axis=axis)
        source = target


def _fused_matmul(fused: _Fused) -> Iterator[NodeProto]:
    left, right = _factor(fused, "A", ("i", "j")), _factor(fused, "B", ("j", "k"))
    yield _node("Einsum", fused.node.input[:2], fused.node.output[0], equation=f"{left},{right}->...ik")


def _factor(fused: _Fused, which: str, axes: tuple[str, str]) -> str:
    """Axes of a factor: its matrix may be transposed, and its first axis may stand before those of the batches."""
    given = _attributes(fused.node)
    turned, swapped = (f"{name}{which}" in given and given[f"{name}{which}"].i for name in ("trans", "transBatch"))
    first, last = axes[::-1] if turned else axes
    return f"{first}...{last}" if swapped else f"...{first}{last}"


def _to_float(fused: _Fused) -> Iterator[NodeProto]:
    """An integer product that is output as floats."""
    product = f"{fused.node.output[0]}/product"
    yield _node("MatMul", fused.node.input[:2], product)
    yield _node("Cast", [product], fused.node.output[0], to=TensorProto.FLOAT)


def _packed_matmul(fused: _Fused) -> Iterator[NodeProto]:
    given = _attributes(fused.node)
    weight = fused.weight(f"{fused.node.output[0]}/weight", given["K"].i, given["N"].i)
    yield _node("MatMul", [fused.node.input[0], weight], fused.node.output[0])


def _attention(fused: _Fused) -> Iterator[NodeProto]:
    """The last dimension is the width of the values: an attribute, or a third of the projection's columns."""
    given, dims = _attributes(fused.node), fused.dims.get(fused.node.input[1])
    if dims is not None and len(dims) == 2:
        sizes = list(given["qkv_hidden_sizes"].ints) if "qkv_hidden_sizes" in given else []
        weight = fused.weight(f"{fused.node.output[0]}/weight", dims[0], sizes[2] if sizes else dims[1] // 3)
        yield _node("MatMul", [fused.node.input[0], weight], fused.node.output[0])


def _separate_attention(fused: _Fused) -> Iterator[NodeProto]:
    """The output is as wide as the queries, unless keys and values are packed into the same tensor."""
    if fused.node.input[1]:
        yield _node("Identity", fused.node.input[:1], fused.node.output[0])


def _quantized_lstm(fused: _Fused) -> Iterator[NodeProto]:
    """Its weights are those of the standard operator, transposed."""
    name, weights = f"{fused.node.output[0]}/weight", fused.node.input[1:3]
    turned = [
        fused.weight(f"{name}{place}", *(fused.dims[weight][axis] for axis in (0, 2, 1)))
        for place, weight in enumerate(weights)
    ]
    made = helper.make_node("LSTM", [fused.node.input[0], *turned], list(fused.node.output))
    made.attribute.extend(fused.node.attribute)
    yield made


def _quantized(kind: str, *inputs: int) -> Rule:
    """The standard operator on the tensors at these positions, without scales; channels may be last."""

    def rule(fused: _Fused) -> Iterator[NodeProto]:
        node, given = fused.node, _attributes(fused.node)
        last = "channels_last" in given and given["channels_last"].i
        plain = NodeProto(output=node.output, input=[node.input[place] for place in inputs])
        plain.attribute.extend(value for value in node.attribute if value.name != "channels_last")
        made = _Fused(plain, fused.dims, fused.weights)
        yield from (_channels_last if last else _standard)(kind, len(inputs))(made)

    return rule


def _embeddings(fused: _Fused) -> Iterator[NodeProto]:
    for position in (0, 2):
        if position < len(fused.node.output) and fused.node.output[position]:
            yield helper.make_node(
                "Gather", [fused.node.input[2], fused.node.input[0]], [fused.node.output[position]], axis=0
            )


def _quantized_gemm(fused: _Fused) -> Iterator[NodeProto]:
    given: dict[str, Any] = {
        name: value.i for name, value in _attributes(fused.node).items() if name in ("transA", "transB")
    }
    yield _node("Gemm", [fused.node.input[0], fused.node.input[3]], fused.node.output[0], **given)


def _quantized_concat(fused: _Fused) -> Iterator[NodeProto]:
    yield _node("Concat", fused.node.input[2::3], fused.node.output[0], fused.node)


def _attributes(node: NodeProto) -> dict[str, AttributeProto]:
    return {attribute.name: attribute for attribute in node.attribute}


_RULES: dict[str, Rule] = {
    "Attention": _attention,
    "DynamicQuantizeLSTM": _quantized_lstm,
    "DynamicQuantizeMatMul": _standard("MatMul", 2),
    "EmbedLayerNormalization": _embeddings,
    "FusedConv": _standard("Conv", 3),
    "FusedGemm": _standard("Gemm", 3),
    "FusedMatMul": _fused_matmul,
    "GemmFastGelu": _standard("MatMul", 2),
    "GroupQueryAttention": _separate_attention,
    "MatMulBnb4": _packed_matmul,
    "MatMulFpQ4": _packed_matmul,
    "MatMulIntegerToFloat": _to_float,
    "MatMulNBits": _packed_matmul,
    "MultiHeadAttention": _separate_attention,
    "NhwcConv": _channels_last("Conv", 3),
    "NhwcFusedConv": _channels_last("Conv", 3),
    "NhwcMaxPool": _channels_last("MaxPool", 1),
    "QGemm": _quantized_gemm,
    "QAttention": _attention,
    "QLinearAdd": _quantized("Add", 0, 3),
    "QLinearAveragePool": _quantized("AveragePool", 0),
    "QLinearConcat": _quantized_concat,
    "QLinearConv": _quantized("Conv", 0, 3),
    "QLinearGlobalAveragePool": _quantized("GlobalAveragePool", 0),
    "QLinearMul": _quantized("Mul", 0, 3),
    "TransposeMatMul": _fused_matmul,
}

_BLOCKED: dict[str, Rule] = {
    "AveragePool": _standard("AveragePool", 1),
    "Conv": _standard("Conv", 3),
    "GlobalAveragePool": _standard("GlobalAveragePool", 1),
    "GlobalMaxPool": _standard("GlobalMaxPool", 1),
    "MaxPool": _standard("MaxPool", 1),
    "ReorderInput": _reorder_input,
    "ReorderOutput": _reorder_output,
    "Upsample": _upsample,
}
