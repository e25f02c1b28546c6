"""The common style of all pictures: fit for print and projectors, and readable for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.files import PathLike, write_bytes
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito: its colours can be told apart with every common kind of colour blindness.
BEST = "#0072B2"
GIVEN = CRITICAL = "#D55E00"
BOUND = "#000000"
MUTED = "#6E6E6E"
SENT = "#56B4E9"

LINES = (BEST, GIVEN, "#009E73", "#CC79A7", SENT, "#E69F00", MUTED)
DASHED = (0.0, (5.0, 3.0))
"""The line of whatever is proved."""

DOTS_PER_INCH = 150

MOST_SHAPES = 3000
"""A vector picture has more shapes than this as one bitmap; otherwise it would take megabytes."""

FORMATS: Mapping[str, dict[str, Any]] = {"png": {"Software": "opweave"}, "svg": {"Date": None}, "pdf": {}}
"""What the files of each format say of their making."""


def new_figure(width: float = 10.0, height: float = 5.0) -> tuple[Figure, Axes]:
    """Make a figure with one set of axes in the common style, without touching pyplot's global state.

    Parameters
    ----------
    width, height
        Inches.
    """
    figure, (axes,) = new_panels(width, height)
    return figure, axes


def new_panels(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure with several sets of axes in the common style; see :func:`new_figure`.

    Parameters
    ----------
    width, height
        Inches.
    rows, columns
        How many axes lie one above the other, and side by side.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    setattr(figure, "_repr_png_", partial(png, figure))  # noqa: B010  notebooks show it without pyplot
    panels: list[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
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


def rendered(figure: Figure, kind: str) -> bytes:
    """Render a figure as "png", "svg" or "pdf", the same bytes each time."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "opweave"}):
        figure.savefig(buffer, format=kind, metadata=FORMATS[kind])
    return buffer.getvalue()


def png(figure: Figure) -> bytes:
    """Render a figure as PNG."""
    return rendered(figure, "png")


def save_figure(figure: Figure, path: PathLike) -> None:
    """Write a figure in the format of the file's name: .png, .svg or .pdf. The file is written whole or not at all.

    Raises
    ------
    InvalidInputError
        If the path cannot be written to, or its name ends otherwise.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInputError(f"{plain(str(path))}: this image format is not supported; use .png, .svg or .pdf")
    write_bytes(path, rendered(figure, kind))
