"""Language models from the files in which people have them."""

from __future__ import annotations

import os
from pathlib import Path

from opweave.adapters.files import PathLike, place, read_json
from opweave.adapters.llm.config_read import from_config
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.limits import DEFAULT_LIMITS, Limits


def read(path: PathLike, *, dtype: str | None = None, limits: Limits = DEFAULT_LIMITS) -> LanguageModel:
    """Read a language model: its layers, the bytes of every group of tensors, and the caches.

    Parameters
    ----------
    path
        A ``config.json`` of Hugging Face.
    dtype
        For ``config.json``: the type in which matrices are to be stored, such as ``"q4_k"``; None for its own.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    name = place(path)
    file = Path(os.fspath(path))
    data = read_json(file, limits=limits)
    if not isinstance(data, dict):
        raise InvalidInputError(f"{name}: holds no JSON object with named fields; check which file it is")
    return from_config(data, name, dtype)
