"""The drawing of a model's graph: operators in modules, and modules in modules, each in levels from left to right.

A level is one column. The page's script gives every module its size, which depends on the modules that are open in it,
and breaks its columns into lines like those of a text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order

CELL = (150.0, 44.0)
"""Width and height of an operator with the space around it, in the units of the drawing."""

MOST_ROWS = 16
"""A level with more nodes than this takes several columns."""

SWEEPS = 3
"""How often the nodes of all levels are put in order by their neighbours, forwards and backwards."""

FEWER = 0.7
"""Operators are drawn in modules if these have at most this share of the operators' number."""

DEEPEST = 12
"""Most modules that stand in each other."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph as a tree, with a place for every item in the module that it stands in.

    The items are the modules, the first one for the whole model and each other one after the module that it stands in,
    and then the operators.

    Attributes
    ----------
    names
        One for each module, without those of the modules around it.
    inside
        The module of every item; -1 for the whole model.
    column, row
        Place of every item. Rows of a column are at least 1 apart.
    """

    names: list[str]
    inside: list[int]
    column: list[int]
    row: list[float]


def drawing(graph: OpGraph) -> Drawing:
    """Draw a graph by modules, as far as they are known."""
    paths = [(_path(op.module) or _path_of_name(op.id))[:DEEPEST] for op in graph.operators]
    before = graph.arrays.predecessors.lists()
    names, places, of_ops = [""], [(-1, 0, 0.0)], [(0, 0, 0.0)] * len(paths)
    waiting = [(0, 0, topological_order(graph.arrays.successors).tolist())] if paths else []
    for module, outer, ops in waiting:
        local = {op: position for position, op in enumerate(ops)}
        reads = [[local[each] for each in before[op] if each in local] for op in ops]
        depth, part, level = _parts([paths[op] for op in ops], outer, reads)
        members: list[list[int]] = [[] for _ in level]
        for op, mine in zip(ops, part, strict=True):
            members[mine].append(op)
        for some, place in zip(members, _places(part, level, reads), strict=True):
            if len(some) == 1:
                of_ops[some[0]] = (module, *place)
                continue
            waiting.append((len(names), depth, some))
            names.append(".".join(paths[some[0]][max(outer, depth - 2) : depth]))
            places.append((module, *place))
    inside, column, row = zip(*places, *of_ops, strict=True)
    return Drawing(names, list(inside), list(column), list(row))


def _path(module: str) -> tuple[str, ...]:
    return tuple(part for part in module.replace("/", ".").split(".") if part)


def _path_of_name(name: str) -> tuple[str, ...]:
    """Folders of an operator that is named like a file, as exports to ONNX name them."""
    return tuple(part for part in name.split("/")[:-1] if part)


def _parts(
    paths: Sequence[tuple[str, ...]], depth: int, reads: Sequence[Sequence[int]]
) -> tuple[int, list[int], list[int]]:
    """Divide the operators of a module, which come in topological order, among the modules in it.

    Returns
    -------
    tuple
        The depth of these modules, the part of every operator, and the level of every part. If there are no modules,
        or too many, every operator is a part.
    """
    for deeper in range(depth + 1, max(map(len, paths)) + 1):
        keys = [path[:deeper] if len(path) >= deeper else op for op, path in enumerate(paths)]
        part, level = _segments(keys, reads)
        if 1 < len(level) <= FEWER * len(paths):
            return deeper, part, level
    return depth, *_segments(range(len(paths)), reads)


def _segments(keys: Sequence[Hashable], reads: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Put operators with the same key into one part, as long as that leads to no cycle.

    Returns
    -------
    tuple
        The part of every operator, and the level of every part, which is above those of all parts in front of it.
    """
    part: list[int] = []
    level: list[int] = []
    current: dict[Hashable, int] = {}
    for key, row in zip(keys, reads, strict=True):
        mine = current.get(key, -1)
        above = max((level[part[other]] for other in row if part[other] != mine), default=-1)
        if mine < 0 or above >= level[mine]:
            mine = current[key] = len(level)
            # the operators in front of it may stand in the previous part with the same key
            level.append(1 + max((level[part[other]] for other in row), default=-1))
        part.append(mine)
    return part, level


def _places(part: Sequence[int], level: Sequence[int], reads: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Column and row of every part."""
    forwards: list[list[int]] = [[] for _ in level]
    backwards: list[list[int]] = [[] for _ in level]
    for before, after in sorted({(part[each], part[op]) for op, row in enumerate(reads) for each in row}):
        if before != after:
            forwards[before].append(after)
            backwards[after].append(before)
    found = [(0, 0.0)] * len(level)
    there: dict[int, float] = {}
    for column, nodes in enumerate(_columns(_late(level, forwards, backwards), forwards, backwards)):
        there |= zip(nodes, _spaced(nodes, there, backwards), strict=True)
        for node in nodes:
            found[node] = (column, there[node])
    return found


def _late(level: Sequence[int], forwards: Sequence[Sequence[int]], backwards: Sequence[Sequence[int]]) -> list[int]:
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


def _spaced(column: Sequence[int], there: Mapping[int, float], backwards: Sequence[Sequence[int]]) -> list[float]:
    """Rows at least 1 apart, in quarters, near the mean of each node's predecessors."""
    wanted = []
    for slot, node in enumerate(column):
        near = [there[each] for each in backwards[node] if each in there]
        wanted.append(round(4 * sum(near) / len(near)) / 4 if near else slot - (len(column) - 1) / 2)
    found: list[float] = []
    for place in wanted:
        found.append(max(place, found[-1] + 1.0) if found else place)
    shift = sum(want - have for want, have in zip(wanted, found, strict=True)) / len(found)
    return [place + round(4 * shift) / 4 for place in found]
