"""Models as arrays: what arrives, and which numbers are refused."""

from __future__ import annotations

import math

import numpy as np
import pyomo.environ as pyo
import pytest

from opweave.formulations.modeling.arrays import TriviallyInfeasibleError
from opweave.formulations.modeling.pyomo import read_arrays
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError

NOT_A_NUMBER = math.nan


def model(row=None, objective=None) -> pyo.ConcreteModel:
    built = pyo.ConcreteModel()
    built.x = pyo.Var(bounds=(0, 4))
    built.y = pyo.Var(domain=pyo.Binary)
    built.unused = pyo.Var(domain=pyo.Binary)
    built.objective = pyo.Objective(expr=built.x + 2 * built.y + 3 if objective is None else objective(built))
    if row is not None:
        built.row = pyo.Constraint(expr=row(built))
    return built


def test_rows_columns_and_constants_arrive():
    matrix = read_arrays(model(lambda m: (1, m.x + 2 * m.y - 1, 3)))[0]
    assert (matrix.columns, len(matrix.rows), matrix.offset) == (3, 2, 3.0)
    assert matrix.cost.tolist() == [1.0, 2.0, 0.0]
    assert matrix.whole.tolist() == [False, True, True]
    assert sorted(zip(matrix.rows.lower, matrix.rows.upper, strict=True)) == [(-math.inf, 4.0), (2.0, math.inf)]
    assert matrix.objective(np.array([1.0, 1.0, 0.0])) == 6.0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (lambda m: math.nan * m.x + m.y <= 1, "row .*not a finite number"),
        (lambda m: math.inf * m.x + m.y <= 1, "row .*not a finite number"),
        (lambda m: 1e16 * m.x + m.y <= 1, "row .*or more"),
        (lambda m: 1e-12 * m.x + m.y <= 1, "row .*or less"),
        (lambda m: m.x + m.y <= NOT_A_NUMBER, "row .*not a number"),
        (lambda m: m.x + m.y >= math.inf, "row .*infinite the wrong way"),
    ],
)
def test_numbers_that_engines_misread_are_refused(row, words):
    with pytest.raises(InvalidInputError, match=words):
        read_arrays(model(row))


def test_an_objective_that_is_not_finite_is_refused():
    with pytest.raises(InvalidInputError, match="x of the model has an objective coefficient"):
        read_arrays(model(objective=lambda m: math.inf * m.x))
    with pytest.raises(InvalidInputError, match="constant"):
        read_arrays(model(objective=lambda m: m.x + math.nan))


def test_bounds_of_whole_variables_are_whole_and_leave_a_value():
    built = model()
    built.n = pyo.Var(domain=pyo.Integers, bounds=(0.5, 8.5))
    matrix, variables = read_arrays(built)
    column = [variable.name for variable in variables].index("n")
    assert (matrix.lower[column], matrix.upper[column]) == (1.0, 8.0)
    built.n.setub(0.75)
    with pytest.raises(TriviallyInfeasibleError, match="n has no value left"):
        read_arrays(built)


def test_only_linear_models_with_one_objective_are_taken():
    with pytest.raises(UnsupportedFeatureError, match="linear"):
        read_arrays(model(lambda m: m.x * m.y <= 1))
    twice = model()
    twice.second = pyo.Objective(expr=twice.x)
    with pytest.raises(InvalidInputError, match="2 active objectives"):
        read_arrays(twice)
    logical = model()
    logical.b = pyo.BooleanVar()
    logical.c = pyo.LogicalConstraint(expr=logical.b)
    with pytest.raises(UnsupportedFeatureError, match="linear"):
        read_arrays(logical)


def test_a_row_that_can_never_hold_is_noticed():
    built = model()
    built.x.fix(1)
    built.row = pyo.Constraint(expr=built.x >= 2)
    with pytest.raises(TriviallyInfeasibleError):
        read_arrays(built)


def test_broken_rows_bounds_and_fractions_are_named():
    matrix = read_arrays(model(lambda m: m.x + 2 * m.y <= 3))[0]
    assert matrix.broken(np.array([1.0, 1.0, 0.0])) is None
    assert matrix.broken(np.array([2.0, 1.0, 0.0])) == "values that break row row"
    assert matrix.broken(np.array([-1.0, 1.0, 0.0])) == "x outside its bounds"
    assert matrix.broken(np.array([1.0, 0.5, 0.0])) == "a fraction for y"
    assert "not finite" in matrix.broken(np.array([math.nan, 0.0, 0.0]))
    assert "not finite" in matrix.broken(np.zeros(2))
