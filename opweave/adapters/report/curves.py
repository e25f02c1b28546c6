"""Curves of plans, and of the bounds that no plan can cross: over the time of a search, an axis, or another measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike
from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    DASHES,
    MUTED,
    SENT,
    entitle,
    look_of,
    new_figure,
    safe_text,
    save_figure,
    shortened,
)
from opweave.adapters.report.questions import Answered, counts_of, explain, readable_measure, signed
from opweave.adapters.report.views import problem_of
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status
from opweave.problems.units import readable, unit_of
from opweave.solvers.questions.answers import Answer, readable_value
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep
from opweave.solvers.run import agree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES = 12
"""Most curves of a sweep; further ones would hide each other."""

FIRST, EARLIEST = 1e-2, 1e-4
"""Seconds at which the time axis begins: the usual value, and the earliest."""

NEAR_ZERO = 0.25
"""The axis begins at zero if the smallest value is less than this share of the largest."""

ROUNDING = 1e-9
"""Relative range of values that comes from rounding only; the axis does not magnify it."""

MARGIN = 0.06
"""Space below and above the values, as a share of their range."""

Points = list[tuple[float, float]]


class Curve(NamedTuple):
    """Plans and their bounds.

    Attributes
    ----------
    label
        What the legend says.
    plans, bounds
        Places on the axis, and values.
    refuted
        Places for which it is proved that there is no plan.
    marked
        The plans that get a marker, by position; None for all.
    """

    label: str
    plans: Points
    bounds: Points
    refuted: Sequence[float] = ()
    marked: Sequence[int] | None = None

    @property
    def seen(self) -> Points:
        """The bounds; none if they are where the plans are, or unknown, so that no line of theirs can be seen."""
        plans = dict(self.plans)
        apart = [at for at, value in self.bounds if not (math.isnan(value) or agree(plans.get(at, math.nan), value))]
        return self.bounds if apart else []


def curves_figure(curves: Sequence[Curve], *, steps: bool, note: str = "") -> tuple[Figure, Axes]:
    """Draw plans as solid lines, and the bounds that no plan can cross as dashed ones of the same colour."""
    from matplotlib.lines import Line2D

    figure, axes = new_figure(9.0, 5.2)
    handles = []
    for number, curve in enumerate(curves):
        look = look_of(number) if len(curves) > 1 else look_of(number)._replace(width=2.0, size=7.0)
        colour, style = look.colour, "steps-post" if steps else "default"
        line: dict[str, Any] = {"color": colour, "zorder": look.order, "drawstyle": style}
        axes.plot(*_columns(curve.seen), linestyle=look.dashes, linewidth=0.6 * look.width, **line)
        line |= {"marker": look.marker, "markersize": look.size, "linestyle": look.style, "linewidth": look.width}
        label = safe_text(plain(curve.label))
        handles += axes.plot(*_columns(curve.plans), markevery=curve.marked, label=label, **line)
        for place in curve.refuted:
            foot = axes.get_xaxis_transform()
            axes.plot(place, 0.03, marker="x", color=colour, markersize=1.2 * look.size, transform=foot)
    grey: dict[str, Any] = {"color": "#333333"}
    if any(curve.seen for curve in curves):
        handles.append(Line2D([], [], linestyle=look_of(0).dashes, label="dashed: no plan is better", **grey))
    if any(curve.refuted for curve in curves):
        handles.append(Line2D([], [], linestyle="", marker="x", label="proved: no plan", **grey))
    if note:
        handles.append(Line2D([], [], linestyle="", label=note))
    columns = max(1, min(3, len(handles)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5)
    return figure, axes


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [place for place, _ in points], [value for _, value in points]


def progress_figure(
    problem: Problem[Any, Any] | Result[Any] | Mapping[str, Result[Any]],
    results: Mapping[str, Result[Any]] | Result[Any] | None = None,
    *,
    seconds: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the objective and the bound of several solvers over time.

    Solid lines are the best solutions; dashed lines of the same colour are the bounds that each solver proved. A weak
    bound may lie outside the picture if another solver proved a better one; the legend gives its value.

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
    given = results if isinstance(problem, Problem) else problem
    named = {given.solver: given} if isinstance(given, Result) else given or {}
    if not named:
        raise InvalidInputError("there is no result to draw; pass at least one, as {'auto': result}")
    if not isinstance(problem, Problem):
        problem = problem_of(next(iter(named.values())))
    for name, result in named.items():
        if result.problem != problem.kind:
            raise InvalidInputError(f"result {name!r:.60} is one of {result.problem!r:.60}, not of {problem.kind!r}")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InvalidInputError(f"seconds is {seconds!r:.60}; the time axis ends at a finite number above 0")
    final = [value for each in named.values() for value in (each.objective, each.bound) if value is not None]
    factor, unit = unit_of(max(final, default=0), problem.unit)
    found = {
        name: (_history(each, "objective", factor), _history(each, "bound", factor)) for name, each in named.items()
    }
    changes = [time for pair in found.values() for points in pair for time, _ in points]
    if not changes:
        names = ", ".join(map(repr, named))
        raise InvalidInputError(f"no plan and no bound to draw in the results of {names:.200}; give them more time")
    begin = 10 ** math.floor(math.log10(max(EARLIEST, min([FIRST, *changes]))))
    last = max(map(_end, named.values())) if seconds is None else seconds
    end = max([last, *changes, 10 * begin])
    curves = []
    for name, pair in found.items():
        plans, bounds = ([*((max(time, begin), value) for time, value in each), *_last(each, end)] for each in pair)
        label = _label(name, named[name], problem.unit)
        curves.append(Curve(label, plans, bounds, marked=[max(0, len(pair[0]) - 1)]))
    figure, axes = curves_figure(curves, steps=True)
    axes.set_xscale("log")
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    best = [value for plans, _ in found.values() for _, value in plans]
    axes.set_ylim(*_range(best, [bounds[-1][1] for _, bounds in found.values() if bounds]))
    headline = f"{problem.graph.name[:40]}: best plan and bound over time" if title is None else title
    return _dressed(figure, axes, headline, problem.assumptions(), "seconds", f"objective ({unit})")


def _end(result: Result[Any]) -> float:
    return max([result.timings.total, *(each.seconds for each in result.incumbents)])


def _last(points: Points, end: float) -> Points:
    return [(end, points[-1][1])] if points else []


def _label(solver: str, result: Result[Any], unit: str) -> str:
    text = f"{solver}: {'no plan' if result.objective is None else readable(max(result.objective, 0), unit)}"
    return text if result.bound is None else f"{text}, at least {readable(max(result.bound, 0), unit)}"


def _history(result: Result[Any], field: str, factor: float) -> Points:
    """When the objective or the bound changed, and to what; the final one is added if the incumbents lack it."""
    seen = [(each.seconds, getattr(each, field)) for each in sorted(result.incumbents, key=lambda one: one.seconds)]
    points: Points = []
    for time, value in [*seen, (_end(result), getattr(result, field))]:
        if value is not None and (not points or points[-1][1] != max(value, 0) / factor):
            points.append((time, max(value, 0) / factor))
    return points


def _range(plans: Sequence[float], bounds: Sequence[float]) -> tuple[float, float]:
    """Limits of the axis. All solutions and the best bound lie inside; so do bounds that at most double the range."""
    inside = [*plans, *sorted(bounds)[-1:]]
    low, high = min(inside), max(inside)
    near = [bound for bound in bounds if max(high, bound) - min(low, bound) <= 2 * (high - low)]
    low, high = min([low, *near]), max([high, *near])
    room = MARGIN * (high - low if high - low > ROUNDING * high else high) or 1.0
    return (0.0 if low < NEAR_ZERO * high else max(0.0, low - room)), high + room


def plot(answered: Answered, path: PathLike | None = None) -> Figure:
    """Draw the answers; ``path`` also writes the picture to a file (.png)."""
    figure = figure_of(answered)
    if path is not None:
        save_figure(figure, path)
    return figure


def figure_of(answered: Answered) -> Figure:
    """Draw the answers: the bars of a comparison, the curves of a sweep, or the steps of a front."""
    if isinstance(answered, Comparison):
        return _comparison_figure(answered)
    return _sweep_figure(answered) if isinstance(answered, Sweep) else _front_figure(answered)


def _comparison_figure(found: Comparison) -> Figure:
    """Draw a bar for every solver, and the best bound."""
    figure, axes = new_figure(9.0, 1.9 + 0.42 * len(found.rows))
    longest = max((row.objective or 0 for row in found.rows), default=0)
    factor, unit = unit_of(longest, found.unit)
    best = None if found.best is None else found.best.objective
    for place, row in enumerate(found.rows):
        text = plain(row.reason or "no plan")
        if row.objective is not None:
            share = found.relative(row.solver)
            text = readable(row.objective, found.unit) + ("" if share is None else f" ({signed(share - 1)})")
            leads = best is not None and agree(row.objective, best)
            axes.barh(place, row.objective / factor, height=0.62, color=BEST if leads else SENT)
        style: dict[str, Any] = {"color": MUTED} if row.objective is None else {}
        axes.text((row.objective or 0) / factor, place, f"  {shortened(text, 90)}", va="center", fontsize=9, **style)
    bounds = [row.bound for row in found.rows if row.bound is not None]
    if bounds:
        label = f"no plan needs less than {readable(max(bounds), found.unit)}"
        axes.axvline(max(bounds) / factor, color=BOUND, linestyle=(0, DASHES[0]), linewidth=1.4, label=label)
        figure.legend(loc="outside lower center", frameon=False, fontsize=9.5)
    axes.set_yticks(range(len(found.rows)), [safe_text(plain(row.solver)) for row in found.rows])
    axes.set_ylim(len(found.rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.25 * longest / factor or 1.0)
    axes.grid(visible=False)
    axes.set_xlabel(
        f"objective ({unit}); shares: against {found.baseline}" if found.baseline else f"objective ({unit})"
    )
    entitle(axes, "Solvers side by side", explain(found))
    return figure


def _sweep_figure(found: Sweep) -> Figure:
    """Draw a curve along one axis, the numeric one with the most values, for each value of the other axes."""
    numeric = {axis: all(_numeric(value) for value in values) for axis, values in found.axes.items()}
    main = max(found.axes, key=lambda axis: (numeric[axis], len(found.axes[axis])))
    others = [axis for axis in found.axes if axis != main]
    # numbers stand by rank, so that sizes from MiB to GiB stay apart, and no limit at the end
    ranked = (
        sorted(found.axes[main], key=lambda each: (each is None, _number(each))) if numeric[main] else found.axes[main]
    )
    places = {value: float(place) for place, value in enumerate(ranked)}
    values = [value for row in found.rows for value in (row.objective, row.bound) if value is not None]
    factor, name = unit_of(max(values, default=0), found.unit)
    curves = []
    combinations = list(product(*(found.axes[axis] for axis in others)))
    for combination in combinations[:MOST_CURVES]:
        chosen = dict(zip(others, combination, strict=True))
        rows = [(places[row.values[main]], row) for row in found.rows if chosen.items() <= dict(row.values).items()]
        label = ", ".join(f"{axis} {readable_value(axis, value)}" for axis, value in chosen.items())
        curves.append(_answered(label or "best plan", sorted(rows, key=lambda pair: pair[0]), factor))
    left_out = len(combinations) - MOST_CURVES
    note = f"{left_out} curves left out" if left_out > 0 else ""
    figure, axes = _roomy(*curves_figure(curves, steps=False, note=note))
    ticks = ranked[:: max(1, len(ranked) // 10)]
    words = [safe_text(plain(readable_value(main, value))) for value in ticks]
    axes.set_xticks([places[value] for value in ticks], words)
    headline = f"{found.problem.replace('_', ' ')} by {main.replace('_', ' ')}"
    return _dressed(figure, axes, headline, counts_of(found), main.replace("_", " "), f"objective ({name})")


def _front_figure(found: Front) -> Figure:
    """Draw the minimised measure over the first other one, as steps, for each value of a third one."""
    goal, across, *more = found.measures
    units = dict(zip(found.measures, found.units, strict=True))
    factor, name = unit_of(max((_number(row.values[goal]) for row in found.rows), default=0.0), units[goal])
    wide, width = unit_of(max((_number(row.values[across]) for row in found.rows), default=0.0), units[across])
    below = [
        _number(row.values[across])
        for row in found.steps
        if row.status is Status.INFEASIBLE and len(row.values) == 1 and row.values[across] is not None
    ]
    curves: list[Curve] = []
    for group in sorted({row.values[more[0]] for row in found.rows}, key=_number) if more else [None]:
        rows = [row for row in found.rows if not more or row.values[more[0]] == group]
        placed = sorted(((_number(row.values[across]) / wide, row) for row in rows), key=lambda pair: pair[0])
        label = f"{more[0]}: {readable_measure(group, units[more[0]])}" if more else "compromises"
        plans = [(at, _number(row.values[goal]) / factor) for at, row in placed]
        refuted = [max(below) / wide] if below and not curves else []
        curves.append(_answered(label, placed, factor)._replace(plans=plans, refuted=refuted))
    figure, axes = _roomy(*curves_figure(curves, steps=True))
    headline = f"{goal} against {across}"
    return _dressed(figure, axes, headline, explain(found), f"{across} ({width})", f"{goal} ({name})")


def _answered(label: str, rows: Sequence[tuple[float, Answer]], factor: float) -> Curve:
    """The curve of some answers, from left to right; a line breaks where there is no plan."""
    nan = float("nan")
    plans = [(at, nan if row.objective is None else row.objective / factor) for at, row in rows]
    bounds = [(at, nan if row.bound is None else row.bound / factor) for at, row in rows]
    return Curve(label, plans, bounds, [at for at, row in rows if row.status is Status.INFEASIBLE])


def _roomy(figure: Figure, axes: Axes) -> tuple[Figure, Axes]:
    axes.margins(x=0.06, y=0.12)
    axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))  # nothing that is measured is negative
    return figure, axes


def _dressed(figure: Figure, axes: Axes, headline: str, subtitle: str, across: str, up: str) -> Figure:
    axes.set_xlabel(safe_text(plain(across)), fontsize=11)
    axes.set_ylabel(safe_text(plain(up)), fontsize=11)
    entitle(axes, headline, subtitle)
    return figure


def _numeric(value: OptionValue) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: OptionValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
