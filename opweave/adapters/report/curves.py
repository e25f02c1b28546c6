"""Curves of plans, and of the bounds that no plan can cross: over the time of a search, an axis, or another measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opweave.adapters.files import PathLike
from opweave.adapters.report.figures import DASHED, LINES, entitle, new_figure, safe_text, save_figure
from opweave.adapters.report.questions import Answered, counts_of, explain, readable_measure
from opweave.adapters.report.views import problem_of
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result
from opweave.problems.units import readable, unit_of
from opweave.solvers.questions.answers import Answer, readable_value
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep
from opweave.solvers.run import agree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS, STYLES = "osD^vP*X", ("-", "-.", ":")

MOST_TICKS = 10
"""About as many labels are below the curves of a sweep."""

FIRST, EARLIEST = 1e-2, 1e-4
"""Seconds at which the time axis begins: the usual value, and the earliest."""

Points = list[tuple[float, float]]


class Curve(NamedTuple):
    """Plans and their bounds.

    Attributes
    ----------
    label
        What the legend says.
    plans, bounds
        Places on the axis, and values.
    """

    label: str
    plans: Points
    bounds: Points

    @property
    def seen(self) -> Points:
        """The bounds; none if they are where the plans are, or unknown, so that no line of theirs can be seen."""
        plans = dict(self.plans)
        apart = [at for at, value in self.bounds if not (math.isnan(value) or agree(plans.get(at, math.nan), value))]
        return self.bounds if apart else []


def curves_figure(curves: Sequence[Curve], *, steps: bool) -> tuple[Figure, Axes]:
    """Draw plans as solid lines, and the bounds that no plan can cross as dashed ones of the same colour.

    Colours repeat after seven curves, with another line style. Thin lines in front of thick ones stay visible where
    curves coincide.
    """
    figure, axes = new_figure(9.0, 5.2)
    for number, curve in enumerate(curves):
        depth, turn = number % 3, number // len(LINES) % len(STYLES)
        line: dict[str, Any] = {"color": LINES[number % len(LINES)], "zorder": 2.0 + depth / 10}
        line["drawstyle"] = "steps-post" if steps else "default"
        axes.plot(*_columns(curve.seen), linestyle=(0.0, (5.0 + 4.0 * turn, 3.0)), linewidth=1.4, **line)
        line |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 8 - 2 * depth}
        label = safe_text(plain(curve.label))
        line |= {"linestyle": STYLES[turn], "linewidth": (3.2, 2.2, 1.2)[depth], "label": label}
        axes.plot(*_columns(curve.plans), markevery=[-1] if steps else None, **line)
    if any(curve.seen for curve in curves):
        axes.plot([], [], linestyle=DASHED, color="#333333", label="dashed: no plan is better")
    if curves:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
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
    """Draw objective and bound of several solvers over time.

    Solid lines are the best solutions; dashed lines of the same colour are the bounds that each solver proved.

    Parameters
    ----------
    problem
        The problem that was solved. It may be left out if the first result knows it.
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
    if not any(_history(each, field) for each in named.values() for field in ("objective", "bound")):
        names = ", ".join(map(repr, named))
        raise InvalidInputError(f"no plan and no bound to draw in the results of {names:.200}; give them more time")
    headline = f"{problem.graph.name[:40]}: best plan and bound over time" if title is None else title
    return _search_figure(named, problem.unit, (headline, problem.assumptions()), seconds)


def _search_figure(
    named: Mapping[str, Result[Any]], unit: str, titles: tuple[str, str], seconds: float | None = None
) -> Figure:
    """Draw how plans and bounds of several solvers improved."""
    final = [value for each in named.values() for value in (each.objective, each.bound) if value is not None]
    factor, name = unit_of(max(final, default=0), unit)
    found = {key: (_history(each, "objective", factor), _history(each, "bound", factor)) for key, each in named.items()}
    changes = [time for pair in found.values() for points in pair for time, _ in points]
    begin = 10 ** math.floor(math.log10(max(EARLIEST, min([FIRST, *changes]))))
    last = max(map(_end, named.values()), default=0.0) if seconds is None else seconds
    end = max([last, *changes, 10 * begin])
    curves = []
    for key, pair in found.items():
        plans, bounds = ([*((max(time, begin), value) for time, value in each), *_last(each, end)] for each in pair)
        curves.append(Curve(_label(key, named[key], unit), plans, bounds))
    figure, axes = curves_figure(curves, steps=True)
    axes.set_xscale("log")
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    return _dressed(figure, axes, titles, "seconds", f"objective ({name})")


def _end(result: Result[Any]) -> float:
    return max([result.timings.total, *(each.seconds for each in result.incumbents)])


def _last(points: Points, end: float) -> Points:
    return [(end, points[-1][1])] if points else []


def _label(solver: str, result: Result[Any], unit: str) -> str:
    text = f"{solver}: {'no plan' if result.objective is None else readable(max(result.objective, 0), unit)}"
    return text if result.bound is None else f"{text}, at least {readable(max(result.bound, 0), unit)}"


def _history(result: Result[Any], field: str, factor: float = 1.0) -> Points:
    """When the objective or the bound changed, and to what; the final one is added if the incumbents lack it."""
    seen = [(each.seconds, getattr(each, field)) for each in sorted(result.incumbents, key=lambda one: one.seconds)]
    points: Points = []
    for time, value in [*seen, (_end(result), getattr(result, field))]:
        if value is not None and (not points or points[-1][1] != max(value, 0) / factor):
            points.append((time, max(value, 0) / factor))
    return points


def plot(answered: Answered, path: PathLike | None = None) -> Figure:
    """Draw the answers; ``path`` also writes the picture to a file (.png)."""
    figure = figure_of(answered)
    if path is not None:
        save_figure(figure, path)
    return figure


def figure_of(answered: Answered) -> Figure:
    """Draw the answers: how the solvers of a comparison came to theirs, or curves along an axis or a measure."""
    if not isinstance(answered, Comparison):
        return _answers_figure(answered)
    named = {row.solver: row.result for row in answered.rows if row.result is not None}
    return _search_figure(named, answered.unit, ("Solvers side by side", explain(answered)))


def _answers_figure(found: Sweep | Front) -> Figure:
    """Draw the best plans along one axis, a curve for every combination of the others.

    Of a sweep, the axis is the numeric one with the most values; of a front, the first measure that was limited. Values
    stand by rank, so that sizes from MiB to GiB stay apart, and no limit at the end.
    """
    names = list(found.axes) if isinstance(found, Sweep) else list(found.measures[1:])
    values = {name: list(dict.fromkeys(row.values[name] for row in found.rows)) for name in names}
    numeric = {name: all(map(_numeric, values[name])) for name in names}
    main = max(names, key=lambda name: (numeric[name], len(values[name]))) if isinstance(found, Sweep) else names[0]
    others = [name for name in names if name != main]
    ranked = sorted(values[main], key=lambda each: (each is None, _number(each))) if numeric[main] else values[main]
    places = {value: float(place) for place, value in enumerate(ranked)}
    goal, unit = ("objective", found.unit) if isinstance(found, Sweep) else (found.measures[0], found.units[0])
    amounts = [value for row in found.rows for value in (row.objective, row.bound) if value is not None]
    factor, name = unit_of(max(amounts, default=0), unit)
    curves: dict[tuple[OptionValue, ...], list[tuple[float, Answer]]] = {}
    for row in found.rows:
        curves.setdefault(tuple(row.values[name] for name in others), []).append((places[row.values[main]], row))
    drawn = []
    for key, rows in curves.items():
        label = ", ".join(f"{axis} {_written(found, axis, each)}" for axis, each in zip(others, key, strict=True))
        drawn.append(_curve(label or "best plan", sorted(rows, key=lambda pair: pair[0]), factor))
    figure, axes = curves_figure(drawn, steps=False)
    axes.margins(x=0.06, y=0.12)
    axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))  # nothing that is measured is negative
    ticks = ranked[:: max(1, len(ranked) // MOST_TICKS)]
    words = [safe_text(plain(_written(found, main, value))) for value in ticks]
    axes.set_xticks([places[value] for value in ticks], words)
    told = counts_of(found) if isinstance(found, Sweep) else explain(found)
    titles = f"{found.problem.replace('_', ' ')}: {goal} by {main.replace('_', ' ')}", told
    return _dressed(figure, axes, titles, main.replace("_", " "), f"{goal} ({name})")


def _written(found: Sweep | Front, name: str, value: OptionValue) -> str:
    if isinstance(found, Sweep):
        return readable_value(name, value)
    return readable_measure(value, found.units[found.measures.index(name)])


def _curve(label: str, rows: Sequence[tuple[float, Answer]], factor: float) -> Curve:
    """The curve of some answers, from left to right; a line breaks where there is no plan."""
    nan = float("nan")
    plans = [(at, nan if row.objective is None else row.objective / factor) for at, row in rows]
    bounds = [(at, nan if row.bound is None else row.bound / factor) for at, row in rows]
    return Curve(label, plans, bounds)


def _dressed(figure: Figure, axes: Axes, titles: tuple[str, str], across: str, up: str) -> Figure:
    axes.set_xlabel(safe_text(plain(across)), fontsize=11)
    axes.set_ylabel(safe_text(plain(up)), fontsize=11)
    entitle(axes, *titles)
    return figure


def _numeric(value: OptionValue) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: OptionValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
