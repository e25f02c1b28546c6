"""Who holds what of a language model, how full each device is, and where the time goes: as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from opweave.adapters.report.figures import LINES, entitle, new_panels, shortened
from opweave.adapters.report.timeline_tables import Section
from opweave.problems.language.model import LanguageModel, Role
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Part, Workload, parts
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.units import precise_seconds, readable_bytes, readable_share, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHORT: Mapping[Role, str] = {"feed_forward": "feed-forward"}
"""Words for roles that are not words."""

SENDING = "sending"


@dataclass(frozen=True, slots=True)
class Holding:
    """What one device has to do with a model.

    Attributes
    ----------
    device
        Its name.
    what
        The groups that it holds, in words.
    weights
        Bytes of weights by role.
    cache, reserve
        Bytes of caches, and bytes that are kept for the runtime.
    memory
        Bytes of the device; None for no limit.
    seconds
        Seconds in one pass, by role; what it sends is "sending".
    """

    device: str
    what: str
    weights: Mapping[str, int]
    cache: int
    reserve: int
    memory: int | None
    seconds: Mapping[str, float]

    @property
    def used(self) -> int:
        """Bytes of the model."""
        return sum(self.weights.values()) + self.cache

    @property
    def free(self) -> int | None:
        """Bytes that are left; None without a limit."""
        return None if self.memory is None else self.memory - self.reserve - self.used


def holdings(
    model: LanguageModel, rig: Rig, work: Workload, problem: Placement, schedule: Schedule
) -> tuple[Holding, ...]:
    """List what every device holds and does, in the order of the cluster."""
    every = parts(model, work)
    by_device: dict[str, list[Part]] = {device.name: [] for device in rig.cluster.devices}
    for part in every:
        by_device[schedule.device[part.id]].append(part)
    sending = dict.fromkeys(by_device, 0.0)
    for sent in schedule.transfers:
        sending[sent.source] += sent.end - sent.start
    found = []
    for device in rig.cluster.devices:
        mine = by_device[device.name]
        weights, seconds = dict[str, int](), dict[str, float]()
        for part in mine:
            word = SHORT.get(part.role, part.role)
            weights[word] = weights.get(word, 0) + part.weight_bytes
            seconds[word] = seconds.get(word, 0.0) + problem.known_seconds[part.id][device.name]
        if {"embedding", "head"} <= weights.keys():
            weights["embedding"] -= model.tied_bytes
        if sending[device.name]:
            seconds[SENDING] = sending[device.name]
        found.append(
            Holding(
                device=device.name,
                what=in_words(mine, every),
                weights=weights,
                cache=sum(part.cache_bytes for part in mine),
                reserve=rig.reserve.get(device.name, 0),
                memory=device.memory_bytes,
                seconds=seconds,
            )
        )
    return tuple(found)


def in_words(mine: Sequence[Part], every: Sequence[Part]) -> str:
    """Name groups by layers: "embedding, layers 0-11, experts of 12-47".

    Examples
    --------
    >>> def group(layer: int, role: Role) -> Part:
    ...     return Part(f"layers.{layer}.{role}", layer, role, 1, 0, 0.0, 0.0)
    >>> every = [group(layer, role) for layer in range(4) for role in ("attention", "experts")]
    >>> in_words(every[:5], every)
    'layers 0-1, attention of 2'
    """
    roles: dict[int, set[Role]] = {}
    for part in every:
        if part.layer is not None:
            roles.setdefault(part.layer, set()).add(part.role)
    here: dict[int, set[Role]] = {}
    for part in mine:
        if part.layer is not None:
            here.setdefault(part.layer, set()).add(part.role)
    whole = [layer for layer, held in here.items() if held == roles[layer]]
    words = ["embedding"] if any(part.role == "embedding" for part in mine) else []
    if whole:
        words.append(f"layer{'s' * (len(whole) > 1)} {ranges(whole)}")
    for role in dict.fromkeys(part.role for part in mine if part.layer is not None):
        some = [layer for layer, held in here.items() if role in held and held != roles[layer]]
        if some:
            words.append(f"{SHORT.get(role, role)} of {ranges(some)}")
    if any(part.role == "head" for part in mine):
        words.append("head")
    return ", ".join(words) or "nothing"


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers as ranges.

    Examples
    --------
    >>> ranges([0, 1, 2, 7, 9, 10])
    '0-2 7 9-10'
    """
    ordered = sorted(set(numbers))
    starts = [ordered[0], *(b for a, b in pairwise(ordered) if b > a + 1)]
    ends = [*(a for a, b in pairwise(ordered) if b > a + 1), ordered[-1]]
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def holdings_section(found: Sequence[Holding]) -> Section:
    """The devices as a table."""
    span = sum(sum(each.seconds.values()) for each in found)
    rows: list[Sequence[str]] = []
    for each in found:
        seconds = sum(each.seconds.values())
        free, full = "-", "-"
        if each.memory is not None and each.free is not None:
            free = readable_bytes(each.free)
            full = readable_share((each.memory - each.free) / each.memory) if each.memory else "-"
        rows.append(
            (
                each.device,
                each.what,
                readable_bytes(sum(each.weights.values())),
                readable_bytes(each.cache),
                free,
                full,
                f"{precise_seconds(seconds)} ({readable_share(seconds / span if span else 0.0)})",
            )
        )
    return Section("Devices", ("device", "holds", "weights", "caches", "free", "full", "seconds"), rows)


PARTS = ("attention", "router", "experts", "feed-forward", "embedding", "head", "cache", SENDING)
"""What bars consist of, in the order in which they are stacked."""

COLOURS = dict(zip(PARTS, (*LINES, "#000000"), strict=True))
EMPTY, RESERVED = "#E8E8E8", "#4A4A4A"


def language_figure(found: Sequence[Holding], *, headline: str, subtitle: str) -> Figure:
    """Draw two bars for every device: its memory by what it holds, and its seconds by what it does."""
    height = 1.6 + 0.55 * max(2, len(found))
    figure, panels = new_panels(11.0, height, columns=2)
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
