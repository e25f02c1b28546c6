"""Memory ordering as an integer program over pairs: "a runs before b".

Of all pairs only those with a critical end get a column: an operator is critical when its step could exceed the best
lower bound known. For one critical operator, the memory row and the arc rows are the linear program of a minimum
closure, so that the relaxation is at least as strong as the minimum-cut bound of every operator.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use two handles of the model that work on
operator ids: ``model.before(a, b)`` is a 0/1 expression, ``model.position(a)`` the step of a, from 0:

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add_component("early", pyo.Constraint(expr=model.before("norm", "loss") + model.position("norm") <= 3))
>>> class NotLater(Constraint):
...     op: str
...     step: int
...     def violations(self, problem, solution):
...         if solution.intervals()[self.op][0] > self.step:
...             yield self.broken(f"{self.op!r} runs after step {self.step}")
>>> @express(NotLater, "pairwise")
... def _not_later(formulation, model, constraint):
...     formulation.add_row(model, model.position(constraint.op) <= constraint.step)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.bulk import Rows, check_rows, linear_expression, linear_objective
from opweave.formulations.expressions import expression
from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.groups import Groups, contract, single_groups
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.memory_ordering.loads import Affine, Excess, Footprints, Literal01, Loads
from opweave.formulations.memory_ordering.pairs import Pairs
from opweave.formulations.memory_ordering.program import OrderingProgram, instance_of, least_peak, scale_of
from opweave.formulations.memory_ordering.scale import Scale
from opweave.formulations.precedence import ancestors, check_closure, reduced_arcs
from opweave.problems.arrays import BoolArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression, NumericExpression
    from pyomo.environ import ConcreteModel


@dataclass(eq=False)
class PairModel:
    """What a pairwise model was written from, kept with it as ``model.pairwise``; its handles take operator ids.

    Attributes
    ----------
    pairs, variables
        The pairs that have a column, and their Pyomo variables in the same order.
    critical
        Groups that hold an operator with undecided footprint.
    loads
        Footprint of every operator that has a memory row, bytes.
    excesses
        Continuous columns that follow the pairs.
    floor
        Least value of the peak, bytes.
    cut_off
        Cycles that have a row already.
    """

    model: ConcreteModel
    formulation: Pairwise
    instance: OrderingInstance
    groups: Groups
    pairs: Pairs
    critical: BoolArray
    variables: list[Any]
    loads: dict[int, Affine]
    excesses: list[Excess]
    scale: Scale
    floor: int
    cut_off: set[frozenset[tuple[int, int]]] = field(default_factory=set)

    def before(self, first: str, second: str) -> LinearExpression:
        """1 when operator ``first`` runs before operator ``second``, else 0: a linear expression."""
        return self._sum([self._before(self._operator(first), self._operator(second))])

    def position(self, name: str) -> LinearExpression:
        """The step in which operator ``name`` runs, counted from 0: a linear expression."""
        v = self._operator(name)
        return self._sum([self._before(u, v) for u in range(self.instance.operators)])

    def _operator(self, name: str) -> int:
        return self.instance.names.index(name)

    def _before(self, a: int, v: int) -> Literal01:
        """As a literal over the pairs; a pair without a column gets one."""
        if a == v:
            return (0, -1, 0)
        if self.pairs.settled(a, v) is None and self.pairs.column_of(a, v) < 0:
            column = self.pairs.open_column(a, v)
            self.variables.append(self.model.more_x.add())
            self.formulation.link(self, column)
        return self.pairs.before(a, v)

    def _sum(self, literals: list[Literal01]) -> LinearExpression:
        total = Affine()
        for literal in literals:
            total.add(literal, 1)
        return linear_expression(total.constant, {k: float(c) for k, c in total.terms.items()}, self.variables)

    def values(self) -> NDArray[np.float64]:
        """Current values of the pair columns; those that no engine set count as 0."""
        return np.fromiter((variable.value or 0.0 for variable in self.variables), np.float64, len(self.variables))


@register_formulation
class Pairwise(OrderingProgram):
    """The pairwise program; cycles are cut off as they appear (:meth:`separate`).

    Columns: ``model.x`` (binary, one for each pair that matters; ``model.more_x`` for pairs that users ask for),
    ``model.excess`` (continuous), ``model.peak`` (units of ``model.pairwise.scale``; not for the total).
    """

    name: ClassVar[str] = "pairwise"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pairwise")

    def build(self, problem: MemoryOrdering) -> ConcreteModel:
        """Write the model; families in the order (M), (P), then what subclasses add."""
        from pyomo.environ import Binary, ConcreteModel, ConstraintList, VarList

        instance = instance_of(problem)
        check_closure(instance.operators, self.name, self.context.limits)
        model = ConcreteModel()
        written = self.prepare(problem, instance, model)
        model.pairwise, model.before, model.position = written, written.before, written.position
        self._columns(model, written, problem)
        self._memory_rows(model, written, problem)
        self._excess_rows(model, written)
        self._arc_rows(model, written)
        model.more_x = VarList(domain=Binary)
        model.cycles = ConstraintList()
        self.order_rows(model, written)
        self._objective(model, written, problem)
        self.add_constraints(model, problem)
        return model

    def prepare(self, problem: MemoryOrdering, instance: OrderingInstance, model: ConcreteModel) -> PairModel:
        """Contract, find the critical operators, choose the pairs, write the footprints."""
        closed = ancestors(instance.after)
        contracting = problem.objective == "peak" and not self.context.extended
        groups = contract(instance, closed) if contracting else single_groups(instance)
        closed = ancestors(groups.after)
        footprints = Footprints.of(instance, groups.operator_closure(closed))
        floor = max(instance.start_bytes(), int(footprints.lower.max(initial=0)))
        # Operators below a proved floor need no row. The peak itself is lifted to it for users' rows only: the search
        # goes faster towards a relaxation that is still minimised than among the many of the same value.
        proved = max(floor, int(self.context.floor or 0)) if problem.objective == "peak" else floor
        least_peak(problem, proved)
        shown = proved if self.context.extended else floor
        undecided = footprints.upper > (proved if problem.objective == "peak" else footprints.lower)
        wanted = np.zeros(len(groups.after), dtype=bool)
        wanted[groups.group[undecided]] = True
        pairs = Pairs.around(groups, closed, wanted)
        written = PairModel(model, self, instance, groups, pairs, wanted, [], {}, [], scale_of(instance), shown)
        check_rows(self.count_rows(written), self.name, self.context.limits)
        loads = Loads(footprints, pairs.before, len(pairs))
        chosen = undecided if problem.objective == "peak" else np.ones(instance.operators, dtype=bool)
        for v in np.flatnonzero(chosen).tolist():
            self.check_time()
            written.loads[v] = loads.of(v)
        written.excesses = loads.excesses
        return written

    def count_rows(self, written: PairModel) -> int:
        """Rows that the model will have, without those of the excess columns."""
        heads, tails = reduced_arcs(written.groups.before, written.pairs.closed)
        free = [written.pairs.free(g) for g in np.flatnonzero(written.critical).tolist()]
        return int(written.critical.sum()) + sum(int((mask[heads] & mask[tails]).sum()) for mask in free)

    def _columns(self, model: ConcreteModel, written: PairModel, problem: MemoryOrdering) -> None:
        """``x[k]``: first group of pair k before its second; ``excess``; ``peak`` in units, floor to limit."""
        from pyomo.environ import Binary, NonNegativeIntegers, NonNegativeReals, Var

        model.x = Var(range(len(written.pairs)), domain=Binary)
        written.variables = list(model.x.values())
        tops = [excess.upper for excess in written.excesses]
        model.excess = Var(range(len(tops)), domain=NonNegativeReals, bounds=lambda _, k: (0, tops[k]))
        if problem.objective == "peak":
            caps = [cap for cap in (problem.limit_bytes, self.context.ceiling) if cap is not None]
            scale = written.scale
            model.peak = Var(
                domain=NonNegativeIntegers if scale.whole else NonNegativeReals,
                bounds=(scale.units(written.floor), scale.units(scale.room(int(min(caps)))) if caps else None),
            )

    def _memory_rows(self, model: ConcreteModel, written: PairModel, problem: MemoryOrdering) -> None:
        """(M) The footprint of every critical operator, in units, is at most the peak; or at most the limit."""
        rows, scale = Rows(), written.scale
        variables = [*written.variables, *model.excess.values()]
        if problem.objective == "peak":
            for load in written.loads.values():
                rows.at_most(_in_units(load, scale) | {len(variables): -1.0}, -scale.units(load.constant))
            variables.append(model.peak)
        elif problem.limit_bytes is not None:
            for v, load in written.loads.items():
                if not load.terms:  # whole bytes say more than units: a limit may be short by one byte
                    least_peak(problem, load.constant, f"during operator {written.instance.names[v]!r}")
                rows.at_most(_in_units(load, scale), scale.units(scale.room(problem.limit_bytes) - load.constant))
        rows.add_to(model, "memory", variables, self.check_time)

    def _excess_rows(self, model: ConcreteModel, written: PairModel) -> None:
        """Every excess is at least each of the expressions it stands over: live for one of several readers."""
        rows = Rows()
        for excess in written.excesses:
            for over in excess.over:
                rows.at_most({**over.terms, excess.column: -1.0}, float(-over.constant))
        rows.add_to(model, "excess_rows", [*written.variables, *model.excess.values()], self.check_time)

    def _arc_rows(self, model: ConcreteModel, written: PairModel) -> None:
        """(P) before(p, v) >= before(q, v) for every arc p -> q and critical group v that is free beside it."""
        rows, pairs = Rows(), written.pairs
        heads, tails = reduced_arcs(written.groups.before, pairs.closed)
        for g in np.flatnonzero(written.critical).tolist():
            self.check_time()
            columns = pairs.column[g]
            beside = (columns[heads] >= 0) & (columns[tails] >= 0)
            p, q = heads[beside], tails[beside]
            # before(a, g) is the column itself when a < g, and 1 - column otherwise
            sign_p, sign_q = np.where(p < g, 1.0, -1.0), np.where(q < g, 1.0, -1.0)
            upper = (p > g).astype(np.float64) - (q > g)
            rows.at_most_each(np.stack([columns[q], columns[p]], axis=1), np.stack([sign_q, -sign_p], axis=1), upper)
        rows.add_to(model, "arcs", written.variables, self.check_time)

    def order_rows(self, model: ConcreteModel, written: PairModel) -> None:
        """Rows that keep the pairs free of cycles; here none, see :meth:`separate`."""

    def link(self, written: PairModel, column: int) -> None:
        """Tie a pair that a user asked for to the others; here nothing, see :meth:`separate`."""

    def _objective(self, model: ConcreteModel, written: PairModel, problem: MemoryOrdering) -> None:
        """Minimise the peak, or the sum of all footprints; units."""
        from pyomo.environ import Objective

        if problem.objective == "peak":
            model.objective = Objective(expr=model.peak)
            return
        total = Affine()
        for load in written.loads.values():
            total.constant += load.constant
            for column, coefficient in load.terms.items():
                total.add((0, column, 1), coefficient)
        model.objective = linear_objective(
            _in_units(total, written.scale),
            written.scale.units(total.constant),
            [*written.variables, *model.excess.values()],
        )

    def extract(self, model: ConcreteModel) -> Ordering:
        """Groups in the order that the pairs say; where they say a cycle, in a near one that obeys precedence."""
        written: PairModel = model.pairwise
        return written.instance.ordering(written.groups.spread(written.pairs.order(written.values())))

    def start(self, model: ConcreteModel, solution: Ordering) -> None:
        """Set every column; an order that splits groups is first regrouped, which does not raise its peak."""
        written: PairModel = model.pairwise
        groups = written.groups.gather(written.instance.positions(solution))
        values = written.pairs.values_of(groups)
        for variable, value in zip(written.variables, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)
        known = values.tolist()[: len(model.x)]
        for excess, variable in zip(written.excesses, model.excess.values(), strict=True):
            known.append(max(0.0, *(_value(over, known) for over in excess.over)))
            variable.set_value(known[-1], skip_validation=True)
        if hasattr(model, "peak"):
            peak = max((_value(load, known) for load in written.loads.values()), default=0.0)
            model.peak.set_value(written.scale.units(max(peak, written.floor)), skip_validation=True)

    def separate(self, model: ConcreteModel) -> int:
        """(C) Along every cycle, not all of its chosen arcs can hold: their sum is at most their number less one."""
        written: PairModel = model.pairwise
        cycles = written.pairs.cycles(written.values())
        for arcs in cycles:
            if frozenset(arcs) not in written.cut_off:
                written.cut_off.add(frozenset(arcs))
                model.cycles.add(sum(_arc(written, g, h) for g, h in arcs) <= len(arcs) - 1)
        return len(cycles)


def _arc(written: PairModel, g: int, h: int) -> NumericExpression:
    """Group g before group h."""
    variable = written.variables[int(written.pairs.column[g, h])]
    return variable if g < h else 1 - variable


def _in_units(load: Affine, scale: Scale) -> dict[int, float]:
    return {column: scale.units(coefficient) for column, coefficient in load.terms.items()}


def _value(expression: Affine, values: list[float]) -> float:
    return expression.constant + sum(coefficient * values[column] for column, coefficient in expression.terms.items())


@register_formulation
class PairwisePositions(Pairwise):
    """The pairwise program with position rows (C') that exclude all cycles at once, for engines that cut none off.

    Side constraints registered for ``"pairwise"`` are understood too.
    """

    name: ClassVar[str] = "pairwise_positions"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pairwise", "pairwise_positions")

    def add_constraints(self, model: ConcreteModel, problem: MemoryOrdering) -> None:
        """Those registered for ``"pairwise"`` only are written the same way here."""
        super().add_constraints(model, problem)
        for constraint in problem.constraints:
            write = expression(type(constraint), Pairwise.name)
            if write is not None and expression(type(constraint), self.name) is None:
                write(self, model, constraint)

    def count_rows(self, written: PairModel) -> int:
        """Two rows for every pair and one for every arc come on top."""
        return super().count_rows(written) + 2 * len(written.pairs) + len(written.groups.before.items)

    def order_rows(self, model: ConcreteModel, written: PairModel) -> None:
        """(C') ``start[g]``, the step in which group g begins: after the end of every group that is before it."""
        from pyomo.environ import NonNegativeReals, Var

        lengths = written.groups.lengths().astype(np.float64)
        earliest, latest = self._window(written)
        windows = list(zip(earliest.tolist(), latest.tolist(), strict=True))
        model.start = Var(range(len(lengths)), domain=NonNegativeReals, bounds=lambda _, g: windows[g])
        count = len(written.variables)
        rows = Rows()
        heads, tails = reduced_arcs(written.groups.before, written.pairs.closed)
        rows.at_most_each(np.stack([heads, tails], axis=1) + count, (1.0, -1.0), -lengths[heads])
        first, second = (np.asarray(ends, dtype=np.int64) for ends in (written.pairs.first, written.pairs.second))
        pair = np.arange(len(first))
        # first before second, when x = 1: start[first] + length - start[second] <= big (1 - x)
        big = np.maximum(0.0, latest[first] + lengths[first] - earliest[second])
        columns, coefficients = np.stack([first + count, second + count, pair], axis=1), np.ones((len(pair), 3))
        coefficients[:, 1], coefficients[:, 2] = -1.0, big
        rows.at_most_each(columns, coefficients, big - lengths[first])
        # second before first, when x = 0
        big = np.maximum(0.0, latest[second] + lengths[second] - earliest[first])
        columns, coefficients = np.stack([second + count, first + count, pair], axis=1), np.ones((len(pair), 3))
        coefficients[:, 1], coefficients[:, 2] = -1.0, -big
        rows.at_most_each(columns, coefficients, -lengths[second])
        rows.add_to(model, "positions", [*written.variables, *model.start.values()], self.check_time)

    def _window(self, written: PairModel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Earliest and latest step in which every group can begin."""
        lengths, closed = written.groups.lengths(), written.pairs.closed
        earliest = closed @ lengths
        latest = lengths.sum() - closed.T @ lengths - lengths
        return earliest.astype(np.float64), latest.astype(np.float64)

    def link(self, written: PairModel, column: int) -> None:
        """The two position rows of a pair that a user asked for."""
        model, x = written.model, written.variables[column]
        g, h = written.pairs.first[column], written.pairs.second[column]
        start, steps = model.start, written.instance.operators
        model.cycles.add(start[g] + 1 - start[h] <= steps * (1 - x))
        model.cycles.add(start[h] + 1 - start[g] <= steps * x)

    def start(self, model: ConcreteModel, solution: Ordering) -> None:
        """Also set the steps in which groups begin."""
        super().start(model, solution)
        written: PairModel = model.pairwise
        groups = written.groups.gather(written.instance.positions(solution))
        begin = np.concatenate([[0], np.cumsum(written.groups.lengths()[groups])])[:-1]
        for g, step in zip(groups.tolist(), begin.tolist(), strict=True):
            model.start[g].set_value(float(step), skip_validation=True)

    def separate(self, model: ConcreteModel) -> int:
        """Nothing was left out."""
        return 0


Pairwise.whole = PairwisePositions
