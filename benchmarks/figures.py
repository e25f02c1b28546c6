"""A picture that only benchmarks draw: throughput against the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.adapters.report.figures import BOUND, look_of, new_figure, safe_text
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def throughput_figure(curves: Mapping[str, Sequence[tuple[int, float]]], headline: str) -> Figure:
    """Draw inputs per second against the batch size, with one line per name; names that contain "bound" are dashed.

    Parameters
    ----------
    curves
        (batch, inputs per second) by name.
    headline
        The title.

    Raises
    ------
    InvalidInputError
        If there is no point to draw.

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
