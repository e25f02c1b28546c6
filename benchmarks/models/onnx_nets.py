"""Six ONNX models of well-known shapes with random weights, built node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 17


class Builder:
    """Records nodes one after another; every method returns the name of its output."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._random = np.random.default_rng(seed)
        self._nodes: list[object] = []
        self._weights: list[object] = []
        self._inputs: list[object] = []

    def input(self, *shape: int) -> str:
        """Add the model's input and return its name."""
        from onnx import TensorProto, helper

        self._inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
        return "x"

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Write one node."""
        from onnx import helper

        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [f"{name}:out"], name=name, **attributes))
        return f"{name}:out"

    def weight(self, *shape: int) -> str:
        """Draw random weights, scaled so that activations neither vanish nor explode."""
        fan_in = math.prod(shape[1:]) if len(shape) > 2 else shape[0]
        return self.constant((self._random.standard_normal(shape) / math.sqrt(fan_in)).astype(np.float32))

    def constant(self, value: np.ndarray) -> str:
        """Store an array as an initialiser."""
        from onnx import numpy_helper

        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(value, name))
        return name

    def conv(self, x: str, source: int, target: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        """Convolve with "same" padding and a bias."""
        return self.node(
            "Conv",
            x,
            self.weight(target, source // groups, kernel, kernel),
            self.weight(target),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def pool(self, x: str) -> str:
        """Halve the image."""
        return self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def classify(self, x: str, channels: int) -> str:
        """Average over the image, then apply one dense layer."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.node("Gemm", flat, self.weight(channels, 100), self.weight(100))

    def linear(self, x: str, source: int, target: int) -> str:
        """Multiply by a matrix and add a bias."""
        return self.node("Add", self.node("MatMul", x, self.weight(source, target)), self.weight(target))

    def norm(self, x: str, width: int) -> str:
        """Normalise every token."""
        scale, shift = self.constant(np.ones(width, np.float32)), self.constant(np.zeros(width, np.float32))
        return self.node("LayerNormalization", x, scale, shift)

    def model(self, output: str) -> ModelProto:
        """Build the model."""
        from onnx import TensorProto, checker, helper, shape_inference

        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, self._name, self._inputs, [made], self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        model.graph.output[0].CopyFrom(shape_inference.infer_shapes(model).graph.output[0])
        checker.check_model(model)
        return model


def resnet(image: int = 128) -> ModelProto:
    """Residual stages as in ResNet-18."""
    net = Builder("resnet", seed=1)
    x = net.pool(net.node("Relu", net.conv(net.input(1, 3, image, image), 3, 64, kernel=7, stride=2)))
    source = 64
    for stage, target in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = net.conv(net.node("Relu", net.conv(x, source, target, stride=stride)), target, target)
            skip = x if source == target else net.conv(x, source, target, kernel=1, stride=stride)
            x, source = net.node("Relu", net.node("Add", y, skip)), target
    return net.model(net.classify(x, source))


def inception(image: int = 128) -> ModelProto:
    """Nine modules of four branches each, as in GoogLeNet."""
    net = Builder("inception", seed=2)
    x = net.pool(net.node("Relu", net.conv(net.input(1, 3, image, image), 3, 64, kernel=7, stride=2)))
    source = 64
    for module in range(9):
        width = 32 + 8 * module
        first = net.node("Relu", net.conv(x, source, width, kernel=1))
        second = net.node("Relu", net.conv(x, source, width, kernel=1))
        second = net.node("Relu", net.conv(second, width, 2 * width))
        third = net.node("Relu", net.conv(x, source, width // 2, kernel=1))
        third = net.node("Relu", net.conv(third, width // 2, width, kernel=5))
        fourth = net.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        fourth = net.node("Relu", net.conv(fourth, source, width, kernel=1))
        x, source = net.node("Concat", second, first, fourth, third, axis=1), 5 * width
        if module in (2, 6):
            x = net.pool(x)
    return net.model(net.classify(x, source))


def mobilenet(image: int = 128) -> ModelProto:
    """Inverted residuals with depthwise convolutions, as in MobileNetV2."""
    net = Builder("mobilenet", seed=3)
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    x = net.node("Clip", net.conv(net.input(1, 3, image, image), 3, 32, stride=2), low, high)
    source = 32
    for target, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 1), (160, 2), (160, 1)):
        wide = net.node("Clip", net.conv(x, source, 6 * source, kernel=1), low, high)
        wide = net.node("Clip", net.conv(wide, 6 * source, 6 * source, stride=stride, groups=6 * source), low, high)
        y = net.conv(wide, 6 * source, target, kernel=1)
        x, source = (net.node("Add", x, y) if stride == 1 and source == target else y), target
    return net.model(net.classify(x, source))


def _attention(net: Builder, x: str, tokens: int, width: int, heads: int, mask: str | None) -> str:
    split = net.constant(np.array([1, tokens, heads, width // heads], np.int64))
    joined = net.constant(np.array([1, tokens, width], np.int64))

    def head(order: Sequence[int]) -> str:
        return net.node("Transpose", net.node("Reshape", net.linear(x, width, width), split), perm=list(order))

    query, key, value = head((0, 2, 1, 3)), head((0, 2, 3, 1)), head((0, 2, 1, 3))
    root = net.constant(np.float32(math.sqrt(width // heads)))
    scores = net.node("Div", net.node("MatMul", query, key), root)
    if mask is not None:
        scores = net.node("Add", scores, mask)
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), value)
    back = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    return net.linear(back, width, width)


def _gelu(net: Builder, x: str) -> str:
    root, one, half = (net.constant(np.float32(value)) for value in (math.sqrt(2), 1.0, 0.5))
    tail = net.node("Add", net.node("Erf", net.node("Div", x, root)), one)
    return net.node("Mul", net.node("Mul", x, tail), half)


def encoder(tokens: int = 128, width: int = 256, layers: int = 4) -> ModelProto:
    """Transformer encoder, normalised after each part as in BERT."""
    net = Builder("encoder", seed=4)
    x = net.input(1, tokens, width)
    for _ in range(layers):
        x = net.norm(net.node("Add", x, _attention(net, x, tokens, width, 4, None)), width)
        inner = _gelu(net, net.linear(x, width, 4 * width))
        x = net.norm(net.node("Add", x, net.linear(inner, 4 * width, width)), width)
    return net.model(net.linear(x, width, 16))


def gpt(tokens: int = 128, width: int = 256, layers: int = 4) -> ModelProto:
    """Decoder blocks, masked and normalised before each part as in GPT-2."""
    net = Builder("gpt", seed=5)
    x = net.input(1, tokens, width)
    mask = net.constant(np.triu(np.full((tokens, tokens), -1e9, np.float32), 1)[None, None])
    for _ in range(layers):
        x = net.node("Add", x, _attention(net, net.norm(x, width), tokens, width, 4, mask))
        inner = _gelu(net, net.linear(net.norm(x, width), width, 4 * width))
        x = net.node("Add", x, net.linear(inner, 4 * width, width))
    return net.model(net.linear(net.norm(x, width), width, 512))


def random_wiring(size: int) -> list[list[int]]:
    """Ring of neighbours with a third of the edges moved (Watts-Strogatz), as lists of predecessors."""
    import networkx as nx

    ring = nx.connected_watts_strogatz_graph(size, 4, 0.33, seed=7)
    return [sorted(other for other in ring.neighbors(node) if other < node) for node in range(size)]


def randomly_wired(image: int = 64, size: int = 24) -> ModelProto:
    """Two stages of a randomly wired network: sum, activation, separable convolution."""
    net = Builder("randomly_wired", seed=6)
    x = net.conv(net.input(1, 3, image, image), 3, 32, stride=2)
    source = 32
    for target in (48, 96):
        made: list[str] = []
        for before in random_wiring(size):
            y = made[before[0]] if before else x
            for other in before[1:]:
                y = net.node("Add", y, made[other])
            width, stride = (target, 1) if before else (source, 2)
            y = net.conv(net.node("Relu", y), width, width, stride=stride, groups=width)
            made.append(net.conv(y, width, target, kernel=1))
        read = {other for before in random_wiring(size) for other in before}
        loose = [name for index, name in enumerate(made) if index not in read]
        x = loose[0]
        for name in loose[1:]:
            x = net.node("Add", x, name)
        source = target
    return net.model(net.classify(net.node("Relu", x), source))


ONNX_MODELS: Mapping[str, Callable[[], ModelProto]] = {
    "ResNet": resnet,
    "Inception": inception,
    "MobileNet": mobilenet,
    "transformer encoder": encoder,
    "randomly wired": randomly_wired,
    "GPT blocks": gpt,
}
"""Builders by the name shown in tables."""
