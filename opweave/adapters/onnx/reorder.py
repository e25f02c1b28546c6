"""Writing a model with its nodes in a planned order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.nodes import named_model, reordered
from opweave.adapters.onnx.optimizer import form_of_plan
from opweave.adapters.onnx.write import save_model
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.solution import Answer, solution_of

if TYPE_CHECKING:
    from onnx import ModelProto


def reorder_onnx(
    model: PathLike | ModelProto,
    ordering: Ordering | Answer[Ordering],
    out: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Write a model with its nodes in the planned order, each named by its operator id.

    The weights are copied from file to file, so a model of any size takes little memory.

    ONNX Runtime does not follow the order of a file by default. Run the file with
    :func:`~opweave.adapters.onnx.session.onnx_session_options`.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    ordering
        The order that :func:`opweave.solve` found for the graph that :func:`opweave.load` made of this model, or its
        result. An order for the model as ONNX Runtime's optimiser leaves it (as ``opweave plan`` makes them) is written
        into that form of the model.
    out
        Path of the new file, which gets the permissions of the model's. It contains the weights; over 2 GiB they go
        into ``OUT.data`` beside it.
    dims
        Sizes for open dimensions, if the order was planned with some. They are fixed in the new file, so that the
        runtime knows every shape before it runs.
    limits
        Caps on file size.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the order does not fit this model (the message names the node), or a file cannot be read or written.
    """
    wanted = solution_of(ordering, Ordering)
    with form_of_plan(model, wanted.order, dims or {}, limits) as planned:
        found = named_model(planned, None if planned is not model else dims, limits=limits)
        return save_model(found.file, reordered(found, wanted), out)
