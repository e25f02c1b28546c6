"""The task of an engine: the model to solve, and where to report findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opweave.formulations.formulation import Formulation
from opweave.formulations.modeling.arrays import MatrixModel, Program
from opweave.formulations.modeling.intervals import WholeProgram
from opweave.formulations.modeling.linear import Row
from opweave.formulations.modeling.model import Waits, waits_in
from opweave.formulations.modeling.pyomo import PyomoView
from opweave.formulations.modeling.rows import FEASIBILITY, RowBlock
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.engines.rules import Refusals
from opweave.solvers.run import Run

CLAIM_TOLERANCE = 1e-6
"""Relative difference by which an engine's objective may lie below the referee's before it counts as a wrong claim."""

SWITCHED = 200.0
"""The same for seconds, in resolutions of the model. Engines let 0/1 columns be off by a millionth, and those that
switch a row off do so by a thousand units; a path passes several."""


@dataclass(eq=False)
class Task:
    """A model to solve, and where its engine reports findings.

    Attributes
    ----------
    program
        The program that the engine receives; it is never changed.
    view
        The Pyomo model of a formulation in plain Pyomo; None for all others.
    start
        Start values by the program's column, NaN where unknown; None without a start.
    run
        Limits, seed, threads, options.
    refusals
        What rules that the formulation cannot express have refused.
    whole
        Whether the last incumbent obeys the rows that the formulation left out.
    """

    engine: str
    problem: Problem[Any, Any]
    formulation: Formulation[Any, Any]
    model: Any
    program: Program | WholeProgram
    run: Run
    refusals: Refusals
    view: PyomoView | None = None
    start: FloatArray | None = None
    whole: bool = True
    _known: set[object] = field(default_factory=set)
    _late: list[Row] = field(default_factory=list)

    @property
    def matrix(self) -> MatrixModel:
        """The program, for engines that solve linear programs."""
        assert isinstance(self.program, Program)
        return self.program.matrix

    def incumbent(self, values: FloatArray) -> None:
        """Report a solution of the program.

        Raises
        ------
        EngineError
            If the values violate the program, or their plan breaks an added row.
        """
        complaint = self.program.broken(values)
        if complaint is not None:
            raise EngineError(f"{self.engine} returned {complaint}")
        solution, self.whole = self.read(values)
        if self.whole and self._breaks_added(solution):
            raise EngineError(
                f"{self.engine} returned a plan that breaks an added row, which it misread, because numbers of the "
                "problem and of the row lie too far apart"
            )
        if not self.whole:
            self.offer(solution)
        elif not self.refusals.refuse(solution):
            self._accept(values, solution)

    def read(self, values: FloatArray) -> tuple[Solution, bool]:
        """The solution that an engine's values stand for, and whether they obey the rows that were left out."""
        known = self.program.model_values(values)
        broken = self.formulation.separate(self.model, known)
        self._late += [row for row in broken if row.key not in self._known]
        self._known.update(row.key for row in broken)
        return self.formulation.extract(self.model, known), not broken

    def offer(self, solution: Solution) -> str | None:
        """Report a solution from elsewhere if it obeys the whole model; otherwise return the violation.

        The model decides, not the referee alone, because only the model has the rows that a user added.
        """
        known = self.formulation.start(self.model, solution)
        values = self.program.engine_values(known)
        if np.isnan(values).any():
            self.start = values if self.start is None else self.start
            if self.run.extend is None or not self._decided(known):
                return None
            complaint = None
        else:
            complaint = self.program.broken(values)
        if complaint is None and self._breaks_added(solution):
            complaint = "values that break an added row"
        judged = self.problem.evaluate(solution)
        if complaint is None and judged.feasible and judged.objective is not None:
            better = self.run.found(solution, judged.objective)
            self.start = values if better or self.start is None else self.start
        elif self.program.exact and self.start is None:
            self.start = values  # a hint may be off by a tick
        return complaint

    def _decided(self, values: FloatArray) -> bool:
        """Whether a plan's values, which leave some columns open, obey every row that a user has added.

        Nothing else in the model can speak against a plan that the referee accepts.
        """
        return self.view is None and self.program.own_objective and all(row.holds(values) for row in self._added())

    def _accept(self, values: FloatArray, solution: Solution) -> None:
        """Report the engine's solution with the referee's objective, unless the engine claims a better one."""
        judged = self.problem.evaluate(solution)
        real = judged.objective if judged.feasible else None
        if self.program.own_objective:
            claim = self.formulation.objective_bound(self.problem, self.program.objective(values))
            lower_bound = self.formulation.context.lower_bound
            claim = claim if lower_bound is None else max(claim, lower_bound)
            switched = SWITCHED if self.problem.unit == "seconds" else 1.0
            allowance = CLAIM_TOLERANCE * abs(claim) + switched * self.formulation.resolution()
            if real is None or (real > claim + allowance and not self.program.exact):
                self.run.found(solution, claim)  # the referee will reject it, and the claim does not count
                return
        if real is not None and self.run.found(solution, real):
            self.start = values

    def bound(self, value: float) -> None:
        """Report a lower bound of the program's objective."""
        if self.program.own_objective and not self.formulation.restricts and np.isfinite(value):
            bound = self.formulation.objective_bound(self.problem, float(value))
            coarse = 0.0 if self.program.exact else self.formulation.resolution()
            self.run.proved(max(0.0, bound - coarse) if coarse else bound, f"{self.engine} ({self.formulation.name})")

    def settled(self, values: FloatArray, bound: float | None) -> None:
        """Report the objective of optimal values as a bound, if objectives are integers and the requested gap is 0.

        Engines stop once no better integer is possible; their last bound may be just above the next lower integer. If
        it is lower still, the values are not the optimal ones.
        """
        if self.run.gap == 0.0 and self.formulation.counts_units(self.problem):
            objective = float(np.round(self.program.objective(values)))
            if bound is None or bound > objective - 1.0:
                self.bound(objective)

    def missing_rows(self) -> RowBlock:
        """Rows that reported solutions violate and that the engine has not received yet."""
        assert isinstance(self.program, Program)
        late, self._late = self._late, []
        return self.program.block(late)

    def check_added(self) -> None:
        """Refuse rows that keep the objective up.

        The objective's column is at least what a plan costs, so it may obey such a row where the plan does not. Columns
        from 0 to 1 are decisions, and exact.

        Raises
        ------
        UnsupportedFeatureError
            For the first such row.
        """
        if self.program.own_objective and any(self._raises_objective(row) for row in self._added()):
            raise UnsupportedFeatureError(
                f"a row limits the objective of formulation {self.formulation.name!r} from below; rows can limit it "
                "only from above, because a plan may cost less than the model's objective says"
            )

    def _raises_objective(self, row: Row) -> bool:
        """Whether a row asks for more of a column whose cost is above 0 and which is no decision."""
        for column, factor in row.terms.items():
            if (factor > 0 and np.isfinite(row.low)) or (factor < 0 and np.isfinite(row.high)):
                if isinstance(self.program, WholeProgram):
                    if column == self.program.goal:
                        return True
                elif column < len(self.program.column) and self.program.column[column] >= 0:
                    place, matrix = self.program.column[column], self.program.matrix
                    if matrix.cost[place] > 0 and matrix.upper[place] > 1:
                        return True
        return False

    def waits(self) -> Waits | None:
        """How much longer added rows may make schedules; None if none of them concerns times."""
        return waits_in(self._added(), self.model if self.view is None else self.view.source)

    def _breaks_added(self, solution: Solution) -> bool:
        """Whether a plan breaks an added row about times, as far as its columns follow from the plan.

        Engines allow a share of the model's unit, and ticks are rounded; both may be more than a number of the row.
        """
        timed = (self.model if self.view is None else self.view.source).timed
        values = self.formulation.exact(self.model, solution) if timed and self.run.extend is not None else None
        if values is None:
            return False
        latest = np.nan_to_num(values[list(timed)]).max()
        for row in self._added():
            weights = [abs(factor) for column, factor in row.terms.items() if column in timed]
            if not weights or not all(column < len(values) for column in row.terms):
                continue
            parts = [factor * float(values[column]) for column, factor in row.terms.items()]
            sizes = map(abs, (*parts, max(weights) * latest, row.low, row.high))
            slack = FEASIBILITY * max(size for size in sizes if np.isfinite(size))
            if sum(parts) < row.low - slack or sum(parts) > row.high + slack:
                return True
        return False

    def _added(self) -> list[Row]:
        """The rows of side constraints and of a user."""
        if self.view is None:
            return list(self.model.added)
        return list(self.view.added())
