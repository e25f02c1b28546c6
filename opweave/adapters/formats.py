"""The formats of models: which reader takes a file, and what to do with a file that none takes.

A file is recognised by its name. The first bytes only tell what a file with another name really is. Nothing is ever
unpickled, imported or run to find out.
"""

from __future__ import annotations

import os
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from opweave.adapters.files import PathLike
from opweave.problems.errors import InvalidInputError

_SUFFIXES = {
    ".onnx": "onnx",
    ".pt2": "torch",
    ".tflite": "tflite",
    ".xml": "openvino",
    ".gguf": "llm",
    ".safetensors": "llm",
    ".safetensors.index.json": "llm",
    ".json": "json",
    ".json.gz": "json",
}

_READ = ".onnx, .pt2, .tflite, .xml (OpenVINO), .json and .json.gz, .gguf and .safetensors"

_TENSORFLOW = "convert it with 'python -m tf2onnx.convert --saved-model FOLDER --output model.onnx' (package tf2onnx)"
_ADVICE: Mapping[str, str] = {
    ending: row["say"]
    for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["advice"]
    for ending in row["endings"].split()
}
"""What to do with a file that is not read, by the ending of its name."""

_MAGIC = (
    (0, b"GGUF", "a language model in GGUF", ".gguf"),
    (4, b"TFL3", "a TensorFlow Lite model", ".tflite"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", ".h5"),
    (0, b"PK\x03\x04", "a zip archive", ""),
    (0, b"\x1f\x8b", "a gzip file", ".json.gz"),
    (0, b"\x80\x02", "a pickle", ".pkl"),
    (0, b"\x80\x03", "a pickle", ".pkl"),
    (0, b"\x80\x04", "a pickle", ".pkl"),
    (0, b"\x80\x05", "a pickle", ".pkl"),
    (4, b"ORTM", "a model in ONNX Runtime's own format", ".ort"),
    (4, b"ET12", "a program of ExecuTorch", ".pte"),
    (0, b"<?xml", "an XML file", ".xml"),
)
"""Where and how files begin, what they are, and the ending that their names should have."""


def family_of(model: object) -> str:
    """The model's framework, from the file name or the packages of the object's classes; nothing is imported."""
    if isinstance(model, str | os.PathLike):
        name = os.fspath(model).lower()
        if (Path(model) / "config.json").is_file():
            return "llm"
        return next((family for suffix, family in _SUFFIXES.items() if name.endswith(suffix)), "")
    packages = [kind.__module__.split(".", 1)[0] for kind in type(model).__mro__]
    # A Keras model on the PyTorch backend is also a torch module.
    return next((family for family in ("keras", "torch", "onnx") if family in packages), "")


def check_content(path: PathLike, name: str) -> None:
    """Refuse a file whose first bytes are those of another format than its name says.

    Raises
    ------
    InvalidInputError
        Says what the file is, and what to do.
    """
    content, family = content_of(path), family_of(path)
    if content is not None and content[1] == ".json.gz" and os.fspath(path).lower().endswith(".gz"):
        return  # packed, as its name says
    if content is not None and content[1] and family and _SUFFIXES.get(content[1]) != family:
        raise refusal(path, name)


def refusal(path: PathLike, name: str) -> InvalidInputError:
    """Say in one sentence why no reader takes a file, and what to do.

    Examples
    --------
    >>> print(refusal("net.caffemodel", "net.caffemodel"))
    net.caffemodel: Caffe is not read; convert it with caffe2onnx, or with mo of OpenVINO 2022 to an .xml
    """
    file, suffix = Path(path), Path(path).suffix.lower()
    if file.is_dir() and suffix not in _ADVICE:
        if (file / "saved_model.pb").is_file():
            return InvalidInputError(f"{name}: this is a SavedModel of TensorFlow; {_TENSORFLOW}")
        return InvalidInputError(f"{name}: this is a folder; name a file inside it")
    content = content_of(path)
    if content is not None:
        what, wanted = content
        if wanted in _SUFFIXES:
            return InvalidInputError(f"{name}: this is {what}; give it a name that ends in {wanted}")
        if wanted and _ADVICE.get(suffix) != _ADVICE[wanted]:
            return InvalidInputError(f"{name}: this is {what}: {_ADVICE[wanted]}")
        if what == "TorchScript":
            return InvalidInputError(f"{name}: {_ADVICE['.torchscript']}")
    if suffix == ".bin" and file.with_suffix(".xml").is_file():
        return InvalidInputError(f"{name}: these are the weights of an OpenVINO model; name the .xml file beside it")
    if suffix in _ADVICE:
        return InvalidInputError(f"{name}: {_ADVICE[suffix]}")
    return InvalidInputError(f"{name}: opweave reads {_READ}; rename or export the model")


def content_of(path: PathLike) -> tuple[str, str] | None:
    """What a file is by its content, and the ending that its name should have; None if that is not known."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(16)
        if head.startswith(b"PK\x03\x04") and _is_torchscript(path):
            return "TorchScript", ""
    except (OSError, ValueError):
        return None
    return next(((what, suffix) for at, magic, what, suffix in _MAGIC if head[at : at + len(magic)] == magic), None)


def _is_torchscript(path: PathLike) -> bool:
    """Whether a zip archive has the program of TorchScript; only its list of names is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any("/code/" in name for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
