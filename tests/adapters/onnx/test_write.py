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
from tests.adapters.onnx.nets import net, random_net, random_order, saved  # noqa: E402

LARGE = 4096
"""Floats of a weight that is cut."""


def heavy_model() -> onnx.ModelProto:
    """Large data at every place where a model may have some."""
    draw = np.random.default_rng(0)
    held = [draw.standard_normal(LARGE).astype("f") for _ in range(3)]
    text = f"""(float[{LARGE}] x, bool c) => (float[{LARGE}] y) {{
        k = Constant()
        [sum] s = Sum(x, w, k, small)
        [if] i = If(c) <then_branch = b () => (float[{LARGE}] z) {{ z = Add(x, deep) }},
                        else_branch = b () => (float[{LARGE}] z) {{ z = Add(x, deep) }}>
        [add] y = Add(s, i)
    }}"""
    model = net(text, w=held[0], small=np.ones(1, "f"))
    model.graph.node[0].attribute.append(helper.make_attribute("value", numpy_helper.from_array(held[1])))
    for each in model.graph.node[2].attribute:
        each.g.initializer.append(numpy_helper.from_array(held[2], "deep"))
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(heavy_model(), tmp_path / "heavy.onnx")


def test_reading_leaves_the_weights_and_writing_brings_them_back(path: Path) -> None:
    file = read_model(path, DEFAULT_LIMITS)
    assert file.proto.ByteSize() < 2000
    assert len(file.data) == 4
    assert onnx.load(save_model(file, file.proto, path.with_name("again.onnx"))) == heavy_model()
    assert onnx.load(save_model(file, file.proto, path)) == heavy_model(), "over the file itself"
    file = read_model(heavy_model(), DEFAULT_LIMITS)
    assert onnx.load(save_model(file, file.proto, path)) == heavy_model(), "from memory"


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
    again = read_model(out, DEFAULT_LIMITS)
    whole = save_model(again, again.proto, path.with_name("one.onnx"))
    assert onnx.load(whole) == heavy_model()
    out.with_name("out.onnx.data").unlink()
    with pytest.raises(InvalidInputError, match="put the data file beside the model"):
        save_model(again, again.proto, whole)


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret.bin", "link.bin", ""])
def test_external_data_outside_the_folder_is_never_copied(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = net("(float[4] x) => (float[4] y) { [a] y = Add(x, w) }")
    tensor = proto.graph.initializer.add(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model = saved(proto, folder / "m.onnx")
    with pytest.raises(InvalidInputError, match="lies outside the model's folder"):
        ow.reorder_onnx(model, ow.Ordering(order=["a"]), folder / "out.onnx")
    assert not (folder / "out.onnx").exists()


def test_the_permissions_are_those_of_the_model(tmp_path: Path) -> None:
    path = saved(random_net(3), tmp_path / "a.onnx")
    path.chmod(0o640)
    out = ow.reorder_onnx(path, ow.Ordering(order=random_order(ow.load(path), 0)), tmp_path / "b.onnx")
    assert out.stat().st_mode & 0o777 == 0o640
