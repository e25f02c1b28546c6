"""What all pictures share: a look that prints, projects and stays readable for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the palette of Okabe and Ito, whose colours stay apart for all common kinds of colour blindness.
BEST = "#0072B2"
GIVEN = "#D55E00"
BOUND = "#000000"
MUTED = "#6E6E6E"
CRITICAL = GIVEN
SENT = "#56B4E9"

DOTS_PER_INCH = 150


def new_figure(width: float = 10.0, height: float = 5.0) -> tuple[Figure, Axes]:
    """Make a figure with one set of axes in the common look, without touching pyplot's global state.

    Parameters
    ----------
    width, height
        Inches.
    """
    figure, (axes,) = new_panels(width, height, (1.0,))
    return figure, axes


def new_panels(width: float, height: float, shares: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Make a figure with several sets of axes side by side, as :func:`new_figure` does with one.

    Parameters
    ----------
    width, height
        Inches.
    shares
        How the width is divided among the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1, len(shares), width_ratios=list(shares))
    panels = [figure.add_subplot(grid[0, column]) for column in range(len(shares))]
    for axes in panels:
        _style(axes)
    return figure, panels


def stacked_panels(width: float, height: float, shares: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Make a figure with several sets of axes one above the other, as :func:`new_figure` does with one.

    Parameters
    ----------
    width, height
        Inches.
    shares
        How the height is divided among the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(shares), 1, height_ratios=list(shares))
    panels = [figure.add_subplot(grid[row, 0]) for row in range(len(shares))]
    for axes in panels:
        _style(axes)
    return figure, panels


def _style(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(MUTED)
    axes.tick_params(colors="#333333", labelsize=10)
    axes.grid(visible=True, axis="y", color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)


def safe_text(text: str) -> str:
    """Keep matplotlib from reading dollar signs as formulas."""
    return text.replace("$", r"\$")


def png(figure: Figure) -> bytes:
    """Render a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "opweave"})
    return buffer.getvalue()


def save_figure(figure: Figure, path: PathLike) -> None:
    """Write a figure as PNG, whole or not at all.

    Raises
    ------
    InvalidInputError
        When the place cannot be written to.
    """
    write_bytes(path, png(figure))
