"""Memory ordering for constraint-programming engines: which operator runs before which, and the steps that follow.

The footprints are those of the pairwise program (:mod:`.pairwise`): columns say of pairs "a runs before b", and every
footprint is a linear row over them. Here every group of operators has a step, too, and a pair that is chosen puts the
step of the one behind that of the other, so that pairs close no cycle. All numbers are whole: bytes over their greatest
common divisor. Rows of your own use ``model.before(a, b)`` (0/1) and ``model.position(a)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.bulk import check_rows
from opweave.formulations.intervals import Comparison, IntervalModel, Linear, whole_row
from opweave.formulations.memory_ordering.loads import Affine, Literal01
from opweave.formulations.memory_ordering.pairwise import PairModel, Pairwise
from opweave.formulations.memory_ordering.program import OrderingProgram, instance_of, least_peak
from opweave.formulations.precedence import check_closure, reduced_arcs
from opweave.problems.errors import LimitExceededError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

LARGEST = 2**55
"""Units of the largest objective: sums of rows stay whole numbers of 64 bits."""

SLACK = 0.01
RELATIVE_SLACK = 1e-15
"""How far a bound may be off as a floating-point number, in units and relative."""


@dataclass(eq=False)
class PairIntervals(IntervalModel):
    """The model and what it was written from; its handles take operator ids.

    Attributes
    ----------
    unit
        Bytes.
    written
        Pairs, groups and footprints.
    chosen, otherwise
        Columns of "the first group of a pair before the second", and of the contrary.
    excess
        Columns that footprints share.
    step
        Column of the step of every group.
    counted
        How many pairs footprints know of; others were asked for by handles.
    summed
        Whether the objective is the total.
    """

    unit: int = 1
    written: PairModel = None  # type: ignore[assignment]  # set by the formulation
    chosen: list[int] = field(default_factory=list)
    otherwise: list[int] = field(default_factory=list)
    excess: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    counted: int = 0
    summed: bool = False

    def terms(self, expression: Affine, factor: int = 1) -> dict[int, int]:
        """An expression over pairs and excesses as whole coefficients by column, ``factor`` bytes to the unit."""
        return {self._column(column): value // factor for column, value in expression.terms.items()}

    def _column(self, number: int) -> int:
        return self.chosen[number] if number < self.counted else self.excess[number - self.counted]

    def before(self, first: str, second: str) -> Linear:
        """1 when operator ``first`` runs before operator ``second``, else 0."""
        return self._sum([self._before(self._operator(first), self._operator(second))])

    def position(self, name: str) -> Linear:
        """The step in which operator ``name`` runs, counted from 0."""
        v = self._operator(name)
        return self._sum([self._before(u, v) for u in range(self.written.instance.operators)])

    def _operator(self, name: str) -> int:
        return self.written.instance.names.index(name)

    def _before(self, a: int, v: int) -> Literal01:
        pairs = self.written.pairs
        if a == v:
            return (0, -1, 0)
        if pairs.settled(a, v) is None and pairs.column_of(a, v) < 0:
            pairs.open_column(a, v)
            self.add_pair(len(pairs) - 1)
        return pairs.before(a, v)

    def _sum(self, literals: list[Literal01]) -> Linear:
        total = Linear(0.0, {})
        for constant, number, sign in literals:
            total = total + Linear(float(constant), {self.chosen[number]: float(sign)} if sign else {})
        return total

    def add_pair(self, number: int) -> None:
        """Add the columns of a pair and tie them to the steps of its groups."""
        self.chosen.append(self.binary())
        self.otherwise.append(self.binary())
        first = self.step[self.written.pairs.first[number]]
        second = self.step[self.written.pairs.second[number]]
        self.row({self.chosen[-1]: 1, self.otherwise[-1]: 1}, 1, 1)
        self.row({second: 1, first: -1}, 1, None, (self.chosen[-1],))
        self.row({first: 1, second: -1}, 1, None, (self.otherwise[-1],))


class PairSteps(OrderingProgram):
    """Pairs and steps."""

    name: ClassVar[str] = "pair_steps"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pair_steps")

    def build(self, problem: MemoryOrdering) -> Any:
        """Write the model: steps, pairs, footprints, what precedence says of pairs."""
        instance = instance_of(problem)
        check_closure(instance.operators, self.name, self.context.limits)
        pairwise = Pairwise(self.context)
        written = pairwise.prepare(problem, instance, None)
        check_rows(pairwise.count_rows(written) + 3 * len(written.pairs), self.name, self.context.limits)
        model = PairIntervals(
            unit=instance.granularity(),
            written=written,
            counted=len(written.pairs),
            summed=problem.objective == "total",
        )
        _check_sizes(written, model.unit)
        self._steps(model)
        for number in range(len(written.pairs)):
            model.add_pair(number)
        self._excesses(model)
        self._footprints(model, problem)
        self._arcs(model)
        self.add_constraints(model, problem)
        return model

    def _steps(self, model: PairIntervals) -> None:
        """A step for every group, behind those of all groups before it."""
        groups, closed = model.written.groups, model.written.pairs.closed
        earliest, latest = closed.sum(axis=1), len(closed) - 1 - closed.sum(axis=0)
        model.step = [model.whole(int(low), int(high)) for low, high in zip(earliest, latest, strict=True)]
        for g, h in zip(*(ends.tolist() for ends in reduced_arcs(groups.before, closed)), strict=True):
            model.row({model.step[h]: 1, model.step[g]: -1}, 1, None)

    def _excesses(self, model: PairIntervals) -> None:
        """Every excess is at least each of the expressions that it stands over."""
        model.excess = [model.whole(0, excess.upper) for excess in model.written.excesses]
        for excess, column in zip(model.written.excesses, model.excess, strict=True):
            for over in excess.over:
                model.row({**model.terms(over), column: -1}, None, -over.constant)

    def _footprints(self, model: PairIntervals, problem: MemoryOrdering) -> None:
        """Every footprint is at most the peak, or the limit; the total is the sum of all."""
        unit, loads = model.unit, model.written.loads
        limit = problem.limit_bytes
        if problem.objective == "peak":
            caps = [cap for cap in (limit, self.context.ceiling) if cap is not None]
            least = -(-model.written.floor // unit)
            most = int(min(caps)) // unit if caps else max(least, LARGEST)
            model.objective = model.whole(least, max(least, most))
            for load in loads.values():
                model.row({**model.terms(load, unit), model.objective: -1}, None, -load.constant // unit)
            return
        total = _total(model.written)
        ceiling = self.context.ceiling
        model.objective = model.whole(0, LARGEST if ceiling is None else int(ceiling) // unit)
        model.row({**model.terms(total, unit), model.objective: -1}, None, -total.constant // unit)
        if limit is not None:
            for load in loads.values():
                if not load.terms:
                    least_peak(problem, load.constant)
                model.row(model.terms(load, unit), None, (limit - load.constant) // unit)

    def _arcs(self, model: PairIntervals) -> None:
        """What runs before p runs before q, too, for every arc p -> q, beside every critical group."""
        pairs, groups = model.written.pairs, model.written.groups
        heads, tails = reduced_arcs(groups.before, pairs.closed)
        for g in np.flatnonzero(model.written.critical).tolist():
            self.check_time()
            columns = pairs.column[g]
            beside = (columns[heads] >= 0) & (columns[tails] >= 0)
            for p, q in zip(heads[beside].tolist(), tails[beside].tolist(), strict=True):
                earlier = model.chosen if p < g else model.otherwise  # p before g
                later = model.chosen if q < g else model.otherwise  # q before g
                model.row({later[columns[q]]: 1, earlier[columns[p]]: -1}, None, 0)

    def extract_values(self, model: PairIntervals, values: list[int]) -> Ordering:
        """The groups in the order that the pairs say."""
        written = model.written
        pairs = np.asarray([values[column] for column in model.chosen], dtype=np.float64)
        return written.instance.ordering(written.groups.spread(written.pairs.order(pairs)))

    def extract(self, model: Any) -> Ordering:
        """Not used: engines of this kind return values, see :meth:`extract_values`."""
        raise NotImplementedError

    def start(self, model: Any, solution: Ordering) -> None:
        """Hint every column; an order that splits groups is first regrouped, which does not raise its peak."""
        written: PairModel = model.written
        groups = written.groups.gather(written.instance.positions(solution))
        values = [int(value) for value in written.pairs.values_of(groups)]
        hint = dict(zip(model.chosen, values, strict=True))
        hint |= {column: 1 - value for column, value in zip(model.otherwise, values, strict=True)}
        hint |= {model.step[g]: step for step, g in enumerate(groups.tolist())}
        known = values[: model.counted]
        for excess, column in zip(written.excesses, model.excess, strict=True):
            known.append(max(0, *(_value(over, known) for over in excess.over)))
            hint[column] = known[-1]
        footprints = [_value(load, known) for load in written.loads.values()]
        value = sum(footprints) if model.summed else max([*footprints, written.floor])
        hint[model.objective] = -(-value // model.unit)
        model.hint = hint

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Units of the model as bytes, rounded so that a lower bound stays one."""
        unit = instance_of(problem).granularity()
        return max(0, math.ceil(value - SLACK - RELATIVE_SLACK * abs(value))) * unit

    def add_row(self, model: Any, row: Any) -> None:
        """Add one row of a side constraint, such as ``model.position("a") <= 3``."""
        assert isinstance(row, Comparison)
        model.rows.append(whole_row(model, row, 1.0, frozenset()))


def _check_sizes(written: PairModel, unit: int) -> None:
    """Refuse sizes whose sums are no whole numbers of 64 bits.

    Raises
    ------
    LimitExceededError
        When they are not.
    """
    instance = written.instance
    largest = sum(int(size) for size in instance.size) + int(instance.workspace.max(initial=0))
    if largest * max(1, instance.operators) // unit > LARGEST:
        raise LimitExceededError(
            f"formulation {PairSteps.name!r} counts whole units of {unit:,} bytes, of which these tensors have too many"
        )


def _total(written: PairModel) -> Affine:
    """The sum of all footprints."""
    total = Affine()
    for load in written.loads.values():
        total.constant += load.constant
        for column, coefficient in load.terms.items():
            total.add((0, column, 1), coefficient)
    return total


def _value(expression: Affine, values: list[int]) -> int:
    return expression.constant + sum(coefficient * values[column] for column, coefficient in expression.terms.items())
