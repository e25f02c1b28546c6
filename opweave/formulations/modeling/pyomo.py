"""Linear programs as Pyomo models, and Pyomo models as arrays.

A linear model becomes a Pyomo model with components indexed by the names of operators and devices. Its handles return
Pyomo expressions in seconds, bytes and counts; ``model.add(row)`` adds a row. All changes that a user makes, including
new rows and variables, count when the model is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, Program, cost_of, to_arrays, whole_bounds, without_zeros
from opweave.formulations.modeling.handles import OLDER_WORDS, WORDS
from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.modeling.reading import bounds_of, names_of, program_of, read_arrays, row_of, variables_of
from opweave.formulations.modeling.rows import Block, Rows
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel, Var

ROWS_BETWEEN_CHECKS = 4096
OWN_ROWS = "own_rows"
"""Component of the rows that ``model.add`` adds to a Pyomo model."""


@dataclass(eq=False)
class PyomoView:
    """A Pyomo model that is equivalent to a linear model; it is updated with columns and rows that handles add.

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
    _keys: dict[str, int] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _expressions: list[tuple[Any, Any]] = field(default_factory=list)

    def catch_up(self) -> None:
        """Write the columns and rows that are new in the source."""
        from pyomo.common.gc_manager import PauseGC

        if self.written:
            return

        if len(self.variables) < len(self.source):
            self.variables.extend([None] * (len(self.source) - len(self.variables)))
        with PauseGC():
            for name, family in self.source.families.items():
                done = self._keys.get(name, 0)
                if done < len(family.keys) or name not in self._keys:
                    self._write_columns(name, family.keys[done:], family.columns[done:])
                    self._keys[name] = len(family.keys)
            for name, rows in self.source.row_families.items():
                done = self._rows.get(name, 0)
                if done < len(rows) or name not in self._rows:
                    self._write_rows(name, rows.block(), done)
                    self._rows[name] = len(rows)

    def _write_columns(self, name: str, keys: Sequence[Key], columns: Sequence[int]) -> None:
        from pyomo.environ import Var

        low, high, whole = self.source.low, self.source.high, self.source.integral
        bounds = [(_side(low[c]), _side(high[c])) for c in columns]
        domains = [_domain(whole[c], low[c], high[c]) for c in columns]
        if list(keys) == [None]:
            variable: Var = Var(domain=domains[0], bounds=bounds[0])
            self._put(name, variable)
        else:
            variable = Var(list(keys), domain=domains[0] if domains else None, dense=False)
            self._put(name, variable)
            for column, key, bound, domain in zip(columns, keys, bounds, domains, strict=True):
                made = variable.add(key)
                if domain is not domains[0]:
                    made.domain = domain
                if bound != (0, 1) or not whole[column]:
                    made.lower, made.upper = bound
        for column, key in zip(columns, keys, strict=True):
            self.variables[column] = variable[key]

    def _write_rows(self, name: str, block: Block, done: int) -> None:
        from pyomo.core.expr.numeric_expr import LinearExpression
        from pyomo.environ import Constraint

        start, value = block.start.tolist(), block.value.tolist()
        members = [self.variables[column] for column in block.index.tolist()]
        rows = Constraint(range(done, len(block)))
        self._put(name, rows)
        self.built.add(id(rows))
        # one by one and not by a rule: Pyomo prints an error when a rule raises
        for index, (low, high) in enumerate(zip(block.lower.tolist(), block.upper.tolist(), strict=True)):
            if index < done:
                continue
            if index % ROWS_BETWEEN_CHECKS == 0:
                self.source.check_time()
            begin, end = start[index], start[index + 1]
            body = LinearExpression(constant=0.0, linear_coefs=value[begin:end], linear_vars=members[begin:end])
            row = rows.add(index, (_side(low), body, _side(high)))
            self._expressions.append((row, row.expr))

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

    def handle(self, word: str) -> Callable[..., LinearExpression]:
        """A handle of the linear model, returning Pyomo expressions."""
        return partial(self._said, word)  # unlike a lambda, it follows a copy of the model

    def _said(self, word: str, *names: str, **named: str) -> LinearExpression:
        return self.expression(getattr(self.source, word)(*names, **named))

    def add(self, row: RelationalExpression, name: str | None = None) -> None:
        """Add one row, such as ``model.start("a") >= 0.5 + model.on("b", "gpu")``."""
        from pyomo.environ import Any as AnyKey
        from pyomo.environ import Constraint

        if row is None or isinstance(row, bool | str):
            raise InvalidInputError(f"model.add takes a row, a comparison of handles, and not {row!r:.60}")
        rows = self.concrete.component(OWN_ROWS)
        if rows is None:
            rows = Constraint(AnyKey)
            self.concrete.add_component(OWN_ROWS, rows)
        rows[len(rows) if name is None else name] = row

    def added(self) -> Iterator[tuple[Any, Row]]:
        """The user's constraints as rows; the user's columns are numbered after ours."""
        from pyomo.environ import Constraint

        column = {id(variable): k for k, variable in enumerate([*self.variables, *self._others()])}
        for component in self.concrete.component_objects(Constraint, active=True):
            for row in () if id(component) in self.built else component.values():
                yield row, row_of(row, lambda variable: column[id(variable)])

    def _others(self) -> list[Any]:
        """The variables of the user."""
        ours = {id(variable) for variable in self.variables}
        return [variable for variable in variables_of(self.concrete) if id(variable) not in ours]

    def program(self) -> Program:
        """The current Pyomo model, as arrays.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError, TriviallyInfeasibleError
            As :func:`read_arrays`.
        """
        self.catch_up()
        own = _active_objective(self.concrete) == self._objective
        if own and not self.written and self.only_added():
            return self._joined()
        matrix, variables = read_arrays(self.concrete)
        program = program_of(matrix, variables, self.variables, own_objective=own)
        if self.written or not own:
            return program
        cost = cost_of(self.source.cost, len(self.source))  # in the model's units: engines' tolerances are absolute
        by_column, there = np.zeros(matrix.columns), program.column >= 0
        by_column[program.column[there]] = cost[there]
        offset = self.source.cost.constant + float(cost[~there] @ program.fixed[~there])
        return replace(program, matrix=replace(matrix, cost=by_column, offset=offset))

    def only_added(self) -> bool:
        """Whether the user has only added variables and rows, and everything else is unchanged."""
        from pyomo.environ import Constraint, Expression, Objective, Param, Set, Var

        known = (Constraint, Expression, Objective, Param, Set, Var)
        if not all(component.ctype in known for component in self.concrete.component_objects(descend_into=False)):
            return False
        source, ours = self.source, zip(self.variables, self.source.low, self.source.high, strict=True)
        return (
            all(bounds_of(v) == (low, high) and not v.fixed for v, low, high in ours)
            and [not v.is_continuous() for v in self.variables] == source.integral
            and all(row.active and row.expr is expression for row, expression in self._expressions)
            and not any(variable.fixed for variable in self._others())
        )

    def _joined(self) -> Program:
        """Our own arrays followed by a user's columns and rows; reading our part back from Pyomo would take longest."""
        ours, others = to_arrays(self.source), self._others()
        bounds = np.asarray([bounds_of(variable) for variable in others], dtype=np.float64).reshape(-1, 2)
        whole = np.concatenate([ours.matrix.whole, [not variable.is_continuous() for variable in others]]).astype(bool)
        low, high = np.concatenate([np.c_[ours.matrix.lower, ours.matrix.upper], bounds]).T
        lower, upper = whole_bounds(low, high, whole)
        rows, names = Rows(), list[Any]()
        for row, says in self.added():
            rows.add(says)
            names += [row] * (len(rows) - len(names))
        block = without_zeros(replace(rows.block(), names=names_of(names)))
        variables = [*self.variables, *others]
        matrix = MatrixModel(
            cost=np.concatenate([ours.matrix.cost, np.zeros(len(others))]),
            offset=ours.matrix.offset,
            lower=lower,
            upper=upper,
            whole=whole,
            rows=ours.matrix.rows.joined(block),
            names=names_of(variables),
        )
        matrix.check()
        return program_of(matrix, variables, self.variables, own_objective=True)

    def note_objective(self) -> None:
        """Remember the objective as the formulation's own."""
        self._objective = _active_objective(self.concrete)


def to_pyomo(model: LinearModel) -> PyomoView:
    """Write a model as a Pyomo model with the same handles; the objective is in seconds or bytes."""
    from pyomo.environ import ConcreteModel, Objective

    concrete = ConcreteModel()
    view = PyomoView(model, concrete)
    view.catch_up()
    if concrete.component("objective") is None:
        concrete.objective = Objective(expr=view.expression(model.objective))
    view.note_objective()
    for word in (*WORDS, *model.more_words, *OLDER_WORDS):
        if concrete.component(word) is None:
            setattr(concrete, word, view.handle(word))
    concrete.add, concrete.opweave = view.add, view
    return view


def from_pyomo(concrete: ConcreteModel, timed: Sequence[str] = (), tick: float = 1.0) -> PyomoView:
    """Wrap a Pyomo model that a formulation wrote itself; columns are its variables in the order of its components.

    Parameters
    ----------
    timed
        Names of the components that hold times with a horizon.
    tick
        The unit of these times in seconds.
    """
    from pyomo.environ import Constraint, Var

    source = LinearModel()
    view = PyomoView(source, concrete, variables_of(concrete))
    view.built = {id(component) for component in concrete.component_objects(Constraint)}
    for component in concrete.component_objects(Var):
        members = list(component.values())
        bounds = [bounds_of(member) for member in members]
        low, high = [low for low, _ in bounds], [high for _, high in bounds]
        columns = source.reals(component.name, range(len(members)), low, high)
        if component.name in timed:
            source.timed.update(columns.tolist())
    source.tick = tick
    view.written = True
    view.note_objective()
    concrete.add = view.add
    return view


def _active_objective(model: ConcreteModel) -> list[tuple[int, int]]:
    """The active objectives; they tell the formulation's own objective from one that a user put in its place."""
    from pyomo.environ import Objective

    return [(id(objective), id(objective.expr)) for objective in model.component_data_objects(Objective, active=True)]


def _side(value: float) -> float | None:
    return None if np.isinf(value) else value


def _domain(whole: bool, low: float, high: float) -> Any:
    from pyomo.environ import Binary, Integers, Reals

    if not whole:
        return Reals
    return Binary if (low, high) == (0.0, 1.0) else Integers
