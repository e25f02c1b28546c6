"""Conversion from and to networkx graphs."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.error_messages import validated
from opweave.adapters.graphs.kinds import INPLACE_KINDS
from opweave.adapters.graphs.node_edge import from_node_edge
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import networkx as nx

_PARTS = {"operator": Operator, "tensor": Tensor, "parameter": Parameter}
_EDGE_FIELDS = {"inputs", "outputs", "parameters"}


def from_networkx(
    graph: nx.DiGraph[object], *, inplace_kinds: Set[str] = INPLACE_KINDS, limits: Limits = DEFAULT_LIMITS
) -> OpGraph:
    """Build a graph from a networkx ``DiGraph``.

    Two forms are accepted. A graph that :func:`to_networkx` wrote is restored exactly. In any other graph, each node is
    an operator with one output tensor, and edges only say which operators read it. A node's attribute ``bytes`` (or
    ``out_bytes``) is the size of its output; the other attributes are those of :mod:`opweave.adapters.graphs.node_edge`
    (``op``, ``param_bytes``, ``flops``, ``view``, ...). Edge attributes are ignored, because a tensor with several
    readers is stored once. ``graph.graph["outputs"]`` may list the outputs.

    Parameters
    ----------
    graph
        Its nodes may be any objects; their ``str`` becomes the id.
    inplace_kinds, limits
        As in :func:`~opweave.adapters.load.load`.

    Raises
    ------
    InvalidInputError
        When the object is not a ``DiGraph``, or an attribute is missing or wrong.

    Examples
    --------
    >>> import networkx as nx
    >>> net = nx.DiGraph([("x", "y")])
    >>> net.add_node("x", op="input", bytes=4)
    >>> net.add_node("y", op="Relu", bytes=4)
    >>> from_networkx(net).inputs
    ('x',)
    """
    import networkx as nx

    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise InvalidInputError(
            f"an object of type {type(graph).__name__} is not a model; give a file name or a networkx.DiGraph with "
            "'bytes' on every node"
        )
    if graph and all(attributes.get("part") in [*_PARTS] for _, attributes in graph.nodes(data=True)):
        return _from_parts(graph)
    rows = []
    for node, attributes in graph.nodes(data=True):
        row = {"id": str(node), **{str(key): _plain(value) for key, value in attributes.items()}}
        if "out_bytes" not in row and "bytes" not in row:
            raise InvalidInputError(f"networkx node {str(node)!r:.80} has no attribute 'bytes'; set its output's size")
        row.setdefault("out_bytes", row.get("bytes"))
        row["id"] = str(node)
        rows.append(row)
    data: dict[str, object] = {
        "name": plain(str(graph.graph.get("name") or "graph")),
        "nodes": rows,
        "edges": [[str(source), str(target)] for source, target in graph.edges],
        "outputs": [str(name) for name in graph.graph.get("outputs", ())],
        "shared_params": graph.graph.get("shared_params"),
    }
    return from_node_edge(data, where="networkx graph", inplace_kinds=inplace_kinds, limits=limits)


def to_networkx(graph: OpGraph) -> nx.DiGraph[tuple[str, str]]:
    """Convert a graph to a networkx ``DiGraph`` that contains everything, for analysis and drawing.

    Nodes are pairs of a part (``"operator"``, ``"tensor"``, ``"parameter"``) and an id, because operators and tensors
    may share ids. Node attributes are ``part`` and the part's fields. An edge leads from an input to its reader, and
    from a writer to its output; ``positions`` are its places among the operator's inputs, outputs or parameters. For a
    graph of operators alone, see :attr:`OpGraph.digraph <opweave.problems.graph.OpGraph.digraph>`.

    Examples
    --------
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=4), Tensor(id="y", bytes=8)],
    ...     operators=[Operator(id="double", inputs=["x", "x"], outputs=["y"])],
    ...     outputs=["y"],
    ... )
    >>> net = to_networkx(graph)
    >>> net.edges[("tensor", "x"), ("operator", "double")]
    {'positions': (0, 1)}
    >>> from_networkx(net) == graph
    True
    """
    import networkx as nx

    net: nx.DiGraph[tuple[str, str]] = nx.DiGraph(name=graph.name, outputs=graph.outputs, together=graph.together)
    for part, items in (("operator", graph.operators), ("tensor", graph.tensors), ("parameter", graph.parameters)):
        for item in items:
            fields = item.model_dump(exclude={"id"} | (_EDGE_FIELDS if part == "operator" else set()))
            net.add_node((part, item.id), part=part, **fields)
    for op in graph.operators:
        me = ("operator", op.id)
        for position, name in enumerate(op.inputs):
            _connect(net, ("tensor", name), me, position)
        for position, name in enumerate(op.parameters):
            _connect(net, ("parameter", name), me, position)
        for position, name in enumerate(op.outputs):
            _connect(net, me, ("tensor", name), position)
    return net


def _connect(net: nx.DiGraph[tuple[str, str]], source: tuple[str, str], target: tuple[str, str], position: int) -> None:
    before: tuple[int, ...] = net.edges[source, target]["positions"] if net.has_edge(source, target) else ()
    net.add_edge(source, target, positions=(*before, position))


def _from_parts(net: nx.DiGraph[tuple[str, str]]) -> OpGraph:
    content: dict[str, list[dict[str, object]]] = {"operators": [], "tensors": [], "parameters": []}
    try:
        for node, attributes in net.nodes(data=True):
            fields = {key: _plain(value) for key, value in attributes.items() if key != "part"}
            part = attributes["part"]
            if part == "operator":
                before = [(source, edge["positions"]) for source, _, edge in net.in_edges(node, data=True)]
                after = [(target, edge["positions"]) for _, target, edge in net.out_edges(node, data=True)]
                fields["inputs"] = _in_order(before, "tensor")
                fields["parameters"] = _in_order(before, "parameter")
                fields["outputs"] = _in_order(after, "tensor")
            content[f"{part}s"].append({"id": node[1], **fields})
    except (KeyError, TypeError, IndexError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"networkx graph: not in the form that to_networkx writes ({what})") from None
    about = {key: net.graph[key] for key in ("name", "outputs", "together") if key in net.graph}
    return validated(OpGraph, {**about, **content}, "networkx graph")


def _in_order(ends: Iterable[tuple[tuple[str, str], Iterable[int]]], part: str) -> list[str]:
    places = [(position, end[1]) for end, positions in ends if end[0] == part for position in positions]
    return [name for _, name in sorted(places)]


def _plain(value: object) -> object:
    """Convert NumPy numbers to Python numbers."""
    return value.item() if isinstance(value, np.integer | np.floating) else value
