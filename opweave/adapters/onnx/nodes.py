"""An ONNX model with its weights, and its nodes by the operator ids used in planning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, make_folder, write_bytes
from opweave.adapters.onnx.model import inlined, read_model, sort_nodes, title
from opweave.adapters.onnx.read import NOT_FOLDED, VIEW_KINDS, operator_ids
from opweave.adapters.runtimes.groups import check_covered
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS, Limits

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
        reads = [read for read in node.input if read]
        if _follows(node, reads, fixed):
            fixed.update(node.output)
            folded.append(node)
        else:
            planned[name] = node
    return planned, folded


def _follows(node: NodeProto, reads: Sequence[str], fixed: set[str]) -> bool:
    """Whether a node is not an operator of the plan, by the rule that was used when the model was read."""
    if node.op_type in VIEW_KINDS and reads and reads[0] in fixed:
        return True
    return all(read in fixed for read in reads) and not node.domain and node.op_type not in NOT_FOLDED


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
