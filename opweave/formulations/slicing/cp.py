"""Slicing for constraint-programming engines: the program over cuts in integers.

Columns and rows are those of :mod:`.milp`, where cuts, cells, bytes and participation are integers already. Times are
counted in ticks, rounded down, so that a bound in ticks holds in seconds. As in :mod:`.milp`, memory is counted for one
order. Rows of your own use ``model.on(op, device)`` (0/1) and ``model.share(op, device)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from opweave.formulations.formulation import Formulation, register_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.modeling.model import Family, LinearModel
from opweave.formulations.slicing.milp import Cuts
from opweave.formulations.slicing.program import CutModel
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint
from opweave.problems.slicing.spec import Slices, Slicing

TICKS = 1e6
"""Ticks in one unit of the program over cuts; a unit is a thousandth of a good solution."""

ROUNDING = 1e-9
"""Relative tolerance for sums of seconds in floating point."""


@dataclass(eq=False)
class WholeCuts(IntervalModel):
    """The model, and the program from which it was written; that program's columns come first."""

    written: CutModel

    def on(self, op: str, device: str) -> Linear:
        """1 if ``device`` computes a part of operator ``op``, otherwise 0."""
        return self.written.on(op, device)

    def share(self, op: str, device: str) -> Linear:
        """The share of operator ``op`` that ``device`` computes, from 0 to 1."""
        return self.written.share(op, device)

    def uses(self, device: str) -> Linear:
        """1 if ``device`` computes a part of any operator, otherwise 0."""
        parts = (self.on(op, device) for op in self.written.instance.names)
        return Linear.of(self.any_column("used", device, parts))


@register_formulation
class CutCounts(Formulation[Slicing, Slices]):
    """Dimensions and cuts as integers, with times in ticks."""

    name: ClassVar[str] = "cut_counts"
    requires: ClassVar[str] = Cuts.requires
    problem_type: ClassVar[type[Slicing]] = Slicing
    model_type: ClassVar[type[LinearModel]] = WholeCuts
    supports: ClassVar[tuple[str, ...]] = ("cuts", "order_arcs", "cut_counts")
    built_in: ClassVar[tuple[type[Constraint], ...]] = Cuts.built_in

    def least_rows(self, problem: Slicing) -> int:
        """Those of the linear program."""
        return Cuts(self.context).least_rows(problem)

    def build(self, problem: Slicing) -> WholeCuts:
        """Write the program, and convert it to integers."""
        cuts = Cuts(self.context)
        written, ends = cuts.write(problem)
        self.restricts = cuts.restricts
        self._unit = written.unit
        timed = {column for end in ends for column in end.terms}
        model = WholeCuts(written)
        for name, named in written.families.items():
            model.families[name] = Family(list(named.keys), list(named.columns))
        for column, (low, high) in enumerate(zip(written.low, written.high, strict=True)):
            model.low.append(math.floor(low))
            model.high.append(math.ceil(high * TICKS) if column in timed else math.floor(high + ROUNDING))
            model.integral.append(True)
        for family, rows in written.row_families.items():
            for row in rows.each():
                self.check_time()
                if family == "slowest":
                    _add_time(model, row, timed)
                else:
                    model.whole_rows.append(model.rounded(row))
        columns = [column for end in ends for column in end.terms]
        latency = model.whole(0, sum(int(model.high[column]) for column in columns), "latency")
        model.row({latency: 1, **dict.fromkeys(columns, -1)}, 0, None)
        model.minimise(Linear.of(latency), self._unit / TICKS)
        self.add_constraints(model, problem)
        return model

    def extract(self, model: WholeCuts, values: FloatArray) -> Slices:
        """Read the cuts."""
        return model.written.plan(values)

    def start(self, model: WholeCuts, solution: Slices) -> FloatArray:
        """Modes, cuts and participation; the engine completes the rest."""
        known = {column: round(value) for column, value in model.written.known(solution).items()}
        return model.completed(model.filled(known))

    @classmethod
    def tells_apart(cls, problem: Slicing) -> bool:
        """Dimensions and cuts are all that is decided if the order is given."""
        return problem.order is not None

    def exclude(self, model: WholeCuts, solution: Slices) -> None:
        """Add a row that the dimensions and cuts of a solution break, and that all others obey."""
        model.exclude({column: round(value) for column, value in model.written.known(solution).items()})

    def objective_bound(self, problem: Slicing, value: float) -> float:
        """Convert ticks to seconds."""
        return max(0.0, value / TICKS * self._unit * (1 - ROUNDING))

    def why_infeasible(self, problem: Slicing) -> str:
        """Name the rules that may exclude every solution."""
        return Cuts(self.context).why_infeasible(problem)


def _add_time(model: WholeCuts, row: Row, timed: set[int]) -> None:
    """Add ``time - end <= upper`` in ticks: coefficients of the time are rounded down, and the end's is 1."""
    scale = next(-value for column, value in row.terms.items() if column in timed)
    ticks = {column: math.floor(value / scale * TICKS) for column, value in row.terms.items() if column not in timed}
    ticks |= dict.fromkeys((column for column in row.terms if column in timed), -1)
    model.row(ticks, None, math.ceil(row.high / scale * TICKS))
