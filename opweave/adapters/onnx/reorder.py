"""Writing an order into the model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.nodes import NamedModel, named_model, save_model, with_nodes
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import Ordering

if TYPE_CHECKING:
    from onnx import ModelProto


def reorder_onnx(
    model: PathLike | ModelProto, ordering: Ordering, out: PathLike, *, limits: Limits = DEFAULT_LIMITS
) -> Path:
    """Write a model with its nodes in the planned order, each named by its operator id.

    ONNX Runtime does not follow the order of a file by default. Run the file with
    :func:`~opweave.adapters.onnx.session.onnx_session_options`.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    ordering
        The order that :func:`opweave.solve` found for the graph that :func:`opweave.load` made of this model.
    out
        Path of the new file. It contains the weights; over 2 GiB they go into ``OUT.data`` beside it.
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
    return save_model(reordered(named_model(model, limits=limits), ordering), out)


def reordered(named: NamedModel, ordering: Ordering) -> ModelProto:
    """Put the planned nodes into another order, after the constant nodes.

    Raises
    ------
    InvalidInputError
        When the order does not fit this model.
    """
    named.check_covered(ordering.order, "the order")
    return with_nodes(named.proto, [*named.constant, *(named.nodes[name] for name in ordering.order)])
