"""Arrays from ``.npz`` files: read without unpickling, within limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opweave as ow
from opweave.adapters.archives import read_arrays, sizes_given


def test_arrays_come_back(tmp_path: Path) -> None:
    given = {"x": np.arange(6.0).reshape(2, 3), "rate": np.array(16_000), "block/mask": np.ones(4, bool)}
    np.savez_compressed(tmp_path / "in.npz", **given)
    found = read_arrays(tmp_path / "in.npz")
    assert found.keys() == given.keys()
    assert all(np.array_equal(found[name], array) for name, array in given.items())


def test_sizes_of_open_dimensions(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    text = '<ir_version: 8, opset_import: ["": 17]> net (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert sizes_given(tmp_path / "net.onnx", {"x": np.zeros((3, 4))}) == {"x:0": 3}
    assert sizes_given(tmp_path / "net.tflite", {"x": np.zeros((3, 4))}) == {}


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    with pytest.raises(ow.InvalidInputError, match=r"not an \.npz file of arrays"):
        read_arrays(tmp_path / "objects.npz")
    np.savez_compressed(tmp_path / "large.npz", x=np.zeros(10_000))
    with pytest.raises(ow.LimitExceededError, match="over the limit of 1,000"):
        read_arrays(tmp_path / "large.npz", limits=ow.Limits(unpacked_bytes=1000))
    with pytest.raises(ow.InvalidInputError, match="no such file"):
        read_arrays(tmp_path / "missing.npz")
