"""Which compromise? Fronts over two or three measures, each point with its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue
from opweave.problems.spec import SCHEMA_VERSION, Many
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.questions.answers import Answer, Answers, Lesson, Report, improved, reporting, unsolved
from opweave.solvers.questions.genetic_front import genetic_front
from opweave.solvers.questions.measured import asked, unit_of_measure
from opweave.solvers.questions.moving_limits import MovingLimits
from opweave.solvers.trivial import trivial_bound

AnyProblem = Problem[Any, Any]
Method = Literal["epsilon", "nsga2"]


class Front(Answers):
    """Plans of which none is better than another in all measures.

    Attributes
    ----------
    problem
        The problem's kind.
    measures, units
        The measures, the minimised one first, and their units.
    method
        "epsilon" or "nsga2".
    rows
        The points, by the minimised measure; ``values`` has the measures of each. The bound of a row is proved: no plan
        whose other measures are at most those of the row is below it in the minimised measure.
    steps
        Every solve: ``values`` has its limits, None for no limit.
    complete
        Whether it is proved that no other compromise exists.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    measures: Many[str]
    units: Many[str]
    method: Method
    steps: Many[Answer] = ()
    complete: bool = False


def pareto(
    problem: AnyProblem,
    measures: Sequence[str],
    *,
    points: int = 10,
    method: Method = "epsilon",
    solver: str = "auto",
    formulation: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    threads: int = 1,
    options: Mapping[str, OptionValue] | None = None,
    executor: Executor | None = None,
    progress: Report | bool | None = None,
) -> Front:
    """Find plans that trade one measure against others.

    Parameters
    ----------
    problem
        The problem. All its limits and side constraints hold for all plans.
    measures
        Two or three names. One is minimised: ``"total"`` (ordering), ``"makespan"`` (placement, batched mapping),
        ``"bottleneck"``, ``"latency"`` or ``"transfers"`` (pipeline), ``"latency"`` (slicing). The others are limited:
        ``"peak"``, the most bytes that any device holds at a time, and ``"devices"``, the number of devices in use.
    points
        Most points; there may be fewer.
    method
        ``"epsilon"``: a solve for every point, each with a bound. ``"nsga2"``: one genetic search, quick and
        without proofs, over any measures of the timeline (:data:`~opweave.problems.measures.MEASURES`); of the
        arguments below it takes ``time_limit`` and ``seed``. Without a time limit it ends after 200 generations.
    solver, formulation, gap, threads, executor, options
        As in :func:`~opweave.solvers.solve.solve`, for each solve.
    time_limit
        Seconds for the whole front; None for no limit.
    seed
        Seed of every solve.
    progress
        Called with the number of points that are found and the number asked for; True for a progress bar.

    Returns
    -------
    Front

    Raises
    ------
    InvalidInputError
        For measures that the problem cannot minimise or limit; the message lists the pairs that it can.
    UnknownSolverError, SolverNotAvailableError, UnsupportedFeatureError, UnsupportedConstraintError
        When the solver does not support a request.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 1), ("a", 4), ("b", 4), ("c", 1))],
    ...     operators=[
    ...         ow.Operator(id="a", inputs=["x"], outputs=["a"]),
    ...         ow.Operator(id="b", inputs=["x"], outputs=["b"]),
    ...         ow.Operator(id="c", inputs=["a", "b"], outputs=["c"]),
    ...     ],
    ... )
    >>> cluster = ow.Cluster(devices=[ow.Device(name="p"), ow.Device(name="q")], shared=8.0)
    >>> costs = ow.Costs.from_table({name: {"p": 1.0, "q": 1.0} for name in "abc"})
    >>> front = ow.pareto(ow.Placement(graph=graph, cluster=cluster, costs=costs), ("makespan", "peak"))
    >>> [(row.values["makespan"], row.values["peak"]) for row in front.rows], front.complete
    ([(2.5, 5)], True)
    """
    if isinstance(measures, str) or not all(isinstance(name, str) for name in measures):
        raise InvalidInputError(f"measures is {measures!r:.80}; it must be two or three names of measures")
    checked_whole("points", points, 1)
    checked_time_limit(time_limit)
    if method == "nsga2":
        return _searched(problem, tuple(measures), points, time_limit, seed)
    if method != "epsilon":
        raise InvalidInputError(f"method is {method!r:.60}; it must be 'epsilon' or 'nsga2'")
    question = asked(problem, tuple(measures))
    arguments = {
        "gap": gap,
        "seed": seed,
        "threads": threads,
        "options": options,
        "executor": executor,
        "formulation": formulation,
    }
    with reporting(progress, "points") as report:
        search = MovingLimits(question, solver, points, time_limit, arguments, report)
        search.run()
    rows = []
    for step in search.undominated():
        values = dict(zip(question.names, step.values or (), strict=True))
        limits = {name: int(values[name]) for name in question.names[1:]}
        made = improved(question.problem, step.result, search.bound_at(limits))
        rows.append(Answer.of(solver, made, values))
    return Front(
        problem=problem.kind,
        measures=question.names,
        units=tuple(map(unit_of_measure, question.names)),
        method="epsilon",
        rows=tuple(rows),
        steps=tuple(
            Answer.of(solver, step.result, {name: step.limits.get(name) for name in question.names[1:]})
            for step in search.steps
        ),
        complete=search.complete(),
    )


def _searched(
    problem: AnyProblem, measures: tuple[str, ...], points: int, time_limit: float | None, seed: int
) -> Front:
    """The front that NSGA-II finds."""
    try:
        question = asked(problem, measures)
        names, searched = question.names, question.problem
        bound = trivial_bound(searched)
    except InvalidInputError:  # measures that no problem limits can still be traded against each other
        names, searched, bound = measures, problem, None
    found = genetic_front(searched, names, time_limit=time_limit, seed=seed)
    step = max(1.0, (len(found) - 1) / max(1, points - 1))
    chosen = found if len(found) <= points else [found[round(k * step)] for k in range(points)]
    rows = []
    for values, solution in chosen:
        learnt = Lesson(solution, searched.evaluate(solution), bound, "trivial")
        result = improved(searched, unsolved(searched, "nsga2", seed), learnt)
        rows.append(Answer.of("nsga2", result, dict(zip(names, values, strict=True))))
    units = tuple(map(unit_of_measure, names))
    return Front(problem=problem.kind, measures=names, units=units, method="nsga2", rows=tuple(rows))
