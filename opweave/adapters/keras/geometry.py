"""Geometry of Keras operators, from the settings of the layers that they call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opweave.adapters.graphs import geometry_fit as fit
from opweave.adapters.keras.read import called_layers
from opweave.problems.graph import OpGraph
from opweave.problems.limits import Limits
from opweave.problems.slicing.geometry import Geometry, Layout

if TYPE_CHECKING:
    import keras

_ELEMENTWISE = """
    elu exponential gelu hard_sigmoid hard_silu leaky_relu linear mish relu relu6 selu sigmoid silu softplus softsign
    tanh
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Activations that look at one cell at a time; a softmax, in contrast, needs all channels of its layer."""


def keras_geometry(
    model: keras.Model, graph: OpGraph, dims: Mapping[str, int] | None, limits: Limits
) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one; layers with another data format than the first are omitted."""
    layers = called_layers(model, dims=dims, limits=limits)
    layout = _layout(layers)
    shapes = fit.shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for op in graph.operators:
        layer = layers.get(op.id)
        if layer is None or type(layer).__name__ != op.kind or not op.inputs:
            continue
        if getattr(layer, "data_format", layout) in (layout, None):
            found[op.id] = _read(layer, shapes[op.inputs[0]], layout)
    return fit.fitting(found, graph, layout)


def _layout(layers: Mapping[str, Any]) -> Layout:
    import keras

    said = (getattr(layer, "data_format", None) for layer in layers.values())
    first = next((word for word in said if word), keras.config.image_data_format())
    return "channels_first" if first == "channels_first" else "channels_last"


def _read(layer: Any, shape: tuple[int, ...], layout: Layout) -> Geometry | None:
    if not _elementwise(getattr(layer, "activation", None)):
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


def _elementwise(activation: object) -> bool:
    return activation is None or getattr(activation, "__name__", "") in ELEMENTWISE


def _window(
    layer: Any, shape: tuple[int, ...], layout: Layout, kernel: int, *, groups: int = 1, pooling: bool = False
) -> Geometry | None:
    if len(shape) != 4:
        return None
    rows = shape[2] if layout == "channels_first" else shape[1]
    dilation = int(getattr(layer, "dilation_rate", (1,))[0])
    stride = int(layer.strides[0])
    above = fit.same_padding(rows, int(kernel), stride, dilation)[0] if layer.padding == "same" else 0
    return fit.window(int(kernel), stride, above, dilation=dilation, groups=groups, pooling=pooling)
