"""Linear programs as Pyomo models, and Pyomo models as arrays.

A linear model becomes a Pyomo model with components indexed by the names of operators and devices. Users' variables are
Pyomo expressions in seconds, bytes and counts; ``model.add(row)`` adds a row. All changes that a user makes, including
new rows and variables, count when the model is read back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from opweave.formulations.formulation import Formulation, ProblemT, SolutionT
from opweave.formulations.modeling.arrays import MatrixModel, Program, TriviallyInfeasibleError, whole_bounds
from opweave.formulations.modeling.linear import WORDS, Linear, Row, missing_handle, with_names_checked
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.modeling.rows import ROWS_BETWEEN_CHECKS, RowBlock
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel

OWN_ROWS = "own_rows"
"""Component of the rows that ``model.add`` adds to a Pyomo model."""


@dataclass(eq=False)
class PyomoView:
    """A Pyomo model that is equivalent to a linear model; it is updated with columns and rows that variables add.

    Attributes
    ----------
    source
        The linear model.
    concrete
        The Pyomo model.
    variables
        Pyomo variables of the linear model's columns.
    built
        Identities of the components with the linear model's rows.
    written
        Whether the formulation wrote the Pyomo model itself, so that the linear model only has its columns.
    """

    source: LinearModel
    concrete: ConcreteModel
    variables: list[Any] = field(default_factory=list)
    built: set[int] = field(default_factory=set)
    written: bool = False
    _done: Counter[str] = field(default_factory=Counter)

    def catch_up(self) -> None:
        """Write the columns and rows that are new in the source; take in new variables of a model that is written."""
        from pyomo.common.gc_manager import PauseGC

        if self.written:
            known = {id(variable) for variable in self.variables}
            self.variables += [variable for variable in variables_of(self.concrete) if id(variable) not in known]
            return
        self.variables.extend([None] * (len(self.source) - len(self.variables)))
        with PauseGC():
            for name, family in self.source.families.items():
                done, self._done[name] = self._done[name], len(family.keys)
                if done < len(family.keys) or self.concrete.component(name) is None:
                    self._write_columns(name, family.keys[done:], family.columns[done:])
            for name, rows in self.source.row_families.items():
                done, self._done[f"{name} rows"] = self._done[f"{name} rows"], len(rows)
                if done < len(rows) or self.concrete.component(name) is None:
                    self._write_rows(name, rows.block(), done)

    def _write_columns(self, name: str, keys: Sequence[Key], columns: Sequence[int]) -> None:
        from pyomo.environ import Binary, Integers, Reals, Var

        low, high, whole = self.source.low, self.source.high, self.source.integral
        variable: Any = Var() if list(keys) == [None] else Var(list(keys), dense=False)
        self._put(name, variable)
        for column, key in zip(columns, keys, strict=True):
            made = self.variables[column] = variable if key is None else variable.add(key)
            binary = (low[column], high[column]) == (0.0, 1.0)
            made.domain = (Binary if binary else Integers) if whole[column] else Reals
            made.lower, made.upper = _side(low[column]), _side(high[column])

    def _write_rows(self, name: str, block: RowBlock, done: int) -> None:
        from pyomo.core.expr.numeric_expr import LinearExpression
        from pyomo.environ import Constraint

        start, value = block.start.tolist(), block.value.tolist()
        members = [self.variables[column] for column in block.index.tolist()]
        rows = Constraint(range(done, len(block)))
        self._put(name, rows)
        self.built.add(id(rows))
        # one by one and not by a rule: Pyomo prints an error when a rule raises
        for index in range(done, len(block)):
            if index % ROWS_BETWEEN_CHECKS == 0:
                self.source.check_time()
            held = slice(start[index], start[index + 1])
            body = LinearExpression(constant=0.0, linear_coefs=value[held], linear_vars=members[held])
            rows.add(index, (_side(block.lower[index]), body, _side(block.upper[index])))

    def _put(self, name: str, component: Any) -> None:
        """Add a component; one that continues another component gets a number after its name."""
        free, number = name, 1
        while self.concrete.component(free) is not None:
            free, number = f"{name}_{number}", number + 1
        self.concrete.add_component(free, component)

    def expression(self, linear: Linear) -> LinearExpression:
        """Write a linear expression over our columns as a Pyomo expression, even if it is only a constant."""
        from pyomo.core.expr.numeric_expr import LinearExpression

        self.catch_up()
        return LinearExpression(
            constant=linear.constant,
            linear_coefs=list(linear.terms.values()),
            linear_vars=[self.variables[column] for column in linear.terms],
        )

    def said(self, word: str, *names: str, **named: str) -> LinearExpression:
        return self.expression(getattr(self.source, word)(*names, **named))

    def add(self, row: RelationalExpression, name: str | None = None) -> None:
        """Add one row, such as ``model.start("a") >= 0.5 + model.on("b", "gpu")``."""
        from pyomo.environ import Any as AnyKey
        from pyomo.environ import Constraint

        if row is None or isinstance(row, bool | str):
            raise InvalidInputError(f"model.add takes a constraint, a comparison of model variables, not {row!r:.60}")
        rows = self.concrete.component(OWN_ROWS)
        if rows is None:
            rows = Constraint(AnyKey)
            self.concrete.add_component(OWN_ROWS, rows)
        rows[len(rows) if name is None else name] = row

    def added(self) -> Iterator[Row]:
        """The user's constraints as rows, which have to be linear; the user's columns are numbered after ours."""
        from pyomo.environ import Constraint, value
        from pyomo.repn import generate_standard_repn

        ours = {id(variable) for variable in self.variables}
        others = [variable for variable in variables_of(self.concrete) if id(variable) not in ours]
        column = {id(variable): k for k, variable in enumerate([*self.variables, *others])}
        for component in self.concrete.component_objects(Constraint, active=True):
            for row in () if id(component) in self.built else component.values():
                low, body, high = row.to_bounded_expression()
                repn = generate_standard_repn(body)
                if not repn.is_linear():
                    raise UnsupportedFeatureError(f"engines take linear models only, and constraint {row.name} is not")
                terms = zip((column[id(v)] for v in repn.linear_vars), map(float, repn.linear_coefs), strict=True)
                sides = (-np.inf if low is None else value(low), np.inf if high is None else value(high))
                yield Row(dict(terms), sides[0] - repn.constant, sides[1] - repn.constant)

    def program(self) -> Program:
        """The current Pyomo model, as arrays; raises the errors of :func:`read_arrays`."""
        self.catch_up()
        matrix, variables = read_arrays(self.concrete)
        place = {id(variable): k for k, variable in enumerate(variables)}
        column = np.asarray([place.get(id(variable), -1) for variable in self.variables], dtype=np.int64)
        fixed = np.where(column >= 0, 0.0, np.nan_to_num(values_of(self.variables)))
        return Program(matrix, column, fixed, values_of(variables), _objectives(self.concrete) == self._own)

    def note_objective(self) -> None:
        """Remember the objective as the formulation's own."""
        self._own = _objectives(self.concrete)


def to_pyomo(model: LinearModel) -> PyomoView:
    """Write a model as a Pyomo model with the same variables; the objective is in seconds or bytes."""
    from pyomo.environ import ConcreteModel, Objective

    concrete = ConcreteModel()
    view = PyomoView(model, concrete)
    view.catch_up()
    if concrete.component("objective") is None:
        concrete.objective = Objective(expr=view.expression(model.objective))
    view.note_objective()
    for word in (*WORDS, *model.more_words):
        if concrete.component(word) is None:
            setattr(concrete, word, partial(view.said, word))  # unlike a lambda, it follows a copy of the model
    concrete.add, concrete.opweave = view.add, view
    return view


def from_pyomo(concrete: ConcreteModel, timed: Sequence[str] = (), tick: float = 1.0) -> PyomoView:
    """Wrap a Pyomo model that a formulation wrote itself; columns are its variables in the order of its components.

    Components with the names of ``timed`` hold times with a horizon, in units of ``tick`` seconds.
    """
    from pyomo.environ import Constraint, Var

    source = LinearModel()
    built = {id(component) for component in concrete.component_objects(Constraint)}
    view = PyomoView(source, concrete, variables_of(concrete), built, written=True)
    for component in concrete.component_objects(Var):
        bounds = [_bounds_of(member) for member in component.values()]
        low, high = [low for low, _ in bounds], [high for _, high in bounds]
        columns = source.reals(component.name, range(len(bounds)), low, high)
        if component.name in timed:
            source.timed.update(columns.tolist())
    source.tick = tick
    view.note_objective()
    concrete.add = view.add
    return view


def read_arrays(model: ConcreteModel) -> tuple[MatrixModel, list[Any]]:
    """Read a linear Pyomo model with one objective into arrays, and the Pyomo variable of every column.

    Raises InvalidInputError for extreme numbers or several objectives, UnsupportedFeatureError for what is not linear,
    and TriviallyInfeasibleError if a row without variables can never hold, or a variable has no value left.
    """
    form = _compiled(model)
    used = {id(variable) for variable in form.columns}
    spare = [v for v in variables_of(model) if not v.fixed and id(v) not in used]  # later rows may use them
    variables = [*form.columns, *spare]
    # Rows with two different sides become two rows; rows with no side or that always hold are dropped.
    side = np.asarray([entry.bound_type for entry in form.rows], dtype=np.int64)
    rhs = np.asarray(form.rhs, dtype=np.float64)
    sparse = form.A.tocsr()
    sparse.eliminate_zeros()
    rows = RowBlock(
        start=sparse.indptr.astype(np.int32),
        index=sparse.indices.astype(np.int32),
        value=sparse.data.astype(np.float64),
        lower=np.where(side <= 0, rhs, -np.inf),
        upper=np.where(side >= 0, rhs, np.inf),
        names=[str(entry.constraint.name) for entry in form.rows],
    )
    whole = np.asarray([not variable.is_continuous() for variable in variables], dtype=bool)
    try:
        bounds = [_bounds_of(variable) for variable in variables]
    except ValueError as error:
        raise InvalidInputError(f"the model cannot be read: {error}") from error
    names = [str(variable.name) for variable in variables]
    low, high = np.asarray(bounds, dtype=np.float64).reshape(-1, 2).T
    lower, upper = whole_bounds(low, high, whole, names)
    cost = np.concatenate([form.c.toarray()[0], np.zeros(len(spare))])
    matrix = MatrixModel(cost, float(form.c_offset[0]), lower, upper, whole, rows, names)
    matrix.check()
    return matrix, variables


def _compiled(model: ConcreteModel) -> Any:
    """Pyomo's standard form of a model."""
    from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, InvalidExpressionError
    from pyomo.environ import Objective
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) != 1:
        raise InvalidInputError(f"the model has {len(objectives)} active objectives; it needs exactly one")
    try:
        return LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=1)
    except InfeasibleConstraintException as error:
        raise TriviallyInfeasibleError(str(error)) from error
    except (InvalidConstraintError, InvalidExpressionError) as error:
        raise UnsupportedFeatureError(f"engines take linear models only: {error}") from error
    except ValueError as error:  # of an invalid number, or of a component that is not linear
        if "does not know how to process" in " ".join(str(error).split()):
            raise UnsupportedFeatureError(f"engines take linear models only: {error}") from error
        raise InvalidInputError(f"the model cannot be read: {error}") from error


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


def _bounds_of(variable: Any) -> tuple[float, float]:
    """Both bounds of a variable, infinite if there is none."""
    low, high = variable.bounds
    return -np.inf if low is None else low, np.inf if high is None else high


def _objectives(model: ConcreteModel) -> list[tuple[int, int]]:
    """The active objectives; they tell the formulation's own objective from one that a user put in its place."""
    from pyomo.environ import Objective

    return [(id(objective), id(objective.expr)) for objective in model.component_data_objects(Objective, active=True)]


def _side(value: float) -> float | None:
    return None if np.isinf(value) else float(value)


class PyomoFormulation(Formulation[ProblemT, SolutionT], ABC):
    """A formulation in plain Pyomo, for programs that people read beside a paper; engines receive it as arrays too.

    Its model may have users' variables, as attributes that return Pyomo expressions; ``model.add`` is added to it.

    Attributes
    ----------
    timed
        Names of the components that hold times with a horizon, in units of :meth:`tick` seconds.
    handles
        The users' variables of its model.
    """

    to_read: ClassVar[bool] = True
    _unit: float = 1.0
    timed: ClassVar[tuple[str, ...]] = ()
    handles: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The users' variables of its models."""
        return cls.handles

    @abstractmethod
    def write(self, problem: ProblemT) -> ConcreteModel:
        """Write the model without side constraints. Raises the same errors as :meth:`build`."""

    def tick(self) -> float:
        """The unit of the model's times and objective in seconds or bytes, once the model is written."""
        return self._unit

    @abstractmethod
    def read(self, model: ConcreteModel) -> SolutionT:
        """Read the decision from the variables' values."""

    @abstractmethod
    def begin(self, model: ConcreteModel, solution: SolutionT) -> None:
        """Set the variables to the values that a known solution implies."""

    def build(self, problem: ProblemT) -> ConcreteModel:
        """Write the model and the rows of its side constraints; its variables check names."""
        from pyomo.environ import Expression, Objective

        model = self.write(problem)
        if model.component("objective") is not None:  # rows of a user's own count in seconds and bytes
            cost = model.objective.expr
            model.del_component(model.objective)
            model.cost, model.objective = Objective(expr=cost), Expression(expr=self.tick() * cost)
        view = model.opweave = from_pyomo(model, self.timed, self.tick())
        view.source.problem = problem
        for word in WORDS:
            if word in self.handles:
                own = partial(_said, getattr(model, word))
                setattr(model, word, partial(with_names_checked(word, own), view.source))
            elif word not in dir(model):
                setattr(model, word, partial(_lack, word, self.handles, problem))
        self.add_constraints(model, problem)
        return model

    def exclude(self, model: ConcreteModel, solution: SolutionT) -> None:
        """Add a row that a solution breaks, and that every solution with another value of some 0/1 variable obeys."""
        values = zip(model.opweave.variables, self.start(model, solution).tolist(), strict=True)
        known = [(variable, value) for variable, value in values if variable.is_binary() and not math.isnan(value)]
        model.add(sum(1 - variable if value > 0.5 else variable for variable, value in known) >= 1)

    def extract(self, model: ConcreteModel, values: FloatArray) -> SolutionT:
        """Read the decision from values by variable, in the order of the model's components."""
        load_values(model.opweave.variables, values)
        return self.read(model)

    def start(self, model: ConcreteModel, solution: SolutionT) -> FloatArray:
        """The values by variable that a known solution implies."""
        self.begin(model, solution)
        return values_of(model.opweave.variables)


def _said(handle: Any, _source: LinearModel, *names: str, **named: str) -> Any:
    return handle(*names, **named)


def _lack(word: str, having: Sequence[str], problem: Problem[Any, Any], *_: str, **__: str) -> NoReturn:
    raise missing_handle(word, having, problem)
