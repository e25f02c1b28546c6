"""A linear mixed-integer model as plain arrays: what engines are given, and what their answers are checked against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


LARGEST_COEFFICIENT = 1e15
SMALLEST_COEFFICIENT = 1e-9
"""Engines drop coefficients beyond these without a word and solve another model."""

INFINITE = 1e20
"""Bounds from here on mean "none"."""

WHOLE_TOLERANCE = 1e-9
"""How far below a whole number a bound may lie and still mean it."""

FEASIBILITY = 1e-5
"""How far a returned value may lie outside a row or bound, relative to the row's largest term."""


class Names(Sequence[str]):
    """Names of Pyomo components, made when somebody asks: composing all of them takes longer than solving."""

    def __init__(self, components: Sequence[Any] = ()) -> None:
        self._components = components

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [component.name for component in self._components[index]]
        return str(self._components[index].name)

    def __len__(self) -> int:
        return len(self._components)

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[()]]:
        return (tuple, ())  # components stay at home: whoever computes elsewhere needs no names


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows ``lower <= A x <= upper`` in compressed sparse rows.

    Attributes
    ----------
    start, index, value
        Row r holds columns ``index[start[r]:start[r + 1]]`` with coefficients ``value``.
    lower, upper
        Shape (rows,); +-inf where there is none.
    names
        A name of every row, for messages.
    """

    start: NDArray[np.int32]
    index: NDArray[np.int32]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.lower)

    def joined(self, other: Block) -> Block:
        """These rows and then those of another block of the same model."""
        return Block(
            start=np.concatenate([self.start, self.start[-1] + other.start[1:]]).astype(np.int32),
            index=np.concatenate([self.index, other.index]),
            value=np.concatenate([self.value, other.value]),
            lower=np.concatenate([self.lower, other.lower]),
            upper=np.concatenate([self.upper, other.upper]),
            names=[*self.names, *other.names],
        )

    def check(self) -> None:
        """Refuse numbers that engines would drop or misread.

        Raises
        ------
        InvalidInputError
            Names the row.
        """
        row = np.repeat(np.arange(len(self)), np.diff(self.start))
        size = np.abs(self.value)
        _refuse(~np.isfinite(self.value), self.names, row, "has a coefficient that is not a finite number")
        _refuse(size >= LARGEST_COEFFICIENT, self.names, row, f"has a coefficient of {LARGEST_COEFFICIENT:g} or more")
        tiny = (size > 0) & (size <= SMALLEST_COEFFICIENT)
        _refuse(tiny, self.names, row, f"has a coefficient of {SMALLEST_COEFFICIENT:g} or less")
        each = np.arange(len(self))
        _refuse(np.isnan(self.lower) | np.isnan(self.upper), self.names, each, "has a side that is not a number")
        wrong = (self.lower >= INFINITE) | (self.upper <= -INFINITE)
        _refuse(wrong, self.names, each, "can never hold: a side is infinite the wrong way")

    def broken(self, values: FloatArray) -> str | None:
        """Name of a row that ``values`` break, or None."""
        if len(self) == 0:
            return None
        terms = self.value * values[self.index]
        filled = np.diff(self.start) > 0
        activity, largest = np.zeros(len(self)), np.zeros(len(self))
        begin = self.start[:-1][filled]
        activity[filled] = np.add.reduceat(terms, begin)
        largest[filled] = np.maximum.reduceat(np.abs(terms), begin)
        slack = FEASIBILITY * np.maximum(1.0, largest)
        bad = (activity < self.lower - slack) | (activity > self.upper + slack)
        return self.names[int(np.argmax(bad))] if bad.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class MatrixModel:
    """Minimise ``offset + cost x`` over ``rows``, ``lower <= x <= upper``, some columns whole.

    Attributes
    ----------
    cost, lower, upper
        Shape (columns,).
    whole
        Columns that take whole numbers only.
    names
        A name of every column, for messages.
    """

    cost: FloatArray
    offset: float
    lower: FloatArray
    upper: FloatArray
    whole: NDArray[np.bool_]
    rows: Block
    names: Sequence[str]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.cost)

    def check(self) -> None:
        """Refuse numbers that engines would drop or misread.

        Raises
        ------
        InvalidInputError
            Names the row or variable.
        """
        each = np.arange(self.columns)
        bad_cost = ~np.isfinite(self.cost) | (np.abs(self.cost) >= LARGEST_COEFFICIENT)
        _refuse(bad_cost, self.names, each, "has an objective coefficient that is not finite or too large")
        _refuse(np.isnan(self.lower) | np.isnan(self.upper), self.names, each, "has a bound that is not a number")
        wrong = (self.lower >= INFINITE) | (self.upper <= -INFINITE)
        _refuse(wrong, self.names, each, "has a bound that is infinite the wrong way")
        if not np.isfinite(self.offset):
            raise InvalidInputError("the model's objective has a constant that is not a finite number")
        self.rows.check()

    def broken(self, values: FloatArray) -> str | None:
        """What is wrong with ``values`` as a solution: not finite, outside a bound, fractional, or a broken row."""
        if values.shape != (self.columns,) or not np.isfinite(values).all():
            return "values that are missing or not finite"
        slack = FEASIBILITY * np.maximum(1.0, np.abs(values))
        outside = (values < self.lower - slack) | (values > self.upper + slack)
        if outside.any():
            return f"{self.names[int(np.argmax(outside))]} outside its bounds"
        split = self.whole & (np.abs(values - np.round(values)) > slack)
        if split.any():
            return f"a fraction for {self.names[int(np.argmax(split))]}"
        row = self.rows.broken(values)
        return None if row is None else f"values that break row {row}"

    def objective(self, values: FloatArray) -> float:
        """Objective of ``values``."""
        return float(self.offset + self.cost @ values)


def _refuse(bad: NDArray[np.bool_], names: Sequence[str], owner: NDArray[np.int64], what: str) -> None:
    if bad.any():
        raise InvalidInputError(f"{names[int(owner[int(np.argmax(bad))])]} of the model {what}")


class TriviallyInfeasibleError(Exception):
    """A row without variables can never hold, or the bounds of a variable leave nothing between them."""


@dataclass(eq=False)
class Compiled:
    """A Pyomo model as arrays, and the Pyomo variables of the columns."""

    matrix: MatrixModel
    variables: list[Any]
    _known: set[int]
    _column: dict[int, int]
    _model: ConcreteModel

    def load(self, values: FloatArray) -> None:
        """Write the columns' values into the Pyomo variables, whole ones rounded."""
        clean = np.where(self.matrix.whole, np.round(values), values).tolist()
        for variable, value in zip(self.variables, clean, strict=True):
            variable.set_value(value, skip_validation=True)

    def current(self) -> FloatArray:
        """The Pyomo variables' values by column, NaN where there is none."""
        return np.asarray([variable.value for variable in self.variables], dtype=np.float64)

    def new_rows(self) -> Block:
        """Rows that were added to the Pyomo model since it was compiled or last asked.

        Raises
        ------
        UnsupportedFeatureError
            When a new row is not linear or has variables that the model did not have.
        """
        from pyomo.environ import Constraint

        data = [
            row for row in self._model.component_data_objects(Constraint, active=True) if id(row) not in self._known
        ]
        self._known.update(map(id, data))
        return _block(data, self._column)


def compile_model(model: ConcreteModel) -> Compiled:
    """Read a linear Pyomo model with one objective into arrays and check every number in it.

    Raises
    ------
    InvalidInputError
        For NaN, infinite or extreme numbers, or not exactly one objective; names the row or variable.
    UnsupportedFeatureError
        For anything but linear rows and a linear objective.
    TriviallyInfeasibleError
        When a row without variables can never hold, or a variable has no value left.
    """
    from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, InvalidExpressionError
    from pyomo.environ import Constraint, Objective
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
    variables = _all_variables(model, form.columns)
    # Rows with two different sides come out twice; rows with none, or that hold trivially, not at all.
    side = np.asarray([entry.bound_type for entry in form.rows], dtype=np.int64)
    rhs = np.asarray(form.rhs, dtype=np.float64)
    matrix = form.A.tocsr()
    matrix.eliminate_zeros()
    rows = Block(
        start=matrix.indptr.astype(np.int32),
        index=matrix.indices.astype(np.int32),
        value=matrix.data.astype(np.float64),
        lower=np.where(side <= 0, rhs, -np.inf),
        upper=np.where(side >= 0, rhs, np.inf),
        names=Names([entry.constraint for entry in form.rows]),
    )
    whole = np.asarray([not variable.is_continuous() for variable in variables], dtype=bool)
    lower, upper = _bounds(variables, whole)
    if (lower > upper).any():
        raise TriviallyInfeasibleError(f"variable {variables[int(np.argmax(lower > upper))].name} has no value left")
    compiled = MatrixModel(
        cost=np.concatenate([form.c.toarray()[0], np.zeros(len(variables) - len(form.columns))]),
        offset=float(form.c_offset[0]),
        lower=lower,
        upper=upper,
        whole=whole,
        rows=rows,
        names=Names(variables),
    )
    compiled.check()
    known = {id(row) for row in model.component_data_objects(Constraint, active=True)}
    column = {id(variable): k for k, variable in enumerate(variables)}
    return Compiled(compiled, variables, known, column, model)


def _not_compiled(error: ValueError) -> Exception:
    """Tell a component that is not linear from a number that is not one; both are ValueErrors to Pyomo."""
    if "does not know how to process" in " ".join(str(error).split()):
        return UnsupportedFeatureError(f"engines take linear models only: {error}")
    return InvalidInputError(f"the model cannot be read: {error}")


def _all_variables(model: ConcreteModel, columns: Sequence[Any]) -> list[Any]:
    """The columns that rows use, then the free variables that none uses yet: later rows may."""
    from pyomo.environ import Var

    used = {id(variable) for variable in columns}
    spare = [v for v in model.component_data_objects(Var) if not v.fixed and id(v) not in used]
    return [*columns, *spare]


def _bounds(variables: Iterable[Any], whole: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Bounds by column; those of whole columns are whole, as some engines refuse others."""
    try:
        bounds = [variable.bounds for variable in variables]
    except ValueError as error:
        raise InvalidInputError(f"the model cannot be read: {error}") from error
    lower = np.asarray([-np.inf if low is None else low for low, _ in bounds], dtype=np.float64)
    upper = np.asarray([np.inf if high is None else high for _, high in bounds], dtype=np.float64)
    return (
        np.where(whole, np.ceil(lower - WHOLE_TOLERANCE), lower),
        np.where(whole, np.floor(upper + WHOLE_TOLERANCE), upper),
    )


def _block(data: Sequence[Any], column: dict[int, int]) -> Block:
    """A few rows, one by one."""
    from pyomo.environ import value
    from pyomo.repn import generate_standard_repn

    start = [0]
    index: list[int] = []
    coefficients: list[float] = []
    lower: list[float] = []
    upper: list[float] = []
    for row in data:
        low, body, high = row.to_bounded_expression()
        repn = generate_standard_repn(body)
        if not repn.is_linear():
            raise UnsupportedFeatureError(f"engines take linear models only, and row {row.name} is not")
        try:
            index.extend(column[id(variable)] for variable in repn.linear_vars)
        except KeyError as error:
            raise UnsupportedFeatureError(f"row {row.name} uses a variable that the compiled model lacks") from error
        coefficients.extend(repn.linear_coefs)
        start.append(len(index))
        lower.append(-np.inf if low is None else value(low) - repn.constant)
        upper.append(np.inf if high is None else value(high) - repn.constant)
    block = Block(
        start=np.asarray(start, dtype=np.int32),
        index=np.asarray(index, dtype=np.int32),
        value=np.asarray(coefficients, dtype=np.float64),
        lower=np.asarray(lower, dtype=np.float64),
        upper=np.asarray(upper, dtype=np.float64),
        names=Names(data),
    )
    block.check()
    return block
