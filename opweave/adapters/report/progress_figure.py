"""A picture of the progress of solvers on one problem: the best solution and bound of each over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opweave.adapters.report.figures import Look, look_of, new_figure, safe_text
from opweave.adapters.report.views import problem_of
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.units import readable, readable_rate, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST, EARLIEST = 1e-2, 1e-4
"""Seconds at which the time axis begins: the usual value, and the earliest."""

NEAR_ZERO = 0.25
"""The axis begins at zero if the smallest value is less than this share of the largest."""

ROUNDING = 1e-9
"""Relative range of values that comes from rounding only; the axis does not magnify it."""

MARGIN = 0.06
"""Space below and above the values, as a share of their range."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """How objectives and bounds are drawn and written.

    Attributes
    ----------
    label
        Label of the axis.
    drawn
        Computes the drawn value of an objective or bound; None if there is nothing to draw.
    written
        Writes an objective or bound with its unit.
    limit
        The words before a bound, such as "at least".
    tightest
        Finds the best of several bounds, given their drawn values.
    """

    label: str
    drawn: Callable[[float], float | None]
    written: Callable[[float], str]
    limit: str
    tightest: Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class _Run:
    """A solver's best solutions and bounds: when they changed, and their values."""

    name: str
    plans: list[tuple[float, float]]
    bounds: list[tuple[float, float]]
    end: float
    label: str


def progress_figure(
    problem: Problem[Any, Any] | Result[Any] | Mapping[str, Result[Any]],
    results: Mapping[str, Result[Any]] | Result[Any] | None = None,
    *,
    seconds: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the objective and the bound of several solvers over time.

    Solid lines are the best solutions; dashed lines of the same colour are the bounds that each solver proved. For
    batched mappings the axis shows inputs per second, where more is better; for all other problems, less is better. A
    weak bound may lie outside the picture if another solver proved a better one; the legend gives its value.

    Parameters
    ----------
    problem
        What was solved. It may be left out if the first result knows its problem.
    results
        What :func:`~opweave.solvers.solve.solve` returned for it, by the names of the lines; or one result.
    seconds
        End of the time axis; it is extended if a solver found something later. By default, the end of the last solver.
    title
        The headline; by default the model's name.

    Returns
    -------
    Figure
        A matplotlib figure; ``figure.savefig("progress.png")`` writes it.

    Raises
    ------
    InvalidInputError
        If there is nothing to draw (no result, or none with a solution or bound), or if a result is of another problem.

    Examples
    --------
    >>> import opweave as ow
    >>> tensors = [ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)]
    >>> copy = ow.Operator(id="copy", inputs=["x"], outputs=["y"])
    >>> problem = ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=[copy]))
    >>> figure = ow.progress_figure({"auto": ow.solve(problem)})
    >>> figure.axes[0].get_ylabel(), figure.legends[0].get_texts()[0].get_text()
    ('objective (B)', 'auto: 8 B, at least 8 B')
    """
    problem, results = _arguments(problem, results)
    _check(problem, results, seconds)
    scale = _scale_of(problem, results)
    runs = [_read(name, result, scale) for name, result in results.items()]
    if not any(run.plans or run.bounds for run in runs):
        names = ", ".join(repr(name) for name in results)
        raise InvalidInputError(f"no plan and no bound to draw in the results of {names:.200}; give them more time")
    figure, axes = new_figure(9.0, 5.2)
    changes = [time for run in runs for time, _ in (*run.plans, *run.bounds)]
    begin = 10 ** math.floor(math.log10(max(EARLIEST, min([FIRST, *changes]))))
    end = max(max(run.end for run in runs) if seconds is None else seconds, *changes, 10 * begin)
    for number, run in enumerate(runs):
        _draw(axes, run, look_of(number), begin, end)
    axes.set_xscale("log")
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_ylim(*_range(runs, scale))
    axes.set_xlabel("seconds", fontsize=11)
    axes.set_ylabel(scale.label, fontsize=11)
    headline = f"{problem.graph.name[:40]}: best plan and bound over time" if title is None else title
    axes.set_title(safe_text(headline), fontsize=13, fontweight="bold", loc="left", pad=10)
    _add_legend(figure, runs)
    return figure


def _arguments(
    problem: Problem[Any, Any] | Result[Any] | Mapping[str, Result[Any]],
    results: Mapping[str, Result[Any]] | Result[Any] | None,
) -> tuple[Problem[Any, Any], Mapping[str, Result[Any]]]:
    """The problem, and the results by name."""
    given = results if isinstance(problem, Problem) else problem
    named = {given.solver: given} if isinstance(given, Result) else given or {}
    if isinstance(problem, Problem):
        return problem, named
    if not named:
        raise InvalidInputError("there is no result to draw; pass at least one, as {'auto': result}")
    return problem_of(next(iter(named.values()))), named


def _check(problem: Problem[Any, Any], results: Mapping[str, Result[Any]], seconds: float | None) -> None:
    if not results:
        raise InvalidInputError("there is no result to draw; pass at least one, as {'auto': result}")
    for name, result in results.items():
        if result.problem != problem.kind:
            raise InvalidInputError(f"result {name!r:.60} is one of {result.problem!r:.60}, not of {problem.kind!r}")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InvalidInputError(f"seconds is {seconds!r:.60}; the time axis ends at a finite number above 0")


def _scale_of(problem: Problem[Any, Any], results: Mapping[str, Result[Any]]) -> _Scale:
    if isinstance(problem, BatchedMapping):
        batch = problem.batch
        return _Scale(
            label="inputs per second",
            drawn=lambda took: batch / took if took > 0 else None,
            written=lambda took: readable_rate(batch / took) if took > 0 else "-",
            limit="at most",
            tightest=min,
        )
    values = [value for result in results.values() for value in (result.objective, result.bound) if value is not None]
    factor, name = unit_of(max(values, default=0), problem.unit)
    return _Scale(
        label=f"objective ({name})",
        drawn=lambda value: max(value, 0) / factor,
        written=lambda value: readable(max(value, 0), problem.unit),
        limit="at least",
        tightest=max,
    )


def _read(name: str, result: Result[Any], scale: _Scale) -> _Run:
    """Read a result's solutions and bounds, and add its final ones if its incumbents lack them."""
    seen = sorted(result.incumbents, key=lambda one: one.seconds)
    end = max(result.timings.total, seen[-1].seconds if seen else 0.0)
    plans = [(one.seconds, one.objective) for one in seen] + [(end, result.objective)]
    bounds = [(one.seconds, one.bound) for one in seen] + [(end, result.bound)]
    label = f"{name}: {'no plan' if result.objective is None else scale.written(result.objective)}"
    if result.bound is not None and scale.drawn(result.bound) is not None:
        label += f", {scale.limit} {scale.written(result.bound)}"
    return _Run(name, list(_changes(plans, scale)), list(_changes(bounds, scale)), end, label)


def _changes(points: Sequence[tuple[float, float | None]], scale: _Scale) -> Iterator[tuple[float, float]]:
    last = None
    for time, value in points:
        drawn = None if value is None else scale.drawn(value)
        if drawn is not None and drawn != last:
            yield time, drawn
            last = drawn


def _draw(axes: Axes, run: _Run, look: Look, begin: float, end: float) -> None:
    """Draw step curves up to the end; a marker at the last solution tells apart lines that end at the same value."""
    for points, is_bound in ((run.bounds, True), (run.plans, False)):
        if points:
            axes.step(
                [*(max(time, begin) for time, _ in points), end],
                [*(value for _, value in points), points[-1][1]],
                where="post",
                color=look.colour,
                linestyle=look.dashes if is_bound else look.style,
                linewidth=0.6 * look.width if is_bound else look.width,
                zorder=look.order,
                marker="" if is_bound else look.marker,
                markersize=look.size,
                markevery=[len(points) - 1],
                label=f"_{run.name} {'bound' if is_bound else 'plan'}",
            )


def _range(runs: Sequence[_Run], scale: _Scale) -> tuple[float, float]:
    """Limits of the axis. All solutions and the best bound lie inside; so do bounds that at most double the range."""
    values = [value for run in runs for _, value in run.plans]
    bounds = [run.bounds[-1][1] for run in runs if run.bounds]
    if bounds:
        values.append(scale.tightest(bounds))
    low, high = min(values), max(values)
    near = [bound for bound in bounds if max(high, bound) - min(low, bound) <= 2 * (high - low)]
    low, high = min([low, *near]), max([high, *near])
    spread = high - low if high - low > ROUNDING * high else high
    room = MARGIN * spread or 1.0
    return (0.0 if low < NEAR_ZERO * high else max(0.0, low - room)), high + room


def _add_legend(figure: Figure, runs: Sequence[_Run]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for number, run in enumerate(runs):
        look = look_of(number)
        handles.append(
            Line2D([], [], color=look.colour, linestyle=look.style, marker=look.marker, label=safe_text(run.label))
        )
    if any(run.bounds for run in runs):
        style = look_of(0).dashes
        handles.append(Line2D([], [], color="#333333", linestyle=style, label="dashed: no plan is better"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False, fontsize=9.5)
