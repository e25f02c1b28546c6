"""Which compromise? Fronts over two or three metrics, each point with its bound."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError, checked_call
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue
from opweave.problems.spec import Many, preset
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.questions.answers import Answer, Answers, Report, reporting
from opweave.solvers.questions.moving_limits import MovingLimits, tradeoff
from opweave.solvers.questions.relaxation import Series

UNITS = {"peak": "bytes", "peak_bytes": "bytes", "total": "bytes", "total_bytes": "bytes", "devices": "devices"}
"""Units of metrics that are not in seconds."""


class Front(Answers):
    """Plans of which none is better than another in all metrics.

    Attributes
    ----------
    problem
        The problem's kind.
    measures, units
        The metrics, the minimised one first, and their units.
    method
        "epsilon"; in files of version 0.2 also "nsga2".
    rows
        The points, by the minimised metric; ``values`` has the metrics of each. The bound of a row is proved: no plan
        whose other metrics are at most those of the row is below it in the minimised metric.
    steps
        Every solve: ``values`` has its limits, None for no limit.
    complete
        Whether it is proved that no other compromise exists.
    """

    schema_version: Literal[1] = 1
    measures: Many[str]
    units: Many[str]
    method: Literal["epsilon", "nsga2"] = "epsilon"
    steps: Many[Answer] = preset(())
    complete: bool = False


@checked_call
def pareto(
    problem: Problem[Any, Any],
    measures: Sequence[str],
    *,
    points: int = 10,
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
    """Find plans that trade one metric against others.

    Every point comes from a solve of its own, with its bound. :func:`~opweave.pymoo_problem` searches any metrics of
    the timeline with the algorithms of pymoo, without proofs.

    Parameters
    ----------
    problem
        The problem. All its limits and side constraints hold for all plans.
    measures
        Two or three names. One is minimised: ``"total"`` (ordering), ``"makespan"`` (placement, batched mapping),
        ``"bottleneck"``, ``"latency"`` or ``"transfers"`` (pipeline), ``"latency"`` (slicing). The others are limited:
        ``"peak"``, the largest number of bytes that a device holds at a time, and ``"devices"``, the number of devices
        in use.
    points
        Largest number of points; there may be fewer.
    solver, formulation, gap, threads, executor, options
        As in :func:`~opweave.solvers.solve.solve`, for each solve.
    time_limit
        Seconds for the whole front; None for no limit.
    seed
        Seed of every solve.
    progress
        Called with the number of points found and requested; True for a progress bar.

    Returns
    -------
    Front

    Raises
    ------
    InvalidInputError
        For metrics that the problem cannot minimise or limit; the message lists the pairs that it can.
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
        raise InvalidInputError(f"measures is {measures!r:.80}; it must be two or three names of metrics")
    checked_whole("points", points, 1)
    end = time.perf_counter() + (checked_time_limit(time_limit) or math.inf)
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
        search = MovingLimits(question, Series(solver, arguments), points, end, report)
        search.run()
    others = question.names[1:]
    return Front(
        problem=problem.kind,
        measures=question.names,
        units=tuple(UNITS.get(name, "seconds") for name in question.names),
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
