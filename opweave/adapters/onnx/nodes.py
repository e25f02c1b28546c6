"""An ONNX model with its weights, its nodes named as in plans; writing it in another order."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, make_folder, write_bytes
from opweave.adapters.onnx.model import inlined, read_model, sort_nodes, title
from opweave.adapters.onnx.read import follows, operator_ids
from opweave.adapters.onnx.session import onnx_session_options, open_session, run_session
from opweave.adapters.runtimes.groups import check_covered
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.solution import Answer, solution_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

LARGEST_PROTOBUF = 2**31 - 1
"""Largest model in bytes that fits into one file; a larger one keeps its weights beside it."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is ready to be rewritten.

    Attributes
    ----------
    proto
        The model: flat (functions inlined) and sorted, with its weights, and every planned node named by its operator
        id.
    where
        Name of the model in errors.
    nodes
        The planned nodes by operator id, in the file's order.
    constant
        Nodes that depend only on constants. No plan lists them; a runtime computes them before it runs.
    """

    proto: ModelProto
    where: str
    nodes: Mapping[str, NodeProto]
    constant: Sequence[NodeProto]

    def check_covered(self, order: Sequence[str], what: str) -> None:
        """Check that a plan lists every planned node once, and every node after the makers of its inputs.

        Parameters
        ----------
        order
            Operator ids.
        what
            Name of the plan in errors.

        Raises
        ------
        InvalidInputError
            Names the first node that does not fit.
        """
        check_covered(order, self.nodes, f"{self.where}: {what}", title)
        made = {name for node in self.nodes.values() for name in node.output if name}
        ready: set[str] = set()
        for node in map(self.nodes.__getitem__, order):
            late = next((read for read in node.input if read in made and read not in ready), None)
            if late is not None:
                raise InvalidInputError(
                    f"{self.where}: {what} runs {title(node)} before what makes its input {late!r}; judge it with "
                    "'opweave check'"
                )
            ready.update(node.output)


def named_model(model: PathLike | ModelProto, *, limits: Limits = DEFAULT_LIMITS) -> NamedModel:
    """Read a model with its weights and name its nodes as :func:`~opweave.adapters.onnx.read.from_onnx` does.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is missing, too large, not an ONNX model, or lacks its external data.
    """
    proto, where = read_model(model, limits)
    if isinstance(model, str | os.PathLike):
        _load_weights(proto, Path(model).parent, where)
    if proto.functions:
        proto = inlined(proto, where)
    sort_nodes(proto.graph, where)
    constants = [node for node in proto.graph.node if node.op_type == "Constant"]
    others = [node for node in proto.graph.node if node.op_type != "Constant"]
    planned, folded = _name(proto, others)
    return NamedModel(proto, where, planned, [*constants, *folded])


def _name(proto: ModelProto, others: Sequence[NodeProto]) -> tuple[dict[str, NodeProto], list[NodeProto]]:
    from onnx import GraphProto

    ids = operator_ids(GraphProto(node=others))
    fixed = {tensor.name for tensor in proto.graph.initializer}
    fixed |= {sparse.values.name for sparse in proto.graph.sparse_initializer}
    fixed |= {name for node in proto.graph.node if node.op_type == "Constant" for name in node.output}
    planned: dict[str, NodeProto] = {}
    folded: list[NodeProto] = []
    for name, node in zip(ids, others, strict=True):
        node.name = name
        if follows(node, fixed):
            fixed.update(node.output)
            folded.append(node)
        else:
            planned[name] = node
    return planned, folded


def _load_weights(proto: ModelProto, folder: Path, where: str) -> None:
    from onnx import checker, external_data_helper

    try:
        external_data_helper.load_external_data_for_model(proto, os.fspath(folder))
    except (OSError, ValueError, RuntimeError, checker.ValidationError) as error:
        raise InvalidInputError(
            f"{where}: its external data cannot be read ({' '.join(str(error).split())[:160]}); put the data file "
            "beside the model"
        ) from None


def with_nodes(proto: ModelProto, nodes: Iterable[NodeProto]) -> ModelProto:
    """Copy a model with other nodes in place of its own; the weights are also copied."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def save_model(proto: ModelProto, out: PathLike) -> Path:
    """Write a model atomically; a model over 2 GiB keeps its weights in ``OUT.data`` beside it.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to.
    """
    path = Path(out)
    make_folder(path.parent)
    if proto.ByteSize() <= LARGEST_PROTOBUF:
        write_bytes(path, proto.SerializeToString())
        return path
    import onnx

    try:
        onnx.save_model(proto, path, save_as_external_data=True, location=f"{path.name}.data")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"{plain(str(path))}: cannot be written ({reason}); choose another place") from None
    return path


def reorder_onnx(
    model: PathLike | ModelProto,
    ordering: Ordering | Answer[Ordering],
    out: PathLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Path:
    """Write a model with its nodes in the planned order, each named by its operator id.

    ONNX Runtime does not follow the order of a file by default. Run the file with
    :func:`~opweave.adapters.onnx.session.onnx_session_options`.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    ordering
        The order that :func:`opweave.solve` found for the graph that :func:`opweave.load` made of this model, or its
        result.
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
    return save_model(reordered(named_model(model, limits=limits), solution_of(ordering, Ordering)), out)


def reordered(named: NamedModel, ordering: Ordering) -> ModelProto:
    """Put the planned nodes into another order, after the constant nodes.

    Raises
    ------
    InvalidInputError
        When the order does not fit this model.
    """
    named.check_covered(ordering.order, "the order")
    return with_nodes(named.proto, [*named.constant, *(named.nodes[name] for name in ordering.order)])


def without_constant_nodes(named: NamedModel) -> NamedModel:
    """Replace constant nodes by their values, computed by ONNX Runtime.

    Without optimisations, the runtime would compute them in every run, and their results would count as activations.

    Raises
    ------
    InvalidInputError, EngineError
        When onnxruntime is not installed, or when it cannot compute them.
    """
    from onnx import helper, numpy_helper

    computed = [node for node in named.constant if node.op_type != "Constant"]
    read = {name for node in named.nodes.values() for name in node.input}
    read |= {value.name for value in named.proto.graph.output}
    wanted = [name for node in computed for name in node.output if name in read]
    if not wanted:
        return named
    part = with_nodes(named.proto, named.constant)
    del part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        values = run_session(
            open_session(save_model(part, Path(folder) / "constants.onnx"), onnx_session_options()), {}
        )
    constants = [node for node in named.constant if node.op_type == "Constant"]
    whole = with_nodes(named.proto, [*constants, *named.nodes.values()])
    whole.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return NamedModel(whole, named.where, named.nodes, constants)
