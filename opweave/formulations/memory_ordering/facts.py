"""What precedence says about an ordering problem, and the data of programs over pairs that follow from it.

The outline is found first: it says how large a program will be. Pairs and footprints, which take much longer to write,
follow only if the program is small enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_ordering.groups import Groups, contract, single_groups
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.loads import Excess, Footprints, Loads
from opweave.formulations.memory_ordering.pairs import Pairs, unsettled
from opweave.formulations.memory_ordering.program import OrderingProgram, Scale, least_peak, scale_of
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.order_arcs import ancestors, reduced_arcs
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """What is known before any pair has a column.

    Attributes
    ----------
    closed
        Entry [g, h]: group h must run before group g.
    undecided
        Operators whose footprint decides, and is not settled by precedence.
    critical
        Groups that hold an undecided operator. Pairs with such a group have a column.
    lower_bound
        Least value of the peak, bytes.
    pairs, arcs
        Number of pairs that have a column, and of rows that link two of them along an arc.
    """

    instance: OrderingInstance
    groups: Groups
    closed: BoolArray
    footprints: Footprints
    undecided: BoolArray
    critical: BoolArray
    lower_bound: int
    pairs: int
    arcs: int


@dataclass(frozen=True, eq=False)
class PairFacts:
    """The data from which programs over pairs are written.

    Attributes
    ----------
    pairs
        The pairs that have a column.
    counted
        Number of pairs that footprints use; handles may ask for more.
    critical
        Groups that hold an operator whose footprint precedence does not settle.
    loads
        Footprint in bytes of every operator that has a memory row, over pair numbers, then excesses.
    excesses
        Columns that follow the pairs.
    lower_bound
        Least value of the peak, bytes.
    """

    instance: OrderingInstance
    groups: Groups
    pairs: Pairs
    counted: int
    critical: BoolArray
    loads: dict[int, Linear]
    excesses: list[Excess]
    scale: Scale
    lower_bound: int

    def name(self, group: int) -> str:
        """The name of a group: that of its centre."""
        return self.instance.names[int(self.groups.centre[group])]

    def arcs(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Every critical group g, with the arcs p -> q of groups whose order relative to g is open."""
        heads, tails = reduced_arcs(self.groups.before, self.pairs.closed)
        for g in np.flatnonzero(self.critical).tolist():
            columns = self.pairs.column[g]
            beside = (columns[heads] >= 0) & (columns[tails] >= 0)
            yield g, heads[beside], tails[beside]

    def follow(self, pairs: Sequence[float]) -> list[float]:
        """Values of the counted pairs, then of all excesses."""
        known = list(pairs[: self.counted])
        for excess in self.excesses:
            known.append(max(0, *(over.at(known) for over in excess.over)))
        return known

    def order(self, values: FloatArray) -> Ordering:
        """The order of the groups according to the pairs' values; if these form a cycle, an order close to them."""
        return self.instance.ordering(self.groups.spread(self.pairs.order(values)))

    def gather(self, solution: Ordering) -> IntArray:
        """The groups in a solution's order. If it splits groups, it is regrouped, which does not raise its peak."""
        return self.groups.gather(self.instance.positions(solution))


class PairProgram(OrderingProgram, ABC):
    """A program over pairs of operators."""

    @abstractmethod
    def count_rows(self, outline: Outline) -> int:
        """Number of rows of the model, as far as the outline says."""

    def prepare(self, problem: MemoryOrdering) -> PairFacts:
        """Choose the pairs and write the footprints, unless the model is too large."""
        outline = self.outline(problem)
        self.check_size(self.count_rows(outline))
        instance, groups = outline.instance, outline.groups
        pairs = Pairs.around(groups, outline.closed, outline.critical)
        peak = problem.objective == "peak"
        chosen = outline.undecided if peak else np.ones(instance.operators, dtype=bool)
        writer = Loads(outline.footprints, pairs.before, len(pairs))
        loads: dict[int, Linear] = {}
        for v in np.flatnonzero(chosen).tolist():
            self.check_time()
            loads[v] = writer.of(v)
        excesses, scale = writer.excesses, scale_of(instance)
        critical, lower_bound = outline.critical, outline.lower_bound
        return PairFacts(instance, groups, pairs, len(pairs), critical, loads, excesses, scale, lower_bound)

    def outline(self, problem: MemoryOrdering) -> Outline:
        """Contract the operators, find the critical ones, and count."""
        self.check_problem(problem)
        instance, peak = lower(problem), problem.objective == "peak"
        closed = ancestors(instance.after)
        self.check_time()
        groups = contract(instance, closed) if peak and not self.context.extended else single_groups(instance)
        closed = ancestors(groups.after)
        self.check_time()
        footprints = Footprints.of(instance, groups.operator_closure(closed))
        self.check_time()
        lower_bound = max(instance.start_bytes(), int(footprints.lower.max(initial=0)))
        # Operators below a proved lower bound need no row. The peak itself is raised to it for users' rows only: the
        # search goes faster towards a relaxation that is still minimised than among the many of the same value.
        proved = max(lower_bound, int(self.context.lower_bound or 0)) if peak else lower_bound
        least_peak(problem, proved)
        undecided = footprints.upper > (proved if peak else footprints.lower)
        critical = np.zeros(len(groups.after), dtype=bool)
        critical[groups.group[undecided]] = True
        open_ = unsettled(closed)
        self.check_time()
        shown = proved if self.context.extended else lower_bound
        pairs, arcs = _count_pairs(open_, critical), _count_arcs(groups, closed, open_, critical)
        return Outline(instance, groups, closed, footprints, undecided, critical, shown, pairs, arcs)


def _count_pairs(open_: BoolArray, critical: BoolArray) -> int:
    """Open pairs with at least one critical group."""
    rows = np.flatnonzero(critical).tolist()
    both = sum(int(np.count_nonzero(open_[g] & critical)) for g in rows)
    return sum(int(np.count_nonzero(open_[g])) for g in rows) - both // 2


def _count_arcs(groups: Groups, closed: BoolArray, open_: BoolArray, critical: BoolArray) -> int:
    """Arcs p -> q, counted once for every critical group whose order to both is open."""
    arcs = zip(*(ends.tolist() for ends in reduced_arcs(groups.before, closed)), strict=True)
    return sum(int(np.count_nonzero(open_[p] & open_[q] & critical)) for p, q in arcs)
