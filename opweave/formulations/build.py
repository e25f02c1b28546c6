"""Models for users: a problem as a Pyomo model, and a solved Pyomo model as a solution of the problem."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from opweave.formulations.formulation import BuildContext, PyomoFormulation, find_formulation
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import PyomoView, to_pyomo
from opweave.formulations.modeling.reading import values_of
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


def load_formulations(kind: str) -> None:
    """Import the formulations of a problem kind; each registers itself."""
    try:
        home = importlib.import_module(f"opweave.formulations.{kind}")
    except ModuleNotFoundError:
        return  # a user's problem registers its formulations itself
    for module in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"{home.__name__}.{module.name}")


def build_model(problem: Problem[Any, Any], formulation: str | None = None) -> ConcreteModel:
    """Write a problem as a Pyomo model, with components indexed by the names of operators and devices.

    The model leaves nothing out, so you may add rows of your own and solve it with any solver. Its handles
    (``model.on(op, device)``, ``model.start(op)``, ...) are Pyomo expressions in seconds, bytes and counts;
    ``model.add(row)`` adds a row; ``model.objective`` is in seconds or bytes.

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
    load_formulations(problem.kind)
    written = find_formulation(type(problem), formulation)
    made = (written.whole or written)(BuildContext(extended=True))
    model = made.build(problem)
    if isinstance(model, LinearModel):
        model = to_pyomo(model).concrete
    elif isinstance(made, PyomoFormulation):
        model.objective.set_value(made.tick() * model.objective.expr)
    model.formulation = made
    return cast("ConcreteModel", model)


def read_solution(model: ConcreteModel) -> Solution:
    """Read the solution from the values of a solved model of :func:`build_model`.

    Judge it with the problem's referee, which has the last word: ``problem.evaluate(solution)``.

    Raises
    ------
    InvalidInputError
        If the model comes from elsewhere or has no values.
    """
    view: PyomoView | None = getattr(model, "opweave", None)
    if view is None:
        raise InvalidInputError("the model was not written by build_model")
    values = values_of(view.variables)
    if len(values) and np.isnan(values).all():
        raise InvalidInputError("the model's variables have no values: solve it first")
    source = model if isinstance(model.formulation, PyomoFormulation) else view.source
    solution: Solution = model.formulation.extract(source, np.nan_to_num(values))  # solvers may leave out zeros
    return solution
