"""The memory profile as a picture: the given order against the best one, and the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.report.figures import BEST, BOUND, GIVEN, MUTED, new_figure, safe_text
from opweave.adapters.report.units import readable_bytes, readable_share
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering
from opweave.problems.result import Result, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADROOM = 1.3
"""Height of the picture over the highest peak; the labels stand in between."""

DRAWN_STEPS = 4000
"""A picture cannot show more; neighbouring steps are drawn as one."""

_UNITS = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))


def memory_figure(
    problem: MemoryOrdering, result: Result[Ordering], given: MemoryProfile, best: MemoryProfile
) -> Figure:
    """Draw the live bytes over the steps of the given order and of the result's.

    Parameters
    ----------
    problem
        What was solved.
    result
        The answer; its bound becomes a line.
    given, best
        Profiles of the given order and of the result's.
    """
    unit, scale = _unit(max(given.peak_bytes, best.peak_bytes))
    figure, axes = new_figure()
    if given == best:
        _draw(
            axes, best, scale, BEST, f"given order, and best found: peak {readable_bytes(best.peak_bytes)}", fade=0.25
        )
    else:
        _draw(axes, given, scale, GIVEN, f"given order: peak {readable_bytes(given.peak_bytes)}", fade=0.10)
        word = "best order" if result.status is Status.OPTIMAL else "best order found"
        _draw(axes, best, scale, BEST, f"{word}: peak {readable_bytes(best.peak_bytes)}", fade=0.25)
    if problem.objective == "peak" and result.bound is not None:
        label = f"lower bound: no order needs less than {readable_bytes(result.bound)}"
        axes.axhline(result.bound / scale, color=BOUND, linewidth=1.4, linestyle=(0, (5, 3)), label=label, zorder=4)
    axes.set_ylim(0, HEADROOM * max(given.peak_bytes, best.peak_bytes, 1) / scale)
    axes.set_xlim(0, max(len(best.stable), 1))
    _mark_peaks(axes, problem, given, best, scale)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("step (one operator each)", fontsize=11)
    axes.set_ylabel(f"live memory ({unit})", fontsize=11)
    axes.set_title(_headline(problem, result, given, best), fontsize=14, fontweight="bold", loc="left", pad=24)
    axes.text(0, 1.025, _subtitle(problem), transform=axes.transAxes, fontsize=9.5, color=MUTED)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return figure


def _draw(axes: Axes, profile: MemoryProfile, scale: int, colour: str, label: str, *, fade: float) -> None:
    values = np.asarray(profile.stable, dtype=np.float64) / scale
    edges = np.arange(len(values) + 1)
    if len(values) > DRAWN_STEPS:  # the highest of each group, so that no peak is lost
        edges = np.linspace(0, len(values), DRAWN_STEPS + 1).astype(np.int64)
        values = np.maximum.reduceat(values, edges[:-1])
    width = 1.6 if len(values) <= 400 else 1.0
    axes.stairs(values, edges, color=colour, linewidth=width, label=label, zorder=3)
    axes.stairs(values, edges, color=colour, alpha=fade, fill=True, linewidth=0, zorder=2)


def _mark_peaks(axes: Axes, problem: MemoryOrdering, given: MemoryProfile, best: MemoryProfile, scale: int) -> None:
    """Label both peaks, or the one that they share, in rows of their own above the curves."""
    kinds = {op.id: op.kind for op in problem.graph.operators}
    marks = [(given, GIVEN, "given", 0.955), (best, BEST, "best", 0.885)]
    if (given.peak_bytes, given.peak_step, given.peak_operator) == (
        best.peak_bytes,
        best.peak_step,
        best.peak_operator,
    ):
        marks = [(best, BEST, "peak", 0.92)]
    steps = [profile.peak_step + 0.5 for profile, *_ in marks if profile.peak_step is not None]
    if len(steps) < len(marks):  # a peak before the first step: the inputs alone
        return
    right = max(steps) < 0.6 * len(best.stable)
    edge = max(steps) + 0.02 * len(best.stable) if right else min(steps) - 0.02 * len(best.stable)
    for (profile, colour, word, row), x in zip(marks, steps, strict=True):
        name = profile.peak_operator or ""
        y = profile.peak_bytes / scale
        axes.plot([x], [y], marker="o", markersize=6, color=colour, markeredgecolor="white", zorder=6)
        axes.annotate(
            f"{word}: {readable_bytes(profile.peak_bytes)} at {_short(name)} ({_short(kinds.get(name, ''))})",
            (x, y),
            xytext=(edge, row),
            textcoords=axes.get_xaxis_transform(),
            ha="left" if right else "right",
            va="center",
            fontsize=9.5,
            color=colour,
            fontweight="bold",
            zorder=7,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.9,
                "relpos": (0 if right else 1, 0.5),
                "shrinkA": 0,
                "shrinkB": 3,
            },
        )


def _headline(problem: MemoryOrdering, result: Result[Ordering], given: MemoryProfile, best: MemoryProfile) -> str:
    before, after, what = given.peak_bytes, best.peak_bytes, "peak memory"
    if problem.objective == "total":
        before, after, what = given.total_bytes, best.total_bytes, "memory summed over steps"
    if before <= after:
        proved = result.status is Status.OPTIMAL
        word = "already the best" if proved else "as good as the best found"
        return f"{_short(problem.graph.name)}: the given order is {word}"
    return f"{_short(problem.graph.name)}: {what} {readable_share(1 - after / before)} below the given order"


def _subtitle(problem: MemoryOrdering) -> str:
    return f"{len(problem.graph.operators):,} operators; counted: {problem.assumptions()}"


def _unit(size: int) -> tuple[str, int]:
    return next(((unit, scale) for unit, scale in reversed(_UNITS) if size >= scale), _UNITS[0])


def _short(name: str) -> str:
    return safe_text(name if len(name) <= 40 else f"{name[:18]}...{name[-18:]}")
