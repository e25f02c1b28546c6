"""GenEFlow: slicing as a constrained problem for genetic algorithms, a ``Problem`` of pymoo's.

Source: "MemoriaNova", section 3.3; the numbers below are those of its equations and constraint violations. A row holds
the cut points x[0] ... x[n] of every operator, whole numbers along the dimension that the paper's rule chooses. Nothing
but the violations says that they begin at 0, end at the length and never run backwards. The latency of a row that
breaks this is that of the nearest cut points that do not.

Where the printed text is not clear, this is what :class:`~opweave.problems.slicing.spec.Slicing` says: its readings of
transfers, of the channel and of weights hold here, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pymoo.core.problem import Problem

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance, lower, ruled_modes
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.slicing.spec import Slices, Slicing

CONSTRAINTS = ("cv1, cv2: x[0] = 0", "cv3, cv4: x[n] = length", "cv5: x[j - 1] <= x[j]", "cv6: parts", "cv7: memory")
"""The columns of ``G``; a row is legal if none is above 0."""


class PartRanges(NamedTuple):
    """The parts [first, end) of one operator in many rows. Shape (rows, devices)."""

    first: IntArray
    end: IntArray

    @property
    def size(self) -> IntArray:
        """Rows or channels of every part."""
        return self.end - self.first


def _nothing() -> None:
    """What watches a problem by itself."""


class GenEFlow(Problem):  # type: ignore[misc]  # pymoo has no types
    """Cut points of every operator; minimises the latency in seconds under cv1 to cv7.

    Parameters
    ----------
    problem
        The problem.
    instance
        It as arrays, in the order in which the operators run; None for the problem's order or the first legal one.

    Attributes
    ----------
    mode, length
        Dimension of every operator by the paper's rule, and its length.
    watch
        Called before rows are judged and for every operator; what it raises ends the search.

    Examples
    --------
    >>> from pymoo.algorithms.soo.nonconvex.ga import GA
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> from opweave.problems.slicing.spec import Geometry
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=32, shape=[1, 1, 8, 1]) for name in ("x", "y")],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"])],
    ... )
    >>> cluster = Cluster(devices=[Device(name="a"), Device(name="b")], rates=[4.0, 4.0])
    >>> costs = Costs.from_table({"p": {"a": 1.0, "b": 3.0}})
    >>> model = GenEFlow(Slicing(graph=graph, cluster=cluster, costs=costs, geometry={"p": Geometry(kernel=1)}))
    >>> judged = model.evaluate(np.array([[0, 6, 8], [0, 4, 9]]), return_as_dictionary=True)
    >>> judged["F"].ravel().tolist(), judged["G"].tolist()
    ([0.75, 1.5], [[0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]])
    """

    def __init__(self, problem: Slicing, instance: SlicingInstance | None = None) -> None:
        self.watch = _nothing
        self.instance = lower(problem) if instance is None else instance
        self.mode, self.devices = ruled_modes(problem, self.instance), len(self.instance.devices)
        self.length = self.instance.length[np.arange(len(self.mode)), self.mode]
        most = np.repeat(self.length, self.devices + 1)
        maker = np.repeat(np.arange(self.instance.operators), np.diff(self.instance.made_start))
        self._freed: list[list[tuple[int, int]]] = [[] for _ in range(self.instance.operators + 1)]
        for t, j in zip(self.instance.made.tolist(), maker.tolist(), strict=True):
            self._freed[int(self.instance.last[t])].append((t, j))
        super().__init__(n_var=len(most), n_obj=1, n_ieq_constr=len(CONSTRAINTS), xl=0, xu=most, vtype=int)

    def _evaluate(self, x: FloatArray, out: dict[str, FloatArray], *args: object, **kwargs: object) -> None:
        """Latency and violations of all rows."""
        self.watch()
        points, length = self._points(x), self.length
        begin, end = np.abs(points[:, :, 0]), np.abs(points[:, :, -1] - length)
        backwards = np.maximum(0, points[:, :, :-1] - points[:, :, 1:]).sum(axis=2)
        latency, parts, memory = self._played(self._repaired(points))
        broken = [each.sum(axis=1) for each in (begin, end, backwards)]
        out["F"], out["G"] = latency[:, None], np.stack([*broken, parts, memory], axis=1).astype(np.float64)

    def decode(self, row: FloatArray) -> Slices:
        """The slices of a row."""
        return self.instance.solution(self.mode, self._repaired(self._points(row[None]))[0])

    def encode(self, cuts: IntArray) -> FloatArray:
        """The cut points of a plan, stretched to the rule's dimension. Shape (operators, devices + 1)."""
        share = cuts / np.maximum(1, cuts[:, -1:])
        return np.rint(share * self.length[:, None]).ravel()

    def _points(self, x: FloatArray) -> IntArray:
        """Cut points as they stand. Shape (rows, operators, devices + 1)."""
        return np.rint(x).astype(np.int64).reshape(len(x), len(self.instance.names), self.devices + 1)

    def _repaired(self, points: IntArray) -> IntArray:
        """Cut points (6) to (10)."""
        points[:, :, 0], points[:, :, -1] = 0, self.length
        cuts: IntArray = np.minimum(np.maximum.accumulate(points, axis=2), self.length[:, None])
        return cuts

    def _played(self, cuts: IntArray) -> tuple[FloatArray, IntArray, FloatArray]:
        """Latency, surplus parts, and bytes over the devices' memory, of all rows."""
        instance, rows = self.instance, len(cuts)
        latency, surplus = np.zeros(rows), np.zeros(rows, dtype=np.int64)
        parts = [PartRanges(each[:, :-1], each[:, 1:]) for each in cuts.transpose(1, 0, 2)]
        weights = [self._weights(v, each) for v, each in enumerate(parts)]
        live = most = np.zeros((rows, self.devices), dtype=np.int64) + (sum(weights) if instance.resident else 0)
        for v, part in enumerate(parts):
            self.watch()
            passing = -(-instance.workspace[v] * part.size // self.length[v]) + (0 if instance.resident else weights[v])
            comm = np.zeros((rows, self.devices))
            for e in range(int(instance.flow_start[v]), int(instance.flow_start[v + 1])):
                seconds, missing = self._received(e, v, parts)
                passing = passing + missing
                comm += seconds
            latency += (comm + self._computed(v, part)).max(axis=1)
            taking = part.size > 0
            surplus += np.maximum(0, taking.sum(axis=1) - instance.most_parts[v])
            surplus += (taking & np.isinf(instance.intercept[v])).sum(axis=1)
            made = instance.made[instance.made_start[v] : instance.made_start[v + 1]].tolist()
            live = live + sum(self._held(t, v, part) for t in made)
            most = np.maximum(most, live + passing)
            live = live - sum(self._held(t, maker, parts[maker]) for t, maker in self._freed[v])
        return latency, surplus, np.maximum(0.0, most - instance.capacity.astype(np.float64)).sum(axis=1)

    def _received(self, e: int, v: int, parts: list[PartRanges]) -> tuple[FloatArray, IntArray]:
        """Flow e to operator v: seconds and bytes of every device."""
        instance, j, t = self.instance, int(self.instance.producer[e]), self.instance.tensor[e]
        part, by_rows, cell = parts[v], self.mode[v] == ROWS, instance.cell[t]
        across = instance.channels[t] if by_rows else instance.rows[t]
        first, end = self._needed(e, v, part)
        need = np.where(part.size > 0, np.maximum(0, end - first), 0)
        if j < 0:
            return np.zeros(need.shape), need * across * cell
        held = parts[j]
        if instance.whole[j]:
            cells = np.where(held.size > 0, 0, need * across)
        elif self.mode[v] != self.mode[j]:  # cases (i) and (ii)
            cells = need * (across - held.size)
        else:  # case (iii)
            shared = np.maximum(0, np.minimum(end, held.end) - np.maximum(first, held.first))
            cells = (need - np.minimum(need, shared)) * across
        sent = cells
        if instance.printed and by_rows and self.mode[j] == ROWS and not (instance.whole[j] or instance.whole[v]):
            beyond = np.maximum(0, end - held.end) + np.maximum(0, held.first - first)
            sent = np.where(need > 0, beyond, 0) * across
        rate = np.where(instance.rate > 0.0, instance.rate, np.inf)
        seconds = np.where(sent * cell > 0, instance.latency + sent * cell / rate, 0.0)
        return seconds, cells * cell

    def _needed(self, e: int, v: int, part: PartRanges) -> tuple[IntArray, IntArray]:
        """The rows or channels [first, end) of flow e that every part of operator v needs."""
        instance, t = self.instance, self.instance.tensor[e]
        if self.mode[v] == ROWS:
            first = np.maximum(0, part.first * instance.stride[e] - instance.padding[e])
            last = (part.end - 1) * instance.stride[e] - instance.padding[e]
            return first, np.minimum(instance.rows[t], last + instance.reach[e])
        most, wide, deep, offset = instance.channels[t], instance.wide[e], instance.deep[e], instance.offset[e]
        first = np.clip(part.first // wide * deep - offset, 0, most)
        return first, np.minimum(most, -(-part.end // wide) * deep - offset)

    def _computed(self, v: int, part: PartRanges) -> FloatArray:
        """Y(x[j] - x[j - 1]): seconds that every device computes."""
        able = np.isfinite(self.instance.intercept[v])
        fixed, slope = (np.where(able, each[v], 0.0) for each in (self.instance.intercept, self.instance.slope))
        return np.where(part.size > 0, fixed + slope / self.length[v] * part.size, 0.0)

    def _weights(self, v: int, part: PartRanges) -> IntArray:
        """Bytes of the weights that every device needs: a share along the channels, all of them along the rows."""
        weight = self.instance.weight[v]
        share = -(-weight * part.size // self.length[v]) if self.mode[v] == CHANNELS else weight
        return np.where(part.size > 0, share, 0)

    def _held(self, t: int, v: int, part: PartRanges) -> IntArray:
        """Bytes of a tensor that every device has made."""
        rows, channels, cell = self.instance.rows[t], self.instance.channels[t], self.instance.cell[t]
        made = part.size * rows if self.mode[v] == CHANNELS else part.size * rows // self.length[v] * channels
        return np.asarray(made * cell)
