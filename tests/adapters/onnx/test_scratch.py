"""Scratch memory of kernels: as the arena's counters of ONNX Runtime 1.31 had it."""

from __future__ import annotations

from pathlib import Path

import pytest

import opweave as ow

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from opweave.adapters.onnx.scratch import kernel_scratch  # noqa: E402


@pytest.mark.parametrize(
    ("image", "weights", "made", "given", "scratch"),
    [
        ((1, 3, 64, 64), (16, 3, 3, 3), (1, 16, 64, 64), {"pads": [1] * 4}, 65_536),
        ((1, 64, 56, 56), (64, 64, 1, 1), (1, 64, 56, 56), {}, 0),
        ((1, 64, 56, 56), (128, 64, 1, 1), (1, 128, 28, 28), {"strides": [2, 2]}, 65_536),
        ((1, 256, 14, 14), (512, 256, 3, 3), (1, 512, 14, 14), {"pads": [1] * 4}, 1_806_336),
        ((1, 512, 7, 7), (512, 1, 3, 3), (1, 512, 7, 7), {"pads": [1] * 4, "group": 512}, 65_536),
    ],
)
def test_convolutions(
    image: tuple[int, ...], weights: tuple[int, ...], made: tuple[int, ...], given: dict[str, object], scratch: int
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], **given)
    assert kernel_scratch(node, [image, weights], made) == scratch
    node.domain = "com.microsoft.nchwc"  # the blocked kernels need none
    assert kernel_scratch(node, [image, weights], made) == 0


def test_other_kernels() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=4)
    assert kernel_scratch(node, [(1, 32, 20, 20), (32, 8, 3, 3)], (1, 32, 39, 39)) == 115_200
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"])
    assert kernel_scratch(node, [(64, 1, 64), (1, 256, 64), (1, 256, 64)], (64, 1, 1, 64)) == 65_536
    assert kernel_scratch(node, [(64, 1, 64)], (64, 1, 1, 64)) == 0
    assert kernel_scratch(helper.make_node("Relu", ["x"], ["y"]), [(4,)], (4,)) == 0


@pytest.mark.frameworks
def test_the_arena_agrees(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        net (float[1, 3, 64, 64] x) => (float[1, 16, 64, 64] y)
        <float[16, 3, 3, 3] w>
        { a = Neg(x)  y = Conv <pads = [1, 1, 1, 1]> (a, w) }"""
    model = onnx.parser.parse_model(text)
    del model.graph.initializer[:]
    model.graph.initializer.append(helper.make_tensor("w", 1, [16, 3, 3, 3], [0.5] * 432))
    onnx.save(model, tmp_path / "net.onnx")
    problem = ow.onnx_runtime_problem(tmp_path / "net.onnx")
    result = ow.solve(problem, solver="rpo")
    memory = ow.verify(tmp_path / "net.onnx", result).memory
    assert memory is not None
    assert memory.predicted == memory.measured
    assert memory.predicted_arena == result.objective == memory.predicted_peak + 65_536
    if memory.allocator_peak is not None:
        assert abs(memory.allocator_peak - memory.predicted_arena) <= 512
