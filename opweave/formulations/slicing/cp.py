"""Slicing for constraint-programming engines: the program over cuts in whole numbers.

Columns and rows are those of :mod:`.milp`: cuts, cells, bytes and who takes part are whole numbers there already. Only
times are not; they are counted in ticks, rounded down, so that a bound in ticks holds in seconds. Memory counts for one
order, as there. Rows of your own use ``model.on(op, device)`` (0/1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from opweave.formulations.expressions import express
from opweave.formulations.formulation import Formulation
from opweave.formulations.intervals import Comparison, IntervalModel, Linear, whole_row
from opweave.formulations.slicing.milp import Cuts
from opweave.formulations.slicing.program import ZERO, CutModel
from opweave.problems.constraints import Colocate, Constraint, MaxDevices, Separate
from opweave.problems.slicing.spec import Slices, Slicing

TICKS = 1e6
"""Ticks in one unit of the program over cuts: a thousandth of a good plan."""

ROUNDING = 1e-9
"""Relative allowance for seconds that were added up in floating point."""


@dataclass(eq=False)
class WholeCuts(IntervalModel):
    """The model and the program that it was written from."""

    written: CutModel = None  # type: ignore[assignment]  # set by the formulation

    def on(self, op: str, device: str) -> Linear:
        """1 when ``device`` has a part of operator ``op``, else 0."""
        instance = self.written.instance
        return self.written.takes_part(instance.first + instance.names.index(op), instance.devices.index(device))


class CutCounts(Formulation[Slicing, Slices]):
    """The program over cuts with times in ticks."""

    name: ClassVar[str] = "cut_counts"
    problem_type: ClassVar[type[Slicing]] = Slicing
    supports: ClassVar[tuple[str, ...]] = ("cuts", "order_arcs", "cut_counts")
    built_in: ClassVar[tuple[type[Constraint], ...]] = Cuts.built_in

    def build(self, problem: Slicing) -> Any:
        """Write the program and turn it into whole numbers."""
        cuts = Cuts(self.context)
        written, ends = cuts.write(problem)
        self.restricts = cuts.restricts
        self._unit = written.unit
        timed = {column for end in ends for column in end.terms}
        model = WholeCuts(written=written)
        for column, (low, high, _) in enumerate(written.bounds):
            model.whole(math.floor(low), math.ceil(high * TICKS) if column in timed else math.floor(high + ROUNDING))
        for family, rows in written.rows.items():
            for terms, upper, equal in rows.each():
                self.check_time()
                if family == "slowest":
                    _add_time(model, terms, upper, timed)
                else:
                    model.rows.append(
                        whole_row(model, Comparison(terms, upper if equal else -math.inf, upper), 1.0, frozenset())
                    )
        total = sum(ends, ZERO)
        most = sum(model.high[column] for column in total.terms)
        model.objective = model.whole(0, most)
        model.row({model.objective: 1, **dict.fromkeys(total.terms, -1)}, 0, None)
        self.add_constraints(model, problem)
        return model

    def extract_values(self, model: WholeCuts, values: list[int]) -> Slices:
        """Read the cuts."""

        def value(linear: Linear) -> float:
            return linear.constant + sum(factor * values[column] for column, factor in linear.terms.items())

        return model.written.plan(value)

    def extract(self, model: Any) -> Slices:
        """Not used: engines of this kind return values, see :meth:`extract_values`."""
        raise NotImplementedError

    def start(self, model: Any, solution: Slices) -> None:
        """Hint modes, cuts and who takes part; the engine completes the rest."""
        model.hint = {column: round(value) for column, value in model.written.known(solution).items()}

    def objective_bound(self, problem: Slicing, value: float) -> float:
        """Ticks as seconds."""
        return max(0.0, value / TICKS * self._unit * (1 - ROUNDING))

    def why_infeasible(self, problem: Slicing) -> str:
        """Say what stands in the way."""
        return Cuts(self.context).why_infeasible(problem)

    def add_row(self, model: Any, row: Any) -> None:
        """Add one row of a side constraint, such as ``model.on("a", "gpu") <= model.on("b", "gpu")``."""
        assert isinstance(row, Comparison)
        model.rows.append(whole_row(model, row, 1.0, frozenset()))


def _add_time(model: WholeCuts, terms: dict[int, float], upper: float, timed: set[int]) -> None:
    """``time - end <= upper`` in ticks: every coefficient of the time rounded down, the end's is 1."""
    scale = next(-value for column, value in terms.items() if column in timed)
    ticks = {column: math.floor(value / scale * TICKS) for column, value in terms.items() if column not in timed}
    ticks |= dict.fromkeys((column for column in terms if column in timed), -1)
    model.row(ticks, None, math.ceil(upper / scale * TICKS))


def _colocate(formulation: CutCounts, model: WholeCuts, constraint: Colocate) -> None:
    for device in model.written.instance.devices:
        for op in constraint.ops[1:]:
            formulation.add_row(model, model.on(constraint.ops[0], device) == model.on(op, device))


def _separate(formulation: CutCounts, model: WholeCuts, constraint: Separate) -> None:
    for device in model.written.instance.devices:
        total = sum((model.on(op, device) for op in dict.fromkeys(constraint.ops)), ZERO)
        formulation.add_row(model, total <= 1)


def _max_devices(formulation: CutCounts, model: WholeCuts, constraint: MaxDevices) -> None:
    instance = model.written.instance
    used = []
    for device in instance.devices:
        column = model.binary()
        used.append(Linear(0.0, {column: 1.0}))
        for op in instance.names:
            formulation.add_row(model, model.on(op, device) <= used[-1])
    formulation.add_row(model, sum(used, ZERO) <= constraint.count)


express(Colocate, CutCounts.name)(_colocate)
express(Separate, CutCounts.name)(_separate)
express(MaxDevices, CutCounts.name)(_max_devices)
