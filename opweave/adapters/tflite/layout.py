"""The layout problem of a ``.tflite`` file as its runtimes count it, and what their own planners need."""

from __future__ import annotations

from collections.abc import Sequence

from opweave.adapters.assemble import packed_bytes
from opweave.adapters.files import PathLike, place, read_bytes
from opweave.adapters.tflite.model import DEEPEST_CALLS, Subgraph, TfliteTensor, read_subgraphs
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_layout.spec import Lifetime, MemoryLayout, Pool

MICRO = 16
"""Bytes of which TensorFlow Lite Micro makes every offset and size a multiple."""


def tflite_problem(
    path: PathLike,
    *,
    capacity: int | None = None,
    pools: Sequence[Pool] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> MemoryLayout:
    """The layout problem of a ``.tflite`` file, as the interpreter of TensorFlow Lite Micro counts it.

    A tensor lives from the operator that writes it to the last one that reads it; inputs of the model live from the
    beginning, and outputs to the end. Tensors of other subgraphs live while an operator runs these, one after the
    other. Constants, variables and their handles are kept elsewhere. Scratch buffers of operators are not in the file:
    the interpreter plans them itself, around the offsets that it is given.

    Parameters
    ----------
    path
        The file.
    capacity
        Bytes of the arena; None for an arena that may grow.
    pools
        Several pools, instead of one arena.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file is no such model, or a shape in it is open.
    """
    own = (Pool(name="arena", bytes=capacity, alignment=MICRO),) if pools is None else tuple(pools)
    return problem_of(path, own, MICRO, limits)


def problem_of(
    path: PathLike, pools: tuple[Pool, ...], step: int, limits: Limits, *, keeps_inputs: bool = False
) -> MemoryLayout:
    """The problem with sizes that are multiples of ``step``; inputs may live to the end."""
    name = place(path)
    subgraphs = read_subgraphs(read_bytes(path, limits=limits), name, limits)
    alive = _Alive(subgraphs, limits.operators, name)
    alive.follow((0,), 0.0, 1.0)
    kept = {(0, each) for each in subgraphs[0].inputs} if keeps_inputs else set()
    lifetimes = []
    for (number, at), (begin, end) in sorted(alive.found.items()):
        tensor = subgraphs[number].tensors[at]
        if not tensor.stored and not tensor.variable:
            size = -(-packed_bytes(tensor.shape, tensor.dtype, f"{name}: tensor {tensor.name!r}") // step) * step
            until = len(subgraphs[0].operators) + 1 if (number, at) in kept else end
            lifetimes.append(Lifetime(id=tensor_id(tensor, at, number), begin=begin, end=until, bytes=size))
    graph = OpGraph(name=name.rsplit("/", 1)[-1], operators=(), tensors=())
    return MemoryLayout(graph=graph, lifetimes=tuple(lifetimes), pools=pools)


class _Alive:
    """From when to when tensors are needed, by the positions of their subgraph and their own."""

    def __init__(self, subgraphs: Sequence[Subgraph], most: int, where: str) -> None:
        self.subgraphs, self.left, self.where = subgraphs, most, where
        self.found: dict[tuple[int, int], tuple[float, float]] = {}

    def follow(self, running: tuple[int, ...], start: float, width: float) -> None:
        """Note the tensors of the subgraph that runs last, whose steps begin at ``start`` and take ``width`` each."""
        subgraphs, number = self.subgraphs, running[-1]
        if not 0 <= number < len(subgraphs) or number in running[:-1] or len(running) > DEEPEST_CALLS:
            raise InvalidInputError(f"{self.where}: subgraph {number} is missing, runs itself or is called too deep")
        subgraph = subgraphs[number]
        self.left -= len(subgraph.operators)
        if self.left < 0:
            raise LimitExceededError(f"{self.where}: subgraphs call one another too often; see Limits.operators")
        begin, end = dict.fromkeys(subgraph.inputs, 0), dict.fromkeys(subgraph.inputs, 0)
        for step, op in enumerate(subgraph.operators, start=1):
            for made in op.outputs if not op.variable else ():
                begin.setdefault(made, step)
                end[made] = max(end.get(made, 0), step)
            end |= dict.fromkeys(op.inputs, step)
            share = width / max(1, len(op.calls))
            for turn, called in enumerate(op.calls):
                steps = len(subgraphs[called].operators) + 1 if 0 <= called < len(subgraphs) else 1
                self.follow((*running, called), start + step * width + turn * share, share / steps)
        end |= dict.fromkeys(subgraph.outputs, len(subgraph.operators))
        for tensor, first in begin.items():
            since, until = start + first * width, start + (end[tensor] + 1) * width
            known = self.found.get((number, tensor), (since, until))
            self.found[number, tensor] = min(known[0], since), max(known[1], until)


def tensor_id(tensor: TfliteTensor, at: int, number: int = 0) -> str:
    """The tensor's position and name, behind those of a subgraph that is not the first; names may repeat."""
    inside = f"{number}/" if number else ""
    return f"{inside}{at}:{tensor.name}"[:1024]
