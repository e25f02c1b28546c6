"""Graphs of formats that state every shape: values and nodes as a file lists them become operators and tensors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.graphs.kinds import element_bits, runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import MAX_BYTES
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


@dataclass(frozen=True, slots=True)
class Value:
    """What a node reads or makes: its name, bytes, shape and element type, and the key of what owns its storage."""

    name: str
    bytes: int
    shape: tuple[int, ...] | None
    dtype: str
    owner: Hashable = None


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
        Whether the node makes nothing new: one output shares the storage of the first input, several have owners.
    folds
        Whether a runtime computes the node once, before it runs, if all its inputs are constant.
    flops, workspace_bytes
        As in :class:`~opweave.problems.graph.Operator`, without the bodies.
    bodies
        Graphs that the node runs inside it (branches, bodies of loops), at most one at a time: it reads their
        parameters, its workspace is what the largest one needs in its order, and the operations of each count once.
    word
        A word for the kind that :func:`~opweave.adapters.graphs.kinds.runs_in_place` knows.
    over
        The input over which the runtime writes the output in any case.
    weights
        Further constants that the node reads.
    looks, changes
        Keys of the state (variables, tables) that the node reads, and of the state that it changes: it runs after
        earlier changes, and a change also after earlier reads. A key that is a text, the name of a variable, keeps
        its nodes on one device.
    names
        Keys of the state of which the node makes a handle.
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
    over: Hashable = None
    module: str = ""
    weights: Sequence[Hashable] = ()
    looks: Sequence[Hashable] = ()
    changes: Sequence[Hashable] = ()
    names: Sequence[Hashable] = ()
    bodies: Sequence[OpGraph] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """A graph as a file lists it.

    Attributes
    ----------
    name, nodes
        Its name, and its nodes in order.
    values
        What nodes read or make, by key.
    constants
        Keys of the values that no node makes and the caller does not pass.
    outputs
        Keys of the results.
    inputs
        Keys of what the caller passes, read or not; what is missing here is added where it is read.
    """

    name: str
    nodes: Sequence[Node]
    values: Mapping[Hashable, Value]
    constants: Set[Hashable]
    outputs: Sequence[Hashable]
    inputs: Sequence[Hashable] = ()


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
    values, fixed, source = dict(parts.values), set(parts.constants), dict[Hashable, Hashable]()
    planned: list[Node] = []
    for listed in parts.nodes:
        inner = {(id(body), each.id): each for body in listed.bodies for each in body.parameters}
        values |= {key: Value(f"{listed.name}/{each.id}", each.bytes, None, "") for key, each in inner.items()}
        fixed.update(inner)
        node = replace(listed, weights=[*listed.weights, *inner]) if inner else listed
        first = node.inputs[0] if node.inputs else None
        if node.view and first in fixed and not node.changes:  # another name for a constant
            source |= dict.fromkeys(node.outputs, source.get(first, first))
            fixed.update(node.outputs)
        elif node.folds and fixed.issuperset(node.inputs):
            fixed.update(node.outputs)
        else:
            planned.append(node)
    planned = _in_order_of_state(planned, values)
    read = _once(source.get(key, key) for node in planned for key in (*node.inputs, *node.weights))
    made = (key for node in planned for key in node.outputs)
    used = _once([*parts.inputs, *read, *made, *(key for key in parts.outputs if key not in fixed)])
    names, ids = UniqueNames(), UniqueNames()
    name = {key: names.take(values[key].name) for key in used}
    owner = {node.outputs[0]: node.inputs[0] for node in planned if _is_alias(node, values)}
    owner |= {key: value.owner for key, value in values.items() if value.owner is not None}
    content: dict[str, object] = {"name": parts.name}
    planned, state = [replace(each, name=ids.take(each.name)) for each in planned], dict[str, dict[str, None]]()
    for node in planned:
        for key in (*node.looks, *node.changes, *node.names):
            if isinstance(key, str):
                state.setdefault(key, {})[node.name] = None
    content["together"] = _once(tuple(group) for group in state.values() if len(group) > 1)
    try:
        content["operators"] = [_operator(each, name, fixed, source, inplace_kinds) for each in planned]
        content["tensors"] = [
            _tensor(values[key], name[key], name.get(owner.get(key))) for key in used if key not in fixed
        ]
        content["parameters"] = [Parameter(id=name[key], bytes=values[key].bytes) for key in read if key in fixed]
    except ValidationError as error:  # from one operator or tensor, such as a name with thousands of characters
        raise complaint(error, f"{where}: {error.title}") from None
    content["outputs"] = [name[key] for key in _once(parts.outputs) if key not in fixed]
    return validated(OpGraph, content, where)


def _tensor(value: Value, name: str, owner: str | None) -> Tensor:
    return Tensor(id=name, bytes=value.bytes, alias_of=owner, shape=value.shape, dtype=value.dtype or None)


def _operator(
    node: Node,
    names: Mapping[Hashable, str],
    fixed: Set[Hashable],
    source: Mapping[Hashable, Hashable],
    inplace_kinds: Set[str],
) -> Operator:
    dynamic = sorted((key for key in node.inputs if key not in fixed), key=lambda key: key != node.over)
    weights = _once(source.get(key, key) for key in (*node.inputs, *node.weights) if key in fixed)
    over = bool(inplace_kinds) and node.over is not None and node.over in dynamic
    return Operator(
        id=node.name,
        kind=node.kind,
        inputs=tuple(names[key] for key in dynamic),
        outputs=tuple(names[key] for key in node.outputs),
        parameters=tuple(names[key] for key in weights),
        flops=node.flops + sum(op.flops for body in node.bodies for op in body.operators),
        workspace_bytes=max((node.workspace_bytes, *map(_needed, node.bodies))),
        inplace_ok=not node.view and (over or runs_in_place(node.word or node.kind, inplace_kinds)),
        module=node.module,
    )


def _needed(body: OpGraph) -> int:
    """Bytes that a graph needs in its order."""
    order = Ordering(order=tuple(op.id for op in body.operators))
    return int(MemoryOrdering(graph=body).evaluate(order).objective or 0)


def _is_alias(node: Node, values: Mapping[Hashable, Value]) -> bool:
    """Whether the output of a view is as large as its input; a view of a constant is not planned."""
    single = node.view and len(node.inputs) > 0 and len(node.outputs) == 1
    return single and values[node.outputs[0]].bytes == values[node.inputs[0]].bytes


def _in_order_of_state(nodes: Sequence[Node], values: dict[Hashable, Value]) -> list[Node]:
    """Nodes with tensors of 0 bytes from each change of a state to its readers, and from these to the next change."""
    changed, readers = dict[Hashable, list[int]](), dict[Hashable, list[int]]()
    found = list(nodes)

    def follow(before: int, after: int) -> None:
        if set(found[before].outputs).isdisjoint(found[after].inputs):
            token = ("state", before)
            values[token] = Value(f"{nodes[before].name}.state", 0, None, "")
            found[before] = replace(found[before], outputs=list(dict.fromkeys((*found[before].outputs, token))))
            found[after] = replace(found[after], inputs=(*found[after].inputs, token))

    for place, node in enumerate(nodes):
        for key in _once([*node.looks, *node.changes]):
            read = readers.setdefault(key, [])
            for before in changed.get(key, []) + read * (key in node.changes):
                follow(before, place)
            if key in node.changes:
                changed[key], readers[key] = [place], []
            else:
                read.append(place)
    return found


def packed_bytes(shape: Sequence[int], dtype: str, what: str) -> int:
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
    bits = element_bits(dtype)
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
