"""Graphs of formats that state every shape: values and nodes as a file lists them become operators and tensors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.graphs.in_place import runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import MAX_BYTES


@dataclass(frozen=True, slots=True)
class Value:
    """What a node reads or makes: its name, and bytes, shape and element type."""

    name: str
    bytes: int
    shape: tuple[int, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a file.

    Attributes
    ----------
    name, kind, module
        As in :class:`~opweave.problems.graph.Operator`; names may repeat.
    inputs, outputs
        Keys of values.
    view
        Whether the output shares the storage of the first input.
    folds
        Whether a runtime computes the node once, before it runs, if all its inputs are constant.
    flops, workspace_bytes
        As in :class:`~opweave.problems.graph.Operator`.
    word
        A word for the kind that :func:`~opweave.adapters.graphs.in_place.runs_in_place` knows.
    weights
        Further constants that the node reads, such as those of a graph inside it.
    """

    name: str
    kind: str
    inputs: Sequence[Hashable]
    outputs: Sequence[Hashable]
    view: bool = False
    folds: bool = False
    flops: float = 0.0
    workspace_bytes: int = 0
    word: str = ""
    module: str = ""
    weights: Sequence[Hashable] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """A graph as a file lists it; ``constants`` are the values that no node makes and the caller does not pass."""

    name: str
    nodes: Sequence[Node]
    values: Mapping[Hashable, Value]
    constants: Set[Hashable]
    outputs: Sequence[Hashable]


def assemble(parts: Parts, where: str, inplace_kinds: Set[str]) -> OpGraph:
    """Build a graph.

    Constants become parameters, and so do values that a runtime computes from constants before it runs. Constants that
    no operator reads are left out, and so are outputs of the graph that are constants.

    Parameters
    ----------
    parts
        What the file lists.
    where
        Name of the file in errors.
    inplace_kinds
        Kinds whose operators may overwrite an input.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the parts are no graph, for example because two nodes make the same tensor.
    """
    values, fixed = parts.values, set(parts.constants)
    planned: list[Node] = []
    for node in parts.nodes:
        if node.folds and node.inputs and fixed.issuperset(node.inputs):
            fixed.update(node.outputs)
        else:
            planned.append(node)
    read = _once(key for node in planned for key in (*node.inputs, *node.weights))
    used = _once([*read, *(key for node in planned for key in node.outputs), *parts.outputs])
    names = UniqueNames()
    name = {key: names.take(values[key].name) for key in used}
    ids = UniqueNames()
    owner: dict[Hashable, Hashable] = {}
    operators = []
    try:
        for node in planned:
            dynamic = [key for key in node.inputs if key not in fixed]
            weights = _once(key for key in (*node.inputs, *node.weights) if key in fixed)
            alias = node.view and bool(dynamic) and dynamic[0] == node.inputs[0] and len(node.outputs) == 1
            if alias and values[node.outputs[0]].bytes == values[dynamic[0]].bytes:
                owner[node.outputs[0]] = dynamic[0]
            operators.append(
                Operator(
                    id=ids.take(node.name),
                    kind=node.kind,
                    inputs=tuple(name[key] for key in dynamic),
                    outputs=tuple(name[key] for key in node.outputs),
                    parameters=tuple(name[key] for key in weights),
                    flops=node.flops,
                    workspace_bytes=node.workspace_bytes,
                    inplace_ok=not node.view and runs_in_place(node.word or node.kind, inplace_kinds),
                    module=node.module,
                )
            )
        tensors = [
            Tensor(
                id=name[key],
                bytes=values[key].bytes,
                alias_of=name[owner[key]] if key in owner else None,
                shape=values[key].shape,
                dtype=values[key].dtype,
            )
            for key in used
            if key not in fixed
        ]
        parameters = [Parameter(id=name[key], bytes=values[key].bytes) for key in read if key in fixed]
    except ValidationError as error:  # from one operator or tensor, such as a name with thousands of characters
        raise complaint(error, f"{where}: {error.title}") from None
    content = {
        "name": parts.name,
        "operators": operators,
        "tensors": tensors,
        "parameters": parameters,
        "outputs": [name[key] for key in _once(parts.outputs) if key not in fixed],
    }
    return validated(OpGraph, content, where)


def packed_bytes(shape: Sequence[int], bits: int | None, dtype: str, what: str) -> int:
    """Bytes of a tensor that an operator makes, or that the caller passes; elements smaller than a byte are packed.

    Raises
    ------
    InvalidInputError
        Begins with ``what``: for an open dimension, elements without a fixed size, and more than 2**53 bytes.
    """
    if any(size < 0 for size in shape):
        raise InvalidInputError(
            f"{what} has an open dimension, which depends on the values of the inputs; convert the model with fixed "
            "sizes, or remove that part of it"
        )
    if bits is None:
        raise InvalidInputError(
            f"{what} has elements of {dtype}, which have no fixed size; remove that part of the model"
        )
    size = (math.prod(shape) * bits + 7) // 8
    if size > MAX_BYTES:
        raise InvalidInputError(
            f"{what} has dimensions {list(shape)!s:.80}, more than 2**53 bytes; convert or download the model again"
        )
    return size


def _once(keys: Iterable[Hashable]) -> list[Hashable]:
    return list(dict.fromkeys(keys))
