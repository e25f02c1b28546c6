"""What is not read is refused in one sentence that says what to do; nothing in it is run."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest

import opweave as ow
from tests.adapters.conftest import DATA


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


ADVICE = (DATA / "advice.txt").read_text()
"""Names of files, and a word that is said about each."""


def test_other_formats_name_the_converter(tmp_path: Path) -> None:
    for row in ADVICE.splitlines():
        name, _, said = row.partition(": ")
        (tmp_path / name).write_bytes(b"\0" * 64)
        with pytest.raises(ow.InvalidInputError) as caught:
            ow.load(tmp_path / name)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["net.onnx", "net.tflite", "net.json", "net.bin", "net.pt", "net.xml", "net"])
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ow.InvalidInputError, match="pickle"):
        ow.load(path)


@pytest.mark.parametrize(
    ("name", "head", "said"),
    [
        ("net.bin", b"GGUF" + bytes(60), "ends in .gguf"),
        ("net.onnx", b"\x1c\0\0\0TFL3" + bytes(60), "ends in .tflite"),
        ("net.lite", b"\x1c\0\0\0TFL3" + bytes(60), "ends in .tflite"),
        ("net.pb", b"\x89HDF\r\n\x1a\n", "keras.models.load_model"),
        ("net.onnx", b"<?xml version='1.0'?><net/>", "ends in .xml"),
    ],
)
def test_content_counts_for_more_than_the_name(tmp_path: Path, name: str, head: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(head)
    with pytest.raises(ow.InvalidInputError, match=said):
        ow.load(path)


def test_folders_and_archives(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/saved_model.pb").touch()
    with pytest.raises(ow.InvalidInputError, match=r"SavedModel of TensorFlow.*tf2onnx"):
        ow.load(tmp_path / "saved")
    (tmp_path / "net.mlpackage").mkdir()
    with pytest.raises(ow.InvalidInputError, match="Core ML"):
        ow.load(tmp_path / "net.mlpackage")
    with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:
        archive.writestr("script/code/__torch__.py", "raise SystemExit")
    with pytest.raises(ow.InvalidInputError, match="TorchScript"):
        ow.load(tmp_path / "script.pt")
    (tmp_path / "net.xml").write_text("<net/>")
    (tmp_path / "net.bin").write_bytes(bytes(8))
    with pytest.raises(ow.InvalidInputError, match=r"name the \.xml file"):
        ow.load(tmp_path / "net.bin")
