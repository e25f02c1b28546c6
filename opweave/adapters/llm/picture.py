"""The picture of a plan of a language model: what fills every device, and what takes its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.adapters.llm.held import SENDING, Holding
from opweave.adapters.report.figures import LINES, entitle, new_panels, shortened
from opweave.problems.units import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = ("attention", "router", "experts", "feed-forward", "embedding", "head", "cache", SENDING)
"""What bars consist of, in the order in which they are stacked."""

COLOURS = dict(zip(PARTS, (*LINES, "#000000"), strict=True))
EMPTY, RESERVED = "#E8E8E8", "#4A4A4A"


def language_figure(found: Sequence[Holding], *, headline: str, subtitle: str) -> Figure:
    """Draw two bars for every device: its memory by what it holds, and its seconds by what it does."""
    height = 1.6 + 0.55 * max(2, len(found))
    figure, panels = new_panels(11.0, height, [1.0, 1.0], stacked=False)
    held = [dict(each.weights) | {"cache": each.cache} for each in found]
    full = [each.used + each.reserve if each.memory is None else each.memory for each in found]
    scale, unit = unit_of(max([*full, 1]), "bytes")
    names = [shortened(each.device, 16) for each in found]
    _bars(panels[0], held, scale)
    for row, each in enumerate(found):
        left = each.used / scale
        panels[0].barh(row, each.reserve / scale, left=left, color=RESERVED, height=0.6)
        if each.free is not None:
            panels[0].barh(row, max(0, each.free) / scale, left=left + each.reserve / scale, color=EMPTY, height=0.6)
    seconds = [each.seconds for each in found]
    wide, word = unit_of(max([*(sum(each.values()) for each in seconds), 1e-12]), "seconds")
    _bars(panels[1], seconds, wide)
    labels = (f"memory ({unit}); dark: reserved, light: free", f"time of one pass ({word})")
    for axes, label in zip(panels, labels, strict=True):
        axes.set_yticks(range(len(found)), names)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.set_xlim(left=0.0)
    there = [part for part in PARTS if any(each.get(part) for each in (*held, *seconds))]
    from matplotlib.patches import Patch

    handles = [Patch(color=COLOURS[part]) for part in there]
    figure.legend(handles, there, loc="outside lower center", ncols=len(there), frameon=False, fontsize=9)
    entitle(panels[0], headline, subtitle)
    return figure


def _bars(axes: Axes, amounts: Sequence[Mapping[str, float]], scale: float) -> None:
    """Stack the parts of every device."""
    for row, each in enumerate(amounts):
        left = 0.0
        for part in PARTS:
            width = each.get(part, 0) / scale
            if width:
                axes.barh(row, width, left=left, color=COLOURS[part], height=0.6)
                left += width
