"""Problems of files that are no models: a layout of lifetimes in a CSV, and the placement of a job shop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opweave.adapters.cli.flags import fields_of
from opweave.adapters.error_messages import validated
from opweave.adapters.graphs.job_shop import load_job_shop
from opweave.adapters.graphs.lifetimes import load_lifetimes
from opweave.adapters.load import load
from opweave.adapters.report.view import AnyView
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.ordered_layout import OrderedLayout
from opweave.problems.placement.spec import Placement

OF_ORDERS = ("in_place", "inputs", "outputs")
"""Fields that say how the storages of an order live."""


def layout_problem(path: Path, dims: Mapping[str, int], fields: Mapping[str, Any]) -> MemoryLayout | OrderedLayout:
    """Read the problem from a file.

    Parameters
    ----------
    path
        A CSV of lifetimes, or a model.
    dims
        Sizes of the dimensions of an ONNX model.
    fields
        ``limit_bytes``, ``alignment`` and :data:`OF_ORDERS`, as far as they are given.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file cannot be read, or flags do not fit it.
    """
    if not path.name.lower().endswith((".csv", ".csv.gz")):
        return validated(OrderedLayout, {"graph": load(path, dims=dims), **fields}, "problem layout")
    needless = [name for name in OF_ORDERS if name in fields]
    if needless:
        flag = needless[0].replace("_", "-")
        raise InvalidInputError(f"--{flag} is about the order of a model; a CSV says when its storages live")
    return load_lifetimes(path, capacity=fields.get("limit_bytes"), alignment=fields.get("alignment", 1))


def job_shop_problem(path: Path, view: type[AnyView], flags: Mapping[str, object]) -> Placement:
    """Read the placement that a flexible job shop is; its file states machines and times.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file cannot be read, for another problem, and for flags that contradict the file.
    """
    if view.problem_type is not Placement:
        raise InvalidInputError(f"{path}: a job shop is a placement, no problem {view.word}")
    fields = fields_of(view, flags, stated=("cluster", "costs"))
    problem = load_job_shop(path)
    stated = {name: getattr(problem, name) for name in ("graph", "cluster", "costs", "transfers")}
    return validated(Placement, {**stated, **fields}, f"problem {view.word}")
