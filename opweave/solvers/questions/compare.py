"""Which solver? Several solvers on one problem, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError, checked_call
from opweave.problems.problem import DetailsT, Problem, SolutionT
from opweave.problems.result import OptionValue
from opweave.problems.words import instead_of
from opweave.solvers.questions.answers import Answer, Answers, Report, answered
from opweave.solvers.registry import Solver, find_solver, load_solvers
from opweave.solvers.solve import solve


class Comparison(Answers):
    """What several solvers found for one problem.

    Attributes
    ----------
    problem, unit
        The problem's kind, and the unit of its objective.
    rows
        One :class:`~opweave.solvers.questions.answers.Answer` for each solver, in the order asked.
    baseline
        The solver with which the others are compared: the best baseline of the rows, or else the first row with a
        solution; None without any.
    """

    schema_version: Literal[1] = 1
    unit: str
    baseline: str | None = None

    @property
    def best(self) -> Answer | None:
        """The first row with the smallest objective; None when no solver found a solution."""
        found = [each for each in self.rows if each.objective is not None]
        return min(found, key=lambda each: each.objective or 0, default=None)

    def relative(self, solver: str) -> float | None:
        """A solver's objective divided by the baseline's; None when either is unknown.

        Raises
        ------
        InvalidInputError
            When no row has this solver.
        """
        own, base = self[solver].objective, None if self.baseline is None else self[self.baseline].objective
        if own is None or base is None:
            return None
        return own / base if base else (1.0 if own == base else None)

    def __getitem__(self, solver: str) -> Answer:
        """The row of a solver."""
        found = {each.solver: each for each in self.rows}
        if solver not in found:
            raise InvalidInputError(f"{solver!r:.60} was not compared{instead_of(solver, found, 'the solvers are')}")
        return found[solver]


@checked_call
def compare(
    problem: Problem[SolutionT, DetailsT],
    solvers: Sequence[str] | None = None,
    *,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    threads: int = 1,
    start: SolutionT | None = None,
    options: Mapping[str, Mapping[str, OptionValue]] | None = None,
    executor: Executor | None = None,
    progress: Report | bool | None = None,
) -> Comparison:
    """Solve a problem with several solvers and put their answers side by side.

    Parameters
    ----------
    problem
        The problem.
    solvers
        Names of solvers; None for "auto" and all baselines that can run here.
    time_limit
        Seconds for each solver; None for no limit.
    gap, threads, executor, start
        As in :func:`~opweave.solvers.solve.solve`, for the solvers that support them.
    seed
        Seed of every solver.
    options
        Options of solvers, by the solver's name.
    progress
        Called with the number of finished solvers and of all; True for a progress bar.

    Returns
    -------
    Comparison
        A row for each solver. A solver that cannot run here, or cannot honour a side constraint, has a row that says
        why.

    Raises
    ------
    UnknownSolverError
        When the problem has no solver of a name.
    InvalidInputError
        When no solver is named, one is named twice, or options name a solver that is not compared.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 4), ("a", 9), ("b", 1))],
    ...     operators=[ow.Operator(id=name, inputs=["x"], outputs=[name]) for name in ("a", "b")],
    ...     outputs=["b"],
    ... )
    >>> found = ow.compare(ow.MemoryOrdering(graph=graph), ["definition", "auto"])
    >>> [(row.solver, row.objective) for row in found.rows], found.baseline, found.relative("auto")
    ([('definition', 13), ('auto', 13)], 'definition', 1.0)
    """
    known = {each.name: each for each in load_solvers(problem.kind)}
    given = dict(options or {})
    names = _named(problem, known, solvers)
    odd = next((name for name in given if name not in names), None)
    if odd is not None:
        raise InvalidInputError(f"options name solver {odd!r:.60}, which is not compared; it is one of {names}")
    asked = {"gap": gap, "threads": threads, "start": start, "executor": executor}
    asks = {}
    for name in names:
        able = {feature.value for feature in known[name].features}
        honoured: dict[str, Any] = {each: value for each, value in asked.items() if each in able}
        honoured |= {"time_limit": time_limit, "seed": seed, "options": given.get(name)}
        asks[name] = partial(solve, problem, solver=name, **honoured)
    rows = [Answer.of(name, found, {}) for name, found in answered(asks, progress, "solvers").items()]
    planned = [row for row in rows if row.objective is not None]
    simple = [row for row in planned if known[row.solver].baseline] or planned[:1]
    best = min(simple, key=lambda row: row.objective or 0, default=None)
    return Comparison(problem=problem.kind, unit=problem.unit, rows=tuple(rows), baseline=best.solver if best else None)


def _named(problem: Problem[Any, Any], known: Mapping[str, Solver], solvers: Sequence[str] | None) -> list[str]:
    """The solvers to compare; a name that no solver has is refused before time is spent."""
    if solvers is None:
        rows = (each for each in known.values() if each.baseline and problem.mode in each.modes)
        return [*(each.name for each in rows if each.missing() is None), "auto"]
    names = [solvers] if isinstance(solvers, str) else list(solvers)
    if not names:
        raise InvalidInputError("no solver is named; name at least one, or pass None for the baselines and 'auto'")
    for name in names:
        if name not in known:
            find_solver(problem, name)
        if names.count(name) > 1:
            raise InvalidInputError(f"solver {name!r} is named twice; name each solver once")
    return names
