"""Checks of the arguments that users pass to solvers, made before anything runs, so that errors do not surface late."""

from __future__ import annotations

import math
import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, NoReturn, cast

import numpy as np

from opweave.formulations.expressions import VIOLATIONS, expressible, how_to_express
from opweave.problems.errors import InvalidInputError, UnsupportedConstraintError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.words import instead_of
from opweave.solvers.registry import Feature, Solver, load_solvers
from opweave.solvers.run import Run, Setting, Stepping

MOST_THREADS = 64
"""Most cores that a solve may ask for on a machine with fewer."""


def _refuse(name: str, value: object, takes: str) -> NoReturn:
    raise InvalidInputError(f"{name} is {reprlib.repr(value)}; it must be {takes}")


def _plain(value: object) -> object:
    """Convert NumPy scalars to Python values, so that they can be told apart and written to JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: object) -> bool:
    """Whether this is a number that a float can hold, and not a Boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def checked_time_limit(value: object) -> float | None:
    """Seconds above 0, or None."""
    plain = _plain(value)
    if plain is None:
        return None
    if not _finite(plain) or cast(float, plain) <= 0:
        _refuse("time_limit", value, "a number of seconds above 0, or None for no limit")
    return cast(float, plain)


def checked_gap(value: object) -> float:
    """A fraction from 0 up to 1."""
    plain = _plain(value)
    if not _finite(plain) or not 0.0 <= cast(float, plain) < 1.0:
        _refuse("gap", value, "a fraction from 0 up to, not including, 1")
    return cast(float, plain)


def checked_whole(name: str, value: object, least: int, most: float = math.inf) -> int:
    """A whole number from ``least`` to ``most``."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, int) or not least <= plain <= most:
        _refuse(name, value, f"a whole number from {least}" + ("" if math.isinf(most) else f" to {most}"))
    return plain


def checked_threads(threads: object) -> int:
    """A number of cores that this machine may have; each is a process, and too many of them stop a machine."""
    return checked_whole("threads", threads, 1, max(MOST_THREADS, os.cpu_count() or 1))


def checked_options(options: object) -> dict[str, Setting]:
    """Options by name; an empty dictionary for None."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        _refuse("options", options, "a mapping from option names to values, or None")
    found: dict[str, Setting] = {}
    for name, value in options.items():
        plain = _plain(value)
        stepping = isinstance(plain, Stepping) and not isinstance(plain, type)
        if not (stepping or plain is None or isinstance(plain, bool | str) or _finite(plain)):
            _refuse(f"option {name!r}", value, "a finite number, a string, true or false, or None")
        found[name] = cast(Setting, plain)
    return found


def check_kinds(solver: object, run: Run) -> None:
    """Refuse arguments of the wrong type."""
    if not isinstance(solver, str):
        hint = "; @ow.solver_for(problem class) above a function gives it one" if callable(solver) else ""
        _refuse("solver", solver, f"the name of a solver{hint}")
    kinds: tuple[tuple[str, object, Callable[[object], bool], str], ...] = (
        ("formulation", run.formulation, lambda given: isinstance(given, str), "the name of a formulation"),
        ("executor", run.executor, lambda given: isinstance(given, Executor), "a concurrent.futures.Executor"),
        ("extend", run.extend, callable, "a function of a model and a problem"),
        ("callback", run.callback, callable, "a function of a Progress"),
        ("progress", run.progress, callable, "a function of a Progress"),
    )
    for name, given, fits, takes in kinds:
        if given is not None and not fits(given):
            _refuse(name, given, f"{takes}, or None")


def start_run(problem: Problem[Any, Any], run: Run) -> None:
    """Judge the user's start and make it the first incumbent, unless added rows may speak against it.

    Raises
    ------
    InvalidInputError
        When the start is not a valid solution of the problem, or not a solution at all.
    """
    if run.start is None:
        return
    needed = problem.solution_type
    if not isinstance(run.start, needed):
        given, example = type(run.start).__name__, "such as result.plan"
        raise InvalidInputError(f"start is of type {given}; it must be of type {needed.__name__}, {example}, or None")
    judged = problem.evaluate(run.start)
    if judged.objective is None or not judged.feasible:
        raise InvalidInputError(f"the start is not a solution: {judged.violations[0].message}")
    if run.extend is None:
        run.found(run.start, judged.objective)


def check_abilities(problem: Problem[Any, Any], solver: Solver, run: Run) -> None:
    """Refuse requests that the solver would otherwise have to ignore.

    Raises
    ------
    UnsupportedConstraintError
        For a side constraint that it does not support; the message names the solvers that do.
    UnsupportedFeatureError
        For a mode, an argument or an option that it does not support.
    """
    for constraint in problem.constraints:
        if not expressible(type(constraint), solver.supports):
            rows = [row for row in load_solvers(problem.kind) if expressible(type(constraint), row.supports)]
            able = sorted((row.name for row in rows), key=lambda name: name != "auto")
            raise UnsupportedConstraintError(
                f"solver {solver.name!r} cannot honour {type(constraint).__name__}; "
                f"these can: {', '.join(able) or 'none'}; {how_to_express(type(constraint), solver.supports)}"
            )
        if VIOLATIONS in solver.supports:  # the rule is about to judge solutions
            try:
                constraint.check(problem)
            except ValueError as error:
                raise UnsupportedConstraintError(f"solver {solver.name!r} cannot honour a rule: {error}") from error
    if problem.mode not in solver.modes:
        able = [row.name for row in load_solvers(problem.kind) if problem.mode in row.modes]
        only = ", ".join(map(str, solver.modes))
        lacks = f"is only for {only}" if problem.mode is None else f"does not know {problem.mode}"
        raise UnsupportedFeatureError(f"solver {solver.name!r} {lacks}; for this problem: {', '.join(able)}")
    nothing = Run()
    for feature in Feature:
        if feature not in solver.features and getattr(run, feature.value) != getattr(nothing, feature.value):
            able = [row.name for row in load_solvers(problem.kind) if feature in row.features]
            raise UnsupportedFeatureError(
                f"solver {solver.name!r} cannot honour {feature.value!r}; these can: {', '.join(able) or 'none'}"
            )
    for option in run.options:
        if option not in solver.options:
            instead = instead_of(option, solver.options) or "; it has none"
            raise UnsupportedFeatureError(f"solver {solver.name!r} has no option {option!r}{instead}")
