"""The layout problems of the command line: of lifetimes in a CSV, or of a model in its best order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opweave.adapters.error_messages import validated
from opweave.adapters.example_inputs import Arrays
from opweave.adapters.graphs.lifetimes import load_lifetimes
from opweave.adapters.load import load
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.layout_of import layout_of
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering

OF_ORDERS = ("in_place", "inputs", "outputs")
"""Fields that say how the storages of an order live."""

ORDER_SHARE = 0.5
"""Share of a time limit for the order of a model."""


def is_lifetimes(path: Path) -> bool:
    """Whether a file is named like a table of lifetimes."""
    return path.name.lower().endswith((".csv", ".csv.gz"))


def layout_problem(
    path: Path, dims: Mapping[str, int], inputs: Arrays | None, fields: Mapping[str, Any], time_limit: float | None
) -> MemoryLayout:
    """Read the problem from a file; a model is ordered first, and its graph is listed in that order.

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
    time_limit
        For order and layout together.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file cannot be read, or flags do not fit it.
    """
    of_order = {name: fields[name] for name in OF_ORDERS if name in fields}
    capacity, alignment = fields.get("limit_bytes"), fields.get("alignment", 1)
    if not is_lifetimes(path):
        pool = validated(Pool, {"name": "arena", "bytes": capacity, "alignment": alignment}, "pool 'arena'")
        graph = load(path, dims=dims, inputs=inputs)
        return _in_best_order(
            validated(MemoryOrdering, {"graph": graph, **of_order}, "problem layout"), pool, time_limit
        )
    if of_order:
        flag = next(iter(of_order)).replace("_", "-")
        raise InvalidInputError(f"--{flag} is about the order of a model; a CSV says when its storages live")
    return load_lifetimes(path, capacity=capacity, alignment=alignment)


def _in_best_order(ordering: MemoryOrdering, pool: Pool, time_limit: float | None) -> MemoryLayout:
    """The layout of the order with the least peak."""
    from opweave.solvers.solve import solve

    order = solve(ordering, time_limit=None if time_limit is None else ORDER_SHARE * time_limit).solution
    assert order is not None  # without a limit of bytes, every order is one
    fields = {name: getattr(ordering.graph, name) for name in OpGraph.model_fields}
    fields["operators"] = [fields["operators"][ordering.graph.operator_index[name]] for name in order.order]
    known = {name: getattr(ordering, name) for name in MemoryOrdering.model_fields}
    return layout_of(MemoryOrdering(**{**known, "graph": OpGraph(**fields)}), order, pools=[pool])
