"""An ONNX model with its weights, its nodes named as in plans; writing it in another order."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.files import PathLike
from opweave.adapters.onnx.model import (
    OnnxFile,
    Shaped,
    dims_of,
    operator_nodes,
    read_model,
    reads_of,
    save_model,
    title,
)
from opweave.adapters.onnx.prepare import with_types
from opweave.adapters.onnx.read import follows
from opweave.adapters.onnx.session import onnx_session_options, open_session, run_session
from opweave.adapters.runtimes.groups import check_covered
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import Ordering

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is ready to be rewritten.

    Attributes
    ----------
    file
        The file, which holds the weights.
    proto
        The model: flat and sorted, with all known shapes, and every planned node named by its operator id.
    nodes
        The planned nodes by operator id, in the file's order.
    constant
        Nodes that depend only on constants. No plan lists them; a runtime computes them before it runs.
    """

    file: OnnxFile
    proto: ModelProto
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
        check_covered(order, self.nodes, f"{self.file.where}: {what}", title)
        made = {name for node in self.nodes.values() for name in node.output if name}
        ready: set[str] = set()
        for node in map(self.nodes.__getitem__, order):
            late = next((read for read in reads_of(node) if read in made and read not in ready), None)
            if late is not None:
                raise InvalidInputError(
                    f"{self.file.where}: {what} runs {title(node)} before what makes its input {late!r}; judge it with "
                    "'opweave check'"
                )
            ready.update(node.output)


def named_model(
    model: PathLike | ModelProto, dims: Mapping[str, int] | None = None, *, limits: Limits = DEFAULT_LIMITS
) -> NamedModel:
    """Read a model and name its nodes as :func:`~opweave.adapters.onnx.read.from_onnx` does.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file is missing, too large, or not an ONNX model.
    """
    file = read_model(model, limits)
    from opweave.adapters.onnx.shapes import shaped

    return named(file, shaped(file, dims or {}, limits))


def named(file: OnnxFile, found: Shaped) -> NamedModel:
    """Name the nodes of a model whose shapes are known as far as possible."""
    proto = with_types(found)
    fixed = {tensor.name for tensor in proto.graph.initializer}
    fixed |= {sparse.values.name for sparse in proto.graph.sparse_initializer}
    constants = [node for node in proto.graph.node if node.op_type == "Constant"]
    fixed |= {name for node in constants for name in node.output}
    planned: dict[str, NodeProto] = {}
    for name, node in operator_nodes(proto.graph).items():
        node.name = name
        if follows(node, fixed):
            constants.append(_settled(proto, node, found, fixed))
            fixed.update(node.output)
        else:
            planned[name] = node
    return NamedModel(file, proto, planned, constants)


def _settled(proto: ModelProto, node: NodeProto, found: Shaped, fixed: Collection[str]) -> NodeProto:
    """A view of a constant whose shape another operator computes, with the shape that was found out instead."""
    from onnx import helper, numpy_helper

    dims = dims_of(found.types.get(node.output[0]))
    if dims is None or 0 in dims or all(name in fixed for name in node.input if name):
        return node
    shape = numpy_helper.from_array(np.array(dims, np.int64), f"opweave/{node.output[0]}/shape")
    proto.graph.initializer.append(shape)
    return helper.make_node("Reshape", [node.input[0], shape.name], node.output, name=node.name)


def with_nodes(proto: ModelProto, nodes: Iterable[NodeProto]) -> ModelProto:
    """Copy a model with other nodes in place of its own."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def reordered(model: NamedModel, ordering: Ordering) -> ModelProto:
    """Put the planned nodes into another order, after the constant nodes.

    Raises
    ------
    InvalidInputError
        When the order does not fit this model.
    """
    model.check_covered(ordering.order, "the order")
    return with_nodes(model.proto, [*model.constant, *(model.nodes[name] for name in ordering.order)])


def without_constant_nodes(model: NamedModel) -> NamedModel:
    """Replace constant nodes by their values, computed by ONNX Runtime.

    Without optimisations, the runtime would compute them in every run, and their results would count as activations.

    Raises
    ------
    InvalidInputError, EngineError
        When onnxruntime is not installed, or when it cannot compute them.
    """
    from onnx import helper, numpy_helper

    computed = [node for node in model.constant if node.op_type != "Constant"]
    read = {name for node in model.nodes.values() for name in reads_of(node)}
    read |= {value.name for value in model.proto.graph.output}
    wanted = [name for node in computed for name in node.output if name in read]
    if not wanted:
        return model
    part = with_nodes(model.proto, model.constant)
    del part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        path = save_model(model.file, part, Path(folder) / "constants.onnx")
        values = run_session(open_session(path, onnx_session_options()), {})
    constants = [node for node in model.constant if node.op_type == "Constant"]
    whole = with_nodes(model.proto, [*constants, *model.nodes.values()])
    whole.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return NamedModel(model.file, whole, model.nodes, constants)
