"""Pyomo models read as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, Program, TriviallyInfeasibleError, whole_bounds
from opweave.formulations.modeling.linear import Row
from opweave.formulations.modeling.rows import Block, LazyNames
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


def program_of(
    matrix: MatrixModel, variables: Sequence[Any], columns: Sequence[Any], *, own_objective: bool
) -> Program:
    """Make the program of a Pyomo model with ``columns``, given the arrays of those ``variables`` that were read."""
    place = {id(variable): k for k, variable in enumerate(variables)}
    column = np.asarray([place.get(id(variable), -1) for variable in columns], dtype=np.int64)
    fixed = np.asarray(
        [
            0.0 if k >= 0 or variable.value is None else float(variable.value)
            for k, variable in zip(column.tolist(), columns, strict=True)
        ]
    )
    return Program(matrix, column, fixed, values_of(variables), own_objective)


def values_of(variables: Sequence[Any]) -> FloatArray:
    """The values of the Pyomo variables, NaN if there is none."""
    return np.asarray([variable.value for variable in variables], dtype=np.float64)


def load_values(variables: Sequence[Any], values: FloatArray) -> None:
    """Write values into Pyomo variables."""
    for variable, value in zip(variables, values.tolist(), strict=True):
        variable.set_value(value, skip_validation=True)


def variables_of(model: ConcreteModel) -> list[Any]:
    """The columns of a Pyomo model: its variables, in the order of its components."""
    from pyomo.environ import Var

    return list(model.component_data_objects(Var))


def read_arrays(model: ConcreteModel) -> tuple[MatrixModel, list[Any]]:
    """Read a linear Pyomo model with one objective into arrays, and check every number in it.

    Returns
    -------
    MatrixModel, list
        The arrays, and the Pyomo variable of every column.

    Raises
    ------
    InvalidInputError
        If numbers are NaN, infinite or extreme, or there is not exactly one objective; names the row or variable.
    UnsupportedFeatureError
        If a row or the objective is not linear.
    TriviallyInfeasibleError
        If a row without variables can never hold, or a variable has no value left.
    """
    from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, InvalidExpressionError
    from pyomo.environ import Objective
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) != 1:
        raise InvalidInputError(f"the model has {len(objectives)} active objectives; it needs exactly one")
    try:
        form = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=1)
    except InfeasibleConstraintException as error:
        raise TriviallyInfeasibleError(str(error)) from error
    except (InvalidConstraintError, InvalidExpressionError) as error:
        raise UnsupportedFeatureError(f"engines take linear models only: {error}") from error
    except ValueError as error:
        raise _not_compiled(error) from error
    used = {id(variable) for variable in form.columns}
    spare = [v for v in variables_of(model) if not v.fixed and id(v) not in used]  # later rows may use them
    variables = [*form.columns, *spare]
    # Rows with two different sides become two rows; rows with no side or that always hold are dropped.
    side = np.asarray([entry.bound_type for entry in form.rows], dtype=np.int64)
    rhs = np.asarray(form.rhs, dtype=np.float64)
    sparse = form.A.tocsr()
    sparse.eliminate_zeros()
    rows = Block(
        start=sparse.indptr.astype(np.int32),
        index=sparse.indices.astype(np.int32),
        value=sparse.data.astype(np.float64),
        lower=np.where(side <= 0, rhs, -np.inf),
        upper=np.where(side >= 0, rhs, np.inf),
        names=names_of([entry.constraint for entry in form.rows]),
    )
    whole = np.asarray([not variable.is_continuous() for variable in variables], dtype=bool)
    lower, upper = _bounds(variables, whole)
    if (lower > upper).any():
        raise TriviallyInfeasibleError(f"variable {variables[int(np.argmax(lower > upper))].name} has no value left")
    matrix = MatrixModel(
        cost=np.concatenate([form.c.toarray()[0], np.zeros(len(spare))]),
        offset=float(form.c_offset[0]),
        lower=lower,
        upper=upper,
        whole=whole,
        rows=rows,
        names=names_of(variables),
    )
    matrix.check()
    return matrix, variables


def _not_compiled(error: ValueError) -> Exception:
    """Tell a component that is not linear from an invalid number; Pyomo raises ValueError for both."""
    if "does not know how to process" in " ".join(str(error).split()):
        return UnsupportedFeatureError(f"engines take linear models only: {error}")
    return InvalidInputError(f"the model cannot be read: {error}")


def _bounds(variables: Sequence[Any], whole: BoolArray) -> tuple[FloatArray, FloatArray]:
    try:
        bounds = [bounds_of(variable) for variable in variables]
    except ValueError as error:
        raise InvalidInputError(f"the model cannot be read: {error}") from error
    lower, upper = np.asarray(bounds, dtype=np.float64).reshape(-1, 2).T
    return whole_bounds(lower, upper, whole)


def bounds_of(variable: Any) -> tuple[float, float]:
    """Both bounds of a variable, infinite if there is none."""
    low, high = variable.bounds
    return -np.inf if low is None else low, np.inf if high is None else high


def row_of(row: Any, column: Callable[[Any], int]) -> Row:
    """One Pyomo constraint as a row.

    Raises
    ------
    UnsupportedFeatureError
        If it is not linear.
    """
    from pyomo.environ import value
    from pyomo.repn import generate_standard_repn

    low, body, high = row.to_bounded_expression()
    repn = generate_standard_repn(body)
    if not repn.is_linear():
        raise UnsupportedFeatureError(f"engines take linear models only, and row {row.name} is not")
    terms = {column(v): float(c) for v, c in zip(repn.linear_vars, repn.linear_coefs, strict=True)}
    return Row(
        terms,
        -np.inf if low is None else value(low) - repn.constant,
        np.inf if high is None else value(high) - repn.constant,
    )


def names_of(components: Sequence[Any]) -> LazyNames:
    """Names of Pyomo components."""
    return LazyNames(len(components), lambda index: str(components[index].name))
