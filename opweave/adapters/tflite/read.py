"""Reading ``.tflite`` models: operators, tensor sizes and constants, but never a weight's value."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import cast

from opweave.adapters.assemble import Node, Parts, Value, assemble, packed_bytes
from opweave.adapters.files import PathLike, mapped, place
from opweave.adapters.graphs.dims import filled
from opweave.adapters.graphs.kinds import INPLACE_KINDS
from opweave.adapters.runtime_answers import ask
from opweave.adapters.tflite.model import DEEPEST_CALLS, KINDS, Subgraph, TfliteOperator, read_subgraphs
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits

VIEWS, FOLDED, LOOKS, CHANGES = map(KINDS.names, ("views", "folded", "looks", "changes"))

Shapes = dict[tuple[int, int], tuple[int, ...]]
"""Shapes by positions of subgraph and tensor."""


def from_tflite(
    path: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from a ``.tflite`` file.

    * The graph is the file's first subgraph. An operator that calls others (``IF``, ``WHILE``, ``CALL``) stays one
      operator: it reads their constants, its workspace is what the largest of them needs in the order of the file, and
      the operations of each count once.
    * Sizes are those that the file states; an open batch has the size for which the model was converted, mostly 1.
      Where the file does not state them, or with other sizes of inputs, the interpreter (package ``ai-edge-litert``)
      runs once on zeros to find them out, in a process of its own.
    * Constants and variables become parameters, with the bytes that they have in the file; so do weights that the
      interpreter unpacks or converts once, before it runs (``folded`` in ``kinds.toml``).
    * Operators among the ``views`` there make aliases. What reads and changes a variable stays in order.
    * An operator's id is its kind and position, and its module the path in the name of its first output.

    Parameters
    ----------
    path
        The file.
    dims
        Sizes of open dimensions of the inputs: ``{"x:1": 224}``, ``{"*:0": 8}`` (the batch) or ``{"*": 1}``.
    inplace_kinds
        Kinds whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on file and graph size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong and where.
    """
    where = place(path)
    with mapped(path, limits=limits) as data:
        subgraphs = read_subgraphs(data, where, limits)
    if not subgraphs or not subgraphs[0].operators:
        raise InvalidInputError(f"{where}: a model without operators; convert or download it again")
    inputs = input_shapes(subgraphs[0], dims or {}, where)
    if inputs or not all(map(_states_sizes, subgraphs)):
        task = (str(Path(path).resolve()), inputs, len(subgraphs))
        shapes = cast("Shapes", ask(KINDS.table["runtime"], task, where, limits))
        for number, subgraph in enumerate(subgraphs):
            tensors = enumerate(subgraph.tensors)
            sized = [replace(tensor, shape=shapes.get((number, at), tensor.shape)) for at, tensor in tensors]
            subgraphs[number] = replace(subgraph, tensors=sized)
    return _Builder(subgraphs, where, inplace_kinds).graph(0, Path(where).stem)


def _states_sizes(subgraph: Subgraph) -> bool:
    """Whether the sizes in a file can be true: a tensor whose shape an operator computes has some other shape there."""
    shapes = [each.shape for each in subgraph.tensors]
    views = [op for op in subgraph.operators if op.kind in VIEWS - {"BITCAST"} and op.inputs and op.outputs]
    kept = all(math.prod(shapes[op.inputs[0]]) == math.prod(shapes[op.outputs[0]]) for op in views)
    return kept and all(size >= 0 for shape in shapes for size in shape)


def input_shapes(model: Subgraph, dims: Mapping[str, int], where: str) -> dict[int, tuple[int, ...]]:
    """Shapes of the inputs that get other sizes than those in the file, by the positions of their tensors.

    Parameters
    ----------
    model
        The file's first subgraph.
    dims
        Sizes of open dimensions; the batch is as the file states it if it gets no size.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        As for :func:`~opweave.adapters.graphs.dims.filled`.
    """
    inputs = {place: model.tensors[place] for place in model.inputs}
    opened = {each.name: each.signature for each in inputs.values() if len(each.signature) == len(each.shape)}
    batches = {f"{each.name}:0": each.shape[0] for each in inputs.values() if each.shape}
    found = filled(opened, dims, batches, where)
    shapes = {place: found.get(each.name, each.shape) for place, each in inputs.items()}
    return {place: shape for place, shape in shapes.items() if shape != inputs[place].shape}


def record(task: tuple[str, Mapping[int, Sequence[int]], int], _: Callable[[object], None]) -> Shapes | str:
    """In the child: run the model on zeros, and return the shapes of its tensors, or say why that failed.

    The task is the path of the file, the shapes of inputs that are to be changed, and the number of its subgraphs.
    """
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    path, inputs, subgraphs = task
    try:
        interpreter = Interpreter(
            path,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        for place, shape in inputs.items():
            interpreter.resize_tensor_input(place, list(shape))
        interpreter.allocate_tensors()
        for about in interpreter.get_input_details():
            interpreter.set_tensor(about["index"], np.zeros(about["shape"], about["dtype"]))
        interpreter.invoke()
        return {
            (number, about["index"]): tuple(int(size) for size in about["shape"])
            for number in range(subgraphs)
            for about in interpreter.get_tensor_details(subgraph_index=number)
        }
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)


class _Builder:
    def __init__(self, subgraphs: Sequence[Subgraph], where: str, inplace_kinds: Set[str]) -> None:
        self._subgraphs, self._where, self._inplace_kinds = subgraphs, where, inplace_kinds
        self._bodies: dict[int, OpGraph] = {}
        self._states: dict[int, set[Hashable]] = {}
        self._running: list[int] = []

    def graph(self, number: int, name: str) -> OpGraph:
        subgraph = self._subgraphs[number]
        made = {tensor for op in subgraph.operators for tensor in op.outputs} | set(subgraph.inputs)
        known = {tensor for op in subgraph.operators for tensor in op.inputs} | made | set(subgraph.outputs)
        values: dict[Hashable, Value] = {tensor: self._value(number, tensor) for tensor in known}
        states = _states(subgraph)
        nodes = [self._node(number, index, op, states) for index, op in enumerate(subgraph.operators)]
        self._states[number] = {key for node in nodes for key in (*node.looks, *node.changes)}
        parts = Parts(name, nodes, values, known - made, subgraph.outputs)
        return assemble(parts, self._where, self._inplace_kinds)

    def _value(self, number: int, place: int) -> Value:
        tensor = self._subgraphs[number].tensors[place]
        what = f"{self._where}: tensor {tensor.name!r:.200}"
        size = tensor.stored or packed_bytes(tensor.shape, tensor.dtype, what)
        return Value(tensor.name or f"tensor_{place}", size, tensor.shape, tensor.dtype)

    def _node(self, number: int, index: int, op: TfliteOperator, states: Mapping[int, Hashable]) -> Node:
        tensors = self._subgraphs[number].tensors
        shapes = [tensors[place].shape if place >= 0 else () for place in op.places]
        made = tensors[op.outputs[0]] if op.outputs else None
        bodies = [self._body(called) for called in op.calls]
        inside = {key for called in op.calls for key in self._states[called]}
        own = [states[op.inputs[0]]] if op.kind in LOOKS | CHANGES and op.inputs else []
        kept = [f"{number}/{place}" for place in op.inputs if tensors[place].variable]  # the state of an LSTM
        return Node(
            name=f"{op.kind}_{index}",
            kind=op.kind,
            inputs=op.inputs,
            outputs=op.outputs,
            view=op.kind in VIEWS,
            folds=op.kind in FOLDED,
            flops=KINDS.flops(op.kind, shapes, made.shape if made is not None else ()),
            bodies=bodies,
            word=KINDS.common.get(op.kind, ""),
            module=made.name.split(";")[0].rpartition("/")[0] if made is not None else "",
            looks=own,
            # A handle can be passed to what is called: it may change every state that is known here.
            changes=kept + ([*inside, *states.values()] if inside else own * (op.kind in CHANGES)),
            names=[op.variable] * bool(op.variable),
        )

    def _body(self, number: int) -> OpGraph:
        """The graph of a subgraph that an operator calls."""
        there = 0 <= number < len(self._subgraphs) and number not in self._running
        if not there or len(self._running) > DEEPEST_CALLS:
            why = "calls one another too deep" if there else "is missing or calls it"
            raise InvalidInputError(f"{self._where}: an operator runs subgraph {number}, which {why}")
        if number not in self._bodies:
            self._running.append(number)
            self._bodies[number] = self.graph(number, f"subgraph {number}")
            self._running.pop()
        return self._bodies[number]


def _states(subgraph: Subgraph) -> dict[int, Hashable]:
    """The variable or table behind every handle that an operator takes."""
    named = {op.outputs[0]: op.variable for op in subgraph.operators if op.variable and op.outputs}
    users = (op for op in subgraph.operators if op.kind in LOOKS | CHANGES and op.inputs)
    return {op.inputs[0]: named.get(op.inputs[0], op.inputs[0]) for op in users}
