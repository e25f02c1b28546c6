"""Keras models made here: shared layers, nested models, sizes and operations by hand."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import networkx as nx
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
except ImportError:  # keras itself, or the backend that it is set to
    pytest.skip("keras needs a backend", allow_module_level=True)

import opweave as ow

pytestmark = pytest.mark.frameworks

layers, Geometry = keras.layers, ow.Geometry


def test_a_small_net_by_hand() -> None:
    x = keras.Input((8, 8, 3), name="picture")
    y = layers.Conv2D(4, 3, padding="same", activation="relu", name="conv")(x)
    y = layers.BatchNormalization(name="norm")(y)
    y = layers.DepthwiseConv2D(3, name="deep")(y)
    y = layers.MaxPooling2D(2, name="pool")(y)
    y = layers.Dropout(0.5, name="drop")(layers.Flatten(name="flat")(y))
    graph = ow.load(keras.Model(x, layers.Dense(10, name="top")(y), name="net"), dims={"batch": 2})
    assert (graph.name, graph.inputs, graph.outputs) == ("net", ("picture",), ("top",))
    assert [op.id for op in graph.operators] == ["conv", "norm", "deep", "pool", "flat", "drop", "top"]
    flops = [op.flops for op in graph.operators]
    assert flops == [2 * 512 * 27 + 512, 2 * 512, 2 * 288 * 9, 72 * 4, 0, 0, 2 * 20 * 36]
    sizes = {"picture": 1536, "conv": 2048, "norm": 2048, "deep": 1152} | dict.fromkeys(("pool", "flat", "drop"), 288)
    assert {tensor.id: tensor.bytes for tensor in graph.tensors} == sizes | {"top": 80}
    assert graph.storage["drop"] == "pool"
    weights = Counter[str]()
    for parameter in graph.parameters:
        weights[parameter.id.rsplit("/", 1)[0]] += parameter.bytes
    assert weights == {"conv": 4 * (108 + 4), "norm": 4 * 16, "deep": 4 * (36 + 4), "top": 4 * 370}


class Own(keras.Model):
    """A subclassed model with a layer that is called twice, an operation, and dropout that depends on the mode."""

    def __init__(self) -> None:
        super().__init__(name="own")
        self.dense, self.drop = layers.Dense(4, name="dense"), layers.Dropout(0.5, name="drop")

    def call(self, given: Any, training: bool = False) -> Any:
        y = self.drop(self.dense(given["x"]), training=training)
        return {"y": keras.ops.relu(y), "z": self.dense(given["x"]) + given["add"]}


def test_subclassed_models_are_followed() -> None:
    model = Own()
    with pytest.raises(ow.InvalidInputError, match=r"'own' was not called yet, .* call it once on example inputs, or"):
        ow.load(model)
    model({"x": keras.ops.zeros((2, 3)), "add": keras.ops.zeros((2, 4))})
    graph = ow.load(model)
    assert sorted(op.kind for op in graph.operators) == ["Add", "Dense", "Dense", "Dropout", "Relu"]
    assert sum(parameter.bytes for parameter in graph.parameters) == 4 * (12 + 4)
    assert sum(op.flops for op in graph.operators if op.kind == "Dense") == 2 * 2 * 2 * 3 * 4
    shapes = {tensor.id: tensor.shape for tensor in graph.tensors}
    assert [shapes[name] for name in graph.outputs] == [(2, 4), (2, 4)]
    inputs = {name: keras.Input((size,), name=name) for name, size in (("x", 3), ("add", 4))}
    inside = ow.load(keras.Model(inputs, Own()(inputs)), dims={"batch": 2})
    assert next(op.id for op in inside.operators).startswith("own/")
    assert sorted(op.kind for op in inside.operators) == sorted(op.kind for op in graph.operators)


def test_a_model_that_decides_by_values_says_why() -> None:
    class Decides(keras.Model):
        def call(self, x: Any) -> Any:
            return x if keras.ops.sum(x) > 0 else -x

    model = Decides(name="decides")
    model(keras.ops.ones((2, 3)))
    with pytest.raises(ow.InvalidInputError, match=r"'decides' cannot be called on symbols \(.*\), so its layer graph"):
        ow.load(model)


def test_a_model_that_changes_its_own_variable_says_so_and_is_left_alone() -> None:
    class Steps(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="steps")
            self.steps, self.dense = self.add_weight(shape=(), initializer="zeros", name="seen"), layers.Dense(4)

        def call(self, x: Any) -> Any:
            self.steps.assign(self.steps + 1.0)
            return self.dense(x) * self.steps

    model = Steps()
    model(keras.ops.ones((2, 3)))
    with pytest.raises(ow.InvalidInputError, match=r"\(it changes steps/seen outside its layers\)"):
        ow.load(model)
    assert keras.ops.convert_to_numpy(model.steps) == 1.0


def test_shared_layers_and_nested_models() -> None:
    dense = layers.Dense(3, name="dense")
    inner_input = keras.Input((3,))
    inner = keras.Model(inner_input, layers.ReLU(name="act")(dense(inner_input)), name="block")
    outer = keras.Sequential([keras.Input((3,)), inner, layers.Dense(2, name="last")], name="chain")
    x = keras.Input((3,), batch_size=4, name="x")
    graph = ow.load(keras.Model(x, [outer(inner(dense(x))), x + 1.0], name="net"))
    ids = {op.id: op for op in graph.operators}
    calls = ["dense", "block/dense", "block/act", "chain/block/dense", "chain/block/act", "chain/last"]
    assert set(calls) < set(ids)
    assert [ids[name].module for name in calls] == ["", "block", "block", "chain.block", "chain.block", "chain"]
    assert ids["dense"].parameters == ids["block/dense"].parameters == ids["chain/block/dense"].parameters
    assert sum(parameter.bytes for parameter in graph.parameters) == 4 * (12 + 8)
    assert len(graph.outputs) == 2
    assert all(tensor.shape is not None and tensor.shape[0] == 4 for tensor in graph.tensors)


@pytest.mark.parametrize(
    ("layer", "shape", "flops"),
    [
        (lambda: layers.Conv2D(6, 3, groups=2), (5, 5, 4), 2 * 2 * 54 * 9 * 2),
        (lambda: layers.SeparableConv2D(6, 3), (5, 5, 4), 2 * 2 * 9 * (9 * 4 + 4 * 6)),
        (lambda: layers.Conv2DTranspose(6, 2, strides=2), (5, 5, 4), 2 * 2 * 100 * 4 * 6),
        (lambda: layers.EinsumDense("abc,cd->abd", output_shape=(None, 5)), (7, 4), 2 * 2 * 7 * 4 * 5),
        (lambda: layers.LSTM(5), (7, 4), 2 * 2 * 7 * 4 * 5 * (4 + 5)),
        (lambda: layers.Bidirectional(layers.GRU(5)), (7, 4), 2 * 2 * 2 * 7 * 3 * 5 * (4 + 5)),
        (lambda: layers.TimeDistributed(layers.Dense(3)), (7, 4), 2 * 2 * 7 * 4 * 3),
        (lambda: layers.AveragePooling2D(2), (4, 4, 3), 2 * 12 * 4),
        (layers.Softmax, (7,), 2 * 7 * 5),
        (lambda: layers.RNN([layers.LSTMCell(4), layers.GRUCell(6)]), (5, 3), 20 * (7 * 16 + 4 * 18 + 6 * 18)),
        (lambda: layers.ConvLSTM2D(4, 3, padding="same"), (5, 8, 8, 3), 2 * 10 * 64 * (9 * 3 * 16 + 9 * 4 * 16)),
        # four projections, queries times keys, scores times values
        (lambda: lambda x: layers.MultiHeadAttention(2, 4)(x, x), (6, 8), 2 * (4 * 2 * 6 * 8 * 8 + 2 * 2 * 6 * 6 * 8)),
    ],
)
def test_flops_of_layers(layer: Any, shape: tuple[int, ...], flops: float) -> None:
    x = keras.Input(shape)
    graph = ow.load(keras.Model(x, layer()(x)), dims={"batch": 2})
    assert [op.flops for op in graph.operators] == [flops]


def test_a_published_network() -> None:
    """Sizes as published for MobileNetV2: 3,504,872 weights and 300.8 million multiply-accumulates."""
    graph = ow.load(keras.applications.MobileNetV2(weights=None), dims={"batch": 1})
    assert sum(parameter.bytes for parameter in graph.parameters) - 4 * 34_112 == 4 * 3_504_872
    heavy = sum(op.flops for op in graph.operators if op.kind in ("Conv2D", "DepthwiseConv2D", "Dense"))
    assert heavy / 2 == pytest.approx(300.8e6, rel=1e-3)


class Counts(layers.Layer):
    """Adds how often it was called; it says what its output looks like if ``stated``."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.count = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False, name="count")

    def call(self, x: Any) -> Any:
        self.count.assign(self.count + 1.0)
        return x + self.count

    def compute_output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


STATES = [
    (lambda: Counts(name="own"), {}, True),
    (lambda: layers.GRU(3, stateful=True, return_sequences=True, name="own"), {}, True),
    (lambda: layers.GRU(3, return_sequences=True, name="own"), {}, False),
    (lambda: layers.BatchNormalization(name="own"), {"training": True}, True),
    (lambda: layers.BatchNormalization(name="own"), {}, False),
]


@pytest.mark.parametrize(("made", "mode", "kept"), STATES)
def test_calls_that_change_a_state_stay_in_order_on_one_device(made: Any, mode: dict[str, bool], kept: bool) -> None:
    layer, x = made(), keras.Input((2, 3), batch_size=1, name="x")
    first, second = layer(layers.ReLU(name="a")(x), **mode), layer(layers.ReLU(name="b")(x), **mode)
    graph = ow.load(keras.Model(x, [first, layers.ReLU(name="c")(second)]))
    orders = [[name for name in order if "own" in name] for order in nx.all_topological_sorts(graph.digraph)]
    assert {tuple(order) for order in orders} == {("own", "own_2")} | ({("own_2", "own")} if not kept else set())
    assert graph.together == ((("own", "own_2"),) if kept else ())
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], shared=1e9)
    rows = {op.id: {"a": 1.0, "b": 1.0} for op in graph.operators} | {"own_2": {"a": 2.0, "b": 1.0}}
    rows |= {"own": {"a": 1.0, "b": 2.0}}
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(rows))
    assert (len({ow.solve(problem, time_limit=5).plan.device[name] for name in ("own", "own_2")}) == 1) is kept


SIZES = {"batch": 1, "height": 64, "width": 96}


@pytest.mark.parametrize("dims", [SIZES, {"*:0": 1, "image:1": 64, "*": 96}, {"batch": 1, "height": 64, "*:2": 96}])
def test_open_heights_and_widths_get_sizes(dims: dict[str, int]) -> None:
    def loaded(shape: tuple[int | None, ...], sizes: dict[str, int]) -> ow.OpGraph:
        x = keras.Input(shape, name="image")
        y = layers.UpSampling2D(2, name="up")(layers.Conv2D(4, 3, strides=2, name="conv")(x))
        y = layers.Dense(2, name="top")(layers.GlobalAveragePooling2D(name="pool")(y))
        return ow.load(keras.Model(x, y, name="net"), dims=sizes)

    opened, closed = loaded((None, None, 3), dims), loaded((64, 96, 3), {"batch": 1})
    assert (opened.operators, opened.tensors) == (closed.operators, closed.tensors)


def _open() -> Any:
    x = keras.Input((None, 3), name="x")
    return keras.Model(x, layers.ReLU()(x), name="net")


BAD = [
    (lambda: ow.load(keras.Sequential([layers.Dense(3)], name="raw")), "raw: model 'raw' is not built"),
    (
        lambda: ow.load(_open()),
        r'net: input .x. \(batch x length x 3\) has open dimensions; .* dims=\{"batch": 1, "length": 128\}',
    ),
    (lambda: ow.load(_open(), dims={"batch": 1}), r'give their sizes, for example dims=\{"length": 128\}'),
    (lambda: ow.load(_open(), dims={"*": True}), "it must be a whole number from 1"),
    (
        lambda: ow.load(_open(), dims={"x:2": 3}),
        "there is no dimension 'x:2'; did you mean 'x:1'.*its open dimensions: batch, length",
    ),
    (lambda: ow.load(_open(), dims={"rows": 1}), "there is no dimension 'rows'"),
    (lambda: ow.load(_open(), dims={"batch": 0}), "it must be a whole number from 1"),
    (lambda: ow.load(_open(), args=(1,)), "args and kwargs are for PyTorch modules"),
]


@pytest.mark.parametrize(("load", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_models_that_cannot_be_planned_say_why(load: Any, sentence: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=sentence):
        load()


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
