"""The down-sets of a graph, or of an order, as places where a pipeline may be cut, and what stages between two take.

The empty set is the first point, the whole graph the last one. A stage runs the operators of one point that are not in
an earlier one. Operators that never gain from being apart are one *unit*: those of a ``Colocate``, and operators
without a time that may join the one maker of what they read, or the one reader of what they write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.on_cluster import capacity_of, permitted
from opweave.formulations.pipeline.instance import SLACK
from opweave.formulations.pipeline.pieces import points_of
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Colocate, Separate, means
from opweave.problems.graph import OpGraph
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages

if TYPE_CHECKING:
    import networkx as nx  # importing takes a tenth of a second, and few solves write a lattice

MOST_POINTS = 3_000
"""Most points; matrices over pairs of them have nine million entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Points in an order in which every set comes behind its subsets, and pairs of them.

    Attributes
    ----------
    devices
        Names of the usable devices.
    members
        Which operators each point has. Shape (points, operators).
    within
        Whether a point is a smaller set than another one. Shape (points, points).
    elapsed
        Seconds of a point's operators on each device; unknown times count as 0. Shape (devices, points).
    allowed
        Stages that each device may run and holds. Shape (devices, points, points).
    fetched, stored
        Bytes, after compression, that a stage fetches from a common memory and puts there; -1 if it carries no tensor.
        Shape (points, points).
    sent
        Bytes, after compression, that cross each point. Shape (points,).
    """

    graph: OpGraph
    devices: tuple[str, ...]
    members: BoolArray
    within: BoolArray
    elapsed: FloatArray
    allowed: BoolArray
    fetched: FloatArray
    stored: FloatArray
    sent: FloatArray

    @property
    def last(self) -> int:
        """The point with all operators."""
        return len(self.members) - 1

    @property
    def blur(self) -> float:
        """Seconds by which differences and sums of ``elapsed`` may be off, as in the instance of a chain."""
        sums = sum(self.members.shape) + 2
        return 2.0**-52 * 4.0 * sums * float(self.elapsed.max(initial=0.0))

    def stages(self, points: Sequence[int], devices: Sequence[Sequence[int]], order: Sequence[str]) -> Stages:
        """The solution that passes through points, on given devices; operators in a given order."""
        place = [self.graph.operator_index[name] for name in order]
        found = []
        for a, b, team in zip(points[:-1], points[1:], devices, strict=True):
            inside = self.members[b] & ~self.members[a]
            names = tuple(name for name, k in zip(order, place, strict=True) if inside[k])
            first, *others = (self.devices[v] for v in team)
            found.append(Stage(device=first, operators=names, replicas=tuple(others)))
        return Stages(stages=tuple(found))


def lattice_of(problem: Pipeline, ceiling: float, over: Callable[[], bool]) -> Lattice | None:
    """All points of a problem; None if there are too many, or no time is left.

    Parameters
    ----------
    ceiling
        The objective of a known solution; times that exceed it count as unknown.
    over
        Whether time is up.
    """
    units = _units(problem) if problem.cuts == "ideals" else _runs(problem)
    members = _members(units, len(problem.graph.operators), over)
    if members is None:
        return None
    return _Writer(problem, members, ceiling).lattice()


def _runs(problem: Pipeline) -> nx.DiGraph[int]:
    """The order as a chain of units between places where it may be cut."""
    import networkx as nx

    index, order = problem.graph.operator_index, problem.running_order
    position = points_of(problem).tolist()
    chain: nx.DiGraph[int] = nx.DiGraph()
    for number, (a, b) in enumerate(pairwise(position)):
        chain.add_node(number, operators=[index[name] for name in order[a:b]])
        if number:
            chain.add_edge(number - 1, number)
    return chain


def _units(problem: Pipeline) -> nx.DiGraph[int]:
    """The graph of units; each has its operators."""
    joined = _Joining(problem)
    joined.join()
    return joined.condensed()


class _Joining:
    """Operators that are joined to units."""

    def __init__(self, problem: Pipeline) -> None:
        self._problem, graph = problem, problem.graph
        self._parent = list(range(len(graph.operators)))
        self._timeless = [not any(problem.known_seconds[op.id].values()) for op in graph.operators]
        self._bytes = [tensor.bytes for tensor in graph.tensors]
        arrays = graph.arrays
        self._reads = [arrays.reads[v].tolist() for v in range(len(graph.operators))]
        self._writes = [arrays.writes[v].tolist() for v in range(len(graph.operators))]
        self._maker = arrays.producer.tolist()
        self._readers: list[list[int]] = [[] for _ in graph.tensors]
        for v, tensors in enumerate(self._reads):
            for t in tensors:
                self._readers[t].append(v)

    def _top(self, v: int) -> int:
        while self._parent[v] != v:
            self._parent[v] = self._parent[self._parent[v]]
            v = self._parent[v]
        return v

    def join(self) -> None:
        """Join what must be together, then what may be."""
        index = self._problem.graph.operator_index
        for each in self._problem.constraints:
            if means(each, Colocate):
                for name in each.ops[1:]:
                    self._parent[self._top(index[name])] = self._top(index[each.ops[0]])
        changed = self._nothing_binds()
        while changed:
            units: dict[int, list[int]] = {}
            for v in range(len(self._parent)):
                units.setdefault(self._top(v), []).append(v)
            touched = set[int]()
            for unit, operators in units.items():
                target = None if unit in touched else self._target(unit, operators)
                if target is not None and target not in touched:
                    self._parent[unit] = target
                    touched |= {unit, target}
            changed = bool(touched)

    def _nothing_binds(self) -> bool:
        """Whether moving operators without a time can break nothing: no rules, known times, memory for all.

        With links, a stage without a time may be worth its while as a bridge between two fast ones.
        """
        problem = self._problem
        if problem.delivery != "host" or problem.min_stages > 1:
            return False
        if any(not means(each, Colocate) for each in problem.constraints) or problem.stateful:
            return False
        known = all(len(row) == len(problem.cluster.devices) for row in problem.known_seconds.values())
        limits = [problem.memory_limits[name] for name in problem.usable_devices]
        held = problem.memory_of(problem.graph.operator_index)
        return known and problem.cluster.latency == 0.0 and all(each is None or each >= held for each in limits)

    def _target(self, unit: int, operators: list[int]) -> int | None:
        """A unit that another one without a time may join at no cost; None if there is none."""
        if not all(self._timeless[v] for v in operators):
            return None
        inside = set(operators)
        read = {t for v in operators for t in self._reads[v] if self._maker[t] not in inside}
        made = {t for v in operators for t in self._writes[v] if any(u not in inside for u in self._readers[t])}
        makers = {self._top(self._maker[t]) if self._maker[t] >= 0 else -1 for t in read}
        if len(makers) == 1 and -1 not in makers:
            (maker,) = makers
            alone = all(self._top(u) in (maker, unit) for t in read for u in self._readers[t])
            if not made or (alone and self._sum(made) <= self._sum(read)):
                return maker
        readers = {self._top(u) for t in made for u in self._readers[t]} - {unit}
        if len(readers) == 1 and not self._sum(read):
            return readers.pop()
        return None

    def _sum(self, tensors: set[int]) -> int:
        return sum(self._bytes[t] for t in tensors)

    def condensed(self) -> nx.DiGraph[int]:
        """Units that read from each other in a ring are one, too."""
        import networkx as nx

        rough: nx.DiGraph[int] = nx.DiGraph()
        rough.add_nodes_from(self._top(v) for v in range(len(self._parent)))
        for t, readers in enumerate(self._readers):
            if self._maker[t] >= 0:
                rough.add_edges_from((self._top(self._maker[t]), self._top(v)) for v in readers)
        merged = nx.condensation(rough)
        unit_of = merged.graph["mapping"]
        for unit in merged:
            merged.nodes[unit]["operators"] = []
        for v in range(len(self._parent)):
            merged.nodes[unit_of[self._top(v)]]["operators"].append(v)
        return merged


def _members(units: nx.DiGraph[int], operators: int, over: Callable[[], bool]) -> BoolArray | None:
    """The down-sets of units by size, as rows of operators; None if there are too many."""
    import networkx as nx

    order = list(nx.topological_sort(units))
    place = {unit: bit for bit, unit in enumerate(order)}
    before = [sum(1 << place[each] for each in units.predecessors(unit)) for unit in order]
    level, found = {0}, [0]
    while level:
        level = {
            each | 1 << bit
            for each in level
            for bit, needed in enumerate(before)
            if not each >> bit & 1 and not needed & ~each
        }
        found += sorted(level)
        if len(found) > MOST_POINTS or over():
            return None
    members = np.zeros((len(found), operators), dtype=bool)
    for bit, unit in enumerate(order):
        inside = np.array([each >> bit & 1 for each in found], dtype=bool)
        members[np.ix_(inside, units.nodes[unit]["operators"])] = True
    return members


class _Writer:
    """Writes the matrices of a lattice."""

    def __init__(self, problem: Pipeline, members: BoolArray, ceiling: float) -> None:
        self._problem, self._members, self._ceiling = problem, members, ceiling
        size = members.sum(axis=1)
        whole = members.astype(np.float32)
        self._within = (whole @ whole.T == size[:, None]) & (size[:, None] < size)
        self._devices = problem.usable_devices

    def lattice(self) -> Lattice:
        """All of it."""
        problem, members = self._problem, self._members
        names = problem.graph.operator_ids
        known = np.ones((len(self._devices), len(names)), dtype=bool)
        seconds = np.zeros(known.shape)
        if problem.costs is not None and problem.include_compute:
            table = problem.costs.array(names, self._devices).T
            longest = math.inf if problem.objective == "transfers" else self._ceiling * problem.max_replicas
            known = table <= longest * (1.0 + SLACK)
            seconds = np.where(known, table, 0.0)
        fetched, stored, sent = self._carried()
        return Lattice(
            graph=problem.graph,
            devices=self._devices,
            members=members,
            within=self._within,
            elapsed=seconds @ members.T.astype(np.float64),
            allowed=self._allowed(known),
            fetched=fetched / problem.compression,
            stored=stored / problem.compression,
            sent=sent / problem.compression,
        )

    def _allowed(self, known: BoolArray) -> BoolArray:
        problem, members = self._problem, self._members
        place = problem.graph.operator_index
        able = known & permitted(place, self._devices, problem.constraints).T
        held = self._held()
        capacity = capacity_of(problem.memory_limits[name] for name in self._devices)
        together = self._within.copy()
        for each in problem.constraints:
            if means(each, Separate):
                count = members[:, [place[name] for name in each.ops]].sum(axis=1)
                together &= count - count[:, None] <= 1
        allowed = np.empty((len(self._devices), *held.shape), dtype=bool)
        for v, size in enumerate(capacity.tolist()):
            refused = members @ (~able[v]).astype(np.int64)
            allowed[v] = together & (refused[None, :] == refused[:, None])
            if size != NO_LIMIT:
                allowed[v] &= held <= size
        return allowed

    def _held(self) -> IntArray:
        """Bytes of every stage."""
        problem, members, graph = self._problem, self._members, self._problem.graph
        users: dict[str, list[int]] = {}
        for number, op in enumerate(graph.operators):
            for name in dict.fromkeys(op.parameters):
                users.setdefault(name, []).append(number)
        own = np.zeros(len(graph.operators), dtype=np.int64)
        if problem.memory == "additive":
            own += np.array([graph.bytes_made[op.id] for op in graph.operators], dtype=np.int64)
        for name, where in users.items():
            if len(where) == 1:
                own[where[0]] += graph.parameter_bytes[name]
        by_point = members @ own
        held = by_point[None, :] - by_point[:, None]
        for name, where in users.items():
            if len(where) > 1:
                count = members[:, where].sum(axis=1)
                held += np.where(count[None, :] > count[:, None], graph.parameter_bytes[name], 0)
        return np.asarray(held)

    def _tensors(self) -> Iterator[tuple[int, BoolArray, IntArray, int]]:
        """Bytes, the points that have made it, how many of its readers each point has, and their number."""
        problem, members, arrays = self._problem, self._members, self._problem.graph.arrays
        readers: list[list[int]] = [[] for _ in problem.graph.tensors]
        for v in range(len(problem.graph.operators)):
            for t in set(arrays.reads[v].tolist()):
                readers[t].append(v)
        started = members.any(axis=1)
        for t, where in enumerate(readers):
            maker = int(arrays.producer[t])
            if where and (maker >= 0 or problem.inputs == "first"):
                made = members[:, maker] if maker >= 0 else np.asarray(started)
                count: IntArray = members[:, where].sum(axis=1)
                yield int(arrays.tensor_bytes[t]), made, count, len(where)

    def _carried(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bytes fetched and stored by stages, and sent across points."""
        points = len(self._members)
        shape = (points, points) if self._problem.delivery == "host" else (1, 1)
        fetched, stored = np.full((2, *shape), -1.0)
        sent = np.zeros(points)
        for size, made, count, readers in self._tensors():
            waiting = made & (count < readers)
            sent += np.where(waiting, float(size), 0.0)
            if self._problem.delivery == "host":
                for matrix, carried in (
                    (fetched, made[:, None] & (count[None, :] > count[:, None])),
                    (stored, ~made[:, None] & waiting[None, :]),
                ):
                    matrix[carried & (matrix < 0.0)] = 0.0
                    matrix[carried] += size
        return fetched, stored, sent
