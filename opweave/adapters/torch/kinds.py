"""Floating-point operations and geometries of PyTorch operators, from the arguments of their calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from opweave.adapters.graphs import geometry_fit as fit
from opweave.adapters.graphs.element_flops import element_flops
from opweave.adapters.graphs.in_place import short_kind
from opweave.adapters.torch.twin import tensors_in
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.slicing.geometry import Geometry, Layout

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_WHOLE_NAMES = """
    addbmm addmv bilinear chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d dot
    einsum inner linalg_multi_dot linear matmul mv outer tensordot vdot
"""
_WHOLE = frozenset(_WHOLE_NAMES.split())
"""Operators that PyTorch builds from operators that it counts; their counts are the sums of these."""


class FlopCount:
    """Counts calls, and caches the counts of calls with the same operator and shapes.

    * Matrix products, convolutions and attention, forward and backward, are counted as in ``torch.utils.flop_counter``,
      two for a multiply-accumulate. Operators that are built from these (linear, conv2d, einsum) count as the sum of
      them.
    * Branches and loops count as ``torch.utils.flop_counter`` counts them: a branch as its dearest body, a loop once.
    * Recurrent layers count the matrix products of every step.
    * Everything else is counted by :func:`~opweave.adapters.graphs.element_flops.element_flops`.
    """

    def __init__(self) -> None:
        self._known: dict[object, float] = {}

    def count(
        self, func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], result: object
    ) -> float:
        """FLOPs of the call ``func(*args, **kwargs)`` with this ``result``; only shapes are read."""
        kind = str(func)
        key = (kind, _shapes(args), _shapes(tuple(kwargs.values())), _shapes(result))
        if key not in self._known:
            self._known[key] = _count(func, kind, args, kwargs, result)
        return self._known[key]


def _shapes(value: object) -> object:
    import torch

    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, list | tuple):
        return tuple(_shapes(item) for item in value)
    return value if isinstance(value, int | float | bool | str) else None


def _count(
    func: Callable[..., object], kind: str, args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> float:
    import torch
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    packet, name = getattr(func, "overloadpacket", func), short_kind(kind)
    own = _OWN.get(name)
    if own is not None:
        return own(args)
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=result))
    if name in _WHOLE or isinstance(func, torch._ops.HigherOrderOperator):
        with FlopCounterMode(display=False) as counter:
            func(*args, **kwargs)
        return float(counter.get_total_flops())
    firsts = tensors_in(args)
    made = tensors_in(result) or firsts
    return element_flops(
        kind,
        firsts[0].numel() if firsts else 0.0,
        float(made[0].numel() if made and name[:8] != "foreach_" else sum(tensor.numel() for tensor in firsts)),
    )


def _attention(args: Sequence[object]) -> float:
    from torch.utils.flop_counter import sdpa_flop_count

    query, key, value = tensors_in(args)[:3]
    groups = query.shape[1] // key.shape[1] if query.dim() == 4 and key.shape[1] else 1
    if query.dim() != 4:  # batch and heads in any number of dimensions
        query, key, value = (tensor.reshape(-1, 1, *tensor.shape[-2:]) for tensor in (query, key, value))
    heads = (query.shape[0], key.shape[1] * groups)
    return float(sdpa_flop_count(query.shape, (*heads, *key.shape[2:]), (*heads, *value.shape[2:])))


def _attention_backward(args: Sequence[object]) -> float:
    from torch.utils.flop_counter import sdpa_backward_flop_count

    gradient, query, key, value = (tensor.shape for tensor in tensors_in(args)[:4])
    return float(sdpa_backward_flop_count(gradient, query, key, value))


def _recurrent(args: Sequence[object]) -> float:
    """Every weight matrix, once for each step and sequence, which are the two outer dimensions of the input."""
    tensors = tensors_in(args)
    steps = int(math.prod(tensors[0].shape[:2]))
    return 2.0 * steps * sum(int(tensor.numel()) for tensor in tensors_in(args[2:3]) if tensor.dim() == 2)


_OWN: dict[str, Callable[[Sequence[object]], float]] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_flash_attention_for_cpu": _attention,
    "scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "gru": _recurrent,
    "lstm": _recurrent,
    "rnn_relu": _recurrent,
    "rnn_tanh": _recurrent,
}


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


def _along_channels(geometry: Geometry) -> Callable[[_Call], Geometry | None]:
    def read(call: _Call) -> Geometry | None:
        axis = call.arguments["dim"]
        return geometry if isinstance(axis, int) and fit.along_channels(axis, len(call.shape), LAYOUT) else None

    return read


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
    "aten.cat.default": _along_channels(fit.JOINED),
    **dict.fromkeys(SPLITS, _along_channels(fit.SPLIT)),
}
