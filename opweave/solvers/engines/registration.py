"""Every problem offers the engines and its formulations on the same terms: their registration and their list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.formulation import Formulation, find_formulation, formulation_names, load_formulations
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.problems.problem import Problem
from opweave.problems.shown import Rows
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.known import FEATURES, MEMORY_OPTION, CpSat, Engine, Highs
from opweave.solvers.engines.linear_child import DIALECTS, program_of
from opweave.solvers.registry import Feature, Solver, list_solvers, load_solvers, register
from opweave.solvers.run import Outcome, Run

HEAD_START = "head_start"
"""Option of every engine: whether to begin with the head start. The default is True."""

OPTIONS = {
    HEAD_START: "whether to begin with the plan and the bound of opweave's own methods (true by default)",
    MEMORY_OPTION: "most bytes of memory for the engine's process; 0 for those of the machine",
}

FormulationKind = Literal["linear", "pyomo", "constraint program"]


class LinearEngine(Engine):
    """An engine that Pyomo drives, by its row of :data:`DIALECTS`."""

    function = "opweave.solvers.engines.linear_child:solve"

    def __init__(self, name: str) -> None:
        self.name, self.dialect = name, DIALECTS[name]
        self.about, self.install, self.package = self.dialect.about, self.dialect.install, self.dialect.package
        honoured = {Feature.THREADS: self.dialect.threads, Feature.START: self.dialect.starts}
        self.features = FEATURES - {feature for feature, there in honoured.items() if not there}

    def missing(self) -> str | None:
        """The command that installs it, unless its package or its program is there."""
        there = program_of(self.name) if self.dialect.program else self.version()
        return None if there else self.install


def register_engines(problem: type[Problem[Any, Any]], model: str, head_start: HeadStart) -> None:
    """Register the engines for linear programs, for a problem whose formulations are already registered.

    Parameters
    ----------
    problem
        The problem's class.
    model
        What the engines receive, for the list of solvers, such as "an integer program".
    head_start
        A first solution and bound for each of them.
    """
    for engine in (Highs(), *map(LinearEngine, DIALECTS)):
        _register(engine, model, problem, head_start)


def register_cp_sat(problem: type[Problem[Any, Any]], model: str, head_start: HeadStart) -> None:
    """Register CP-SAT for a problem that has a constraint program; see :func:`register_engines`."""
    _register(CpSat(), model, problem, head_start)


def _register(engine: Engine, model: str, problem: type[Problem[Any, Any]], head_start: HeadStart) -> None:
    names = formulation_names(problem.kind, engine.takes)
    written = [find_formulation(problem, name, engine.takes) for name in names]
    register(
        Solver(
            name=engine.name,
            problem=problem.kind,
            kind="engine",
            run=partial(_solve, engine, head_start),
            about=f"{engine.about} in a child process: {model}",
            proves="optimum",
            features=engine.features,
            supports=(*{target: None for formulation in written for target in formulation.supports}, VIOLATIONS),
            options={**OPTIONS, **engine.options},
            missing=engine.missing,
            version=engine.version,
            modes=tuple(dict.fromkeys(formulation.mode for formulation in written)),
        )
    )


def _solve(engine: Engine, head_start: HeadStart, problem: Problem[Any, Any], run: Run) -> Outcome:
    return run_engine(problem, run, engine, head_start if run.option(HEAD_START, default=True) else HeadStart())


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
        The model variables: ``model.on(op, device)``, ``model.start(op)``, ...
    requires
        The modes of the problem that it needs, such as ``transfers='one_port_edge'``; empty if it takes all.
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
    """List the formulations: the models in which engines receive a problem.

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
    solvers = [each for each in load_solvers(problem.kind) if each.kind == "engine"]
    rows = []
    for takes in (LinearModel, IntervalModel):
        names = formulation_names(problem.kind, takes)
        engines = [each for each in solvers if (each.name == CpSat.name) == (takes is CpSat.takes)]
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
