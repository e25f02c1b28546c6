"""Batched schedules as pictures: batches on devices, throughput against the batch, plans and bounds over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.adapters.batched_mapping.plan import BatchedUse
from opweave.adapters.figures import BEST, BOUND, CRITICAL, GIVEN, MUTED, SENT, new_figure, new_panels, safe_text
from opweave.adapters.units import TIME_UNITS, precise_seconds
from opweave.problems.batched_mapping import Batch, BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.result import Incumbent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_DEVICES = 24
NAMED_BATCHES = 160
"""Up to this many batches get their names where these fit."""

SHADES = ("#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C")
"""From the smallest batch to the largest."""

LINES = (BEST, GIVEN, "#009E73", "#CC79A7", SENT, "#E69F00", MUTED)
WIDTH = 12.0


def batched_figure(
    problem: BatchedMapping,
    schedule: BatchedSchedule,
    details: BatchedDetails,
    *,
    uses: Sequence[BatchedUse],
    bound: float | None,
    headline: str,
) -> Figure:
    """Draw a Gantt chart with a row for each device; the darker a batch, the larger; and how busy they are beside it.

    Parameters
    ----------
    problem, schedule, details
        What was solved, the plan, and what the referee measured of it.
    uses
        A row for each device.
    bound
        Proved lower bound of the makespan; None when there is none.
    headline
        The title.
    """
    kept = {use.name for use in sorted(uses, key=lambda use: -use.busy_seconds)[:DRAWN_DEVICES]}
    shown = [use for use in uses if use.name in kept]
    figure, (axes, shares) = new_panels(WIDTH, 2.0 + 0.55 * len(shown), (6.0, 1.0))
    scale, unit = next((pair for pair in TIME_UNITS if details.makespan >= pair[0]), TIME_UNITS[-1])
    span = max(details.makespan, bound or 0.0) / scale or 1.0
    critical = {(step.operator, step.source) for step in details.critical_path}
    sizes = sorted({len(batch.inputs) for batch in schedule.batches})
    named = len(schedule.batches) <= NAMED_BATCHES
    for row, use in enumerate(shown):
        axes.axhspan(row - 0.42, row + 0.42, color="#F4F4F4", linewidth=0, zorder=0)
        for batch in schedule.batches:
            if batch.device == use.name:
                marked = (batch.operator, batch.device) in critical
                _draw(axes, row, batch, scale=scale, span=span, shade=_shade(len(batch.inputs), sizes), marked=marked)
                if named:
                    _label(axes, row, batch, scale=scale, span=span, dark=_is_dark(len(batch.inputs), sizes))
        _share(shares, row, use.busy_share)
    _mark(axes, details.makespan / scale, None if bound is None else bound / scale)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [safe_text(use.name[:22]) for use in shown])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)
    axes.set_xlim(0, span * 1.012)
    axes.set_xlabel(f"time ({unit})", fontsize=11)
    _dress_shares(shares, len(shown))
    axes.set_title(safe_text(headline), fontsize=14, fontweight="bold", loc="left", pad=24)
    hidden = f"; {len(uses) - len(shown)} devices not shown" if len(uses) > len(shown) else ""
    subtitle = (
        f"{details.batch_count:,} batches of {len(problem.graph.operators):,} operators, "
        f"{details.transfer_count:,} transfers; {problem.reading()}{hidden}"
    )
    axes.text(0, 1.0, subtitle, transform=axes.transAxes, fontsize=9.5, color=MUTED, va="bottom")
    _legend(figure, sizes, details.makespan, bound)
    return figure


def _shade(size: int, sizes: Sequence[int]) -> str:
    place = sizes.index(size) / max(1, len(sizes) - 1) if len(sizes) > 1 else 0.75
    return SHADES[round(place * (len(SHADES) - 1))]


def _is_dark(size: int, sizes: Sequence[int]) -> bool:
    return _shade(size, sizes) in SHADES[2:]


def _draw(axes: Axes, row: int, batch: Batch, *, scale: float, span: float, shade: str, marked: bool) -> None:
    width = max((batch.end - batch.start) / scale, span / 3000)
    edge = CRITICAL if marked else "white"
    axes.barh(
        row, width, left=batch.start / scale, height=0.84, color=shade, edgecolor=edge,
        linewidth=1.4 if marked else 0.5, zorder=4 if marked else 2,
    )  # fmt: skip


def _label(axes: Axes, row: int, batch: Batch, *, scale: float, span: float, dark: bool) -> None:
    """Write operator and size into a batch where they fit."""
    inches = (batch.end - batch.start) / scale / span * WIDTH * 0.72
    letters = int(inches / 0.068) - 1
    size = f"x{len(batch.inputs)}"
    if letters < len(size):
        return
    name = batch.operator.split(".")[-1] if len(batch.operator) > letters else batch.operator
    text = f"{name}\n{size}" if len(name) <= letters else size
    axes.text(
        (batch.start + batch.end) / 2 / scale, row, safe_text(text), ha="center", va="center", fontsize=7,
        color="white" if dark else "#222222", zorder=5, clip_on=True, linespacing=0.95,
    )  # fmt: skip


def _mark(axes: Axes, makespan: float, bound: float | None) -> None:
    axes.axvline(makespan, color="#333333", linewidth=1.6, zorder=6)
    if bound is not None and bound > 0:
        axes.axvline(bound, color=BOUND, linewidth=1.4, linestyle=(0, (5, 3)), zorder=6)


def _share(axes: Axes, row: int, share: float | None) -> None:
    part = min(share or 0.0, 1.0)
    axes.barh(row, 1.0, height=0.84, color="#F4F4F4", linewidth=0)
    axes.barh(row, part, height=0.84, color=BEST, alpha=0.85, linewidth=0)
    inside = part > 0.6
    axes.text(
        part - 0.04 if inside else part + 0.04, row, f"{100 * part:.0f} %", ha="right" if inside else "left",
        va="center", fontsize=9, color="white" if inside else "#222222",
    )  # fmt: skip


def _dress_shares(axes: Axes, rows: int) -> None:
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_yticks([])
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set_xlabel("busy", fontsize=11)


def _legend(figure: Figure, sizes: Sequence[int], makespan: float, bound: float | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = sizes if len(sizes) <= 5 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    handles: list[Patch | Line2D] = [Patch(color=_shade(size, sizes), label=f"batch of {size}") for size in drawn]
    handles.append(Patch(facecolor="white", edgecolor=CRITICAL, linewidth=1.4, label="critical path"))
    handles.append(Line2D([], [], color="#333333", linewidth=1.6, label=f"end: {precise_seconds(makespan)}"))
    if bound is not None and bound > 0:
        label = f"lower bound: {precise_seconds(bound)}"
        handles.append(Line2D([], [], color=BOUND, linewidth=1.4, linestyle=(0, (5, 3)), label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)


def throughput_figure(curves: Mapping[str, Sequence[tuple[int, float]]], headline: str) -> Figure:
    """Draw inputs per second against the batch size, one line for each name; a name with "bound" is dashed.

    Parameters
    ----------
    curves
        (batch, inputs per second) by name.
    headline
        The title.
    """
    figure, axes = new_figure(9.0, 5.0)
    for number, (name, points) in enumerate(curves.items()):
        is_bound = "bound" in name
        axes.plot(
            [batch for batch, _ in points],
            [value for _, value in points],
            color=BOUND if is_bound else LINES[number % len(LINES)],
            linestyle=(0, (5, 3)) if is_bound else "-",
            marker="" if is_bound else "o",
            linewidth=1.8,
            label=safe_text(name),
        )
    batches = sorted({batch for points in curves.values() for batch, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inputs in the batch", fontsize=11)
    axes.set_ylabel("inputs per second", fontsize=11)
    axes.set_title(safe_text(headline), fontsize=13, fontweight="bold", loc="left", pad=10)
    axes.legend(frameon=False, fontsize=10)
    return figure


def progress_figure(runs: Mapping[str, Sequence[Incumbent]], *, batch: int, seconds: float, headline: str) -> Figure:
    """Draw the throughput of the best plan over time for several solvers, and the best upper bound (paper, Figure 7).

    Parameters
    ----------
    runs
        Incumbents of a result by solver.
    batch
        Inputs of the batch.
    seconds
        Where the time axis ends.
    headline
        The title.
    """
    figure, axes = new_figure(9.0, 5.0)
    ceiling: list[tuple[float, float]] = []
    for number, (name, incumbents) in enumerate(runs.items()):
        times, values = [], []
        for one in incumbents:
            if one.objective:
                times.append(max(one.seconds, 1e-2))
                values.append(batch / one.objective)
            if one.bound:
                ceiling.append((max(one.seconds, 1e-2), batch / one.bound))
        if times:
            axes.step(
                [*times, seconds], [*values, values[-1]], where="post", linewidth=1.8,
                color=LINES[number % len(LINES)], label=safe_text(f"{name}: {values[-1]:.3g}"),
            )  # fmt: skip
    if ceiling:
        best, times, values = float("inf"), [], []
        for time, value in sorted(ceiling):
            best = min(best, value)
            times.append(time)
            values.append(best)
        label = f"no plan does more than {best:.3g}"
        axes.step([*times, seconds], [*values, best], where="post", color=BOUND, linestyle=(0, (5, 3)), label=label)
    axes.set_xscale("log")
    axes.set_xlim(1e-2, seconds)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds", fontsize=11)
    axes.set_ylabel("inputs per second", fontsize=11)
    axes.set_title(safe_text(headline), fontsize=13, fontweight="bold", loc="left", pad=10)
    axes.legend(frameon=False, fontsize=10, loc="lower right")
    return figure
