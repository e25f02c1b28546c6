"""Linear expressions, rows and models: what arithmetic, comparison and names say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opweave.formulations.modeling.arrays import TriviallyInfeasibleError, to_arrays
from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import RowFamily
from opweave.problems.errors import InfeasibleError, InvalidInputError

NUMBERS = st.integers(-9, 9).map(float)
LINEARS = st.builds(Linear, NUMBERS, st.dictionaries(st.integers(0, 3), NUMBERS))
POINTS = st.lists(NUMBERS, min_size=4, max_size=4)


@given(first=LINEARS, second=LINEARS, factor=NUMBERS, point=POINTS)
def test_arithmetic_means_what_it_means_for_values(
    first: Linear, second: Linear, factor: float, point: list[float]
) -> None:
    x, y = first.at(point), second.at(point)
    assert (first + second).at(point) == x + y
    assert (first - second).at(point) == x - y
    assert (factor * first - 2).at(point) == factor * x - 2
    assert (3 - first).at(point) == 3 - x
    assert total([first, second, first]).at(point) == 2 * x + y


@given(first=LINEARS, second=LINEARS, point=POINTS)
def test_a_row_holds_where_the_comparison_does(first: Linear, second: Linear, point: list[float]) -> None:
    def holds(row: Row) -> bool:
        return row.low <= Linear(0.0, row.terms).at(point) <= row.high

    x, y = first.at(point), second.at(point)
    assert holds(first <= second) == (x <= y)
    assert holds(first >= second) == (x >= y)
    assert holds(first == second) == (x == y)
    assert holds(first <= 1) == (x <= 1)
    assert holds(1 <= first) == (1 <= x)  # noqa: SIM300 - the other side is written, too


def test_rows_whose_terms_have_cancelled_out_are_decided() -> None:
    rows = RowFamily()
    for holds in (Linear() <= 0, Linear() <= -1e-12, Linear() == 0):
        rows.add(holds)
    assert len(rows) == 0
    for never in (Linear() <= -0.5, Linear() == 0.5, Linear() >= 0.5):
        with pytest.raises(InfeasibleError):
            rows.add(never)
    model = LinearModel()
    x = Linear.of(model.real("x"))
    model.rows("fine").add(0 * x <= 1)
    assert len(to_arrays(model).matrix.rows) == 0
    model.rows("wrong").add(0 * x >= 1)
    with pytest.raises(TriviallyInfeasibleError, match=r"wrong\[0\]"):
        to_arrays(model)


def test_names_are_told_in_messages() -> None:
    model = LinearModel()
    x = Linear.over(model.reals("x", [("conv", "gpu"), ("conv", "cpu")], high=4.0))
    model.minimise(x)
    model.rows("fits").add(x <= 5)
    program = to_arrays(model)
    assert program.broken(np.array([4.0, 2.0])) == "values that break row fits[0]"
    assert program.broken(np.array([0.0, -2.0])) == "x[conv,cpu] outside its bounds"
    model.rows("fits").add(math.nan * x <= 5)
    with pytest.raises(InvalidInputError, match=r"fits\[1\] .*not a finite number"):
        to_arrays(model)
    narrow = LinearModel()
    narrow.wholes("n", ["a", "b"], low=[0.0, 0.2], high=[1.0, 0.8])
    with pytest.raises(TriviallyInfeasibleError, match=r"n\[b\] has no value left"):
        to_arrays(narrow)
