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

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint
from opweave.adapters.graphs.in_place import INPLACE_KINDS, runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, MAX_BYTES, Limits

INPUT_KINDS = frozenset({"Input", "InputLayer", "input", "placeholder"})
"""A node of one of these kinds that has no predecessor is a graph input, not an operator."""

_ALLOCATES_EMPTY = ("aten.empty", "aten.new_empty", "aten.empty_like", "aten.zeros", "aten.new_zeros")

MAX_FLOPS = 1e30


@dataclass(slots=True)
class _Node:
    """One node with validated numbers."""

    id: str
    kind: str
    out_bytes: int
    param_bytes: int
    workspace_bytes: int
    flops: float
    view: bool
    alias_of: str | None
    nominal_bytes: int | None
    shape: tuple[int, ...] | None
    dtype: str | None
    module: str
    reads: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    @property
    def is_input(self) -> bool:
        return self.kind in INPUT_KINDS and not self.reads


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
    reader = _Reader(where, limits)
    nodes = reader.nodes(data.get("nodes"))
    reader.edges(data.get("edges"), nodes)
    parameters = _parameters(nodes, reader.shared(data.get("shared_params"), nodes))
    name = data.get("name", "graph")
    if not isinstance(name, str):
        raise reader.error("name", "should be a text in quotes")
    outputs = reader.outputs(data.get("outputs"), nodes)
    try:
        return OpGraph(
            name=name,
            operators=tuple(_operator(node, inplace_kinds) for node in nodes.values() if not node.is_input),
            tensors=tuple(_tensor(node, _alias(node, nodes)) for node in nodes.values()),
            parameters=tuple(parameters),
            outputs=tuple(outputs),
        )
    except ValidationError as error:
        raise complaint(error, where) from None


def _operator(node: _Node, inplace_kinds: Set[str]) -> Operator:
    return Operator(
        id=node.id,
        kind=node.kind,
        inputs=tuple(node.reads),
        outputs=(node.id,),
        workspace_bytes=node.workspace_bytes,
        parameters=tuple(node.parameters),
        flops=node.flops,
        inplace_ok=runs_in_place(node.kind, inplace_kinds),
        module=node.module,
    )


def _tensor(node: _Node, alias_of: str | None) -> Tensor:
    size = node.out_bytes if alias_of is None or node.nominal_bytes is None else node.nominal_bytes
    return Tensor(id=node.id, bytes=size, alias_of=alias_of, shape=node.shape, dtype=node.dtype)


def _alias(node: _Node, nodes: Mapping[str, _Node]) -> str | None:
    if node.alias_of is not None:
        return node.alias_of
    if not node.view or not node.reads:
        return None
    if node.kind.startswith("aten.copy_"):
        buffers = [name for name in node.reads if nodes[name].kind.startswith(_ALLOCATES_EMPTY)]
        return (buffers or node.reads)[0]
    return node.reads[0]


def _parameters(nodes: Mapping[str, _Node], shared: Sequence[tuple[str, int, list[str]]]) -> list[Parameter]:
    parameters = []
    for name, size, users in shared:
        parameters.append(Parameter(id=name, bytes=size))
        for user in dict.fromkeys(users):
            nodes[user].parameters.append(name)
        counted_by = next((nodes[user] for user in users if nodes[user].param_bytes >= size), None)
        if counted_by is not None:
            counted_by.param_bytes -= size
    names = UniqueNames(parameter.id for parameter in parameters)
    for node in nodes.values():
        if node.param_bytes > 0 and not node.is_input:
            own = Parameter(id=names.take(f"{node.id}.parameters"), bytes=node.param_bytes)
            parameters.append(own)
            node.parameters.append(own.id)
    return parameters


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks the outside data piece by piece, so that every error message names its place."""

    where: str
    limits: Limits

    def error(self, path: str, text: str) -> InvalidInputError:
        return InvalidInputError(f"{self.where}: {path} {text}")

    def nodes(self, data: object) -> dict[str, _Node]:
        rows = self._rows("nodes", data, self.limits.operators)
        found: dict[str, _Node] = {}
        for index, row in enumerate(rows):
            node = self._node(f"nodes[{index}]", row)
            if node.id in found:
                raise self.error(f"nodes[{index}].id", f"{node.id!r} is used more than once; ids must be unique")
            found[node.id] = node
        if not found:
            raise self.error("nodes", "is empty; a graph needs at least one node")
        return found

    def _node(self, path: str, row: object) -> _Node:
        if not isinstance(row, Mapping):
            raise self.error(path, "should be an object with 'id', 'op' and 'out_bytes'")
        if "out_bytes" not in row:
            raise self.error(f"{path}.out_bytes", "is missing; give the bytes of the node's output")
        nominal = row.get("nominal_bytes")
        return _Node(
            id=self._id(f"{path}.id", row.get("id")),
            kind=self._text(f"{path}.op", row.get("op")) or "",
            out_bytes=self._whole(f"{path}.out_bytes", row["out_bytes"]),
            param_bytes=self._whole(f"{path}.param_bytes", row.get("param_bytes", 0)),
            workspace_bytes=self._whole(f"{path}.workspace_bytes", row.get("workspace_bytes", 0)),
            flops=self._amount(f"{path}.flops", row.get("flops", 0.0)),
            view=self._flag(f"{path}.view", row.get("view")),
            alias_of=None if row.get("alias_of") is None else self._id(f"{path}.alias_of", row["alias_of"]),
            nominal_bytes=None if nominal is None else self._whole(f"{path}.nominal_bytes", nominal),
            shape=self._shape(f"{path}.out_shape", row.get("out_shape")),
            dtype=self._text(f"{path}.dtype", row.get("dtype")),
            module=self._text(f"{path}.module", row.get("module")) or "",
        )

    def edges(self, data: object, nodes: Mapping[str, _Node]) -> None:
        for index, row in enumerate(self._rows("edges", data, self.limits.edges)):
            path = f"edges[{index}]"
            if not isinstance(row, list | tuple) or len(row) != 2:
                raise self.error(path, "should be [producer id, consumer id]")
            source, target = (self._known(path, end, nodes) for end in row)
            nodes[target].reads.append(source)

    def outputs(self, data: object, nodes: Mapping[str, _Node]) -> list[str]:
        rows = [] if data is None else self._rows("outputs", data, self.limits.tensors)
        if rows:
            return [self._known(f"outputs[{index}]", row, nodes) for index, row in enumerate(rows)]
        read = {name for node in nodes.values() for name in node.reads}
        return [node.id for node in nodes.values() if node.id not in read and not node.is_input]

    def shared(self, data: object, nodes: Mapping[str, _Node]) -> list[tuple[str, int, list[str]]]:
        rows = [] if data is None else self._rows("shared_params", data, self.limits.tensors)
        merged: dict[str, tuple[int, list[str]]] = {}
        for index, row in enumerate(rows):
            path = f"shared_params[{index}]"
            if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[2], list | tuple):
                raise self.error(path, "should be [name, bytes, [node ids]]")
            name = self._id(f"{path}[0]", row[0])
            if name in merged:
                raise self.error(f"{path}[0]", f"{name!r} is used more than once; names must be unique")
            users = [self._known(f"{path}[2]", user, nodes) for user in row[2]]
            merged[name] = self._whole(f"{path}[1]", row[1]), users
        return [(name, size, users) for name, (size, users) in merged.items()]

    def _rows(self, path: str, data: object, cap: int) -> Sequence[object]:
        if not isinstance(data, list | tuple):
            raise self.error(path, "is missing; add it" if data is None else "should be a list")
        if len(data) > cap:
            raise LimitExceededError(f"{self.where}: {path} has {len(data):,} entries, over the limit of {cap:,}")
        return data

    def _known(self, path: str, value: object, nodes: Mapping[str, _Node]) -> str:
        name = self._id(path, value)
        if name not in nodes:
            raise self.error(path, f"names node {name!r}, which 'nodes' does not list")
        return name

    def _id(self, path: str, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value:
            text = "is missing; add it" if value is None else "should be a non-empty text or a whole number"
            raise self.error(path, text)
        cap = self.limits.id_characters
        if len(value) > cap:
            raise LimitExceededError(f"{self.where}: {path} has over {cap:,} characters; shorten it")
        return value

    def _text(self, path: str, value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise self.error(path, "should be a text in quotes")
        return value

    def _flag(self, path: str, value: object) -> bool:
        if value is not None and not isinstance(value, bool):
            raise self.error(path, "should be true or false")
        return bool(value)

    def _whole(self, path: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(path, f"should be a whole number of bytes, but is {value!r:.60}")
        if not 0 <= value <= MAX_BYTES:
            raise self.error(path, f"should be between 0 and 2**53 bytes, but is {_number(value)}")
        return value

    def _amount(self, path: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(path, f"should be a number, but is {value!r:.60}")
        if not 0 <= value <= MAX_FLOPS or not math.isfinite(value):
            raise self.error(path, f"should be a finite number, 0 or more, but is {_number(value)}")
        return float(value)

    def _shape(self, path: str, value: object) -> tuple[int, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.error(path, "should be a list of whole numbers")
        if not all(type(dim) is int for dim in value):  # open dimensions or several outputs: the bytes are enough
            return None
        return tuple(self._whole(f"{path}[{index}]", dim) for index, dim in enumerate(value))


def _number(value: float) -> str:
    return f"{value:,}" if abs(value) < 1e30 else f"{'-' if value < 0 else ''}over 10**30"
