"""What is read has no weights, and what is written has all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

import opweave as ow  # noqa: E402
from opweave.adapters.onnx import model as models  # noqa: E402
from opweave.adapters.onnx.model import read_model, save_model  # noqa: E402
from opweave.problems.errors import InvalidInputError  # noqa: E402
from opweave.problems.limits import DEFAULT_LIMITS  # noqa: E402
from tests.adapters.onnx.nets import random_net, random_order, saved  # noqa: E402

LARGE = 4096
"""Floats of a weight that is cut."""


def heavy_model() -> onnx.ModelProto:
    """Large data at every place where a model may have some."""
    draw = np.random.default_rng(0)

    def weight(name: str) -> onnx.TensorProto:
        return numpy_helper.from_array(draw.standard_normal(LARGE).astype("f"), name)

    value = helper.make_tensor_value_info
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "deep"], ["z"])], "b", [], [value("z", 1, [LARGE])], [weight("deep")]
    )
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight("")),
        helper.make_node("Sum", ["x", "w", "k", "small"], ["s"], name="sum"),
        helper.make_node("If", ["c"], ["i"], name="if", then_branch=inner, else_branch=inner),
        helper.make_node("Add", ["s", "i"], ["y"], name="add"),
    ]
    small = numpy_helper.from_array(np.ones(1, "f"), "small")
    graph = helper.make_graph(
        nodes,
        "heavy",
        [value("x", 1, [LARGE]), value("c", 9, [])],
        [value("y", 1, [LARGE])],
        [weight("w"), small],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(heavy_model(), tmp_path / "heavy.onnx")


def test_reading_leaves_the_weights_and_writing_brings_them_back(path: Path) -> None:
    file = read_model(path, DEFAULT_LIMITS)
    assert file.proto.ByteSize() < 2000
    assert len(file.data) == 4
    assert onnx.load(save_model(file, file.proto, path.with_name("again.onnx"))) == heavy_model()
    assert onnx.load(save_model(file, file.proto, path)) == heavy_model(), "over the file itself"


def test_a_model_in_memory_is_treated_alike(tmp_path: Path) -> None:
    file = read_model(heavy_model(), DEFAULT_LIMITS)
    assert onnx.load(save_model(file, file.proto, tmp_path / "again.onnx")) == heavy_model()


def test_what_is_too_large_for_one_file_goes_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "LARGEST_PROTOBUF", 10_000)
    file = read_model(path, DEFAULT_LIMITS)
    out = save_model(file, file.proto, path.with_name("out.onnx"))
    assert out.stat().st_size < 3000
    beside = onnx.load(out)
    for tensor in (*beside.graph.initializer, *heavy_model().graph.initializer):
        wanted = next(each for each in heavy_model().graph.initializer if each.name == tensor.name)
        assert (numpy_helper.to_array(tensor) == numpy_helper.to_array(wanted)).all()
    monkeypatch.undo()
    whole = save_model(
        read_model(out, DEFAULT_LIMITS), read_model(out, DEFAULT_LIMITS).proto, path.with_name("one.onnx")
    )
    with pytest.raises(InvalidInputError, match="put the data file beside the model"):
        out.with_name("out.onnx.data").unlink()
        save_model(read_model(out, DEFAULT_LIMITS), read_model(out, DEFAULT_LIMITS).proto, whole)


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret.bin", "link.bin", ""])
def test_external_data_outside_the_folder_is_never_copied(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="a")],
        "g",
        [value("x", 1, [4])],
        [value("y", 1, [4])],
        [tensor],
    )
    model = saved(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx"
    )
    with pytest.raises(InvalidInputError, match="lies outside the model's folder"):
        ow.reorder_onnx(model, ow.Ordering(order=["a"]), folder / "out.onnx")
    assert not (folder / "out.onnx").exists()


def test_the_permissions_are_those_of_the_model(tmp_path: Path) -> None:
    path = saved(random_net(3), tmp_path / "a.onnx")
    path.chmod(0o640)
    out = ow.reorder_onnx(path, ow.Ordering(order=random_order(ow.load(path), 0)), tmp_path / "b.onnx")
    assert out.stat().st_mode & 0o777 == 0o640
