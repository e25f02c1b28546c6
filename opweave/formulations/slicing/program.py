"""Columns of the program over cuts, and what side constraints may refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.bulk import Rows, linear_expression
from opweave.formulations.intervals import Linear
from opweave.formulations.slicing.instance import SlicingInstance
from opweave.problems.slicing import Slicing

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.environ import ConcreteModel

ZERO = Linear(0.0, {})
ONE = Linear(1.0, {})


@dataclass(eq=False)
class CutModel:
    """What a model was written from, kept with it as ``model.slicing``.

    Attributes
    ----------
    unit
        Seconds of one unit of the model's time.
    chosen
        (operator, mode) -> 1 when it is cut along that mode.
    cuts
        (operator, mode) -> its cuts, devices + 1 of them, all 0 where another mode is chosen.
    active
        (operator, mode, device) -> 1 when the device has a part.
    rows
        Families of rows under construction, by name.
    """

    model: ConcreteModel
    problem: Slicing
    instance: SlicingInstance
    unit: float
    variables: list[Any] = field(default_factory=list)
    bounds: list[tuple[float, float, bool]] = field(default_factory=list)
    chosen: dict[tuple[int, int], Linear] = field(default_factory=dict)
    cuts: dict[tuple[int, int], list[Linear]] = field(default_factory=dict)
    active: dict[tuple[int, int, int], Linear] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)

    def whole(self, high: float) -> Linear:
        """Add a whole-number column from 0."""
        return self._column(high, whole=True)

    def real(self, high: float) -> Linear:
        """Add a continuous column from 0."""
        return self._column(high, whole=False)

    def _column(self, high: float, *, whole: bool) -> Linear:
        self.bounds.append((0.0, float(high), whole))
        return Linear(0.0, {len(self.bounds) - 1: 1.0})

    def at_most(self, family: str, small: Linear, large: Linear | float) -> None:
        """Add a row ``small <= large``."""
        difference = small - large
        terms = {column: value for column, value in difference.terms.items() if value}
        if terms:
            self.rows.setdefault(family, Rows()).at_most(terms, -difference.constant)
        elif difference.constant > 1e-9:
            impossible = self.whole(0.0)
            self.rows.setdefault(family, Rows()).at_most(dict.fromkeys(impossible.terms, -1.0), -1.0)

    def equal(self, family: str, one: Linear, other: Linear | float) -> None:
        """Add a row ``one = other``."""
        difference = one - other
        self.rows.setdefault(family, Rows()).equal(dict(difference.terms), -difference.constant)

    def finish(self) -> None:
        """Hand all columns and rows to the model."""
        from pyomo.environ import Integers, Reals, Var

        kinds = {True: Integers, False: Reals}
        self.model.x = Var(
            range(len(self.bounds)),
            domain=lambda _, i: kinds[self.bounds[i][2]],
            bounds=lambda _, i: self.bounds[i][:2],
        )
        self.variables = list(self.model.x.values())
        for name, rows in self.rows.items():
            rows.add_to(self.model, name, self.variables)

    def modes(self, v: int) -> list[int]:
        """Modes that an operator may have."""
        return [mode for mode in (0, 1) if self.instance.length[v, mode] > 0]

    def takes_part(self, v: int, k: int) -> Linear:
        """1 when device k has a part of operator v."""
        return sum((self.active[v, mode, k] for mode in self.modes(v)), ZERO)

    def expression(self, linear: Linear) -> LinearExpression:
        """As a Pyomo expression."""
        return linear_expression(linear.constant, dict(linear.terms), self.variables)

    def handle_on(self, op: str, device: str) -> LinearExpression:
        """1 when ``device`` has a part of operator ``op``, else 0: a linear expression."""
        v = self.instance.first + self.instance.names.index(op)
        return self.expression(self.takes_part(v, self.instance.devices.index(device)))

    def set(self, linear: Linear, value: float) -> None:
        """Give a column its value; constants are left alone."""
        for column, factor in linear.terms.items():
            self.variables[column].set_value((value - linear.constant) / factor, skip_validation=True)

    def value(self, linear: Linear) -> float:
        """Current value."""
        return linear.constant + sum(
            factor * float(self.variables[column].value or 0.0) for column, factor in linear.terms.items()
        )


def unit_of(instance: SlicingInstance) -> float:
    """Seconds of a thousandth of the time that the fastest devices take for whole operators."""
    whole = instance.intercept + instance.slope
    total = float(np.where(np.isfinite(whole), whole, np.inf).min(axis=1).sum())
    return total / 1000.0 if total > 0 else 1.0
