"""Slicings as rows: for every operator, shares for the devices, and its dimension.

A device's gene above ``IDLE`` is its share before scaling; up to ``IDLE`` the device idles. A dimension gene of 0.5 or
more means channels. Whatever the genes, cuts begin at 0, end at the length and never run backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from opweave.problems.arrays import NO_LIMIT, FloatArray
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.evolution.encoding import Encoding, Judged
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.run import Run
from opweave.solvers.slicing.arrays import is_limited, judge
from opweave.solvers.slicing.geneflow import decode, encode, gene_count
from opweave.solvers.slicing.local import local_search


class SlicingEncoding(Encoding):
    """Slicings as shares and dimensions, for the order of a search, whose plans are the first rows."""

    taken_in: ClassVar[tuple[type[Constraint], ...]] = (Pin, Forbid, MemoryCap)
    limits = ("memory and parts",)

    def __init__(self, problem: Slicing, run: Run) -> None:
        self._search = local_search(problem, run)
        self.instance, self.arrays = self._search.instance, self._search.arrays
        self.genes = gene_count(self.instance)
        self._room = max(1.0, float(self.instance.capacity[self.instance.capacity < NO_LIMIT].sum()))

    def decode(self, row: FloatArray) -> Slices:
        """The slices of a row."""
        modes, cuts = decode(self.instance, row[None])
        return self.instance.solution(modes[0], cuts[0])

    def encode(self, solution: Slices) -> FloatArray:
        """Shares and dimensions of a solution."""
        return encode(*self.instance.plan(solution))

    def judge(self, rows: FloatArray) -> Judged:
        """Judge rows; memory is looked at if it is limited."""
        found = judge(self.arrays, *decode(self.instance, rows), memory=is_limited(self.arrays))
        return Judged(found.seconds, found.excess[:, None] / self._room)

    def seeds(self) -> Iterator[FloatArray]:
        """The best plan of the search, if it has one, and the baselines, the best first."""
        return (encode(plan.mode, plan.cuts) for plan in self._search.plans())


register_pymoo(Slicing, SlicingEncoding)
