"""Batched schedules as pictures: batches on devices, and throughput against the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from opweave.adapters.report.batched_mapping.plan import BatchedUse
from opweave.adapters.report.figures import BEST, BOUND, CRITICAL, MUTED, look_of, new_figure, new_panels, safe_text
from opweave.adapters.report.gantt import (
    TIME_SHARE,
    WIDTH,
    Bar,
    add_legend,
    draw_bars,
    dress_shares,
    dress_time,
    share_bar,
    time_scale,
)
from opweave.problems.batched_mapping.spec import Batch, BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_DEVICES = 24
NAMED_BATCHES = 160
"""Up to this many batches get their names where these fit."""

SHADES = ("#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C")
"""From the smallest batch to the largest."""

HALF = 0.42
"""Of a row's height; the rows are 1 apart."""

STRIPE = 0.16
"""Height of the stripe above the batches, on which the critical ones are marked."""


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
    scale, unit = time_scale(details.makespan)
    span = max(details.makespan, bound or 0.0) / scale or 1.0
    critical = {(step.operator, step.source) for step in details.critical_path}
    sizes = sorted({len(batch.inputs) for batch in schedule.batches})
    named = len(schedule.batches) <= NAMED_BATCHES
    batches: dict[str, list[Batch]] = {use.name: [] for use in shown}
    for batch in schedule.batches:
        if batch.device in batches:
            batches[batch.device].append(batch)
    for row, use in enumerate(shown):
        _draw(axes, row, batches[use.name], scale=scale, span=span, sizes=sizes, critical=critical)
        if named:
            for batch in batches[use.name]:
                _label(axes, row, batch, scale=scale, span=span, dark=_is_dark(len(batch.inputs), sizes))
        share_bar(shares, row, use.busy_share, height=2 * HALF, colour=BEST, size=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [safe_text(use.name[:22]) for use in shown])
    dress_time(axes, makespan=details.makespan, bound=bound, scale=scale, unit=unit, span=span)
    dress_shares(shares, len(shown) - 0.4, -0.6)
    axes.set_title(safe_text(headline), fontsize=14, fontweight="bold", loc="left", pad=24)
    hidden = f"; {len(uses) - len(shown)} devices not shown" if len(uses) > len(shown) else ""
    subtitle = (
        f"{details.batch_count:,} batches of {len(problem.graph.operators):,} operators, "
        f"{details.transfer_count:,} transfers; {problem.assumptions()}{hidden}"
    )
    axes.text(0, 1.0, subtitle, transform=axes.transAxes, fontsize=9.5, color=MUTED, va="bottom")
    add_legend(figure, _legend(sizes), details.makespan, bound)
    return figure


def _shade(size: int, sizes: Sequence[int]) -> str:
    place = sizes.index(size) / max(1, len(sizes) - 1) if len(sizes) > 1 else 0.75
    return SHADES[round(place * (len(SHADES) - 1))]


def _is_dark(size: int, sizes: Sequence[int]) -> bool:
    return _shade(size, sizes) in SHADES[2:]


def _draw(
    axes: Axes,
    row: int,
    batches: Sequence[Batch],
    *,
    scale: float,
    span: float,
    sizes: Sequence[int],
    critical: Set[tuple[str | None, str]],
) -> None:
    """Draw a device's batches; the critical ones below a stripe, so that their shade stays visible too."""
    axes.axhspan(row - HALF, row + HALF, color="#F4F4F4", linewidth=0, zorder=0)
    bars, stripes = [], []
    for batch in batches:
        start, width = batch.start / scale, (batch.end - batch.start) / scale
        top = row - HALF + STRIPE
        bars.append(Bar(start, width, top, row + HALF - top, _shade(len(batch.inputs), sizes)))
        if (batch.operator, batch.device) in critical:
            stripes.append(Bar(start, width, row - HALF, 0.7 * STRIPE, CRITICAL))
    draw_bars(axes, bars, span=span, gap=0.6, order=2)
    draw_bars(axes, stripes, span=span, gap=0.0, order=3)


def _label(axes: Axes, row: int, batch: Batch, *, scale: float, span: float, dark: bool) -> None:
    """Write operator and size into a batch where they fit."""
    inches = (batch.end - batch.start) / scale / span * WIDTH * TIME_SHARE
    letters = int(inches / 0.068) - 1
    size = f"x{len(batch.inputs)}"
    if letters < len(size):
        return
    name = batch.operator.split(".")[-1] if len(batch.operator) > letters else batch.operator
    text = f"{name}\n{size}" if len(name) <= letters else size
    axes.text(
        (batch.start + batch.end) / 2 / scale, row + STRIPE / 2, safe_text(text), ha="center", va="center", fontsize=7,
        color="white" if dark else "#222222", zorder=5, clip_on=True, linespacing=0.95,
    )  # fmt: skip


def _legend(sizes: Sequence[int]) -> list[Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = sizes if len(sizes) <= 5 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    handles: list[Artist] = [Patch(color=_shade(size, sizes), label=f"batch of {size}") for size in drawn]
    return [*handles, Line2D([], [], color=CRITICAL, linewidth=3.0, label="critical path")]


def throughput_figure(curves: Mapping[str, Sequence[tuple[int, float]]], headline: str) -> Figure:
    """Draw inputs per second against the batch size, one line for each name; a name with "bound" is dashed.

    Parameters
    ----------
    curves
        (batch, inputs per second) by name.
    headline
        The title.

    Raises
    ------
    InvalidInputError
        When there is no point to draw.

    Examples
    --------
    >>> curves = {"auto": [(1, 90.0), (2, 160.0)], "upper bound": [(1, 95.0), (2, 190.0)]}
    >>> figure = throughput_figure(curves, "my model")
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['auto', 'upper bound']
    """
    if not any(curves.values()):
        raise InvalidInputError("there is no throughput to draw; pass {name: [(batch, inputs per second), ...]}")
    figure, axes = new_figure(9.0, 5.0)
    for number, (name, points) in enumerate(curves.items()):
        is_bound = "bound" in name
        look = look_of(number)
        axes.plot(
            [batch for batch, _ in points],
            [value for _, value in points],
            color=BOUND if is_bound else look.colour,
            linestyle=look.dashes if is_bound else look.style,
            marker="" if is_bound else look.marker,
            markersize=look.size,
            linewidth=1.8 if is_bound else look.width,
            zorder=look.order,
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
