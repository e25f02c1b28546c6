"""Which solver? Several solvers on one problem, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError, OpweaveError
from opweave.problems.problem import DetailsT, Problem, SolutionT
from opweave.problems.result import OptionValue, Result
from opweave.problems.spec import SCHEMA_VERSION
from opweave.solvers.questions.answers import Answer, Answers, Report, reporting, was_interrupted
from opweave.solvers.registry import Solver, find_solver, load_solvers
from opweave.solvers.solve import solve

AUTO = "auto"


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

    schema_version: Literal[1] = SCHEMA_VERSION
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
        for each in self.rows:
            if each.solver == solver:
                return each
        known = ", ".join(each.solver for each in self.rows)
        raise InvalidInputError(f"{solver!r:.60} was not compared; the solvers are: {known}")


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
        Called with the number of solvers that are done and the number of all; True for a progress bar.

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
    names = _named(problem, solvers)
    known = {each.name: each for each in load_solvers(problem.kind)}
    given = dict(options or {})
    odd = next((name for name in given if name not in names), None)
    if odd is not None:
        raise InvalidInputError(f"options name solver {odd!r:.60}, which is not compared; it is one of {names}")
    rows: list[Answer] = []
    found: Result[Any] | str = ""
    with reporting(progress, "solvers") as report:
        for name in names:
            if was_interrupted(found):
                rows.append(Answer.of(name, "interrupted before its turn", {}))
                continue
            honoured = _honoured(known[name], gap=gap, threads=threads, start=start, executor=executor)
            try:
                found = solve(
                    problem, solver=name, time_limit=time_limit, seed=seed, options=given.get(name), **honoured
                )
            except OpweaveError as error:
                found = str(error)
            rows.append(Answer.of(name, found, {}))
            if report is not None:
                report(len(rows), len(names))
    return Comparison(problem=problem.kind, unit=problem.unit, rows=tuple(rows), baseline=_baseline(rows, known))


def _named(problem: Problem[Any, Any], solvers: Sequence[str] | None) -> list[str]:
    """The solvers to compare; a name that no solver has is refused before time is spent."""
    if solvers is None:
        rows = (each for each in load_solvers(problem.kind) if problem.reading in each.readings)
        there = [each.name for each in rows if each.baseline and each.missing() is None]
        return [*there, AUTO]
    names = [solvers] if isinstance(solvers, str) else list(solvers)
    if not names:
        raise InvalidInputError("no solver is named; name at least one, or pass None for the baselines and 'auto'")
    known = {each.name for each in load_solvers(problem.kind)}
    for name in names:
        if name not in known:
            find_solver(problem, name)
        if names.count(name) > 1:
            raise InvalidInputError(f"solver {name!r} is named twice; name each solver once")
    return names


def _honoured(solver: Solver, **asked: Any) -> dict[str, Any]:
    """What the solver supports of the optional arguments, whose names are those of its features."""
    able = {feature.value for feature in solver.features}
    return {name: value for name, value in asked.items() if name in able}


def _baseline(rows: Sequence[Answer], known: Mapping[str, Solver]) -> str | None:
    found = [each for each in rows if each.objective is not None]
    simple = [each for each in found if known[each.solver].baseline]
    best = min(simple, key=lambda each: each.objective or 0, default=found[0] if found else None)
    return None if best is None else best.solver
