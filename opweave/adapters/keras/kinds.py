"""Kinds of Keras layers and operations: which are views, their floating-point operations, and their geometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opweave.adapters.graphs import geometry_fit as fit
from opweave.adapters.graphs.element_flops import element_flops
from opweave.problems.slicing.geometry import Geometry, Layout

Shape = tuple[int, ...]

_VIEW_KINDS = """
    ActivityRegularization AlphaDropout Dropout ExpandDims Flatten GaussianDropout GaussianNoise Identity Reshape
    SpatialDropout1D SpatialDropout2D SpatialDropout3D Squeeze
"""
VIEW_KINDS = frozenset(_VIEW_KINDS.split())
"""Layers and operations that pass on the storage of their input in inference."""

_ELEMENTWISE = """
    elu exponential gelu hard_sigmoid hard_silu leaky_relu linear mish relu relu6 selu sigmoid silu softplus softsign
    tanh
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Activations that look at one cell at a time; a softmax, in contrast, needs all channels of its layer."""


def layer_flops(layer: Any, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> float:
    """Count the operations of one call.

    Parameters
    ----------
    layer
        A Keras layer or operation.
    inputs, outputs
        Shapes of the tensors that it reads and of those that it makes.

    Returns
    -------
    float
        Two for a multiply-accumulate, and one more per output element for an activation inside the layer. Convolutions,
        dense and recurrent layers, attention and matrix products are counted by their formulas, pools by their windows,
        and everything else by :func:`~opweave.adapters.graphs.element_flops.element_flops`.
    """
    if not outputs:
        return 0.0
    kind = type(layer).__name__
    if kind in ("TimeDistributed", "Bidirectional"):
        parts = [getattr(layer, name, None) for name in ("layer", "forward_layer", "backward_layer")]
        inner = parts[:1] if kind == "TimeDistributed" else parts[1:]
        return sum(layer_flops(part, inputs, outputs) for part in inner if part is not None)
    made = math.prod(outputs[0])
    formula = _FORMULAS.get(kind)
    if formula is None and "Pooling" in kind and not kind.startswith("Global"):
        return float(made * math.prod(getattr(layer, "pool_size", (1,))))
    if formula is None:
        return element_flops(kind, math.prod(inputs[0]) if inputs else 0, made)
    weights = {weight.path.rsplit("/", 1)[-1]: tuple(weight.shape) for weight in getattr(layer, "weights", ())}
    activation = getattr(getattr(layer, "activation", None), "__name__", "linear")
    fused = made if activation != "linear" and kind not in _OWN_ACTIVATION else 0
    return float(formula(_Call(layer, weights, inputs, made)) + fused)


@dataclass(frozen=True, slots=True)
class _Call:
    """The inputs of the formulas: shapes of weights by name, shapes of inputs, elements of the first output."""

    layer: Any
    weights: Mapping[str, Shape]
    inputs: Sequence[Shape]
    made: int


Formula = Callable[[_Call], float]

_OWN_ACTIVATION = frozenset({"ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRU", "LSTM", "SimpleRNN"})


def _convolution(call: _Call) -> float:
    return 2.0 * call.made * math.prod(call.weights["kernel"][:-1])


def _depthwise(call: _Call) -> float:
    return 2.0 * call.made * math.prod(call.weights["kernel"][:-2])


def _separable(call: _Call) -> float:
    pointwise = call.weights["pointwise_kernel"]
    return 2.0 * call.made / pointwise[-1] * (math.prod(call.weights["depthwise_kernel"]) + math.prod(pointwise))


def _transposed(call: _Call) -> float:
    return 2.0 * math.prod(call.inputs[0]) * math.prod(call.weights["kernel"][:-1])


def _dense(call: _Call) -> float:
    return 2.0 * call.made * call.weights["kernel"][0]


def _einsum_dense(call: _Call) -> float:
    """Every output element sums over the labels of the kernel that the output lacks."""
    given, kept = call.layer.equation.replace(" ", "").split("->")
    labels = given.split(",")[1]
    summed = [size for label, size in zip(labels, call.weights["kernel"], strict=True) if label not in kept]
    return 2.0 * call.made * math.prod(summed)


def _attention(call: _Call) -> float:
    """Four projections, queries times keys, and scores times values."""
    query = call.inputs[0]
    value = call.inputs[1] if len(call.inputs) > 1 and len(call.inputs[1]) == len(query) else query
    queries, keys = math.prod(query[:-1]), math.prod(value[:-1])
    total = 0.0
    for name, steps in (("query", queries), ("key", keys), ("value", keys), ("output", queries)):
        dense = getattr(call.layer, f"_{name}_dense", None)
        kernel = next((tuple(weight.shape) for weight in dense.weights if len(weight.shape) > 2), ()) if dense else ()
        total += 2.0 * steps * math.prod(kernel) if kernel else 0.0
    heads = _whole(call.layer, "num_heads", "num_query_heads")
    widths = _whole(call.layer, "_key_dim", "head_dim") + _whole(call.layer, "_value_dim", "head_dim")
    return total + 2.0 * queries * math.prod(value[1:-1]) * heads * widths


def _whole(layer: Any, *names: str) -> int:
    """The first of these attributes that the layer has; 0 if it has none."""
    return next((int(getattr(layer, name)) for name in names if getattr(layer, name, None)), 0)


def _plain_attention(call: _Call) -> float:
    return 2.0 * math.prod(call.inputs[0]) * call.inputs[1][-2] + 2.0 * call.made * call.inputs[1][-2]


def _recurrent(call: _Call) -> float:
    """Both weight matrices, once for each step of each sequence."""
    steps = math.prod(call.inputs[0][:2])
    shapes = [tuple(weight.shape) for weight in call.layer.weights if weight.path.endswith("kernel")]
    return 2.0 * steps * float(sum(math.prod(shape) for shape in shapes))


def _recurrent_convolution(call: _Call) -> float:
    """Both kernels at every position of every step."""
    rank, made = len(call.layer.kernel_size), call.layer.compute_output_shape(call.inputs[0])
    made = made[0] if isinstance(made[0], tuple | list) else made
    last = call.layer.data_format == "channels_last"
    return _recurrent(call) * float(math.prod(made[-1 - rank : -1] if last else made[-rank:]))


def _matmul(call: _Call) -> float:
    return 2.0 * call.made * (call.inputs[0][-1] if call.inputs and call.inputs[0] else 1)


_FORMULAS: dict[str, Formula] = {
    "Attention": _plain_attention,
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Matmul": _matmul,
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _convolution),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _transposed),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _depthwise),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _separable),
    **dict.fromkeys(("GRU", "LSTM", "RNN", "SimpleRNN"), _recurrent),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _recurrent_convolution),
    **dict.fromkeys(("GroupQueryAttention", "GroupedQueryAttention", "MultiHeadAttention"), _attention),
}


def layer_geometry(layer: Any, shape: Shape, layout: Layout) -> Geometry | None:
    """The geometry of a layer by its settings and the shape of its input; None if it has none."""
    activation = getattr(layer, "activation", None)
    if activation is not None and getattr(activation, "__name__", "") not in ELEMENTWISE:
        return None
    match type(layer).__name__:
        case "Conv2D":
            return _window(layer, shape, layout, layer.kernel_size[0], groups=int(layer.groups))
        case "DepthwiseConv2D":
            axis = fit.channel_axis(4, layout)
            groups = shape[axis] if axis is not None and len(shape) == 4 else 1
            return _window(layer, shape, layout, layer.kernel_size[0], groups=groups)
        case "MaxPooling2D" | "AveragePooling2D":
            return _window(layer, shape, layout, layer.pool_size[0], pooling=True)
        case "GlobalAveragePooling2D" | "GlobalMaxPooling2D":
            return fit.GLOBAL_POOL
        case "Dense":
            return fit.dense_on(shape, layout)
        case "Concatenate":
            return fit.JOINED if fit.along_channels(int(layer.axis), len(shape), layout) else None
        case "Activation" | "Rescaling":
            return fit.OWN
    return None


def _window(
    layer: Any, shape: Shape, layout: Layout, kernel: int, *, groups: int = 1, pooling: bool = False
) -> Geometry | None:
    if len(shape) != 4:
        return None
    rows = shape[2] if layout == "channels_first" else shape[1]
    dilation = int(getattr(layer, "dilation_rate", (1,))[0])
    stride = int(layer.strides[0])
    above = fit.same_padding(rows, int(kernel), stride, dilation)[0] if layer.padding == "same" else 0
    return fit.window(int(kernel), stride, above, dilation=dilation, groups=groups, pooling=pooling)
