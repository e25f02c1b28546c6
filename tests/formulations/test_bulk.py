"""Rows handed to Pyomo in one piece: what arrives, and what happens when the time is up meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from pyomo.environ import ConcreteModel, Var, value

from opweave.formulations.bulk import ROWS_BETWEEN_CHECKS, Rows
from opweave.formulations.formulation import OutOfTimeError
from opweave.formulations.modeling.linear import InfeasibleError


def _model() -> ConcreteModel:
    model = ConcreteModel()
    model.x = Var(range(3))
    return model


def test_rows_arrive_as_they_were_collected() -> None:
    rows, model = Rows(), _model()
    rows.at_most({0: 2.0, 1: -1.0}, 5.0)
    rows.equal({2: 3.0}, 6.0)
    rows.at_most_each(np.array([[0, 2], [1, 2]]), (1.0, 4.0), 7.0)
    rows.add_to(model, "rows", list(model.x.values()))
    model.x.set_values({0: 1.0, 1: 10.0, 2: 100.0})
    found = [(row.lower, value(row.body), row.upper) for row in model.rows.values()]
    assert found == [(None, -8.0, 5.0), (6.0, 300.0, 6.0), (None, 401.0, 7.0), (None, 410.0, 7.0)]


def test_rows_whose_terms_have_cancelled_out_are_decided_at_once() -> None:
    rows = Rows()
    rows.at_most({}, 0.0)
    rows.at_most({}, -1e-12)  # rounding
    rows.equal({}, 0.0)
    assert len(rows) == 0
    with pytest.raises(InfeasibleError):
        rows.at_most({}, -0.5)
    for value_ in (-0.5, 0.5):
        with pytest.raises(InfeasibleError):
            rows.equal({}, value_)


def test_nothing_is_printed_when_the_time_is_up_between_rows(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows, model, asked = Rows(), _model(), 0
    rows.at_most_each(np.zeros((2 * ROWS_BETWEEN_CHECKS, 1), dtype=np.int64), 1.0, 1.0)

    def check_time() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise OutOfTimeError

    with pytest.raises(OutOfTimeError):
        rows.add_to(model, "rows", list(model.x.values()), check_time)
    assert len(model.rows) == ROWS_BETWEEN_CHECKS
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
