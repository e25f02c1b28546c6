"""Language models from the files in which people have them."""

from __future__ import annotations

import os
from pathlib import Path

from opweave.adapters.files import PathLike, place, read_json
from opweave.adapters.llm.config import CONSTANTS, from_config
from opweave.adapters.llm.gguf import from_gguf
from opweave.adapters.llm.safetensors import from_safetensors
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import Phase, Workload, language_graph
from opweave.problems.limits import DEFAULT_LIMITS, Limits


def read(path: PathLike, *, dtype: str | None = None, limits: Limits = DEFAULT_LIMITS) -> LanguageModel:
    """Read a language model: its layers, the bytes of every group of tensors, and the caches. No weight is read.

    Parameters
    ----------
    path
        A ``.gguf`` file (any one of the files of a split model); a ``.safetensors`` file, its ``.index.json``, or the
        folder that holds them, with the ``config.json`` beside them; or a ``config.json`` alone, or its folder.
    dtype
        For a ``config.json`` alone: the type in which matrices are to be stored, such as ``"q4_k"``; None for its own.
    limits
        Caps on headers and JSON files. The weights themselves may have any size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    file = Path(os.fspath(path))
    if file.is_dir() and not any(file.glob("*.safetensors*")) and (file / "config.json").is_file():
        file /= "config.json"
    lower = file.name.lower()
    weights = lower.endswith((".gguf", ".safetensors", ".safetensors.index.json"))
    if dtype is not None and (weights or file.is_dir()):
        raise InvalidInputError(f"{name}: dtype is for a config.json alone; these weights have types of their own")
    if lower.endswith(".gguf"):
        return from_gguf(file, limits)
    if weights or file.is_dir():
        return from_safetensors(file, limits)
    if file.is_file() and file.suffix.lower() not in ("", ".json", ".gz"):
        raise InvalidInputError(
            f"{name}: a language model is a .gguf file, a .safetensors file or its folder, or a config.json"
        )
    data = read_json(file, limits=limits, constants=CONSTANTS)
    if not isinstance(data, dict):
        raise InvalidInputError(f"{name}: is not a JSON object with named fields; check which file it is")
    return from_config(data, name, dtype)


USUAL_CONTEXT = 4096
"""Tokens of context that a language model is planned with by default; fewer if it was trained for fewer."""


def read_graph(path: PathLike, *, context: int | None, phase: Phase | None, limits: Limits) -> OpGraph:
    """Read a language model as a graph of tensor groups, as :func:`opweave.load` does.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As :func:`read`, and for a context that the model was not trained for.
    """
    model = read(path, limits=limits)
    longest = USUAL_CONTEXT if model.longest is None else min(USUAL_CONTEXT, model.longest)
    work = {"context": longest if context is None else context, "phase": "decode" if phase is None else phase}
    return language_graph(model, Workload.model_validate(work))
