"""Memory ordering as an integer program over pairs: "a runs before b".

Only pairs with a critical operator get a column. An operator is critical if its step could exceed the best known lower
bound. For one critical operator, the memory row and the arc rows form the linear program of a minimum closure, so the
relaxation is at least as strong as the minimum-cut bound of every operator.

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

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.expressions import expression, write_out
from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.facts import Outline, PairFacts, PairProgram
from opweave.formulations.memory_ordering.program import least_peak, peak_range
from opweave.formulations.modeling.handles import Handles
from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import reduced_arcs
from opweave.problems.arrays import FloatArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


class PairHandles(Handles):
    """Handles over pairs; a pair without a column gets one when a handle asks for it.

    Attributes
    ----------
    pair_columns
        Column of every pair, by its number.
    """

    facts: PairFacts
    pair_columns: list[int]

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before operator ``second``, otherwise 0."""
        names = self.facts.instance.names
        return self.by_column(self._before(names.index(first), names.index(second)))

    def position(self, op: str) -> Linear:
        """The step in which operator ``op`` runs, counted from 0."""
        v = self.facts.instance.names.index(op)
        return self.by_column(total(self._before(u, v) for u in range(self.facts.instance.operators)))

    def by_column(self, pairs: Linear) -> Linear:
        """Convert an expression over pair numbers to one over columns."""
        return Linear(pairs.constant, {self.pair_columns[number]: value for number, value in pairs.terms.items()})

    def _before(self, a: int, v: int) -> Linear:
        """``before`` over pair numbers; a pair without a column gets one."""
        if a == v:
            return Linear()
        pairs = self.facts.pairs
        if pairs.settled(a, v) is None and pairs.column_of(a, v) < 0:
            self.open_pair(pairs.open_column(a, v))
        return pairs.before(a, v)

    def open_pair(self, number: int) -> None:
        """Add the column of a pair that a handle asks for."""
        raise NotImplementedError


@dataclass(eq=False)
class PairModel(PairHandles, LinearModel):
    """The pairwise program: ``x`` (0/1, pairs of groups), ``excess``, ``peak`` (in units; not for the total)."""

    facts: PairFacts
    link: Callable[[PairModel, int], None]
    pair_columns: list[int] = field(default_factory=list)

    def open_pair(self, number: int) -> None:
        """Add the column of a pair, and link it to the others."""
        self.add_pairs([number])
        self.link(self, number)

    def add_pairs(self, numbers: Iterable[int]) -> None:
        """Add the columns of pairs, named by the centres of their groups."""
        pairs, name = self.facts.pairs, self.facts.name
        keys = [(name(int(pairs.first[k])), name(int(pairs.second[k]))) for k in numbers]
        self.pair_columns.extend(self.binaries("x", keys).tolist())


@register_formulation
class Pairwise(PairProgram):
    """Which operator of a pair runs first; cycles are cut off when they appear."""

    name: ClassVar[str] = "pairwise"
    model_type: ClassVar[type[LinearModel]] = PairModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pairwise")

    def build(self, problem: MemoryOrdering) -> PairModel:
        """Write the model: rows (M), rows (P), then those that subclasses add."""
        model = PairModel(self.prepare(problem), self.link)
        model.check_time = self.check_time
        self._columns(model, problem)
        self._memory_rows(model, problem)
        self._excess_rows(model)
        self._arc_rows(model)
        self.order_rows(model)
        self._objective(model, problem)
        self.add_constraints(model, problem)
        return model

    def count_rows(self, outline: Outline) -> int:
        """Number of rows of the model, without those of the excess columns."""
        return int(outline.critical.sum()) + outline.arcs

    def _columns(self, model: PairModel, problem: MemoryOrdering) -> None:
        """x[k]: first group of pair k before its second; excess; peak in units, lower bound to limit."""
        facts = model.facts
        model.add_pairs(range(facts.counted))
        model.reals("excess", range(len(facts.excesses)), high=[excess.upper for excess in facts.excesses])
        if problem.objective == "peak":
            low, high = peak_range(facts.scale, facts.lower_bound, (problem.limit_bytes, self.context.ceiling))
            model.columns("peak", (None,), low, high, facts.scale.whole)

    def _memory_rows(self, model: PairModel, problem: MemoryOrdering) -> None:
        """(M) The footprint of every critical operator, in units, is at most the peak, or at most the limit."""
        rows, facts, scale = model.rows("memory"), model.facts, model.facts.scale
        if problem.objective == "peak":
            peak = Linear.of(model.column("peak", None))
            for load in facts.loads.values():
                rows.add(load / scale.unit <= peak)
        elif problem.limit_bytes is not None:
            for v, load in facts.loads.items():
                if not load.terms:  # bytes are more precise than units: a limit may be short by one byte
                    least_peak(problem, int(load.constant), f"during operator {facts.instance.names[v]!r}")
                rows.add((load - scale.room(problem.limit_bytes)) / scale.unit <= 0)

    def _excess_rows(self, model: PairModel) -> None:
        """Every excess is at least each of its expressions; a storage is live if any of its readers needs it."""
        for excess in model.facts.excesses:
            for over in excess.over:
                model.rows("excess_rows").add(over <= Linear.of(excess.column))

    def _arc_rows(self, model: PairModel) -> None:
        """(P) before(p, v) >= before(q, v) for every arc p -> q and critical group v whose order to them is open."""
        rows = model.rows("arcs")
        for g, p, q in model.facts.arcs():
            columns = model.facts.pairs.column[g]
            # before(a, g) is the column itself if a < g, and 1 - column otherwise
            sign_p, sign_q = np.where(p < g, 1.0, -1.0), np.where(q < g, 1.0, -1.0)
            upper = (p > g).astype(np.float64) - (q > g)
            rows.at_most_each(np.stack([columns[q], columns[p]], axis=1), np.stack([sign_q, -sign_p], axis=1), upper)

    def order_rows(self, model: PairModel) -> None:
        """Add rows that keep the pairs free of cycles. Here there are none; see :meth:`separate`."""

    def link(self, model: PairModel, number: int) -> None:
        """Link a pair that a handle asked for to the others. Here nothing is needed; see :meth:`separate`."""

    def _objective(self, model: PairModel, problem: MemoryOrdering) -> None:
        """Minimise the peak, or the sum of all footprints, in units."""
        unit = model.facts.scale.unit
        if problem.objective == "peak":
            model.minimise(Linear.of(model.column("peak", None)), unit)
        else:
            model.minimise(total(model.facts.loads.values()) / unit, unit)

    def extract(self, model: PairModel, values: FloatArray) -> Ordering:
        """The order that the pairs give; if they form a cycle, an order close to them that obeys precedence."""
        return model.facts.order(values[model.pair_columns])

    def start(self, model: PairModel, solution: Ordering) -> FloatArray:
        """Values of all columns. An order that splits groups is regrouped first, which does not raise its peak."""
        facts, values = model.facts, np.full(len(model), np.nan)
        pairs = facts.pairs.values_of(facts.gather(solution))
        known = facts.follow(pairs.tolist())
        values[: len(known)] = known
        values[model.pair_columns] = pairs
        if "peak" in model.families:
            peak = max((load.at(known) for load in facts.loads.values()), default=0.0)
            values[model.column("peak", None)] = facts.scale.units(max(peak, facts.lower_bound))
        return values

    def separate(self, model: PairModel, values: FloatArray) -> list[Row]:
        """(C) The chosen arcs of a cycle cannot all hold: their sum is at most their number minus one."""
        pairs = model.facts.pairs
        cycles = pairs.cycles(values[model.pair_columns])
        return [model.by_column(total(pairs.group_before(g, h) for g, h in arcs)) <= len(arcs) - 1 for arcs in cycles]


@register_formulation
class PairwisePositions(Pairwise):
    """The pairwise program with position rows (C') that exclude all cycles at once, for engines without cuts.

    It also understands side constraints that are registered for ``"pairwise"``.
    """

    name: ClassVar[str] = "pairwise_positions"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pairwise", "pairwise_positions")

    def add_constraints(self, model: Any, problem: MemoryOrdering) -> None:
        """Add side constraints, including those that are registered only for ``"pairwise"``."""
        super().add_constraints(model, problem)
        for constraint in problem.constraints:
            write = expression(type(constraint), Pairwise.name)
            if write is not None and expression(type(constraint), self.name) is None:
                write_out(constraint, Pairwise.name, write, self, model)

    def count_rows(self, outline: Outline) -> int:
        """As for the base class, plus two rows per pair and one per arc."""
        return super().count_rows(outline) + 2 * outline.pairs + len(outline.groups.before.items)

    def order_rows(self, model: PairModel) -> None:
        """(C') begin[g], the step in which group g begins, lies after the end of every group that runs before g."""
        facts, rows = model.facts, model.rows("positions")
        lengths = facts.groups.lengths().astype(np.float64)
        closed = facts.pairs.closed
        earliest, latest = closed @ lengths, lengths.sum() - closed.T @ lengths - lengths
        begin = model.reals("begin", map(facts.name, range(len(lengths))), earliest, latest)
        heads, tails = reduced_arcs(facts.groups.before, closed)
        rows.at_most_each(np.stack([begin[heads], begin[tails]], axis=1), (1.0, -1.0), -lengths[heads])
        first, second = (np.asarray(ends, dtype=np.int64) for ends in (facts.pairs.first, facts.pairs.second))
        pair = np.arange(len(first))
        # early before late if x has the value 1 (sign 1) or 0 (sign -1): begin[early] + length - begin[late] <= 0 then,
        # and at most big otherwise
        for early, late, sign in ((first, second, 1.0), (second, first, -1.0)):
            big = np.maximum(0.0, latest[early] + lengths[early] - earliest[late])
            columns, coefficients = np.stack([begin[early], begin[late], pair], axis=1), np.ones((len(pair), 3))
            coefficients[:, 1], coefficients[:, 2] = -1.0, sign * big
            rows.at_most_each(columns, coefficients, np.maximum(0.0, sign) * big - lengths[early])

    def link(self, model: PairModel, number: int) -> None:
        """Add the two position rows of a pair that a handle asked for."""
        facts, x = model.facts, Linear.of(model.pair_columns[number])
        begin = model.families["begin"].columns  # one for each group
        g, h = (Linear.of(begin[ends[number]]) for ends in (facts.pairs.first, facts.pairs.second))
        steps = facts.instance.operators
        model.rows("more_positions").add(g + 1 - h <= steps * (1 - x))
        model.rows("more_positions").add(h + 1 - g <= steps * x)

    def start(self, model: PairModel, solution: Ordering) -> FloatArray:
        """Values of all columns, including the steps in which groups begin."""
        values, groups = super().start(model, solution), model.facts.gather(solution)
        begin = np.concatenate([[0], np.cumsum(model.facts.groups.lengths()[groups])])[:-1]
        values[np.asarray(model.families["begin"].columns, dtype=np.int64)[groups]] = begin
        return values

    def separate(self, _model: PairModel, _values: FloatArray) -> list[Row]:
        """Nothing was left out."""
        return []


Pairwise.whole = PairwisePositions
