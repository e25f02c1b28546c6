"""Scratch memory of kernels: as the arena's counters of ONNX Runtime 1.31 had it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import opweave as ow

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from opweave.adapters.onnx.scratch import kernel_scratch  # noqa: E402
from opweave.adapters.onnx.sizes import Sized  # noqa: E402
from tests.adapters.onnx.nets import net, saved  # noqa: E402

TABLES = tomllib.loads(Path(__file__).with_name("scratch.toml").read_text())
BYTES = {"float32": 4, "int64": 8}


def sized(shape: Sequence[int], dtype: str = "float32") -> Sized:
    return Sized(tuple(shape), dtype, math.prod(shape) * BYTES.get(dtype, 1))


def scratch(kind: str, made: Sized, *inputs: Sized | None, outputs: int = 1, **given: object) -> int:
    names = [f"x{place}" if each else "" for place, each in enumerate(inputs)]
    node = helper.make_node(kind, names, [f"y{place}" for place in range(outputs)], **given)
    return kernel_scratch(node, inputs, made)


@pytest.mark.parametrize(("image", "weights", "made", "given", "wanted"), TABLES["convolutions"])
def test_convolutions(
    image: list[int], weights: list[int], made: list[int], given: dict[str, object], wanted: int
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], **given)
    assert kernel_scratch(node, [sized(image), sized(weights)], sized(made)) == wanted
    node.domain = "com.microsoft.nchwc"  # the blocked kernels need none
    assert kernel_scratch(node, [sized(image), sized(weights)], sized(made)) == 0


@pytest.mark.parametrize(("kind", "gates", "wide", "direction", "more", "wanted"), TABLES["recurrent"])
def test_recurrent_layers(
    kind: str, gates: int, wide: int, direction: str, more: dict[str, object], wanted: int
) -> None:
    ways = 2 if direction == "bidirectional" else 1
    weights = [sized((ways, gates * 64, 96)), sized((ways, gates * 64, 64)), sized((ways, wide * 64))]
    made = sized((16, ways, 1, 64))
    found = scratch(kind, made, sized((16, 1, 96)), *weights, outputs=3, direction=direction, **more)
    assert found == wanted - ways * 252 * (kind != "RNN")  # the arena's counters have blocks of 256 bytes


@pytest.mark.parametrize(("last", "weight", "depth", "window", "wanted"), TABLES["integers"])
def test_convolutions_of_integers(last: int, weight: str, depth: int, window: int, wanted: int) -> None:
    image = sized((1, 28, 28, 64) if last else (1, 64, 28, 28), "uint8")
    scale, zero = sized(()), sized((), "uint8")
    given = {"pads": [window // 2] * 4, "group": 64 if depth == 1 else 1}
    weights = sized((64, depth, window, window), weight)
    inputs = (image, scale, zero, weights, scale, zero, scale, zero)
    assert scratch("QLinearConv", image, *inputs, channels_last=last, **given) == wanted


def test_other_kernels() -> None:
    whole = sized((1, 4, 64, 64))
    image, weights = sized((1, 32, 20, 20)), sized((32, 8, 3, 3))
    assert scratch("ConvTranspose", sized((1, 32, 39, 39)), image, weights, group=4) == 115_200
    assert scratch("Where", whole, sized((1, 1, 64, 64), "bool"), whole, sized((1,))) == 65_536 + 16_384
    assert scratch("Softmax", whole, whole, axis=1) == 2 * 65_536
    assert scratch("Softmax", whole, whole, axis=-1) == scratch("Relu", whole, whole) == 0
    assert scratch("Sum", whole, whole, whole) == 0
    assert scratch("Sum", whole, whole, whole, whole) == 65_536
    assert scratch("LSTM", whole, whole) == scratch("QLinearConv", whole, whole) == 0  # inputs are missing


@pytest.mark.frameworks
def test_the_arena_agrees(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = "(float[1, 3, 64, 64] x) => (float[] y) { a = Neg(x)  y = Conv <pads = [1, 1, 1, 1]> (a, w) }"
    saved(net(text, w=np.full((16, 3, 3, 3), 0.5, "f")), tmp_path / "net.onnx")
    problem = ow.onnx_runtime_problem(tmp_path / "net.onnx")
    result = ow.solve(problem, solver="rpo")
    memory = ow.verify(tmp_path / "net.onnx", result).memory
    assert memory is not None
    assert memory.predicted == memory.measured
    assert result.objective == memory.predicted_peak + 65_536
    assert memory.predicted_arena == result.objective
    assert memory.allocator_peak in (memory.predicted_arena, None)
