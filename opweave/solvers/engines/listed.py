"""The formulations of all problems, with the engines that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from opweave.formulations.formulation import (
    Formulation,
    find_formulation,
    formulation_names,
    load_formulations,
)
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo_formulation import PyomoFormulation
from opweave.problems.problem import Problem
from opweave.problems.shown import Rows
from opweave.solvers.engines.cp_sat import CpSat
from opweave.solvers.engines.registration import ENGINES
from opweave.solvers.registry import Solver, list_solvers, load_solvers

TAKES = {engine.name: engine.takes for engine in (*(engine for engine, _, _ in ENGINES), CpSat())}
"""The kind of model that each engine solves."""

FormulationKind = Literal["linear", "pyomo", "constraint program"]


@dataclass(frozen=True, slots=True)
class FormulationInfo:
    """One row of :func:`list_formulations`.

    Attributes
    ----------
    name, problem
        The name for ``solve(..., formulation=name)`` and ``build_model``, and the problem kind that it states.
    default
        Whether it is the problem's default for engines of its kind.
    kind
        "linear" (an integer program in arrays, for users a Pyomo model), "pyomo" (an integer program in plain Pyomo, to
        be read beside a paper) or "constraint program" (integers and intervals).
    available
        The engines that run it on this machine.
    engines
        All engines that run it.
    handles
        The words in which rows of your own are written: ``model.on(op, device)``, ``model.start(op)``, ...
    requires
        The readings of the problem that it needs; empty if it takes all.
    options
        Options for ``solve(..., options={name: value})`` with these engines.
    source
        The paper and its equations, with its DOI; otherwise the package that brings it.
    about
        One line that describes it.
    """

    name: str
    problem: str
    default: bool
    kind: FormulationKind
    available: tuple[str, ...]
    engines: tuple[str, ...]
    handles: tuple[str, ...]
    requires: str
    options: tuple[str, ...]
    source: str
    about: str

    columns: ClassVar[tuple[str, ...]] = ("name", "problem", "default", "available", "handles", "source", "about")


def list_formulations(
    problem: Problem[Any, Any] | type[Problem[Any, Any]] | str | None = None,
) -> Rows[FormulationInfo]:
    """List the formulations: the models in which engines, and solvers of your own, receive a problem.

    Parameters
    ----------
    problem
        A problem, its class or its kind; None for all.

    Returns
    -------
    Rows
        A tuple that prints as a table, the defaults of each problem first; ``.to_pandas()`` makes a pandas table of it.

    Raises
    ------
    InvalidInputError
        If there is no problem of that kind.

    See Also
    --------
    build_model, write_model

    Examples
    --------
    >>> [row.name for row in list_formulations("pipeline")]
    ['flow']
    >>> list_formulations("placement")[0].handles
    ('on', 'start', 'end', 'uses', 'held')
    """
    list_solvers(problem)  # loads them with their formulations, or refuses the problem
    kind = problem if isinstance(problem, str) or problem is None else problem.kind
    known = {name: each for name, each in Problem.kinds().items() if issubclass(each, Problem)}
    return Rows(row for name, each in known.items() if kind in (None, name) for row in _rows(each))


def _rows(problem: type[Problem[Any, Any]]) -> list[FormulationInfo]:
    """The formulations of a problem, those for linear engines first; each kind begins with its default."""
    load_formulations(problem.kind)
    rows = []
    for takes in (LinearModel, IntervalModel):
        names = formulation_names(problem.kind, takes)
        engines = [solver for solver in load_solvers(problem.kind) if TAKES.get(solver.name) is takes]
        rows += [_row(find_formulation(problem, name, takes), name == names[0], engines) for name in names]
    return sorted(rows, key=lambda row: not row.default)


def _row(formulation: type[Formulation[Any, Any]], default: bool, engines: list[Solver]) -> FormulationInfo:
    kind: FormulationKind = "linear"
    handles = formulation.model_type.words()
    if issubclass(formulation.model_type, IntervalModel):
        kind = "constraint program"
    elif issubclass(formulation, PyomoFormulation):
        kind, handles = "pyomo", formulation.handles
    return FormulationInfo(
        name=formulation.name,
        problem=formulation.problem_type.kind,
        default=default,
        kind=kind,
        available=tuple(solver.name for solver in engines if solver.missing() is None),
        engines=tuple(solver.name for solver in engines),
        handles=handles,
        requires=formulation.requires,
        options=tuple(sorted({option for solver in engines for option in solver.options})),
        source=formulation.source or formulation.__module__.partition(".")[0],
        about=(formulation.__doc__ or "").strip().partition("\n")[0],
    )
