"""Linear programs: what is solved, and bounds that hold whatever the prices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.solvers import linear
from opweave.solvers.engines import highs_child
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise, proved_minimum, proved_value


def some_program(seed: int) -> LinearProgram:
    """Two families of rows that a point within the box obeys."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    inside = rng.uniform(0.0, 3.0, columns)
    most, equal = SparseRows(), SparseRows()
    for rows, slack in ((most, rng.uniform(0.0, 1.0, 3)), (equal, np.zeros(1))):
        values = rng.normal(size=(len(slack), columns))
        rows.put(rows.open(values @ inside + slack)[:, None], np.arange(columns)[None, :], values)
    return LinearProgram.of(rng.normal(size=columns), np.full(columns, 3.0), most, equal)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_the_proved_minimum_is_the_minimum_from_below(seed: int) -> None:
    program = some_program(seed)
    least, proved = minimise(program, None), proved_minimum(program, None)
    assert least is not None
    assert proved is not None
    assert proved == pytest.approx(least.value, rel=1e-6, abs=1e-6)
    assert proved <= least.value + 1e-7 * (1.0 + abs(least.value))


@pytest.mark.parametrize("seed", range(3))
def test_where_highspy_cannot_be_loaded_the_answer_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = some_program(seed)
    usual = minimise(program, None)
    for module in (linear, highs_child):
        monkeypatch.setattr(module, "highspy_fits", lambda: False)
    other = minimise(program, None)
    assert usual is not None
    assert other is not None
    assert other.value == pytest.approx(usual.value, abs=1e-9)
    for some, same in zip((usual.most_price, usual.equal_price), (other.most_price, other.equal_price), strict=True):
        assert same == pytest.approx(some, abs=1e-7)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 0.1, 1.0, 100.0]))
def test_whatever_the_prices_they_prove_no_more(seed: int, scale: float) -> None:
    program = some_program(seed)
    least = minimise(program, None)
    assert least is not None
    rows = program.most.shape[0]
    prices = scale * np.random.default_rng(seed).normal(size=rows)
    low = np.full(rows, -np.inf)
    value = proved_value(program.cost, program.most, low, program.most_right, (program.lower, program.upper), prices)
    assert value <= least.value + 1e-7 * (1.0 + abs(least.value))


def test_programs_without_a_point_prove_nothing() -> None:
    rows = SparseRows()
    rows.put(rows.open(np.asarray([-1.0])), np.asarray([0]), 1.0)
    assert proved_minimum(LinearProgram.of(column_alone(0, 1), np.ones(1), rows), 1.0) is None
