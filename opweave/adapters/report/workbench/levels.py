"""Drawings of a model's graph: operators, or groups of them, in levels from left to right.

A level is one column. Columns are broken into rows like the lines of a text, so that deep models fill a screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency, topological_order

CELL = (150.0, 44.0)
"""Width and height of a node with the space around it, in the units of the drawing."""

FEW_COLUMNS = 6
ASPECT = 2.2
"""Width of a whole drawing divided by its height."""

MOST_ROWS = 16
"""A level with more nodes than this takes several columns."""

SWEEPS = 3
"""How often the nodes of all levels are put in order by their neighbours, forwards and backwards."""

MOST_DRAWINGS, LEAST_NODES = 4, 4
FEWER = 0.7
"""A coarser drawing has at most this share of the nodes of the next finer one."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing of a graph in which every node stands for one or more operators.

    Attributes
    ----------
    names
        One for each node: the operator, or the module.
    node
        The node of every operator. Shape (operators,).
    x, y
        Place of every node's middle, in columns and rows. Shape (nodes,).
    """

    names: tuple[str, ...]
    node: IntArray
    x: list[float]
    y: list[float]


def drawings(graph: OpGraph) -> list[Drawing]:
    """Draw a graph from coarse to fine: by modules as far as they are known, and at last by operators."""
    if not graph.operators:
        return []
    order = topological_order(graph.arrays.successors).tolist()
    found = [_drawing(graph, order, [(op.id,) for op in graph.operators])]
    paths = [_path(op.module) or _path_of_name(op.id) for op in graph.operators]
    depths = range(max(map(len, paths), default=0), 0, -1)
    for depth in depths:
        keys = [path[:depth] or (op.id,) for path, op in zip(paths, graph.operators, strict=True)]
        if len(set(keys)) <= FEWER * len(found[-1].names) and len(found) < MOST_DRAWINGS:
            drawn = _drawing(graph, order, keys)
            if LEAST_NODES <= len(drawn.names) <= FEWER * len(found[-1].names):
                found.append(drawn)
    return found[::-1]


def _path(module: str) -> tuple[str, ...]:
    return tuple(part for part in module.replace("/", ".").split(".") if part)


def _path_of_name(name: str) -> tuple[str, ...]:
    """Folders of an operator that is named like a file, as exports to ONNX name them."""
    return tuple(part for part in name.split("/")[:-1] if part)


def _drawing(graph: OpGraph, order: Sequence[int], keys: Sequence[tuple[str, ...]]) -> Drawing:
    before = graph.arrays.predecessors.lists()
    node, level, names = _segments(keys, before, order)
    own = graph.arrays.predecessors
    pairs = np.unique(np.stack([node[own.items], node[own.heads()]], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    forwards = Adjacency.from_pairs(len(names), pairs[:, 0], pairs[:, 1]).lists()
    backwards = Adjacency.from_pairs(len(names), pairs[:, 1], pairs[:, 0]).lists()
    columns = list(_columns(_late(level, forwards, backwards), forwards, backwards))
    x, y = _folded(columns, len(names), backwards)
    return Drawing(tuple(names), node, x, y)


def _segments(
    keys: Sequence[tuple[str, ...]], before: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[IntArray, list[int], list[str]]:
    """Put operators with the same key into one node, as long as that leads to no cycle.

    Returns
    -------
    tuple
        The node of every operator, the level of every node (above those of all nodes in front of it), and its name.
    """
    node = np.zeros(len(keys), dtype=np.int64)
    placed: list[int] = [0] * len(keys)
    level: list[int] = []
    names: list[str] = []
    current: dict[tuple[str, ...], int] = {}
    for op in order:
        mine = current.get(keys[op], -1)
        above = max((level[placed[other]] for other in before[op] if placed[other] != mine), default=-1)
        if mine < 0 or above >= level[mine]:
            mine = current[keys[op]] = len(names)
            # the operators in front of it may stand in the previous node of the same module
            level.append(1 + max((level[placed[other]] for other in before[op]), default=-1))
            names.append(".".join(keys[op]))
        placed[op] = mine
    node[:] = placed
    return node, level, names


def _late(level: list[int], forwards: Sequence[Sequence[int]], backwards: Sequence[Sequence[int]]) -> list[int]:
    """Move nodes that wait for nothing next to their first reader."""
    return [
        min(level[after] for after in forwards[node]) - 1 if forwards[node] and not backwards[node] else level[node]
        for node in range(len(level))
    ]


def _columns(
    level: Sequence[int], forwards: Sequence[Sequence[int]], backwards: Sequence[Sequence[int]]
) -> Iterator[list[int]]:
    """The nodes of every column, ordered so that neighbours in the graph stand side by side (barycentres)."""
    levels: list[list[int]] = [[] for _ in range(max(level) + 1)]
    for node, column in enumerate(level):
        levels[column].append(node)
    place = [0.0] * len(level)

    def spread(nodes: Sequence[int]) -> None:
        for slot, node in enumerate(nodes):
            place[node] = slot - (len(nodes) - 1) / 2

    for nodes in levels:
        spread(nodes)
    for sweep in range(2 * SWEEPS):
        near, rows = (backwards, levels) if sweep % 2 == 0 else (forwards, levels[::-1])
        for nodes in rows:
            if len(nodes) > 1:
                nodes.sort(
                    key=lambda node: (
                        sum(place[each] for each in near[node]) / len(near[node]) if near[node] else place[node]
                    )
                )
                spread(nodes)
    for nodes in levels:
        yield from (nodes[first : first + MOST_ROWS] for first in range(0, len(nodes), MOST_ROWS))


def _folded(
    columns: Sequence[Sequence[int]], nodes: int, backwards: Sequence[Sequence[int]]
) -> tuple[list[float], list[float]]:
    """Break the columns into rows; each node stands as near to its predecessors as its column leaves room."""
    x, y = [0.0] * nodes, [0.0] * nodes
    width = _line_length([len(column) for column in columns])
    top = 0.0
    for first in range(0, len(columns), width):
        line = columns[first : first + width]
        there: dict[int, float] = {}
        for position, column in enumerate(line):
            for node, place in zip(column, _spaced(column, there, backwards), strict=True):
                x[node], y[node] = float(position), place
            there |= {node: y[node] for node in column}
        lowest = min(y[node] for column in line for node in column)
        highest = max(y[node] for column in line for node in column)
        for column in line:
            for node in column:
                y[node] = round(4 * (y[node] - lowest + top)) / 4
        top += highest - lowest + 2.0
    return x, y


def _spaced(column: Sequence[int], there: Mapping[int, float], backwards: Sequence[Sequence[int]]) -> list[float]:
    """Places at least 1 apart, near the mean of each node's predecessors in the same line."""
    wanted = []
    for slot, node in enumerate(column):
        near = [there[each] for each in backwards[node] if each in there]
        wanted.append(sum(near) / len(near) if near else slot - (len(column) - 1) / 2)
    found: list[float] = []
    for place in wanted:
        found.append(max(place, found[-1] + 1.0) if found else place)
    shift = sum(want - have for want, have in zip(wanted, found, strict=True)) / len(found)
    return [place + shift for place in found]


def _line_length(heights: Sequence[int]) -> int:
    """Columns of a line, so that the whole drawing has about the wanted shape; few columns make one line."""
    if len(heights) <= FEW_COLUMNS:
        return len(heights)
    best, nearest = len(heights), np.inf
    tries = Counter(max(1, round(len(heights) / lines)) for lines in range(1, len(heights) + 1))
    for width in sorted(tries):
        tall = sum(max(heights[first : first + width]) + 1.0 for first in range(0, len(heights), width))
        off = abs(np.log(width * CELL[0] / (tall * CELL[1]) / ASPECT))
        if off < nearest:
            best, nearest = width, off
    return best
