"""The order in which a pipeline runs the operators, and the tensors that cross each possible cut of that order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph import OpGraph

Cuts = Literal["prefix", "dominators"]
Entrance = Literal["first", "everywhere"]


def running_order(graph: OpGraph) -> tuple[str, ...]:
    """Order operators by data, in listed order among those that are ready; an operator that waits for none runs late.

    It runs right before its first reader. This keeps constants and second inputs from crossing cuts unnecessarily.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=1) for name in "xabcd"],
    ...     operators=[
    ...         Operator(id="one", outputs=["a"]),
    ...         Operator(id="first", inputs=["x"], outputs=["b"]),
    ...         Operator(id="then", inputs=["b"], outputs=["c"]),
    ...         Operator(id="add", inputs=["a", "c"], outputs=["d"]),
    ...     ],
    ... )
    >>> running_order(graph)
    ('first', 'then', 'one', 'add')
    """
    before, after = graph.arrays.predecessors, graph.arrays.successors
    place = np.argsort(graph.listed_order)
    lone = (np.diff(before.start) == 0) & (np.diff(after.start) > 0)
    anchor = np.where(lone, len(place), place)
    np.minimum.at(anchor, after.heads(), np.where(lone[after.heads()], place[after.items], len(place)))
    order = np.lexsort((place, ~lone, anchor)).tolist()
    return tuple(graph.operator_ids[v] for v in order)


class CutPoint(NamedTuple):
    """A place between two operators of the order.

    Attributes
    ----------
    position
        Number of operators that run before it.
    tensors
        Tensors that exist by then and are read later, in the order in which they were made; graph inputs come first.
    bytes
        Total bytes of these tensors.
    dominates
        Whether every path from a source of the graph to a result passes through the operator before it.
    """

    position: int
    tensors: tuple[str, ...]
    bytes: int
    dominates: bool


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """What crosses the places of an order, by number of operators before the place; nothing crosses both ends.

    Attributes
    ----------
    names
        Tensors that cross a place, in the order in which they are made; graph inputs come first.
    first, last
        First and last place that each of them crosses. Shape (len(names),).
    count, bytes
        Number of tensors that cross each place, and their bytes. Shape (operators + 1,).
    dominates
        As in :class:`CutPoint`. Shape (operators + 1,).
    """

    names: tuple[str, ...]
    first: IntArray
    last: IntArray
    count: IntArray
    bytes: IntArray
    dominates: BoolArray

    @classmethod
    def of(cls, graph: OpGraph, order: Sequence[str], inputs: Entrance) -> Crossings:
        """Find them in one pass.

        An operator is a source when it reads a graph input (which arrives at the first stage), or when it waits for no
        other operator and reads something; a constant is not a source. An operator is a result when it writes a graph
        output or something that no operator reads.
        """
        arrays, count = graph.arrays, len(order)
        place = np.argsort([graph.operator_index[name] for name in order])
        first = np.where(arrays.producer < 0, 1, place[arrays.producer] + 1 if count else 1)
        last = np.full(len(first), -1, dtype=np.int64)
        np.maximum.at(last, arrays.reads.items, place[arrays.reads.heads()])
        crosses = np.flatnonzero((last >= first) & ((arrays.producer >= 0) | (inputs == "first")))
        written = np.arange(len(first))
        written[arrays.writes.items] = np.arange(len(arrays.writes.items))
        crosses = crosses[np.lexsort((written[crosses], arrays.producer[crosses] >= 0, first[crosses]))]
        size = arrays.tensor_bytes[crosses]
        opens, closes = first[crosses], last[crosses] + 1
        change, grown = np.zeros((2, count + 2), dtype=np.int64)
        for where, sign in ((opens, 1), (closes, -1)):
            np.add.at(change, where, sign)
            np.add.at(grown, where, sign * size)
        live, fresh = np.cumsum(change)[:-1], np.bincount(opens[arrays.producer[crosses] >= 0], minlength=count + 1)
        passes = np.zeros(count + 1, dtype=bool)
        source, result = _ends(graph, place, last, inputs)
        passes[source + 1 : result + 2] = True
        return cls(
            tuple(graph.tensors[t].id for t in crosses.tolist()),
            opens,
            closes - 1,
            live,
            np.cumsum(grown)[:-1],
            passes & (live > 0) & (live == fresh[: count + 1]),
        )

    def points(self, places: Iterable[int]) -> tuple[CutPoint, ...]:
        """The places as cut points, in ascending order."""
        points, entered, live = [], 0, list[int]()
        for place in places:
            begun = int(np.searchsorted(self.first, place, side="right"))
            live = [t for t in (*live, *range(entered, begun)) if self.last[t] >= place]
            entered = begun
            names = tuple(self.names[t] for t in live)
            points.append(CutPoint(place, names, int(self.bytes[place]), bool(self.dominates[place])))
        return tuple(points)


def _ends(graph: OpGraph, place: IntArray, last_read: IntArray, inputs: Entrance) -> tuple[int, int]:
    """Positions of the last source and of the first result."""
    arrays, count = graph.arrays, len(place)
    reader, writer = arrays.reads.heads(), arrays.writes.heads()
    outside = np.bincount(reader[arrays.producer[arrays.reads.items] < 0], minlength=count)
    source = (outside > 0) & ((inputs == "first") | (outside == np.diff(arrays.reads.start)))
    results = np.zeros(len(last_read), dtype=bool)
    results[[graph.tensor_index[name] for name in graph.outputs]] = True
    result = np.bincount(writer[(last_read >= 0)[arrays.writes.items]], minlength=count) == 0
    result[writer[results[arrays.writes.items]]] = True
    return int(place[source].max(initial=-1)), int(place[result].min(initial=count))
