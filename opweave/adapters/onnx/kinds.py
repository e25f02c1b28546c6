"""What kinds of ONNX operators do, ONNX Runtime's fused ones included; ``kinds.toml`` has the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.graphs.geometry import Reading, Shape, fitting, geometry_of, shapes_of
from opweave.adapters.onnx.model import KINDS, operator_nodes, read_model
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.limits import Limits
from opweave.problems.slicing.geometry import Geometry

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

VIEWS = KINDS.names("views")
"""Operators whose output shares the storage of their first input, as in ONNX Runtime."""

RUNTIME_INPLACE_KINDS = KINDS.names("in_place")
"""Kinds whose CPU kernels write over their first input when it is not needed afterwards."""


def node_flops(node: NodeProto, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of an operator.

    Parameters
    ----------
    node
        The operator.
    shapes
        Shapes of its inputs by position; () also for omitted inputs.
    made
        Shape of its first output.

    Examples
    --------
    >>> from onnx import helper
    >>> node_flops(helper.make_node("MatMul", ["a", "b"], ["c"]), [(2, 3), (3, 4)], (2, 4))
    48.0
    """
    return KINDS.flops(node.op_type, shapes, made, _attributes(node))


def _attributes(node: NodeProto) -> dict[str, Any]:
    """Numbers and texts by name."""
    return {given.name: _value(given) for given in node.attribute}


def _value(given: AttributeProto) -> object:
    return list(given.ints) or (given.s.decode("utf-8", "replace") if given.s else given.i)


def onnx_geometry(
    model: PathLike | ModelProto, graph: OpGraph, limits: Limits, dims: Mapping[str, int] | None
) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one; the values of weights and external data are not read."""
    file = read_model(model, limits)
    from opweave.adapters.onnx.shapes import shaped

    proto = shaped(file, dims or {}, limits).model
    operators = {op.id: op for op in graph.operators}
    constants, shapes = _constants(proto.graph), shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for name, node in operator_nodes(proto.graph).items():
        op, sort = operators.get(name), KINDS.geometry.get(node.op_type)
        if op is not None and op.kind == node.op_type and op.inputs and sort is not None:
            reading = _reading(node, op, sort, shapes[op.inputs[0]], constants)
            found[name] = geometry_of(sort, reading, "channels_first")
    return fitting(found, graph, "channels_first")


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    makers = [node for node in graph.node if node.op_type == "Constant"]
    return found | {node.output[0]: given.t for node in makers for given in node.attribute if given.name == "value"}


def _reading(node: NodeProto, op: Operator, sort: str, shape: Shape, constants: Mapping[str, TensorProto]) -> Reading:
    given = _attributes(node)
    weights = None
    if sort == "convolution":
        weights = constants.get(node.input[3 if node.op_type == "QLinearConv" else 1])
    kernel = given.get("kernel_shape") or (list(weights.dims)[2:] if weights is not None else [])
    whole = len(op.inputs) == len(node.input)  # what is joined must be computed, and a convolution's weights constant
    axes = given.get("axes", [])
    if sort == "reduction" and len(node.input) > 1:
        axes = _integers(constants.get(node.input[1]))
    if sort in ("joined", "split"):
        axes = [given.get("axis", int(sort == "joined"))]
    auto: dict[str, int | str] = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": 0}
    return Reading(
        shape=shape,
        alone=whole if sort == "joined" else len(op.inputs) == 1 and node.input[0] == op.inputs[0],
        kernel=kernel[0] if len(kernel) == 2 and len(shape) == 4 else None,
        stride=given.get("strides", [1])[0],
        dilation=given.get("dilations", [1])[0],
        groups=given.get("group", 1),
        padding=auto.get(given.get("auto_pad", ""), given.get("pads", [0])[0]),
        axes=axes,
    )


def _integers(tensor: TensorProto | None) -> list[int]:
    from onnx import TensorProto, numpy_helper

    if tensor is None or tensor.data_type != TensorProto.INT64 or tensor.data_location == TensorProto.EXTERNAL:
        return []
    return [int(number) for number in numpy_helper.to_array(tensor).flat]
