"""The registry of solvers: their names, problems, features and availability."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar

from opweave.formulations.expressions import MODEL, VIOLATIONS, expressible
from opweave.problems.constraints import Constraint, concerns
from opweave.problems.errors import InvalidInputError, SolverNotAvailableError, UnknownSolverError
from opweave.problems.plugins import KINDS, load_plugins, why_left_out
from opweave.problems.problem import Problem
from opweave.problems.shown import Rows
from opweave.problems.spec import FrozenDict
from opweave.problems.words import instead_of
from opweave.solvers.loops import uninterrupted
from opweave.solvers.run import Outcome, Run


class Feature(str, Enum):
    """Optional abilities of a solver; each is named like the argument of ``solve`` that asks for it."""

    START = "start"
    GAP = "gap"
    THREADS = "threads"
    EXECUTOR = "executor"
    CALLBACK = "callback"
    EXTEND = "extend"
    FORMULATION = "formulation"


SEARCHES = frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.THREADS, Feature.EXECUTOR})
"""Features of a search that improves plans step by step."""

Proves = Literal["optimum", "bound", "nothing"]
SolverKind = Literal["plan", "algorithm", "engine"]
SolveT = TypeVar("SolveT", bound="Callable[[Any, Run], Outcome]")


@dataclass(frozen=True, slots=True)
class SolverInfo:
    """One row of :func:`list_solvers`.

    Attributes
    ----------
    name, problem
        The name for ``solve(..., solver=name)``, and the problem kind that it solves.
    kind
        "plan" (a combination of several solvers), "algorithm" (works on the problem itself) or "engine" (runs a
        formulation).
    available, install
        Whether it can run on this machine; if not, the command that installs what is missing.
    proves
        "optimum", "bound" or "nothing".
    features
        The optional arguments of ``solve`` that it supports.
    constraints
        The side constraints that it honours, by the names of their classes.
    options
        Its options for ``solve(..., options={name: value})``, with their meanings.
    baseline
        Whether it is a baseline: a simple solver with which other solvers are compared.
    about
        One line that describes it.
    """

    name: str
    problem: str
    kind: SolverKind
    available: bool
    install: str | None
    proves: Proves
    features: frozenset[Feature]
    constraints: tuple[str, ...]
    options: FrozenDict[str, str]
    baseline: bool
    about: str

    columns: ClassVar[tuple[str, ...]] = ("name", "problem", "available", "proves", "constraints", "options", "about")


@dataclass(frozen=True, slots=True)
class Solver:
    """A registered solver.

    Attributes
    ----------
    name, problem, kind, proves, features, about, baseline
        As in :class:`SolverInfo`.
    run
        Runs the solver: it reports solutions and bounds to the run and returns how it ended.
    supports
        The targets of :func:`express` that it understands.
    options
        Its options with their meanings, one line each.
    missing
        Returns the command that would install what is missing, or None when the solver can run.
    version
        Returns the version of the engine, if it is one.
    modes
        The values of :attr:`Problem.mode` that it supports.
    """

    name: str
    problem: str
    kind: SolverKind
    run: Callable[[Any, Run], Outcome]
    about: str
    proves: Proves = "nothing"
    features: frozenset[Feature] = frozenset()
    supports: tuple[str, ...] = ()
    options: Mapping[str, str] = FrozenDict()
    missing: Callable[[], str | None] = lambda: None
    version: Callable[[], str | None] = lambda: None
    baseline: bool = False
    modes: tuple[str | None, ...] = (None,)

    def beyond(self, problem: Problem[Any, Any]) -> tuple[Constraint, ...]:
        """The side constraints that its own methods do not understand; it leaves them to models and the referee."""
        own = [target for target in self.supports if target not in (MODEL, VIOLATIONS)]
        return tuple(each for each in problem.constraints if not expressible(type(each), own))

    def info(self) -> SolverInfo:
        """The public row."""
        install = self.missing()
        kinds = [kind for kind in concerning(self.problem) if expressible(kind, self.supports)]
        own = {"constraints": tuple(kind.__name__ for kind in kinds), "options": FrozenDict(self.options)}
        same = {each.name: getattr(self, each.name) for each in fields(SolverInfo) if hasattr(self, each.name)}
        return SolverInfo(**{**same, **own}, available=install is None, install=install)


def concerning(problem: str, constraints: Iterable[type[Constraint]] | None = None) -> list[type[Constraint]]:
    """The classes of side constraints that concern a kind of problem, of some or of all that exist."""
    known = [kind for kind in Constraint.kinds().values() if issubclass(kind, Constraint)]
    found = Problem.kinds().get(problem)
    return [kind for kind in (known if constraints is None else constraints) if found is None or concerns(kind, found)]


_SOLVERS: dict[tuple[str, str], Solver] = {}


def register(solver: Solver) -> Solver:
    """Make a solver available by name."""
    _SOLVERS[solver.problem, solver.name] = solver
    return solver


def named_solver(problem: type[Problem[Any, Any]], name: str, about: str, **fields: Any) -> Callable[[SolveT], SolveT]:
    """Decorator that registers a function as a search of opweave's; ``fields`` are those of :class:`Solver`."""

    def registering(run: SolveT) -> SolveT:
        register(
            Solver(name, problem.kind, run=run, about=about, **{"kind": "algorithm", "features": SEARCHES} | fields)
        )
        return run

    return registering


def register_solver(solver: Solver) -> Solver:
    """Make a solver of your own available by name: ``solve(..., solver=name)``, ``list_solvers()``.

    A package may name it instead as an entry point of the group ``opweave.solvers``. :func:`solver_for` makes a solver
    of a function.

    Raises
    ------
    InvalidInputError
        If it is not a solver, or opweave has one of that name.

    Examples
    --------
    >>> import opweave as ow
    >>> def as_listed(problem, run):
    ...     order = ow.Ordering(order=[op.id for op in problem.graph.operators])
    ...     run.found(order, problem.evaluate(order).objective)
    ...     return ow.extend.Outcome(run.termination())
    >>> registered = ow.register_solver(
    ...     ow.Solver("in_listed_order", "memory_ordering", "algorithm", as_listed, about="as listed")
    ... )
    """
    if not isinstance(solver, Solver):
        raise InvalidInputError(f"a solver is an instance of Solver, not of {type(solver).__name__}")
    load_own(solver.problem)
    taken = _SOLVERS.get((solver.problem, solver.name))
    if taken is not None and _home(taken).startswith("opweave.") and not _home(solver).startswith("opweave."):
        raise InvalidInputError(f"opweave has a solver {solver.name!r} for {solver.problem}; choose another name")
    return register(solver)


def _home(solver: Solver) -> str:
    """The module of a solver's function."""
    function = getattr(solver.run, "__wrapped__", getattr(solver.run, "func", solver.run))
    return str(getattr(function, "__module__", ""))


def _load(kind: str | None = None) -> None:
    """Import the solvers of one problem kind, or of all kinds, which takes a while."""
    with uninterrupted():
        load_plugins()
        load_own(kind)
        generic = importlib.import_module("opweave.solvers.generic")
        generic.load_packages()
    for each in Problem.kinds() if kind is None else [kind]:
        generic.complete(each)


def _load_default(kind: str) -> None:
    """Import the default solver of a problem kind and its baselines, which takes less time than all solvers."""
    if kind not in KINDS:
        _load(kind)
        return
    with uninterrupted():
        load_plugins()
        load_own(kind, "workers")


def load_own(kind: str | None, *modules: str) -> None:
    """Import modules beside opweave's solvers of one kind, or of all; unless named, the solvers, default ones first."""
    for each in KINDS:
        for module in modules or ("workers", "registered"):
            if kind in (None, each):
                importlib.import_module(f"opweave.solvers.{each}.{module}")


def load_solvers(kind: str | None = None) -> list[Solver]:
    """The solvers of one problem kind, or of all kinds, in the order of their registration."""
    _load(kind)
    return [solver for (problem, _), solver in _SOLVERS.items() if kind in (None, problem)]


def registered(kind: str) -> list[Solver]:
    """The solvers of a problem kind that are known by now; :func:`load_solvers` imports the others first."""
    return [solver for (problem, _), solver in _SOLVERS.items() if problem == kind]


def list_solvers(problem: Problem[Any, Any] | type[Problem[Any, Any]] | str | None = None) -> Rows[SolverInfo]:
    """List the solvers that ``solve(..., solver=...)`` accepts, and whether they can run on this machine.

    Parameters
    ----------
    problem
        A problem, its class or its kind; None for all. For a problem, solvers that do not support its
        :attr:`Problem.mode` are left out.

    Returns
    -------
    Rows
        A tuple that prints as a table; ``.to_pandas()`` makes a pandas table of it.

    Raises
    ------
    InvalidInputError
        If there is no problem of that kind.

    Examples
    --------
    >>> [row.name for row in list_solvers("memory_ordering") if row.kind == "plan"]
    ['auto']
    >>> next(row.about for row in list_solvers("slicing") if row.name == "all_rows")
    'parts by speed along the rows'
    """
    _load()
    kind = problem if isinstance(problem, str) or problem is None else getattr(problem, "kind", problem)
    if kind is not None and kind not in Problem.kinds():
        instead = instead_of(kind, Problem.kinds(), "there are")
        raise InvalidInputError(f"no problem is called {kind!r:.60}{instead}")
    rows = (solver for solver in _SOLVERS.values() if kind is None or solver.problem == kind)
    if isinstance(problem, Problem):
        rows = (solver for solver in rows if problem.mode in solver.modes)
    return Rows(solver.info() for solver in rows)


def find_solver(problem: Problem[Any, Any], name: str) -> Solver:
    """The registered solver of that name.

    Raises
    ------
    UnknownSolverError
        When the problem has no solver of that name.
    SolverNotAvailableError
        When it cannot run on this machine; the message contains the command that installs what is missing.
    """
    solver = _found(problem.kind, name)
    if solver is None:
        raise UnknownSolverError(_no_solver(problem, name))
    install = solver.missing()
    if install is not None:
        raise SolverNotAvailableError(f"solver {name!r} is not available here; to get it: {install}")
    return solver


def _no_solver(problem: Problem[Any, Any], name: str) -> str:
    """Why there is no solver of that name: it solves other problems, it is misspelt, or nothing solves the problem."""
    here = type(problem).__name__
    known = [key for kind, key in _SOLVERS if kind == problem.kind]
    if not known:
        return (
            f"{here} has neither a formulation nor a solver yet; write one with @ow.solver_for({here}), "
            "or a formulation for all engines with @ow.extend.register_formulation"
        )
    _load()
    others = [Problem.kinds()[kind].__name__ for kind, key in _SOLVERS if key == name]
    instead = f"; it solves {', '.join(others)}" if others else instead_of(name, known)
    return f"{here} has no solver {name!r}{instead}; ow.list_solvers({here}) lists all{why_left_out(name)}"


def _found(kind: str, name: str) -> Solver | None:
    """The solver of that name; all solvers are imported only if the name is not that of the default or a baseline."""
    for load in (_load_default, _load):
        load(kind)
        for spelt in (name, name.lower()):
            if (kind, spelt) in _SOLVERS:
                return _SOLVERS[kind, spelt]
    return None


def rounds_asked(run: Run, option: str, untimed: int) -> int | None:
    """How many rounds a user's option asks for; None for as many as there is time for.

    0, the default, stands for ``untimed`` rounds if there is no time limit.

    Raises
    ------
    InvalidInputError
        If the option is below 0.
    """
    asked = run.option(option, 0)
    assert isinstance(asked, int)
    if asked < 0:
        raise InvalidInputError(f"option {option!r} is {asked:,}; it must be a whole number from 0 (no limit)")
    return asked or (untimed if run.time_limit is None else None)
