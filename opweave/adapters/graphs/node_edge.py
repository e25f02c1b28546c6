"""Graphs as nodes and edges, with one output tensor for each node, as many exporters write them.

The layout, as a JSON object::

    {"name": "net",
     "nodes": [{"id": "conv1", "op": "Conv", "out_bytes": 4096, "param_bytes": 64, "flops": 1e6,
                "out_shape": [1, 16, 8, 8], "dtype": "float32", "module": "stem",
                "view": false, "alias_of": null, "nominal_bytes": 0, "workspace_bytes": 0}],
     "edges": [["input", "conv1"]],
     "outputs": ["conv1"],
     "shared_params": [["embedding.weight", 1024, ["embed", "head"]]]}

Only ``id`` and ``out_bytes`` of a node are required. Other fields than these are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from opweave.adapters.error_messages import complaint, validated
from opweave.adapters.files import check_counts
from opweave.adapters.graphs.kinds import INPLACE_KINDS, runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, MAX_BYTES, Limits
from opweave.problems.spec import Many, ManyOrNone, _as_tuple, preset
from opweave.problems.words import repeated

INPUT_KINDS = frozenset({"Input", "InputLayer", "input", "placeholder"})
"""A node of one of these kinds that has no predecessor is a graph input, not an operator."""

_ALLOCATES_EMPTY = ("aten.empty", "aten.new_empty", "aten.empty_like", "aten.zeros", "aten.new_zeros")


def _as_text(value: object) -> object:
    """Ids may be whole numbers."""
    return str(value) if type(value) is int else value


def _known_shape(value: object) -> object:
    """Nothing is known of the shape if there are open dimensions or several outputs: the bytes are enough."""
    if isinstance(value, list | tuple) and not all(type(dim) is int for dim in value):
        return None
    return value


def _row(*parts: str) -> BeforeValidator:
    """Rows are lists of a given length; the words say what they consist of."""

    def as_tuple(value: object) -> tuple[object, ...]:
        if isinstance(value, list | tuple) and len(value) == len(parts):
            return tuple(value)
        raise ValueError(f"it should be [{', '.join(parts)}]")

    return BeforeValidator(as_tuple)


_Id = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
_Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
_Ids = Annotated[tuple[_Id, ...], BeforeValidator(_as_tuple)]
_Rows = dict[str, list[str]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Node(_Part):
    id: _Id
    op: str | None = None
    out_bytes: _Bytes
    param_bytes: _Bytes = 0
    workspace_bytes: _Bytes = 0
    flops: Annotated[float, Field(ge=0.0, le=1e30)] = 0.0
    view: bool | None = None
    alias_of: _Id | None = None
    nominal_bytes: _Bytes | None = None
    out_shape: Annotated[Many[_Bytes] | None, BeforeValidator(_known_shape)] = preset(None)
    dtype: str | None = None
    module: str | None = None

    @property
    def kind(self) -> str:
        return self.op or ""


class _Data(_Part):
    name: str = "graph"
    nodes: Annotated[Many[_Node], Field(min_length=1)]
    edges: Many[Annotated[tuple[_Id, _Id], _row("producer id", "consumer id")]]
    outputs: ManyOrNone[_Id] = preset(None)
    shared_params: ManyOrNone[Annotated[tuple[_Id, _Bytes, _Ids], _row("name", "bytes", "[node ids]")]] = preset(None)


def from_node_edge(
    data: Mapping[str, object],
    *,
    where: str = "graph",
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from nodes and edges.

    * A node of a kind in :data:`INPUT_KINDS` without predecessors is a graph input; any other node is an operator that
      writes one tensor of the same id.
    * A node with ``alias_of`` shares the storage of that node, and one with ``view`` that of its first predecessor. A
      copy into a buffer (``copy_``) shares the storage of the buffer, which is the predecessor that allocated empty
      memory.
    * ``param_bytes`` become a parameter of the node. A parameter in ``shared_params`` is contained in the
      ``param_bytes`` of the first of its nodes that is large enough, so it is subtracted there and counted once.
    * Without ``outputs``, every tensor that an operator writes and no operator reads is a graph output.

    Parameters
    ----------
    data
        The layout shown at the top of this module.
    where
        Name of the data in errors.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on nodes and edges.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the place.

    Examples
    --------
    >>> graph = from_node_edge({
    ...     "nodes": [{"id": "x", "op": "input", "out_bytes": 4}, {"id": "y", "op": "Relu", "out_bytes": 4}],
    ...     "edges": [["x", "y"]],
    ... })
    >>> graph.inputs, graph.operators[0].inplace_ok, graph.outputs
    (('x',), True, ('y',))
    """
    caps = {"nodes": limits.operators, "edges": limits.edges}
    check_counts(data, caps | dict.fromkeys(("outputs", "shared_params"), limits.tensors), where)
    found = validated(_Data, data, where)
    _check_names(found, where, limits)
    nodes = {node.id: node for node in found.nodes}
    reads: _Rows = {name: [] for name in nodes}
    for source, target in found.edges:
        reads[target].append(source)
    made = [node for node in found.nodes if reads[node.id] or node.kind not in INPUT_KINDS]
    parameters, owned = _parameters(found, made)
    unread = nodes.keys() - {source for source, _ in found.edges}
    try:
        return OpGraph(
            name=found.name,
            operators=tuple(_operator(node, reads[node.id], owned[node.id], inplace_kinds) for node in made),
            tensors=tuple(_tensor(node, _alias(node, reads[node.id], nodes)) for node in found.nodes),
            parameters=tuple(parameters),
            outputs=found.outputs or tuple(node.id for node in made if node.id in unread),
        )
    except ValidationError as error:
        raise complaint(error, where) from None


def _check_names(found: _Data, where: str, limits: Limits) -> None:
    """Check that ids are unique and not too long, and that what names a node names one of the list."""
    known, shared = [node.id for node in found.nodes], found.shared_params or ()
    for path, names in (("nodes", known), ("shared_params", [name for name, *_ in shared])):
        twice = repeated(names)
        if twice is not None:
            place = f"{path}[{len(names) - 1 - names[::-1].index(twice)}]"
            raise InvalidInputError(f"{where}: {place} {twice!r} is used more than once; names must be unique")
    if max(map(len, known)) > limits.id_characters:
        raise LimitExceededError(f"{where}: an id has over {limits.id_characters:,} characters; shorten it")
    named: list[tuple[str, Iterable[str]]] = [(f"edges[{number}]", ends) for number, ends in enumerate(found.edges)]
    named += [(f"outputs[{number}]", (name,)) for number, name in enumerate(found.outputs or ())]
    named += [(f"shared_params[{number}][2]", users) for number, (_, _, users) in enumerate(shared)]
    there = set(known)
    for path, names_there in named:
        for name in names_there:
            if name not in there:
                raise InvalidInputError(f"{where}: {path} names node {name!r}, which 'nodes' does not list")


def _operator(node: _Node, reads: list[str], parameters: list[str], inplace_kinds: Set[str]) -> Operator:
    return Operator(
        id=node.id,
        kind=node.kind,
        inputs=tuple(reads),
        outputs=(node.id,),
        workspace_bytes=node.workspace_bytes,
        parameters=tuple(parameters),
        flops=node.flops,
        inplace_ok=runs_in_place(node.kind, inplace_kinds),
        module=node.module or "",
    )


def _tensor(node: _Node, alias_of: str | None) -> Tensor:
    size = node.out_bytes if alias_of is None or node.nominal_bytes is None else node.nominal_bytes
    return Tensor(id=node.id, bytes=size, alias_of=alias_of, shape=node.out_shape, dtype=node.dtype)


def _alias(node: _Node, reads: list[str], nodes: Mapping[str, _Node]) -> str | None:
    if node.alias_of is not None:
        return node.alias_of
    if not node.view or not reads:
        return None
    if node.kind.startswith("aten.copy_"):
        buffers = [name for name in reads if nodes[name].kind.startswith(_ALLOCATES_EMPTY)]
        return (buffers or reads)[0]
    return reads[0]


def _parameters(found: _Data, made: list[_Node]) -> tuple[list[Parameter], _Rows]:
    """All parameters, and those of every node."""
    parameters = []
    owned: _Rows = {node.id: [] for node in found.nodes}
    left = {node.id: node.param_bytes for node in found.nodes}
    for name, size, users in found.shared_params or ():
        parameters.append(Parameter(id=name, bytes=size))
        for user in dict.fromkeys(users):
            owned[user].append(name)
        counted_by = next((user for user in users if left[user] >= size), None)
        if counted_by is not None:
            left[counted_by] -= size
    names = UniqueNames(parameter.id for parameter in parameters)
    for node in made:
        if left[node.id] > 0:
            own = Parameter(id=names.take(f"{node.id}.parameters"), bytes=left[node.id])
            parameters.append(own)
            owned[node.id].append(own.id)
    return parameters, owned
