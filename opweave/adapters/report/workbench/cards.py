"""The frames of the page's views as HTML: titles, tools and legends; the script draws into them.

Every tool is a key that the view understands, so that keyboard and mouse can do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from opweave.adapters.report.html import text
from opweave.adapters.report.wording import finders
from opweave.adapters.report.workbench.data import Box, Panel, least_bytes, memories, short
from opweave.adapters.report.workbench.levels import Drawing
from opweave.problems.result import Incumbent
from opweave.problems.timeline import Timeline
from opweave.problems.units import precise_seconds, readable, unit_of

if TYPE_CHECKING:
    from opweave.adapters.report.view import AnyView

COLOURS = 6
"""Number of different device colours in the style sheet."""

MOST_NAMED = 12
"""Most devices that a legend names."""

ROOM = 0.08
"""Space above and below the lines, as a share of the height."""

LEVELS, MOMENTS = 4, 5
"""About as many labels are at the axes."""

ZOOM = (("-", "\N{MINUS SIGN}", "Zoom out"), ("+", "+", "Zoom in"), ("0", "Fit", "Show everything"))
HINT = '<span class="hint">Drag to pan; Ctrl and the wheel, or + and -, zoom.</span>'


KEYS = {
    "schedule": "Comma and full stop step through the runs of a device, c marks the critical path.",
    "memory": "p goes to the peak, comma and full stop to the moment before or after, b shows or hides storages.",
    "addresses": "A click on a rectangle says what it is.",
    "model": "Comma and full stop step through operators and modules, Enter unfolds or folds the chosen module, "
    "brackets fold all modules or unfold them by one level, f finds what is chosen.",
}
"""What every drawn view says to those who cannot see it."""


TABLE = (
    '<div class="table" role="grid" aria-label="Operators or storages"><div class="row heads" role="row"></div></div>'
    '<p class="about" role="status"></p>'
)


class Key(NamedTuple):
    """An entry of a legend: how it looks (a class of the style sheet, and a colour), and what it means."""

    look: str
    meaning: str
    colour: str = ""


def cards(view: AnyView, drawn: Drawing) -> Iterator[tuple[str, str, str]]:
    """List the views that a result has, as identifiers, titles and frames."""
    if view.result.solution is not None:
        for number, panel in enumerate(view.panels()):
            frame = _chain(number, panel) if panel.boxes else _parts(number, panel, view.timeline)
            yield f"panel-{number}", panel.title, frame
        yield from _over_time(view)
    if view.problem.graph.operators:
        yield "model", "Model", _model(view, drawn)
    picture = trace(view.result.incumbents, view.result.timings.total, view.problem.unit)
    if picture and len(view.result.incumbents) > 1:
        keys = [Key("line", "objective", "var(--accent)"), Key("dashed", "lower bound")]
        about = f"The best plan and the best lower bound over the time of the search. {finders(view.result.incumbents)}"
        yield (
            "trace",
            "Search",
            _card("trace", "Search", about.strip(), legend=keys, body=picture),
        )
    if view.problem.graph.operators or (view.result.solution is not None and len(view.timeline.lifetimes)):
        yield "table", "Table", _table(view)


def _over_time(view: AnyView) -> Iterator[tuple[str, str, str]]:
    timeline, result, unit = view.timeline, view.result, view.problem.unit
    floor = None if result.bound is None else readable(result.bound, unit)
    if timeline.unit == "seconds" and len(timeline.activities):
        about = "What each device does, over time; thin rows are transfers."
        keys = [Key("marked", "on the critical path")] if view.path else []
        keys += [Key("solid", "transfers", "var(--neutral)")] if len(timeline.resources) > len(view.uses) else []
        if floor is not None and unit == "seconds" and result.objective == timeline.end:
            keys.append(Key("dashed", f"lower bound: no {view.noun} ends before {floor}"))
        if (timeline.activities.count > 1).any():
            keys.append(Key("shades", "stronger colour: a larger batch"))
        tools = [("c", "Critical path", "Mark the critical path")] if view.path else []
        yield "schedule", "Schedule", _card("schedule", "Schedule", about, tools, legend=keys, keys=KEYS["schedule"])
    marks = [] if least_bytes(view) is None else [Key("dashed", f"lower bound: {floor}")]
    if timeline.lifetimes.offset is not None:
        keys = [Key("line", "reserved", "var(--device-1)"), Key("dotted", "live peak"), *marks]
        about = "The address range of every storage during its lifetime."
        yield "addresses", "Addresses", _card("addresses", "Addresses", about, legend=keys, keys=KEYS["addresses"])
    if memories(timeline):
        before, step = view.before(), "step" if timeline.unit == "steps" else "moment"
        keys = [Key("line", f"this {view.noun}", "var(--device-1)")]
        keys += [] if before is None else [Key("grey-dashed", before.name)]
        keys += marks
        keys += [Key("dotted", "what the device may hold")] if any(view.limits.values()) else []
        about = f"Live bytes at each {step}. Click to see which storages are live, and why."
        tools = [("p", "Go to the peak", "Choose the moment of the peak"), ("b", "Blocks", "Show every storage")]
        yield "memory", "Memory", _card("memory", "Memory", about, tools, legend=keys, keys=KEYS["memory"])


def _model(view: AnyView, drawn: Drawing) -> str:
    modules = len(drawn.names) > 1
    folds = [("[", "Fold", "Fold all modules"), ("]", "Unfold", "Unfold all folded modules by one level")]
    tools = [*folds * modules, ("f", "Find", "Bring what is chosen into the middle")]
    about = "Operators from left to right, line by line."
    about += " Double-click a module to unfold (+) or fold it (\N{MINUS SIGN})." * modules
    keys = [Key("shades", "stronger colour: writes more bytes")]
    if view.result.solution is not None and len(view.uses) > 1:
        keys = _device_keys(view.timeline)
    return _card("model", "Model", about, tools, legend=keys, keys=KEYS["model"])


def _table(view: AnyView) -> str:
    kinds = [("o", "Operators", "List the operators")] if view.problem.graph.operators else []
    if view.result.solution is not None and len(view.timeline.lifetimes):
        kinds.append(("s", "Storages", "List the storages"))
    search = (
        '<input type="search" id="search" placeholder="Search (press /)" aria-label="Search names, kinds and modules">'
    )
    title = "Operators" if view.problem.graph.operators else "Storages"
    return _card("table", title, "", (), kinds if len(kinds) > 1 else (), more=search, body=TABLE)


def _device_keys(timeline: Timeline) -> list[Key]:
    devices = [(row, each.name) for row, each in enumerate(timeline.resources) if each.kind == "device"]
    return [Key("solid", short(name), colour_of(row)) for row, name in devices[:MOST_NAMED]]


def colour_of(row: int) -> str:
    """The colour of a device in the style sheet; after six devices come the same ones, paler."""
    own = f"var(--device-{row % COLOURS + 1})"
    return own if row % (2 * COLOURS) < COLOURS else f"color-mix(in srgb, {own} 50%, var(--surface))"


Tools = Iterable[tuple[str, str, str]]
"""Key, text and explanation of buttons."""


def _card(
    name: str,
    title: str,
    about: str,
    tools: Tools = (),
    choices: Tools = (),
    *,
    legend: Sequence[Key] = (),
    keys: str = "",
    more: str = "",
    body: str = "",
) -> str:
    """A card; ``keys`` says what a drawn view is, and which keys it knows beside those that all drawn views know."""
    buttons = f'<div class="choice">{_buttons(choices)}</div>' if choices else ""
    buttons += _buttons(tools) + more + (f'<div class="choice">{_buttons(ZOOM)}</div>' if keys else "")
    hint = f" {HINT}" if keys else ""
    label = text(f"{title}. {keys} Arrow keys pan, plus and minus zoom, 0 shows everything.")
    body += f'<canvas tabindex="0" role="application" aria-label="{label}"></canvas>' if keys else ""
    return (
        f'<section class="card" id="{name}" aria-label="{text(title)}"><div class="head"><h2>{text(title)}</h2>'
        f'<div class="tools">{buttons}</div></div>'
        + (f'<p class="about">{text(about)}{hint}</p>' if about else "")
        + f'<div class="body">{body}</div>{_legend(legend)}</section>'
    )


def _buttons(tools: Tools) -> str:
    pressed = ("", ' aria-pressed="true"')  # the table begins with operators
    return "".join(
        f'<button type="button" data-key="{key}"{pressed[key == "o"]} title="{about} ({key})" aria-label="{about}">'
        f"{text(name)}</button>"
        for key, name, about in tools
    )


def _legend(keys: Sequence[Key]) -> str:
    looks = [f'<i class="key {key.look}"{_style({"--own": key.colour} if key.colour else {})}></i>' for key in keys]
    entries = "".join(f"<span>{look}{text(key.meaning)}</span>" for look, key in zip(looks, keys, strict=True))
    return f'<div class="legend">{entries}</div>' if entries else ""


def _style(values: Mapping[str, str]) -> str:
    return f' style="{"; ".join(f"{name}: {value}" for name, value in values.items())}"' if values else ""


def _chain(number: int, panel: Panel) -> str:
    """Boxes in a row with arrows between them."""
    parts = []
    for place, box in enumerate(panel.boxes):
        own = {"--own": colour_of(box.place)}
        if box.filled is not None:
            own["--filled"] = f"{100 * min(1.0, box.filled):.1f}%"
        lines = "".join(f"<span>{text(each)}</span>" for each in box.lines)
        parts.append(
            f'<button type="button" class="box{" limits" * box.limits}" data-box="{place}"{_style(own)}>'
            f"<b>{place + 1}. {text(short(box.title))}</b>{lines}{_limits(box.limits)}"
            f"{'' if box.filled is None else '<i></i>'}</button>"
        )
        if box.link:
            parts.append(_arrow(box))
    return _card(f"panel-{number}", panel.title, panel.about, body=f'<div class="chain">{"".join(parts)}</div>')


def _arrow(box: Box) -> str:
    lines = "".join(f"<span>{text(each)}</span>" for each in box.link)
    thick = {"height": f"{2 + 6 * min(1.0, box.width):.1f}px"}
    return (
        f'<div class="arrow{" limits" * box.link_limits}">{lines}<i{_style(thick)}></i>{_limits(box.link_limits)}</div>'
    )


def _limits(holds: bool) -> str:
    return "<em>the bottleneck</em>" if holds else ""


def _parts(number: int, panel: Panel, timeline: Timeline) -> str:
    heads = ("operator", "cut", "parts by device", "time")
    looks = ("", ' class="wide"', "", "")
    cells = "".join(f'<div role="columnheader"{look}>{head}</div>' for look, head in zip(looks, heads, strict=True))
    row = f'<div class="row heads" role="row">{cells}</div>'
    body = f'<div class="table slices" role="grid" aria-label="{text(panel.title)}">{row}</div>'
    keys = [*_device_keys(timeline), Key("wait", "waiting for data"), Key("work", "computing")]
    return _card(f"panel-{number}", panel.title, panel.about, legend=keys, body=body)


def trace(incumbents: Sequence[Incumbent], seconds: float, unit: str) -> str:
    """Draw two lines of steps; the labels keep their size, whatever the width of the page.

    Parameters
    ----------
    incumbents
        How objective and bound changed.
    seconds
        When the search ended.
    unit
        The objective's unit.
    """
    lines = {
        "bound": [(each.seconds, each.bound) for each in incumbents if each.bound is not None],
        "objective": [(each.seconds, each.objective) for each in incumbents if each.objective is not None],
    }
    values = [float(value) for points in lines.values() for _, value in points]
    if not values:
        return ""
    last = max(seconds, incumbents[-1].seconds, 1e-6)
    low, high = min(values), max(values)
    space = ROOM * (high - low or abs(high) or 1.0)
    low, high = low - space, high + space

    def y(value: float) -> float:
        return 100 * (high - value) / (high - low)

    paths = "".join(
        f'<path class="{name}" d="{_path([(100 * at / last, y(float(value))) for at, value in points])}"/>'
        for name, points in lines.items()
        if points
    )
    levels = "".join(
        f'<i style="top: {y(value):.2f}%"></i>'
        f'<span class="level" style="top: {y(value):.2f}%">{text(readable(value, unit))}</span>'
        for value in _round(low, high, LEVELS, unit)
        if value >= 0
    )
    moments = "".join(
        f'<span class="moment" style="left: {100 * at / last:.2f}%">{text(precise_seconds(at))}</span>'
        for at in _round(0.0, last, MOMENTS, "seconds")
        if at <= 0.95 * last
    )
    box = f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{paths}</svg>'
    found = [f"{name} {readable(points[-1][1], unit)}" for name, points in lines.items() if points]
    told = f"After {precise_seconds(last)}: {' and '.join(found[::-1])}."
    return f'<div class="trace" role="img" aria-label="{text(told)}">{levels}{box}{moments}</div>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    (first, level), *others = points
    moves = "".join(f"H{x:.3f}V{y:.3f}" for x, y in others)
    return f"M{first:.3f} {level:.3f}{moves}H100"


def _round(low: float, high: float, count: int, unit: str) -> Iterator[float]:
    """About so many round numbers in an interval, in the unit of the largest."""
    from matplotlib.ticker import MaxNLocator

    factor, _ = unit_of(max(abs(low), abs(high)), unit)
    for tick in MaxNLocator(count, steps=[1, 2, 5, 10]).tick_values(low / factor, high / factor):
        if low <= tick * factor <= high:
            yield float(tick * factor)
