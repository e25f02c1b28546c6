"""Geometry of PyTorch operators, from the arguments of an exported program's calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from opweave.adapters.graphs import geometry_fit as fit
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.slicing.geometry import Geometry, Layout

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

LAYOUT: Layout = "channels_first"
SPLITS = (
    "aten.chunk.default",
    "aten.narrow.default",
    "aten.slice.Tensor",
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
)
"""Operators that hand on parts of a tensor along one dimension."""


def torch_geometry(program: ExportedProgram, graph: OpGraph) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one; ``graph`` is that of the same program."""
    operators = {op.id: op for op in graph.operators}
    shapes = fit.shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for node in program.graph.nodes:
        op, read = operators.get(node.name), _READERS.get(str(node.target))
        if op is not None and op.inputs and op.kind == str(node.target) and read is not None:
            found[op.id] = read(_Call(op, _arguments(node), shapes[op.inputs[0]]))
    return fit.fitting(found, graph, LAYOUT)


def _arguments(node: Node) -> dict[str, object]:
    """All arguments by the names in the operator's schema, including defaults."""
    rows = node.target._schema.arguments
    defaults = {row.name: row.default_value for row in rows if row.has_default_value()}
    given = {row.name: value for row, value in zip(rows, node.args, strict=False)}
    return {**defaults, **given, **node.kwargs}


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with its operator, and the shape of the first computed input."""

    op: Operator
    arguments: dict[str, object]
    shape: tuple[int, ...]

    def tall(self, name: str) -> int | None:
        """An argument's entry for the height: its first entry, or the argument itself; None if it is empty."""
        value = self.arguments.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = value[0] if value else None
        return value if isinstance(value, int) else None

    def wide(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor argument."""
        held = cast("Node", self.arguments[name]).meta["val"]
        return tuple(int(size) for size in held.shape)


def _conv(call: _Call) -> Geometry | None:
    weights = call.wide("weight")
    if len(call.op.inputs) != 1 or len(weights) != 4 or call.arguments.get("transposed"):
        return None
    stride, dilation = call.tall("stride") or 1, call.tall("dilation") or 1
    word = call.arguments.get("padding")
    if isinstance(word, str):
        padding = fit.same_padding(call.shape[-2], weights[2], stride, dilation)[0] if word == "same" else 0
    else:
        padding = call.tall("padding") or 0
    return fit.window(weights[2], stride, padding, dilation=dilation, groups=call.tall("groups") or 1)


def _pool(call: _Call) -> Geometry | None:
    kernel = call.tall("kernel_size")
    if kernel is None:
        return None
    stride, dilation = call.tall("stride") or kernel, call.tall("dilation") or 1
    return fit.window(kernel, stride, call.tall("padding") or 0, dilation=dilation, pooling=True)


def _adaptive_pool(call: _Call) -> Geometry | None:
    """Pooling to one row is global; if the rows divide evenly, each output row is the mean of its own window."""
    rows = call.tall("output_size")
    if rows == 1:
        return fit.GLOBAL_POOL
    if rows is None or rows < 1 or call.shape[-2] % rows:
        return None
    return fit.window(call.shape[-2] // rows, call.shape[-2] // rows, 0, pooling=True)


def _reduction(call: _Call) -> Geometry | None:
    axes = call.arguments.get("dim")
    if len(call.shape) != 4 or not isinstance(axes, Sequence):
        return None
    return fit.GLOBAL_POOL if sorted(int(axis) % 4 for axis in axes) == [2, 3] else None


def _dense(call: _Call) -> Geometry | None:
    return fit.dense_on(call.shape, LAYOUT) if len(call.op.inputs) == 1 else None


def _concat(call: _Call) -> Geometry | None:
    axis = call.arguments["dim"]
    return fit.JOINED if isinstance(axis, int) and fit.along_channels(axis, len(call.shape), LAYOUT) else None


def _split(call: _Call) -> Geometry | None:
    axis = call.arguments["dim"]
    return fit.SPLIT if isinstance(axis, int) and fit.along_channels(axis, len(call.shape), LAYOUT) else None


_READERS: dict[str, Callable[[_Call], Geometry | None]] = {
    "aten.conv2d.default": _conv,
    "aten.conv2d.padding": _conv,
    "aten.convolution.default": _conv,
    "aten.max_pool2d.default": _pool,
    "aten.avg_pool2d.default": _pool,
    "aten.adaptive_avg_pool2d.default": _adaptive_pool,
    "aten.mean.dim": _reduction,
    "aten.linear.default": _dense,
    "aten.addmm.default": _dense,
    "aten.cat.default": _concat,
    **dict.fromkeys(SPLITS, _split),
}
