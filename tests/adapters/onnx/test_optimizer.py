"""The optimised file: fewer operators, fixed sizes, predicted to the byte; plans for it find it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx

import opweave as ow
from opweave.adapters.verify.report import Verification
from tests.adapters.conftest import Run
from tests.adapters.onnx.nets import net, saved

pytestmark = pytest.mark.frameworks


def residual_net() -> onnx.ModelProto:
    """Convolutions with activations and a sum, which the optimiser fuses; the sum is written over its input."""
    draw = np.random.default_rng(0)
    text = """(float[batch, 16, height, 20] x) => (float[] y) {
        [first] a = Conv <pads = [1, 1, 1, 1]> (x, v)  ["relu b"] b = Relu(a)
        [second] c = Conv <pads = [1, 1, 1, 1]> (b, w)  [add] d = Add(c, b)  ["relu e"] e = Relu(d)
        [pool] y = GlobalAveragePool(e)
    }"""
    return net(text, **{name: draw.standard_normal((16, 16, 3, 3)).astype("f") / 12 for name in "vw"})


DIMS = {"batch": 1, "height": 20}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(residual_net(), tmp_path / "net.onnx")


def test_the_file_has_fused_operators_and_fixed_sizes(path: Path) -> None:
    path.chmod(0o600)
    out = ow.onnx.optimize(path, path.with_name("optimised.onnx"), dims=DIMS)
    graph = ow.load(out)
    assert len(graph.operators) < len(ow.load(path, dims=DIMS).operators)
    assert {tensor.id: tensor.shape for tensor in graph.tensors}["x"] == (1, 16, 20, 20)
    assert out.stat().st_mode & 0o777 == 0o600


def test_an_order_for_the_optimised_form_is_written_and_verified_with_the_model(opweave: Run, path: Path) -> None:
    result, words = path.with_name("result.json"), [f"{name}={size}" for name, size in DIMS.items()]
    sizes = [part for word in words for part in ("--dim", word)]
    assert opweave("plan", path, *sizes, "--solver", "rpo", "-o", result).status == 0
    order = ow.load_result(result).solution.order
    assert not set(order) & {"relu b", "relu e", "add"}, "fused"
    ended = opweave("verify", path, result, *sizes, "-o", path.with_name("found.json"))
    assert ended.status == 0
    for text in ("the plan holds", "processor time of a run", "peak of the process", "peak of the arena"):
        assert text in ended.out
    out = ow.reorder_onnx(path, ow.load_result(result), path.with_name("planned.onnx"), dims=DIMS)
    assert tuple(node.name for node in onnx.load(out).graph.node) == order
    found = Verification.model_validate_json(path.with_name("found.json").read_text())
    assert found.memory is not None
    assert found.memory.predicted == found.memory.measured
    assert found.by_default is not None
    assert found.as_planned is not None
    assert found.as_planned.process_bytes > 10_000_000
