"""Which compromise? Fronts over two or three measures, each point with its bound."""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np

from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import MEASURES
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status
from opweave.problems.solution import Solution
from opweave.problems.spec import SCHEMA_VERSION, Many
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.evolution.ask import pymoo_problem
from opweave.solvers.evolution.objectives import LARGER_IS_BETTER, SHORT
from opweave.solvers.questions.answers import Answer, Answers, Report, reporting
from opweave.solvers.questions.changes import rebuilt
from opweave.solvers.questions.moving_limits import MovingLimits, Values, tradeoff, undominated
from opweave.solvers.questions.relaxation import Series, nothing_found
from opweave.solvers.run import agree
from opweave.solvers.trivial import trivial_bound

AnyProblem = Problem[Any, Any]
Method = Literal["epsilon", "nsga2"]

POPULATION, GENERATIONS = 100, 200
"""Of NSGA-II."""

UNITS = {
    **dict.fromkeys(("peak", "total", "peak_bytes", "total_bytes", "traffic"), "bytes"),
    "energy": "joules",
    "throughput": "inputs per second",
    "devices": "devices",
}
"""Units of measures that are not in seconds."""


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
    question = tradeoff(problem, tuple(measures))
    arguments = {
        "gap": gap,
        "seed": seed,
        "threads": threads,
        "options": options,
        "executor": executor,
        "formulation": formulation,
    }
    with reporting(progress, "points") as report:
        search = MovingLimits(question, Series(solver, arguments), points, time_limit, report)
        search.run()
    others = question.names[1:]
    return Front(
        problem=problem.kind,
        measures=question.names,
        units=tuple(UNITS.get(name, "seconds") for name in question.names),
        method="epsilon",
        rows=tuple(
            Answer.of(solver, step.case.result, dict(zip(question.names, step.values or (), strict=True)))
            for step in search.undominated()
        ),
        steps=tuple(
            Answer.of(solver, step.case.result, {name: step.limits.get(name) for name in others})
            for step in search.steps
        ),
        complete=search.complete,
    )


def _searched(
    problem: AnyProblem, measures: tuple[str, ...], points: int, time_limit: float | None, seed: int
) -> Front:
    """A quick front without proofs: NSGA-II on the encodings of plans, judged by the referee at the end.

    Source: Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE Trans. Evolutionary
    Computation 6(2), 2002, doi:10.1109/4235.996017.
    """
    try:
        question = tradeoff(problem, measures)
        problem, measures = question.problem, question.names
        bound = trivial_bound(problem)
    except InvalidInputError:  # measures that no problem limits can still be traded against each other
        bound = None
    full = [SHORT.get(name, name) for name in measures]
    signs = [-1 if name in LARGER_IS_BETTER else 1 for name in full]
    found: list[tuple[Values, Result[Any]]] = []
    for plan in _evolved(problem, full, time_limit, seed):
        result = _judged(problem, plan, bound, seed)
        timeline = None if result is None else result.timeline or problem.play(plan)
        values = [] if timeline is None else [MEASURES[name](timeline) for name in full]
        if result is not None and values and None not in values:
            found.append((tuple(value or 0 for value in values), result))
    chosen = undominated([tuple(map(operator.mul, signs, values)) for values, _ in found])
    step = max(1.0, (len(chosen) - 1) / max(1, points - 1))
    rows = [found[chosen[round(k * step)]] for k in range(min(points, len(chosen)))]
    return Front(
        problem=problem.kind,
        measures=measures,
        units=tuple(UNITS.get(name, "seconds") for name in measures),
        method="nsga2",
        rows=tuple(Answer.of("nsga2", result, dict(zip(measures, values, strict=True))) for values, result in rows),
    )


def _evolved(problem: AnyProblem, measures: Sequence[str], time_limit: float | None, seed: int) -> list[Solution]:
    """Plans of which none beats another in all measures, by their encodings."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.optimize import minimize
    from pymoo.termination import get_termination

    began, rows = time.perf_counter(), pymoo_problem(problem, measures)
    if not rows.n_var:
        return [rows.decode(np.zeros(0))]
    search = NSGA2(pop_size=POPULATION, sampling=rows.seeds(), repair=rows.repair)
    left = None if time_limit is None else max(0.0, time_limit - (time.perf_counter() - began))
    ends = get_termination("n_gen", GENERATIONS) if left is None else get_termination("time", left)
    found = minimize(rows, search, ends, seed=seed).X
    return [] if found is None else [rows.decode(row) for row in np.atleast_2d(found)]


def _judged(problem: AnyProblem, plan: Solution, bound: int | float | None, seed: int) -> Result[Any] | None:
    """A plan as a result; None if the referee objects to it."""
    judged = problem.evaluate(plan)
    if not judged.feasible or judged.objective is None:
        return None
    proved = bound is not None and agree(judged.objective, bound)
    result = rebuilt(
        nothing_found(problem, "nsga2", seed),
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        objective=judged.objective,
        bound=bound,
        bound_source=None if bound is None else "trivial",
        solution=plan,
        verified=True,
    )
    return result.of_problem(problem).with_timeline(judged.timeline)
