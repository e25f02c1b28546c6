"""Memory ordering for constraint-programming engines: which operator runs before which, and the resulting steps.

The footprints are those of the pairwise program (:mod:`.pairwise`): columns of pairs say "a runs before b", and every
footprint is a linear row over them. In addition, every group of operators has a step. If a pair chooses "a before b",
the step of b follows that of a, so pairs close no cycle. All numbers are integers: bytes divided by their greatest
common divisor. Rows of your own use ``model.before(a, b)`` (0/1) and ``model.position(a)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_ordering.facts import Outline, PairFacts, PairProgram
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.pairwise import PairHandles
from opweave.formulations.memory_ordering.program import least_peak
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import reduced_arcs
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import LimitExceededError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

LARGEST = 2**55
"""Largest objective in units, so that sums of rows stay within 64-bit integers."""

SLACK = 0.01
RELATIVE_SLACK = 1e-15
"""Largest error of a bound as a floating-point number, in units and relative."""


@dataclass(eq=False)
class PairIntervals(PairHandles, IntervalModel):
    """The model, and the data from which it was written.

    Attributes
    ----------
    bytes_of_unit
        Bytes of one unit of the objective.
    pair_columns, otherwise
        Columns of "the first group of a pair runs before the second", and of the opposite.
    excess
        Columns that footprints share.
    step
        Column of every group's step.
    least
        Column of the peak or of the total, in units.
    """

    facts: PairFacts
    bytes_of_unit: int
    pair_columns: list[int] = field(default_factory=list)
    otherwise: list[int] = field(default_factory=list)
    excess: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    least: int = -1

    def at_most(self, expression: Linear, column: int | None = None, *, limit: int = 0, unit: int = 1) -> None:
        """Add ``expression <= column + limit`` for an expression over pairs and excesses.

        The column is in units of ``unit`` bytes, the expression and the limit are in bytes.
        """
        terms = {self._column(number): int(value) // unit for number, value in expression.terms.items()}
        if column is not None:
            terms[column] = -1
        self.row(terms, None, (limit - int(expression.constant)) // unit)

    def _column(self, number: int) -> int:
        counted = self.facts.counted
        return self.pair_columns[number] if number < counted else self.excess[number - counted]

    def open_pair(self, number: int) -> None:
        """Add the columns of a pair, and link them to the steps of its groups."""
        groups = [int(ends[number]) for ends in (self.facts.pairs.first, self.facts.pairs.second)]
        earlier, later = (self.facts.name(group) for group in groups)
        self.pair_columns.append(self.binary("x", (earlier, later)))
        self.otherwise.append(self.binary("x", (later, earlier)))
        first, second = (self.step[group] for group in groups)
        self.row({self.pair_columns[-1]: 1, self.otherwise[-1]: 1}, 1, 1)
        self.row({second: 1, first: -1}, 1, None, (self.pair_columns[-1],))
        self.row({first: 1, second: -1}, 1, None, (self.otherwise[-1],))


@register_formulation
class PairSteps(PairProgram):
    """The constraint program of pairs and steps."""

    name: ClassVar[str] = "pair_steps"
    model_type: ClassVar[type[LinearModel]] = PairIntervals
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "pair_steps")

    def build(self, problem: MemoryOrdering) -> PairIntervals:
        """Write the model: steps, pairs, footprints, and the pairs that precedence settles."""
        facts = self.prepare(problem)
        model = PairIntervals(facts, facts.instance.granularity())
        _check_sizes(facts.instance, model.bytes_of_unit)
        self._steps(model)
        for number in range(facts.counted):
            model.open_pair(number)
        self._excesses(model)
        self._footprints(model, problem)
        self._arcs(model)
        self.add_constraints(model, problem)
        return model

    def count_rows(self, outline: Outline) -> int:
        """One row for every critical group and arc, and three for every pair."""
        return int(outline.critical.sum()) + outline.arcs + 3 * outline.pairs

    def _steps(self, model: PairIntervals) -> None:
        """Add a step for every group, after the steps of all groups that must run before it."""
        groups, closed = model.facts.groups, model.facts.pairs.closed
        earliest, latest = closed.sum(axis=1), len(closed) - 1 - closed.sum(axis=0)
        sides = zip(earliest.tolist(), latest.tolist(), strict=True)
        model.step = [
            model.whole(int(low), int(high), "step", model.facts.name(group)) for group, (low, high) in enumerate(sides)
        ]
        for g, h in zip(*(ends.tolist() for ends in reduced_arcs(groups.before, closed)), strict=True):
            model.row({model.step[h]: 1, model.step[g]: -1}, 1, None)

    def _excesses(self, model: PairIntervals) -> None:
        """Every excess is at least as large as each of its expressions."""
        model.excess = [model.whole(0, each.upper, "excess", k) for k, each in enumerate(model.facts.excesses)]
        for excess, column in zip(model.facts.excesses, model.excess, strict=True):
            for over in excess.over:
                model.at_most(over, column)

    def _footprints(self, model: PairIntervals, problem: MemoryOrdering) -> None:
        """Every footprint is at most the peak, or the limit; the total is the sum of all footprints."""
        unit, loads = model.bytes_of_unit, model.facts.loads
        limit, ceiling = problem.limit_bytes, self.context.ceiling
        if problem.objective == "peak":
            caps = [cap for cap in (limit, ceiling) if cap is not None]
            least = -(-model.facts.lower_bound // unit)
            most = int(min(caps)) // unit if caps else max(least, LARGEST)
            model.least = model.whole(least, max(least, most), "peak")
            for load in loads.values():
                model.at_most(load, model.least, unit=unit)
        else:
            model.least = model.whole(0, LARGEST if ceiling is None else int(ceiling) // unit, "total")
            model.at_most(total(loads.values()), model.least, unit=unit)
            if limit is not None:
                for load in loads.values():
                    if not load.terms:
                        least_peak(problem, int(load.constant))
                    model.at_most(load, limit=limit, unit=unit)
        model.minimise(Linear.of(model.least), unit)

    def _arcs(self, model: PairIntervals) -> None:
        """For every arc p -> q and critical group: a group before which q runs is also one before which p runs."""
        pairs = model.facts.pairs
        for g, heads, tails in model.facts.arcs():
            self.check_time()
            for p, q in zip(heads.tolist(), tails.tolist(), strict=True):
                model.at_most(pairs.group_before(q, g) - pairs.group_before(p, g))

    def extract(self, model: PairIntervals, values: FloatArray) -> Ordering:
        """The groups in the order that the pairs give."""
        return model.facts.order(values[model.pair_columns])

    def start(self, model: PairIntervals, solution: Ordering) -> FloatArray:
        """Values of all columns. An order that splits groups is regrouped first, which does not raise its peak."""
        facts, values = model.facts, np.full(len(model), np.nan)
        groups = facts.gather(solution)
        pairs = facts.pairs.values_of(groups)
        values[model.pair_columns], values[model.otherwise] = pairs, 1.0 - pairs
        values[np.asarray(model.step, dtype=np.int64)[groups]] = np.arange(len(groups))
        known = facts.follow([int(value) for value in pairs.tolist()])
        values[model.excess] = known[facts.counted :]
        footprints = [int(load.at(known)) for load in facts.loads.values()]
        reached = sum(footprints) if "total" in model.families else max([*footprints, facts.lower_bound])
        values[model.least] = -(-reached // model.bytes_of_unit)
        return values

    def objective_bound(self, problem: MemoryOrdering, value: float) -> int:
        """Convert units of the model to bytes, rounded so that a lower bound stays one."""
        unit = lower(problem).granularity()
        return max(0, math.ceil(value - SLACK - RELATIVE_SLACK * abs(value))) * unit


def _check_sizes(instance: OrderingInstance, unit: int) -> None:
    """Refuse sizes whose sums exceed 64-bit integers.

    Raises
    ------
    LimitExceededError
        If they do.
    """
    largest = sum(int(size) for size in instance.size) + int(instance.workspace.max(initial=0))
    if largest * max(1, instance.operators) // unit > LARGEST:
        raise LimitExceededError(
            f"formulation {PairSteps.name!r} counts whole units of {unit:,} bytes, of which these tensors have too many"
        )
