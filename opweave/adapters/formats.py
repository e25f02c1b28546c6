"""The formats of models: which reader takes a file, and what to do with a file that none takes.

A file is recognised by its name. The first bytes only tell what a file with another name really is. Nothing is ever
unpickled, imported or run to find out.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opweave.adapters.files import PathLike
from opweave.problems.errors import InvalidInputError

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

FRAMEWORKS: Mapping[str, Mapping[str, Any]] = _TABLE["frameworks"]
"""The readers of every framework's models, and which arguments of ``load`` only some of them take."""

MEANT_FOR: Mapping[str, str] = _TABLE["meant_for"]
"""What is said when a model of another framework gets such an argument."""

_SUFFIXES: Mapping[str, str] = _TABLE["read"]

_ADVICE: Mapping[str, str] = {ending: row["say"] for row in _TABLE["advice"] for ending in row["endings"].split()}
"""What to do with a file that is not read, by the ending of its name."""


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
    _, ending = content_of(path)
    packed = ending == ".json.gz" and os.fspath(path).lower().endswith(".gz")
    if ending and not packed and family_of(path) not in ("", _SUFFIXES.get(ending)):
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
            return InvalidInputError(f"{name}: this is a SavedModel of TensorFlow; {_TABLE['saved_model']}")
        return InvalidInputError(f"{name}: this is a folder; name a file inside it")
    what, wanted = content_of(path)
    if wanted in _SUFFIXES:
        return InvalidInputError(f"{name}: this is {what}; give it a name that ends in {wanted}")
    if wanted and _ADVICE.get(suffix) != _ADVICE[wanted]:
        return InvalidInputError(f"{name}: this is {what}: {_ADVICE[wanted]}")
    if suffix == ".bin" and file.with_suffix(".xml").is_file():
        return InvalidInputError(f"{name}: these are the weights of an OpenVINO model; name the .xml file next to it")
    if suffix in _ADVICE:
        return InvalidInputError(f"{name}: {_ADVICE[suffix]}")
    return InvalidInputError(f"{name}: opweave reads {_TABLE['all']}; rename or export the model")


def content_of(path: PathLike) -> tuple[str, str]:
    """What a file is by its content, and the ending that its name should have; empty if that is not known."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(16)
    except (OSError, ValueError):
        return "", ""
    rows = (row for row in _TABLE["magic"] if head[row["at"] :].startswith(bytes.fromhex(row["hex"])))
    return next(((row["is"], row["ending"]) for row in rows), ("", ""))
