"""Pictures of comparisons, sweeps and fronts: plans and the bounds that no plan can cross."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike
from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    GIVEN,
    MUTED,
    SENT,
    Look,
    entitle,
    look_of,
    new_figure,
    safe_text,
    save_figure,
)
from opweave.adapters.report.questions import Answered, counts_of, explain, readable_measure
from opweave.problems.result import OptionValue, Status
from opweave.problems.units import readable, unit_of
from opweave.solvers.questions.answers import Answer, readable_value
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES = 12
"""Most curves of a sweep; further ones would hide each other."""


def _clean(text: str) -> str:
    return safe_text(plain(text))


def plot(answered: Answered, path: PathLike | None = None) -> Figure:
    """Draw the answers; ``path`` also writes the picture to a file (.png)."""
    figure = figure_of(answered)
    if path is not None:
        save_figure(figure, path)
    return figure


def figure_of(answered: Answered) -> Figure:
    """Draw the answers."""
    if isinstance(answered, Comparison):
        return comparison_figure(answered)
    return sweep_figure(answered) if isinstance(answered, Sweep) else front_figure(answered)


def comparison_figure(found: Comparison) -> Figure:
    """Draw a bar for every solver, and the best bound."""
    figure, axes = new_figure(9.0, 1.7 + 0.42 * len(found.rows))
    factor, name = unit_of(max((row.objective or 0 for row in found.rows), default=0), found.unit)
    best = found.best
    for place, row in enumerate(found.rows):
        if row.objective is None:
            axes.text(0, place, f" {_why(row)}", va="center", fontsize=9, color=MUTED)
            continue
        leads = best is not None and row.objective == best.objective
        axes.barh(place, row.objective / factor, height=0.62, color=BEST if leads else SENT)
        axes.text(row.objective / factor, place, f" {readable(row.objective, found.unit)}", va="center", fontsize=9)
    bounds = [row.bound for row in found.rows if row.bound is not None]
    if bounds:
        axes.axvline(max(bounds) / factor, color=BOUND, linestyle="--", linewidth=1.2)
        longest = max((row.objective or 0 for row in found.rows), default=0)
        side: Literal["left", "right"] = "left" if max(bounds) < longest / 2 else "right"
        axes.text(max(bounds) / factor, -0.75, " no plan is better ", ha=side, va="center", fontsize=9)
    axes.set_yticks(range(len(found.rows)), [_clean(row.solver) for row in found.rows])
    axes.set_ylim(len(found.rows) - 0.4, -1.1)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.grid(visible=False)
    axes.set_xlabel(f"objective ({name})")
    entitle(axes, "Solvers side by side", explain(found))
    return figure


def _why(row: Answer) -> str:
    text = row.reason or (row.status.value if row.status else "no plan")
    return _clean(text if len(text) <= 90 else text[:88] + "..")


def sweep_figure(found: Sweep) -> Figure:
    """Draw a curve of plans and a dashed one of bounds along one axis, for each value of the other axes."""
    figure, axes = new_figure(9.0, 5.2)
    main = _main_axis(found)
    others = [axis for axis in found.axes if axis != main]
    values = [value for row in found.rows for value in (row.objective, row.bound) if value is not None]
    factor, name = unit_of(max(values, default=0), found.unit)
    places = _places(found.axes[main])
    curves = list(product(*(found.axes[axis] for axis in others)))
    for number, curve in enumerate(curves[:MOST_CURVES]):
        rows = [row for row in found.rows if all(row.values[a] == v for a, v in zip(others, curve, strict=True))]
        rows.sort(key=lambda row: places[row.values[main]])
        label = ", ".join(f"{axis} {readable_value(axis, value)}" for axis, value in zip(others, curve, strict=True))
        at = [places[row.values[main]] for row in rows]
        _curve(axes, rows, at, _look(number, len(curves)), label or "best plan", factor)
    _ticks(axes, main, found.axes[main], places)
    axes.set_xlabel(_clean(main.replace("_", " ")))
    axes.set_ylabel(f"objective ({name})")
    axes.margins(x=0.05, y=0.1)
    left_out = len(curves) - MOST_CURVES
    entitle(axes, f"{found.problem.replace('_', ' ')} by {main.replace('_', ' ')}", counts_of(found))
    _from_zero(axes)
    _legend(figure, axes, found.rows, f"{left_out} curves left out" if left_out > 0 else "")
    return figure


def _from_zero(axes: Axes) -> None:
    """Nothing that is measured is negative."""
    axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))


def _look(number: int, curves: int) -> Look:
    """A single curve is thinner than the first of several, because nothing lies on it."""
    look = look_of(number)
    return look._replace(width=2.0, size=7.0) if curves == 1 else look


def _main_axis(found: Sweep) -> str:
    """The axis along which curves run: the numeric one with the most values."""
    numeric = {axis: all(_is_number(value) or value is None for value in values) for axis, values in found.axes.items()}
    return max(found.axes, key=lambda axis: (numeric[axis], len(found.axes[axis])))


def _is_number(value: OptionValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _places(values: Sequence[OptionValue]) -> dict[OptionValue, float]:
    """Where each value stands: numbers by rank, so that sizes from MiB to GiB stay apart, and no limit at the end."""
    if all(_is_number(value) or value is None for value in values):
        ranked = sorted(values, key=lambda value: (value is None, value if isinstance(value, int | float) else 0))
    else:
        ranked = list(values)
    return {value: float(place) for place, value in enumerate(ranked)}


def _ticks(axes: Axes, main: str, values: Sequence[OptionValue], places: dict[OptionValue, float]) -> None:
    shown = sorted(values, key=lambda value: places[value])
    step = max(1, len(shown) // 10)
    ticks = [value for number, value in enumerate(shown) if number % step == 0]
    axes.set_xticks([places[value] for value in ticks], [_clean(readable_value(main, value)) for value in ticks])


def _bound_style(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linestyle": "--", "linewidth": 0.6 * look.width, "zorder": look.order}


def _plan_style(look: Look, label: str) -> dict[str, Any]:
    line = {"color": look.colour, "linestyle": look.style, "linewidth": look.width, "zorder": look.order}
    return {**line, "marker": look.marker, "markersize": look.size, "label": _clean(label)}


def _curve(axes: Axes, rows: Sequence[Answer], at: Sequence[float], look: Look, label: str, factor: float) -> None:
    """Draw plans, bounds below them, and a cross where it is proved that there is no plan."""
    nan = float("nan")
    plans = [nan if row.objective is None else row.objective / factor for row in rows]
    bounds = [nan if row.bound is None else row.bound / factor for row in rows]
    axes.plot(at, bounds, dashes=look.dashes[1], **_bound_style(look))
    axes.plot(at, plans, **_plan_style(look, label))
    for place, row in zip(at, rows, strict=True):
        if row.status is Status.INFEASIBLE:
            foot = axes.get_xaxis_transform()
            axes.plot(place, 0.03, marker="x", color=look.colour, markersize=1.2 * look.size, transform=foot)


def _legend(figure: Figure, axes: Axes, rows: Sequence[Answer], note: str = "") -> None:
    from matplotlib.lines import Line2D

    handles = list(axes.get_legend_handles_labels()[0])
    if any(row.status is Status.FEASIBLE and row.bound is not None for row in rows):
        handles.append(Line2D([], [], color="#333333", linestyle="--", label="dashed: no plan is better"))
    if any(row.status is Status.INFEASIBLE for row in rows):
        handles.append(Line2D([], [], color="#333333", linestyle="", marker="x", label="proved: no plan"))
    if note:
        handles.append(Line2D([], [], linestyle="", label=note))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False, fontsize=9.5)


def front_figure(found: Front) -> Figure:
    """Draw the minimised measure over the first other one, as steps: what is proved lies between dashes and plans."""
    figure, axes = new_figure(9.0, 5.2)
    goal, across, *more = found.measures
    units = dict(zip(found.measures, found.units, strict=True))
    numbers = {name: [_number(row.values[name]) for row in found.rows] for name in found.measures}
    scale = {name: _scale(numbers[name], units[name]) for name in found.measures}
    groups = sorted({row.values[more[0]] for row in found.rows if more}, key=_number) if more else [None]
    for number, group in enumerate(groups):
        rows = [row for row in found.rows if not more or row.values[more[0]] == group]
        label = "compromises" if not more else f"{more[0]}: {readable_measure(group, units[more[0]])}"
        _stairs(axes, rows, goal, across, scale, _look(number, len(groups)), label)
    _impossible(axes, found, across, scale[across][0], numbers[across])
    axes.set_xlabel(_clean(f"{across} ({scale[across][1]})"))
    axes.set_ylabel(_clean(f"{goal} ({scale[goal][1]})"))
    axes.margins(x=0.06, y=0.12)
    entitle(axes, f"{goal} against {across}", explain(found))
    _from_zero(axes)
    _legend(figure, axes, found.rows)
    return figure


def _number(value: OptionValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _scale(values: Sequence[float], unit: str) -> tuple[float, str]:
    return unit_of(max(values, default=0.0), unit)


def _stairs(
    axes: Axes,
    rows: Sequence[Answer],
    goal: str,
    across: str,
    scale: dict[str, tuple[float, str]],
    look: Look,
    label: str,
) -> None:
    """Draw the plans of a front and their bounds; from one plan to the next, no better plan is known."""
    ordered = sorted(rows, key=lambda row: _number(row.values[across]))
    at = [_number(row.values[across]) / scale[across][0] for row in ordered]
    plans = [_number(row.values[goal]) / scale[goal][0] for row in ordered]
    bounds = [float("nan") if row.bound is None else row.bound / scale[goal][0] for row in ordered]
    axes.step(at, bounds, where="post", **_bound_style(look))
    axes.step(at, plans, where="post", **_plan_style(look, label))


def _impossible(axes: Axes, found: Front, across: str, factor: float, known: Sequence[float]) -> None:
    """Shade the limits below which it is proved that there is no plan."""
    below = [
        _number(row.values[across])
        for row in found.steps
        if row.status is Status.INFEASIBLE and len(row.values) == 1 and row.values[across] is not None
    ]
    if not below or not known:
        return
    edge = (max(below) + 1) / factor
    left = min(known) / factor - 0.06 * ((max(known) - min(known)) / factor or edge)
    axes.axvspan(min(left, edge), edge, color=GIVEN, alpha=0.12, linewidth=0, label="proved: no plan")
