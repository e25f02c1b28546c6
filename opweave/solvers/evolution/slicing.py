"""Slicings as rows: shares of every operator for the devices, and its dimension (:mod:`opweave.solvers.slicing.genes`).

:class:`LiteralEncoding` is the paper's literal chromosome: integer cut points that may break (8) to (10). It adds up
these violations (cv1 to cv5) and those of parts and memory (cv6, cv7). Only rows without violations are plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, SlicingInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.evolution.encoding import Judged, knows_arcs_and, register_encoding
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.slicing.arrays import is_limited, judge
from opweave.solvers.slicing.baselines import ruled_modes
from opweave.solvers.slicing.genes import decode, encode, gene_count
from opweave.solvers.slicing.local import LocalSearch, local_search


class SlicingEncoding:
    """Slicings as shares and dimensions; every row has legal cut points.

    Attributes
    ----------
    search
        The search whose order and plans the rows share.
    """

    whole_numbers = False
    measures = frozenset({"peak_bytes"})
    limits: tuple[str, ...] = ("memory and parts",)

    def __init__(self, search: LocalSearch) -> None:
        self.search = search
        self.instance: SlicingInstance = search.instance
        self.arrays = search.arrays
        self.lower, self.upper = np.zeros(gene_count(self.instance)), np.ones(gene_count(self.instance))
        lasts = self.instance.intercept + self.instance.slope
        self.worst = 10.0 * float(np.where(np.isfinite(lasts), lasts, 0.0).max(axis=1, initial=0.0).sum())
        limited = self.instance.capacity[self.instance.capacity < NO_LIMIT]
        self._room = max(1.0, float(limited.sum()))
        self._blank = self.instance.blank_cuts()

    def knows(self, constraint: Constraint) -> bool:
        """See :func:`knows`."""
        return knows(constraint)

    def plans(self, rows: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Modes and cuts of rows, and by how much the rows themselves break the rules for cut points."""
        count = len(rows)
        modes = np.zeros((count, self.instance.operators), dtype=np.int64)
        cuts = np.repeat(self._blank[None], count, axis=0)
        genes = np.ascontiguousarray(rows)
        decode(self.arrays, self.instance.first, genes, modes, cuts)
        return modes, cuts, np.zeros(count)

    def plan(self, row: FloatArray) -> tuple[IntArray, IntArray]:
        """Mode and cuts of one row."""
        modes, cuts, _ = self.plans(row[None])
        return modes[0], cuts[0]

    def decode(self, row: FloatArray) -> Slices:
        """The slices of a row."""
        return self.instance.solution(*self.plan(row))

    def encode(self, solution: Slices) -> FloatArray:
        """Shares and dimensions of a solution."""
        return self.row(*self.instance.plan(solution))

    def row(self, mode: IntArray, cuts: IntArray) -> FloatArray:
        """Shares and dimensions of a plan."""
        return encode(self.instance, mode, cuts)

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows; memory is looked at if it is limited, or if its peak is asked for."""
        modes, cuts, broken = self.plans(rows)
        found = judge(self.arrays, modes, cuts, memory=is_limited(self.arrays) or "peak_bytes" in measures)
        excess = broken + found.excess / self._room
        peaks = found.peaks.max(axis=1, initial=0).astype(np.float64)
        return Judged(found.seconds, excess[:, None], {"peak_bytes": peaks} if "peak_bytes" in measures else {})

    def repair(self, rows: FloatArray) -> FloatArray:
        """The genes that the plans of these rows have, so that equal plans are equal rows."""
        modes, cuts, _ = self.plans(rows)
        return np.asarray([self.row(mode, cut) for mode, cut in zip(modes, cuts, strict=True)]).reshape(rows.shape)

    def seeds(self) -> Iterator[FloatArray]:
        """The best plan of the search, if it has one, and the baselines, the best first."""
        return (self.row(plan.mode, plan.cuts) for plan in self.search.known())


class LiteralEncoding(SlicingEncoding):
    """The paper's chromosome: integer cut points of every operator along the rule's dimension, unsorted."""

    whole_numbers = True

    def __init__(self, search: LocalSearch) -> None:
        super().__init__(search)
        instance = self.instance
        modes = ruled_modes(search.problem, instance)
        self._modes = np.where(instance.length[np.arange(len(modes)), modes] > 0, modes, CHANNELS - modes)
        self._movable = slice(instance.first, instance.first + len(instance.names))
        self._length = instance.length[np.arange(len(modes)), self._modes][self._movable].astype(np.float64)
        self.upper = np.repeat(self._length, len(instance.devices) + 1)
        self.lower = np.zeros(len(self.upper))

    def plans(self, rows: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Cut points as given; invalid ones are repaired only to compute a latency."""
        count, devices = len(rows), len(self.instance.devices)
        points = np.rint(rows).reshape(count, len(self._length), devices + 1)
        broken = np.abs(points[:, :, 0]).sum(axis=1) + np.abs(points[:, :, -1] - self._length).sum(axis=1)
        broken += np.maximum(0.0, points[:, :, :-1] - points[:, :, 1:]).sum(axis=(1, 2))
        points[:, :, 0], points[:, :, -1] = 0.0, self._length
        cuts = np.repeat(self._blank[None], count, axis=0)
        cuts[:, self._movable] = np.minimum(np.maximum.accumulate(points, axis=2), self._length[:, None])
        return np.repeat(self._modes[None], count, axis=0), cuts, broken

    def row(self, mode: IntArray, cuts: IntArray) -> FloatArray:
        """Cut points along the rule's dimension, regardless of the plan's."""
        del mode
        length = np.maximum(cuts[self._movable, -1:], 1)
        return np.asarray(np.rint(cuts[self._movable] / length * self._length[:, None]).ravel(), dtype=np.float64)


def knows(constraint: Constraint) -> bool:
    """Pin and Forbid leave devices without a share; MemoryCap is memory; the order obeys precedences."""
    return knows_arcs_and(constraint, Pin, Forbid, MemoryCap)


register_encoding(Slicing, lambda problem, run: SlicingEncoding(local_search(problem, run)))
register_pymoo(Slicing)
