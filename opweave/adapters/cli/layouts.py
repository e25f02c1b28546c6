"""Problems of files that are no models: a layout of lifetimes in a CSV, and the placement of a job shop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opweave.adapters.error_messages import validated
from opweave.adapters.example_inputs import Arrays
from opweave.adapters.graphs.lifetimes import load_lifetimes
from opweave.adapters.load import load
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.ordered_layout import OrderedLayout

OF_ORDERS = ("in_place", "inputs", "outputs")
"""Fields that say how the storages of an order live."""


def is_lifetimes(path: Path) -> bool:
    """Whether a file is named like a table of lifetimes."""
    return path.name.lower().endswith((".csv", ".csv.gz"))


def layout_problem(
    path: Path, dims: Mapping[str, int], inputs: Arrays | None, fields: Mapping[str, Any]
) -> MemoryLayout | OrderedLayout:
    """Read the problem from a file.

    Parameters
    ----------
    path
        A CSV of lifetimes, or a model.
    dims
        Sizes of the dimensions of an ONNX model.
    inputs
        Example inputs of an ONNX model.
    fields
        ``limit_bytes``, ``alignment`` and :data:`OF_ORDERS`, as far as they are given.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file cannot be read, or flags do not fit it.
    """
    if not is_lifetimes(path):
        return validated(OrderedLayout, {"graph": load(path, dims=dims, inputs=inputs), **fields}, "problem layout")
    needless = [name for name in OF_ORDERS if name in fields]
    if needless:
        flag = needless[0].replace("_", "-")
        raise InvalidInputError(f"--{flag} is about the order of a model; a CSV says when its storages live")
    return load_lifetimes(path, capacity=fields.get("limit_bytes"), alignment=fields.get("alignment", 1))
