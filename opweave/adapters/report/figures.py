"""The common style of all pictures: fit for print and projectors, and readable for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, write_bytes
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito: its colours can be told apart with every common kind of colour blindness.
BEST = "#0072B2"
GIVEN = "#D55E00"
BOUND = "#000000"
MUTED = "#6E6E6E"
CRITICAL = GIVEN
SENT = "#56B4E9"

LINES = (BEST, GIVEN, "#009E73", "#CC79A7", SENT, "#E69F00", MUTED)
MARKERS = "osD^vP*X"
STYLES: tuple[Literal["-", "-.", ":"], ...] = ("-", "-.", ":")
DASHES = ((5.0, 3.0), (9.0, 3.0), (2.0, 2.0))

DOTS_PER_INCH = 150

MOST_SHAPES = 3000
"""A vector picture has more shapes than this as one bitmap; otherwise it would take megabytes."""

FORMATS = ("png", "svg", "pdf")


class Look(NamedTuple):
    """How a curve is drawn.

    ``dashes`` belong to the curve's bound, ``size`` is the size of its markers, and ``order`` is its place in depth.
    Curves have three widths. Thin ones are drawn in front of thick ones.
    """

    colour: str
    marker: str
    style: Literal["-", "-.", ":"]
    dashes: tuple[float, tuple[float, float]]
    width: float
    size: float
    order: float


def look_of(number: int) -> Look:
    """Choose a look that differs from all others and stays visible where the curve coincides with another.

    Colours repeat after seven curves, with another line style, other markers and another width.

    Examples
    --------
    >>> first, eighth = look_of(0), look_of(7)
    >>> first.colour == eighth.colour, first.style, eighth.style, first.width > eighth.width
    (True, '-', '-.', True)
    """
    turn, depth = number // len(LINES) % len(STYLES), number % 3
    return Look(
        colour=LINES[number % len(LINES)],
        marker=MARKERS[number % len(MARKERS)],
        style=STYLES[turn],
        dashes=(0.0, DASHES[turn]),
        width=(4.0, 2.4, 1.2)[depth],
        size=(10.0, 7.0, 4.5)[depth],
        order=2.0 + depth / 10,
    )


def new_figure(width: float = 10.0, height: float = 5.0) -> tuple[Figure, Axes]:
    """Make a figure with one set of axes in the common style, without touching pyplot's global state.

    Parameters
    ----------
    width, height
        Inches.
    """
    figure, (axes,) = new_panels(width, height, (1.0,))
    return figure, axes


def new_panels(
    width: float, height: float, shares: Sequence[float], *, stacked: bool = False
) -> tuple[Figure, list[Axes]]:
    """Make a figure with several sets of axes in the common style; see :func:`new_figure`.

    Parameters
    ----------
    width, height
        Inches.
    shares
        How the width is divided among the axes; if they are stacked, the height.
    stacked
        Whether the axes lie one above the other instead of side by side.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    setattr(figure, "_repr_png_", partial(png, figure))  # noqa: B010  notebooks show it without pyplot
    if stacked:
        grid = figure.add_gridspec(len(shares), 1, height_ratios=list(shares))
    else:
        grid = figure.add_gridspec(1, len(shares), width_ratios=list(shares))
    panels = [figure.add_subplot(grid[place]) for place in range(len(shares))]
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


def entitle(axes: Axes, headline: str, subtitle: str) -> None:
    """Put a headline above the axes, and a line below it that ends at the right edge of the picture."""
    axes.set_title(safe_text(headline), fontsize=14, fontweight="bold", loc="left", pad=24)
    figure = axes.get_figure(root=True)
    letters = int(13 * (10.0 if figure is None else figure.get_figwidth()))
    text = shortened(subtitle, letters)
    line = axes.text(0, 1.0, text, transform=axes.transAxes, fontsize=9.5, color=MUTED, va="bottom")
    line.set_in_layout(False)  # a long line would shrink the axes


def shortened(text: str, letters: int) -> str:
    """Shorten a text to a number of letters by cutting out its middle, and escape it for matplotlib.

    Examples
    --------
    >>> shortened("model.layers.12", 9), shortened("conv", 9)
    ('mode...12', 'conv')
    """
    if len(text) <= letters:
        return safe_text(text)
    half = max(1, (letters - 2) // 2)
    return safe_text(f"{text[: letters - 2 - half]}..{text[-half:]}" if letters > 5 else text[:letters])


def boxes_of(axes: Axes, boxes: FloatArray, **style: Any) -> None:
    """Draw boxes, thousands of them at once, given as left, right, one and the other end. Shape (boxes, 4)."""
    from matplotlib.collections import PolyCollection

    left, right, low, high = boxes.T
    corners = np.stack([left, low, right, low, right, high, left, high], axis=1).reshape(-1, 4, 2)
    drawn = PolyCollection(list(corners), **style)
    drawn.set_rasterized(len(corners) > MOST_SHAPES)
    axes.add_collection(drawn)


def png(figure: Figure) -> bytes:
    """Render a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": "opweave"})
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """Render a figure as SVG, the same bytes each time."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "opweave"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_figure(figure: Figure, path: PathLike) -> None:
    """Write a figure in the format of the file's name: .png, .svg or .pdf. The file is written whole or not at all.

    Raises
    ------
    InvalidInputError
        If the path cannot be written to, or its name ends otherwise.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInputError(f"{plain(str(path))}: a picture's name ends in .png, .svg or .pdf")
    if kind in ("png", "svg"):
        write_bytes(path, png(figure) if kind == "png" else svg(figure))
        return
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)
    write_bytes(path, buffer.getvalue())
