"""Memory ordering as an integer program over pairs: "a runs before b".

Operators are fused first (:mod:`.fusion`), unless rows of your own may be added. Pairs with a critical operator have a
column; engines that cannot cut off cycles as they appear, and users, get the paper's program (:mod:`.ordering_ilp`).
An operator is critical if its step could exceed the best known lower bound. For one critical operator, the
memory row and the arc rows form the linear program of a minimum closure, so the relaxation is at least as strong as the
minimum-cut bound of every operator.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use two handles of the model that take
operator ids: ``model.before(a, b)`` is 0 or 1, and ``model.position(a)`` is the step of a, counted from 0:

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add(model.before("norm", "loss") + model.position("norm") <= 3)
>>> class NotLater(Constraint):
...     op: str
...     step: int
...     def violations(self, problem, solution):
...         if solution.intervals()[self.op][0] > self.step:
...             yield self.broken(f"{self.op!r} runs after step {self.step}")
>>> @express(NotLater, "pairwise")
... def _not_later(formulation, model, constraint):
...     model.add(model.position(constraint.op) <= constraint.step)
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.derived import Reduction, identity
from opweave.formulations.formulation import Formulation, register_formulation
from opweave.formulations.memory_ordering.fusion import fuse
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.pairs import Excess, Footprints, Loads, Pairs, unsettled
from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import ancestors, rows_of_closure
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.errors import InfeasibleError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

LARGEST = 2**30
"""Largest coefficient; beyond it, the absolute tolerances of an engine would be coarser than one unit."""

SLACK = 0.01
RELATIVE_SLACK = 1e-10
"""Largest error of an engine's bound, in units and relative to the bound."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale in which one unit is ``unit`` bytes; every footprint is a multiple of ``step`` bytes.

    Examples
    --------
    >>> scale = Scale.of(step=1024, largest=1024 * 6368)
    >>> scale.units(2048), scale.bound(6367.3)
    (2.0, 6520832)
    """

    step: int
    unit: int

    @classmethod
    def of(cls, step: int, largest: int) -> Scale:
        """Make units of ``step`` bytes, or larger ones if ``largest`` bytes would be too many units."""
        return cls(step, step * max(1, math.ceil(largest / (step * LARGEST))))

    @property
    def whole(self) -> bool:
        """Whether every footprint is an integer number of units."""
        return self.unit == self.step

    def units(self, count: int | float) -> float:
        """Convert bytes to units."""
        return count / self.unit

    def room(self, limit: int) -> int:
        """The largest footprint in bytes that a limit allows, a multiple of ``step``."""
        return limit // self.step * self.step

    def bound(self, value: float) -> int:
        """Convert an engine's lower bound to bytes: subtract its possible error, round up to a multiple of ``step``."""
        safe = value - SLACK - RELATIVE_SLACK * abs(value)
        return math.ceil(safe * (self.unit / self.step)) * self.step


class OrderingProgram(Formulation[MemoryOrdering, Ordering], ABC):
    """A memory-ordering problem as an integer program; footprints are in units of :class:`Scale`."""

    problem_type: ClassVar[type[MemoryOrdering]] = MemoryOrdering

    def least_rows(self, problem: MemoryOrdering) -> int:
        """Those that weigh as much as the closure of all operators."""
        return rows_of_closure(len(problem.graph.operators))

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Convert units of the model to bytes, rounded so that a lower bound stays one."""
        return scale_of(lower(problem)).bound(value)

    def counts_units(self, problem: MemoryOrdering) -> bool:
        """Always, unless footprints are too large for the precision of engines."""
        return scale_of(lower(problem)).whole

    @classmethod
    def tells_apart(cls, _problem: MemoryOrdering) -> bool:
        """The row of an order names all its neighbours."""
        return True

    def exclude(self, model: Any, solution: Ordering) -> None:
        """Add the row that not every operator of an order runs before the next one."""
        kept = [model.before(first, second) for first, second in pairwise(solution.order)]
        if not kept:
            raise InfeasibleError
        model.add(sum(kept) <= len(kept) - 1)

    def why_infeasible(self, problem: MemoryOrdering) -> str:
        """Name the limit or the side constraints."""
        rows = "side constraint or an added row" if self.context.extended else "side constraint"
        if problem.limit_bytes is None:
            return f"every order breaks some {rows}"
        limited = f"every order needs more than the limit of {problem.limit_bytes:,} bytes"
        return f"{limited} or breaks some {rows}" if problem.constraints or self.context.extended else limited


def scale_of(instance: OrderingInstance) -> Scale:
    """The unit of an instance. No footprint exceeds all storages and the largest workspace together."""
    workspace = int(instance.workspace.max(initial=0))
    return Scale.of(instance.granularity(), int(instance.size.sum()) + workspace)


def least_peak(problem: MemoryOrdering, lower_bound: int, when: str = "") -> int:
    """The lower bound, in bytes; ``when`` says at which step that much is needed, if it is known.

    Raises
    ------
    InfeasibleError
        When the lower bound exceeds the limit.
    """
    if problem.limit_bytes is not None and lower_bound > problem.limit_bytes:
        raise InfeasibleError(
            f"every order needs at least {lower_bound:,} bytes{when and ' ' + when}, "
            f"{lower_bound - problem.limit_bytes:,} more than the limit of {problem.limit_bytes:,}"
        )
    return lower_bound


def peak_range(scale: Scale, lower_bound: int, caps: Iterable[int | float | None]) -> tuple[float, float]:
    """Bounds of the peak in units: from ``lower_bound`` bytes to the least of the caps, in bytes; None is no cap."""
    most = min((int(cap) for cap in caps if cap is not None), default=None)
    return scale.units(lower_bound), math.inf if most is None else scale.units(scale.room(most))


@dataclass(eq=False)
class PairModel(LinearModel):
    """The pairwise program: ``x`` (0/1, pairs of operators), ``excess``, ``peak`` (in units; not for the total).

    Attributes
    ----------
    reduction
        The problem that is written; operators are fused unless rows may be added.
    critical
        Operators whose footprint precedence does not settle. Pairs with one of them have a column.
    lower_bound
        Least value of the peak, bytes.
    loads
        Footprint in bytes of every operator that has a memory row, over pair numbers, then excesses.
    pair_columns
        Column of every pair, by its number; handles may ask for more than footprints use.
    """

    reduction: Reduction[MemoryOrdering, Ordering]
    instance: OrderingInstance
    scale: Scale
    pairs: Pairs
    critical: BoolArray
    lower_bound: int
    loads: dict[int, Linear] = field(default_factory=dict)
    excesses: list[Excess] = field(default_factory=list)
    pair_columns: list[int] = field(default_factory=list)

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before operator ``second``, otherwise 0."""
        return self.by_column(self._before(self.instance.names.index(first), self.instance.names.index(second)))

    def position(self, op: str) -> Linear:
        """The step in which operator ``op`` runs, counted from 0."""
        v = self.instance.names.index(op)
        return self.by_column(total(self._before(u, v) for u in range(self.instance.operators)))

    def by_column(self, pairs: Linear) -> Linear:
        """Convert an expression over pair numbers to one over columns."""
        return Linear(pairs.constant, {self.pair_columns[number]: value for number, value in pairs.terms.items()})

    def _before(self, a: int, b: int) -> Linear:
        """``before`` over pair numbers; a pair without a column gets one."""
        if self.pairs.settled(a, b) is None and self.pairs.column[a, b] < 0:
            self.add_pairs([self.pairs.open_column(a, b)])
        return self.pairs.before(a, b)

    def add_pairs(self, numbers: Iterable[int]) -> None:
        """Add the columns of pairs."""
        names, pairs = self.instance.names, self.pairs
        keys = [(names[pairs.first[k]], names[pairs.second[k]]) for k in numbers]
        self.pair_columns.extend(self.binaries("x", keys).tolist())


@register_formulation
class Pairwise(OrderingProgram):
    """Which operator of a pair runs first; cycles are cut off when they appear."""

    name: ClassVar[str] = "pairwise"
    model_type: ClassVar[type[LinearModel]] = PairModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pairwise")

    def build(self, problem: MemoryOrdering) -> PairModel:
        """Write the model: rows (M) and (P); see :meth:`separate` for cycles."""
        self.check_problem(problem)
        model, footprints = self._outline(problem)
        arcs = list(model.pairs.arcs(model.instance.before, model.critical))
        self.check_size(int(model.critical.sum()) + sum(len(heads) for _, heads, _ in arcs))
        loads = Loads(footprints, model.pairs.before, len(model.pairs))
        counted = model.critical if problem.objective == "peak" else np.ones_like(model.critical)
        for v in np.flatnonzero(counted).tolist():
            self.check_time()
            model.loads[v] = loads.of(v)
        model.excesses = loads.excesses
        model.add_pairs(range(len(model.pairs)))
        model.reals("excess", range(len(model.excesses)), high=[excess.upper for excess in model.excesses])
        self._memory_rows(model, problem)
        for excess in model.excesses:  # at least each of its expressions: a storage is live if any reader needs it
            for over in excess.over:
                model.rows("excess_rows").add(over <= Linear.of(excess.column))
        self._arc_rows(model, arcs)
        self.add_constraints(model, problem)
        return model

    def _outline(self, problem: MemoryOrdering) -> tuple[PairModel, Footprints]:
        """Fuse the operators, find the critical ones, and give pairs with one of them a column."""
        peak = problem.objective == "peak"
        reduction = identity(problem) if self.context.extended else fuse(problem, lambda: not self.context.keep_going())
        self.check_time()
        instance = lower(reduction.problem)
        closed = ancestors(instance.after)
        self.check_time()
        footprints = Footprints.of(instance, closed)
        self.check_time()
        lower_bound = max(instance.start_bytes(), int(footprints.lower.max(initial=0)))
        # Operators below a proved lower bound need no row. The peak itself is raised to it for users' rows only: the
        # search goes faster towards a relaxation that is still minimised than among the many of the same value.
        proved = max(lower_bound, int(self.context.lower_bound or 0)) if peak else lower_bound
        least_peak(problem, proved)
        critical = footprints.upper > (proved if peak else footprints.lower)
        wanted = unsettled(closed) & (critical[:, None] | critical)
        self.check_size(int(np.count_nonzero(wanted)) // 2)
        shown = proved if self.context.extended else lower_bound
        pairs, scale = Pairs.of(closed, wanted), scale_of(lower(problem))
        model = PairModel(reduction, instance, scale, pairs, critical, shown)
        model.check_time = self.check_time
        return model, footprints

    def _memory_rows(self, model: PairModel, problem: MemoryOrdering) -> None:
        """(M) The footprint of every critical operator, in units, is at most the peak, or at most the limit.

        The peak is minimised, or the sum of all footprints.
        """
        rows, scale = model.rows("memory"), model.scale
        if problem.objective == "peak":
            sides = peak_range(scale, model.lower_bound, (problem.limit_bytes, self.context.ceiling))
            peak = Linear.of(int(model.columns("peak", (None,), *sides, scale.whole)[0]))
            for load in model.loads.values():
                rows.add(load / scale.unit <= peak)
            model.minimise(peak, scale.unit)
            return
        model.minimise(total(model.loads.values()) / scale.unit, scale.unit)
        if problem.limit_bytes is not None:
            for v, load in model.loads.items():
                if not load.terms:  # bytes are more precise than units: a limit may be short by one byte
                    least_peak(problem, int(load.constant), f"during operator {model.instance.names[v]!r}")
                rows.add((load - scale.room(problem.limit_bytes)) / scale.unit <= 0)

    def _arc_rows(self, model: PairModel, arcs: Iterable[tuple[int, IntArray, IntArray]]) -> None:
        """(P) before(p, v) >= before(q, v) for every arc p -> q and critical v whose order to them is open."""
        rows = model.rows("arcs")
        for v, p, q in arcs:
            columns = model.pairs.column[v]
            # before(a, v) is the column itself if a < v, and 1 - column otherwise
            sign_p, sign_q = np.where(p < v, 1.0, -1.0), np.where(q < v, 1.0, -1.0)
            upper = (p > v).astype(np.float64) - (q > v)
            rows.at_most_each(np.stack([columns[q], columns[p]], axis=1), np.stack([sign_q, -sign_p], axis=1), upper)

    def extract(self, model: PairModel, values: FloatArray) -> Ordering:
        """The order that the pairs give; if they form a cycle, an order close to them that obeys precedence."""
        return model.reduction.lift(model.instance.ordering(model.pairs.order(values[model.pair_columns])))

    def start(self, model: PairModel, solution: Ordering) -> FloatArray:
        """Values of all columns; what is fused is put where its operators run on average."""
        values, pairs = np.full(len(model), np.nan), model.pairs
        if not values.size:
            return values
        place = {name: step for step, name in enumerate(solution.order)}
        names = (model.reduction.lift(Ordering(order=(name,))).order for name in model.instance.names)
        middle = np.asarray([np.mean([place[name] for name in members]) for members in names])
        values[model.pair_columns] = pairs.values_of(np.argsort(pairs.order(pairs.values_of(middle))))
        for excess in model.excesses:
            values[excess.column] = max(0.0, *(over.at(values) for over in excess.over))
        if "peak" in model.families:
            peak = max((load.at(values) for load in model.loads.values()), default=0.0)
            values[model.column("peak", None)] = model.scale.units(max(peak, model.lower_bound))
        return values

    def separate(self, model: PairModel, values: FloatArray) -> list[Row]:
        """(C) The chosen arcs of a cycle cannot all hold: their sum is at most their number minus one."""
        cycles = model.pairs.cycles(values[model.pair_columns])
        before = model.pairs.before
        return [model.by_column(total(before(a, b) for a, b in arcs)) <= len(arcs) - 1 for arcs in cycles]
