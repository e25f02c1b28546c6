"""Floating-point operations and geometries of PyTorch operators, from the arguments of their calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.graphs.geometry import Reading, fitting, geometry_of, shapes_of
from opweave.adapters.graphs.kinds import FrameworkKinds, short_kind
from opweave.adapters.torch.program import prepare, read_program
from opweave.adapters.torch.twin import tensors_in
from opweave.problems.graph import OpGraph
from opweave.problems.limits import Limits
from opweave.problems.slicing.geometry import Geometry

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

KINDS = FrameworkKinds(__file__)

_WHOLE = KINDS.names("whole")


class FlopCount:
    """Counts calls, and caches the counts of calls with the same operator and shapes.

    * Matrix products, convolutions and attention, forward and backward, are counted as in ``torch.utils.flop_counter``,
      two for a multiply-accumulate. Operators that are built from these (linear, conv2d, einsum) count as the sum of
      them.
    * Branches and loops count as ``torch.utils.flop_counter`` counts them: a branch as its dearest body, a loop once.
    * Everything else is counted by the rules in ``kinds.toml``, recurrent layers by the matrix products of every step.
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
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=result))
    if name in _WHOLE or isinstance(func, torch._ops.HigherOrderOperator):
        with FlopCounterMode(display=False) as counter:
            func(*args, **kwargs)
        return float(counter.get_total_flops())
    read = tensors_in(args)
    first = [*tensors_in(result), *read, torch.empty(0)][0]
    shape = tuple(first.shape)
    if name.startswith("foreach_"):
        shape = (sum(tensor.numel() for tensor in read),)
    return KINDS.flops(name, [tuple(tensor.shape) for tensor in read], shape)


def torch_geometry(
    model: torch.nn.Module | ExportedProgram | PathLike,
    graph: OpGraph,
    limits: Limits,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one."""
    program = prepare(read_program(model, limits) if isinstance(model, str | os.PathLike) else model, args, kwargs)
    operators, shapes = {op.id: op for op in graph.operators}, shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for node in program.graph.nodes:
        op, sort = operators.get(node.name), KINDS.geometry.get(str(node.target))
        if op is not None and op.inputs and op.kind == str(node.target) and sort is not None:
            reading = _reading(_arguments(node), sort, shapes[op.inputs[0]], alone=len(op.inputs) == 1)
            found[op.id] = geometry_of(sort, reading, "channels_first")
    return fitting(found, graph, "channels_first")


def _arguments(node: Node) -> dict[str, Any]:
    """All arguments by the names in the operator's schema, including defaults."""
    rows = node.target._schema.arguments
    defaults = {row.name: row.default_value for row in rows if row.has_default_value()}
    given = {row.name: value for row, value in zip(rows, node.args, strict=False)}
    return {**defaults, **given, **node.kwargs}


def _reading(given: Mapping[str, Any], sort: str, shape: tuple[int, ...], *, alone: bool) -> Reading:
    def tall(name: str, default: int | None) -> Any:
        """An argument's entry for the height: its first entry, or the argument itself."""
        value = given.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = value[0] if value else None
        return value if isinstance(value, int) else default

    kernel = tall("kernel_size", None)
    if sort == "convolution":
        weights = given["weight"].meta["val"].shape
        kernel = int(weights[2]) if len(weights) == 4 and not given.get("transposed") else None
    axes = given.get("dim")
    return Reading(
        shape=shape,
        alone=alone or sort == "joined",
        kernel=kernel,
        stride=tall("stride", None) or (kernel or 1 if sort == "pooling" else 1),
        dilation=tall("dilation", 1),
        groups=tall("groups", 1),
        padding="same" if given.get("padding") == "same" else tall("padding", 0),
        axes=axes if isinstance(axes, Sequence) else [axes] if isinstance(axes, int) else [],
        rows=tall("output_size", 0),
    )
