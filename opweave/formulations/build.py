"""Models for users: a problem as a Pyomo model, and a solved Pyomo model as a solution of the problem."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.export.files import named_values
from opweave.formulations.formulation import (
    BuildContext,
    Formulation,
    formulation_for,
    formulation_names,
    load_formulations,
)
from opweave.formulations.modeling.arrays import TriviallyInfeasibleError
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import PyomoView, to_pyomo, values_of
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InfeasibleError, InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

LEAST_COEFFICIENT = 1e-5
"""The least coefficient of an objective that is well above the tolerances of engines."""


def build_model(problem: Problem[Any, Any], formulation: str | None = None) -> ConcreteModel | IntervalModel:
    """Build a problem as a model for another solver.

    An integer program becomes a Pyomo model, with components indexed by the names of operators and devices. A
    constraint program stays what it is, an :class:`~opweave.formulations.modeling.intervals.IntervalModel`, which
    :func:`write_model` writes for CP-SAT.

    The model is complete, so you may add constraints. Its model variables (``model.on(op, device)``,
    ``model.start(op)``, ...; :func:`list_formulations` lists them) are expressions in seconds, bytes and counts;
    ``model.add(...)`` adds a constraint. The objective is in seconds or bytes; if plans are so short that an engine's
    tolerances would swallow the seconds, it is in milliseconds or less, and ``model.objective_unit`` says so.

    Parameters
    ----------
    problem
        The problem to write.
    formulation
        The name of the formulation; None for the problem's default.

    Raises
    ------
    InvalidInputError
        If the problem has no such formulation.
    InfeasibleError
        If writing the problem already shows that it has no solution.
    UnsupportedConstraintError, LimitExceededError
        If the problem cannot be written as this model.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id="x", bytes=4)],
    ...     operators=[ow.Operator(id="make", outputs=["x"]), ow.Operator(id="use", inputs=["x"])],
    ... )
    >>> devices = [ow.Device(name="a"), ow.Device(name="b")]
    >>> cluster = ow.Cluster(devices=devices, bandwidth=[[0, 1e9], [1e9, 0]])
    >>> costs = ow.Costs.from_table({"make": {"a": 1.0, "b": 2.0}, "use": {"a": 2.0, "b": 1.0}})
    >>> model = build_model(ow.Pipeline(graph=graph, cluster=cluster, costs=costs))
    >>> model.add(model.on("use", "b") == 1)
    >>> str(model.z["b", 1, 2])
    'z[b,1,2]'
    """
    from pyomo.environ import Objective

    model = written_model(problem, _named(problem, formulation))
    if isinstance(model, IntervalModel):
        return model
    factor, unit = objective_unit(problem.unit, coefficient_of(model))
    concrete = to_pyomo(model).concrete if isinstance(model, LinearModel) else model
    if concrete.component("cost") is not None:
        cost = concrete.objective.expr
        concrete.del_component(concrete.cost)
        concrete.del_component(concrete.objective)
        concrete.objective = Objective(expr=cost)
    concrete.objective_unit = unit
    concrete.objective.set_value(concrete.objective.expr / factor)
    concrete.opweave.note_objective()
    concrete.problem = concrete.opweave.source.problem = problem
    concrete.formulation = model.formulation
    return concrete


def coefficient_of(model: Any) -> float:
    """The largest coefficient of a model's objective, in seconds or bytes."""
    if isinstance(model, LinearModel):
        return model.unit * max(map(abs, model.cost.terms.values()), default=0.0)
    return float(model.formulation.tick())


def objective_unit(unit: str, coefficient: float) -> tuple[float, str]:
    """The unit of an objective for engines, in terms of the problem's ``unit``, and its name.

    Engines take a reduced cost below 1e-7 for 0. If plans last only microseconds, an objective in seconds has smaller
    ones: HiGHS then calls plans optimal that take four times as long as the best.

    Parameters
    ----------
    coefficient
        The largest coefficient of the objective in the problem's unit.

    Examples
    --------
    >>> objective_unit("seconds", 0.01), objective_unit("seconds", 2e-8)
    ((1.0, 'seconds'), (0.001, 'milliseconds'))
    """
    prefixes = {1.0: "", 1e-3: "milli", 1e-6: "micro", 1e-9: "nano", 1e-12: "pico"}
    fit = (factor for factor in prefixes if coefficient >= LEAST_COEFFICIENT * factor)
    factor = next(fit, 1.0) if unit == "seconds" else 1.0
    return factor, prefixes[factor] + unit


def _named(problem: Problem[Any, Any], formulation: str | None) -> type[Formulation[Any, Any]]:
    """The formulation of that name, whatever engines it is for; None names the default for integer programs.

    Raises
    ------
    InvalidInputError
        If the problem has no such formulation.
    """
    load_formulations(problem.kind)
    whole = formulation in formulation_names(problem.kind, IntervalModel)
    return formulation_for(problem, formulation, IntervalModel if whole else LinearModel)


def written_model(problem: Problem[Any, Any], formulation: type[Formulation[Any, Any]]) -> Any:
    """The model as the formulation writes it, with nothing left out; it remembers its formulation.

    Raises
    ------
    InfeasibleError, UnsupportedConstraintError, LimitExceededError
        As :func:`build_model`.
    """
    made = formulation(BuildContext(extended=True))
    try:
        model = made.build(problem)
    except TriviallyInfeasibleError as error:
        raise InfeasibleError(str(error)) from error
    except InfeasibleError as error:
        raise InfeasibleError(str(error) or made.why_infeasible(problem)) from error
    model.formulation = made
    return model


def described(model: Any) -> Formulation[Any, Any]:
    """The formulation of a model.

    Raises
    ------
    InvalidInputError
        If the model comes from elsewhere.
    """
    made = getattr(model, "formulation", None)
    if not isinstance(made, Formulation):
        raise InvalidInputError("the model was not written by build_model")
    return made


def column_names(model: Any) -> list[str]:
    """The names of a model's columns, such as ``x[conv1,gpu]``."""
    if isinstance(model, LinearModel):
        return model.names()
    view: PyomoView = model.opweave
    return [variable.name for variable in view.variables] if view.written else view.source.names()


def read_solution(
    of: ConcreteModel | IntervalModel | Problem[Any, Any],
    values: Mapping[str, float] | str | Path | None = None,
    formulation: str | None = None,
) -> Solution:
    """Read the solution that another solver found.

    Check it with the problem's referee: ``problem.evaluate(solution)``.

    Parameters
    ----------
    of
        A model of :func:`build_model`; or the problem that a file of :func:`write_model` states.
    values
        Values by the names of columns, in the model or in the file; or a solution file of HiGHS, CBC, SCIP or Gurobi.
        Columns without a value are 0, and names of other columns are passed over. None for the values that a solver
        left in a Pyomo model.
    formulation
        The formulation of the file, if ``of`` is a problem; None for the problem's default.

    Raises
    ------
    InvalidInputError
        If the model comes from elsewhere or has no values, or the values do not belong to it.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(tensors=[], operators=[ow.Operator(id="conv")])
    >>> devices = [ow.Device(name="a"), ow.Device(name="b")]
    >>> cluster = ow.Cluster(devices=devices, bandwidth=[[0, 1e9], [1e9, 0]])
    >>> costs = ow.Costs.from_table({"conv": {"a": 1.0, "b": 2.0}})
    >>> problem = ow.Placement(graph=graph, cluster=cluster, costs=costs)
    >>> read_solution(problem, {"x(conv,b)": 1}).device
    {'conv': 'b'}
    """
    model = written_model(of, _named(of, formulation)) if isinstance(of, Problem) else of
    made = described(model)
    view: PyomoView | None = None if isinstance(model, LinearModel) else model.opweave
    known = _left_in(view) if values is None else named_values(column_names(model), values)
    if view is not None:  # columns that a user fixed are in no file
        fixed = [column for column, variable in enumerate(view.variables) if variable.fixed]
        known[fixed] = values_of(view.variables)[fixed]
    source = model if view is None or view.written else view.source
    solution: Solution = made.extract(source, np.nan_to_num(known))  # solvers may leave out zeros
    return solution


def _left_in(view: PyomoView | None) -> FloatArray:
    """The values that a solver left in a Pyomo model."""
    if view is None:
        raise InvalidInputError("only a Pyomo model holds values of its own: pass them by name, or a solution file")
    values = values_of(view.variables)
    if len(values) and np.isnan(values).all():
        raise InvalidInputError("the model's variables have no values: solve it first")
    return values
