"""Geometry out of Keras models, channels last and first, compared with hand-written ones."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
except ImportError:  # keras itself, or the backend that it is set to
    pytest.skip("keras needs a backend", allow_module_level=True)

import opweave as ow

pytestmark = pytest.mark.frameworks

layers, Geometry = keras.layers, ow.Geometry


def net(data_format: str) -> keras.Model:
    axis = -1 if data_format == "channels_last" else 1
    more = {"data_format": data_format}
    x = keras.Input((17, 17, 3) if axis == -1 else (3, 17, 17), name="x")
    y = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu", name="stem", **more)(x)
    shared = layers.Conv2D(8, 3, dilation_rate=2, padding="same", groups=2, name="shared", **more)
    y = shared(shared(y))
    y = layers.DepthwiseConv2D(3, name="deep", depth_multiplier=2, **more)(y)
    most = layers.MaxPooling2D(2, name="most", **more)(y)
    mean = layers.AveragePooling2D(3, strides=2, padding="same", name="mean", **more)(y)
    mean = layers.Activation("softmax", name="soft")(layers.Activation("gelu", name="act")(mean))
    most = layers.ZeroPadding2D(((0, 1), (0, 1)), name="pad", **more)(most)
    y = layers.Concatenate(axis=axis, name="join")([most, mean])
    y = layers.SeparableConv2D(4, 3, name="apart", padding="same", **more)(y)
    y = layers.Conv2DTranspose(4, 2, strides=2, name="wide", **more)(y)
    y = layers.GlobalAveragePooling2D(name="pool", **more)(y)
    y = layers.Dense(6, activation="relu", name="dense")(y)
    return keras.Model(x, layers.Dense(5, activation="softmax", name="top")(y), name="net")


BY_HAND = {
    "stem": Geometry(kernel=3, stride=2, padding=1),
    "shared": Geometry(kernel=3, padding=2, dilation=2, groups=2),
    "shared_2": Geometry(kernel=3, padding=2, dilation=2, groups=2),
    "deep": Geometry(kernel=3, groups=8),
    "most": Geometry(kernel=2, stride=2, channels="own"),
    "mean": Geometry(kernel=3, stride=2, padding=1, channels="own"),
    "act": Geometry(channels="own"),
    "join": Geometry(channels="joined"),
    "pool": Geometry(channels="own", rows="all"),
    "dense": Geometry(rows="all"),
}


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
def test_a_net_by_hand(layout: str) -> None:
    model = net(layout)
    graph = ow.load(model, dims={"batch": 1})
    found = ow.geometry(model, graph=graph, dims={"batch": 1})
    assert found == BY_HAND
    assert ow.geometry(model, dims={"batch": 1}) == found


def test_dense_layers_on_feature_maps_and_layers_of_another_format() -> None:
    x = keras.Input((6, 6, 3), batch_size=1)
    y = layers.Dense(4, name="dense")(layers.Conv2D(4, 3, name="last", data_format="channels_last")(x))
    y = layers.MaxPooling2D(2, name="first", data_format="channels_first")(y)
    assert ow.geometry(keras.Model(x, y)) == {"last": Geometry(kernel=3), "dense": Geometry()}
