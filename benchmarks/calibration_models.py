"""Twelve ONNX models with random weights, built here from published architectures, for measuring calibration.

ResNet-50 (He et al., 2016), MobileNetV2 (Sandler et al., 2018), SqueezeNet 1.1 (Iandola et al., 2016) and GPT-2 small
(Radford et al., 2019), at batch 1, two of them also with 8 bits, and the six smaller networks of
:mod:`benchmarks.models.onnx_nets`. Only operators and their sizes matter, so one generator draws all weights.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from benchmarks.models.onnx_nets import ONNX_MODELS

if TYPE_CHECKING:
    from onnx import ModelProto


class Builder:
    """Adds nodes one by one and keeps their names unique."""

    def __init__(self, name: str, shape: Sequence[int], kind: int = 1) -> None:
        from onnx import helper

        self._helper = helper
        self._name = name
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._random = np.random.default_rng(0)
        self._input = helper.make_tensor_value_info("x", kind, list(shape))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        name = f"{kind.lower()}_{len(self._nodes)}"
        made = [name] if outputs == 1 else [f"{name}.{index}" for index in range(outputs)]
        self._nodes.append(self._helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return made[0]

    def weight(self, *shape: int) -> str:
        fan = max(int(np.prod(shape[1:])), 1)
        return self.constant(self._random.normal(size=shape).astype(np.float32) / np.float32(fan) ** 0.5)

    def constant(self, value: object) -> str:
        from onnx import numpy_helper

        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(self, x: str, channels: tuple[int, int], kernel: int, *, stride: int = 1, group: int = 1) -> str:
        weight = self.weight(channels[1], channels[0] // group, kernel, kernel)
        pads = [kernel // 2] * 4
        return self.node("Conv", x, weight, strides=[stride, stride], pads=pads, group=group)

    def normalised(self, x: str, channels: int) -> str:
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return self.node("BatchNormalization", x, *(self.constant(row) for row in (ones, zeros, zeros, ones)))

    def model(self, output: str, shape: Sequence[int] | None = None) -> ModelProto:
        helper = self._helper
        graph = helper.make_graph(
            self._nodes, self._name, [self._input], [helper.make_tensor_value_info(output, 1, shape)], self._weights
        )
        model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        return model


def resnet50() -> ModelProto:
    """Bottleneck blocks with batch normalisation: 4.1 billion multiply-accumulates."""
    build = Builder("resnet50", (1, 3, 224, 224))
    x = build.node("Relu", build.normalised(build.conv("x", (3, 64), 7, stride=2), 64))
    x, wide = build.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            y = build.node("Relu", build.normalised(build.conv(x, (wide, width), 1), width))
            y = build.node("Relu", build.normalised(build.conv(y, (width, width), 3, stride=stride), width))
            y = build.normalised(build.conv(y, (width, 4 * width), 1), 4 * width)
            if block == 0:
                x = build.normalised(build.conv(x, (wide, 4 * width), 1, stride=stride), 4 * width)
            x, wide = build.node("Relu", build.node("Add", y, x)), 4 * width
    x = build.node("Flatten", build.node("GlobalAveragePool", x))
    return build.model(build.node("Gemm", x, build.weight(2048, 1000), build.weight(1000)))


def mobilenet_v2() -> ModelProto:
    """Inverted residuals with depthwise convolutions."""
    build = Builder("mobilenet_v2", (1, 3, 224, 224))

    def clipped(x: str, channels: int) -> str:
        low, high = build.constant(np.float32(0)), build.constant(np.float32(6))
        return build.node("Clip", build.normalised(x, channels), low, high)

    x, wide = clipped(build.conv("x", (3, 32), 3, stride=2), 32), 32
    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, width, repeats, first in plan:
        for repeat in range(repeats):
            inner, stride = expansion * wide, first if repeat == 0 else 1
            y = clipped(build.conv(x, (wide, inner), 1), inner) if expansion > 1 else x
            y = clipped(build.conv(y, (inner, inner), 3, stride=stride, group=inner), inner)
            y = build.normalised(build.conv(y, (inner, width), 1), width)
            x, wide = (build.node("Add", x, y) if stride == 1 and wide == width else y), width
    x = build.node("GlobalAveragePool", clipped(build.conv(x, (320, 1280), 1), 1280))
    return build.model(build.node("Gemm", build.node("Flatten", x), build.weight(1280, 1000), build.weight(1000)))


def squeezenet() -> ModelProto:
    """Fire modules, joined by concatenation."""
    build = Builder("squeezenet1_1", (1, 3, 224, 224))

    def pooled(x: str) -> str:
        return build.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)

    x, wide = pooled(build.node("Relu", build.conv("x", (3, 64), 3, stride=2))), 64
    for index, width in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        x = pooled(x) if index in (2, 4) else x
        squeezed = build.node("Relu", build.conv(x, (wide, width), 1))
        sides = [build.node("Relu", build.conv(squeezed, (width, 4 * width), kernel)) for kernel in (1, 3)]
        x, wide = build.node("Concat", *sides, axis=1), 8 * width
    x = build.node("Relu", build.conv(x, (512, 1000), 1))
    return build.model(build.node("Softmax", build.node("Flatten", build.node("GlobalAveragePool", x))))


def gpt2_small(steps: int = 256, layers: int = 12) -> ModelProto:
    """Attention written as products, additions and Softmax, and a head over the whole vocabulary."""
    width, heads, words = 768, 12, 50257
    build = Builder("gpt2_small", (1, steps), kind=7)
    x = build.node("Gather", build.constant(np.ones((words, width), np.float32)), "x")
    x = build.node("Add", x, build.weight(1, steps, width))
    mask = build.constant(np.triu(np.full((1, 1, steps, steps), -1e4, np.float32), 1))
    split = build.constant(np.array([1, steps, heads, width // heads], np.int64))
    joined = build.constant(np.array([1, steps, width], np.int64))

    def dense(x: str, wide: int, narrow: int) -> str:
        return build.node("Add", build.node("MatMul", x, build.weight(wide, narrow)), build.weight(narrow))

    def normal(x: str) -> str:
        return build.node("LayerNormalization", x, build.weight(width), build.weight(width), axis=-1)

    for _ in range(layers):
        y = normal(x)
        query, key, value = (
            build.node("Transpose", build.node("Reshape", dense(y, width, width), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = build.node("Mul", build.node("MatMul", query, key), build.constant(np.float32(0.125)))
        shares = build.node("Softmax", build.node("Add", scores, mask))
        y = build.node("Transpose", build.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        x = build.node("Add", x, dense(build.node("Reshape", y, joined), width, width))
        y = build.node("Gelu", dense(normal(x), width, 4 * width), approximate="tanh")
        x = build.node("Add", x, dense(y, 4 * width, width))
    return build.model(build.node("MatMul", normal(x), build.weight(width, words)))


def in_bytes(make: Callable[[], ModelProto]) -> ModelProto:
    """A model of images with 8-bit weights and activations, as ONNX Runtime's tool for quantising writes it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = [{"x": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    with tempfile.TemporaryDirectory() as folder:
        plain, changed = Path(folder) / "plain.onnx", Path(folder) / "changed.onnx"
        onnx.save(make(), plain)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(plain, changed, Reader(), quant_format=QuantFormat.QOperator, **kinds)
        return onnx.load(changed)


MODELS: Mapping[str, Callable[[], ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "squeezenet1_1": squeezenet,
    "gpt2_small": gpt2_small,
    **ONNX_MODELS,
    "mobilenet_v2, 8 bits": lambda: in_bytes(mobilenet_v2),
    "squeezenet1_1, 8 bits": lambda: in_bytes(squeezenet),
}
