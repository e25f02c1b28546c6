"""Tables and plans of any problem, read from a timeline: its measures, its devices and its activities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.problems.graph import OpGraph
from opweave.problems.measures import (
    MEASURES,
    bytes_held,
    bytes_over_time,
    joules,
    moved_bytes,
    utilisation,
)
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, readable_share

Columns = Mapping[str, Callable[[Any], str]]
"""The columns of a table, and what writes their cells."""


class Section(NamedTuple):
    """A table in addition to the result's."""

    title: str
    headings: Sequence[str]
    rows: list[Sequence[str]]


def section_of(title: str, items: Iterable[Any], columns: Columns) -> Section:
    """Make a table with a row for each item; ``columns`` write their cells.

    Examples
    --------
    >>> section_of("Sizes", ["a", "bc"], {"name": str, "letters": lambda name: str(len(name))}).rows
    [('a', '1'), ('bc', '2')]
    """
    return Section(title, tuple(columns), [tuple(write(item) for write in columns.values()) for item in items])


Notes = Callable[[int], Mapping[str, object]]
"""The problem's notes on an activity, given its row."""

Limits = Mapping[str, int | None]
"""Bytes that every device may hold, by name; None for no limit."""

PORT_WORDS: Mapping[ResourceKind, str] = {"send_port": "sends", "receive_port": "receives"}

ROUNDING = 1e-9
"""Activities of one resource that overlap by no more than this share of the timeline follow each other."""

SHOWN: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "bottleneck": ("result every", precise_seconds),
    "makespan": ("makespan", precise_seconds),
    "latency": ("latency of one input", precise_seconds),
    "throughput": ("inputs per second", readable_rate),
    "peak_bytes": ("peak memory", readable_bytes),
    "total_bytes": ("memory summed over steps", readable_bytes),
    "traffic": ("traffic", readable_bytes),
    "energy": ("energy", lambda value: f"{value:,.4g} J"),
}
"""Label and format of each measure, in the order of the table."""


def measure_rows(timeline: Timeline, objective: float | None) -> list[tuple[str, str]]:
    """Label and value of every measure that differs from the objective and from the measures before it."""
    ports = any(resource.kind != "device" for resource in timeline.resources)
    idle = not len(timeline.activities.kind)
    meaningless = {"traffic": not ports, "makespan": idle, "latency": idle}
    seen: set[tuple[str, float]] = set()
    rows = []
    for name, (label, write) in SHOWN.items():
        value = MEASURES[name](timeline)
        if value is None or value == objective or meaningless.get(name, False):
            continue
        text = write(value)
        if (text, value) not in seen:
            rows.append((label, text + (_fullest(timeline) if name == "peak_bytes" else "")))
        seen.add((text, value))
    return rows


def _fullest(timeline: Timeline) -> str:
    """The device that holds most, if there are several devices."""
    devices = [resource.name for resource in timeline.resources if resource.kind == "device"]
    held = bytes_held(timeline)[: len(devices)]
    return f" on {devices[int(held.argmax())]}" if len(devices) > 1 and held.any() else ""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What a plan demands of one device; None where this is unknown or does not apply.

    Attributes
    ----------
    runs, inputs
        Number of runs (operators, or batches of them), and the number of inputs that they process in total.
    busy_seconds, idle_seconds
        Until the last end; if inputs follow each other, in each period.
    busy_share, send_share, receive_share
        Shares of that time.
    bytes_in, bytes_out
        In total, for the whole timeline.
    memory_bytes, memory_limit
        The largest number of bytes that it holds, and the number that it may hold.
    energy_joules
        Over the same time as the seconds.
    """

    name: str
    runs: int
    inputs: int
    busy_seconds: float
    idle_seconds: float
    busy_share: float | None
    send_share: float | None
    receive_share: float | None
    bytes_in: int
    bytes_out: int
    memory_bytes: int
    memory_limit: int | None
    energy_joules: float | None


def device_uses(timeline: Timeline, limits: Limits) -> list[DeviceUse]:
    """List what a timeline demands of each device, in the cluster's order."""
    acts, count = timeline.activities, len(timeline.resources)
    span = timeline.end if timeline.period is None else timeline.period
    first = (acts.kind == ActivityKind.RUN) & ((acts.round == 0) | (timeline.period is None))
    runs = np.bincount(acts.resource[first], minlength=count).tolist()
    inputs = np.bincount(acts.resource[first], weights=acts.count[first], minlength=count).tolist()
    part, moved, held = utilisation(timeline).tolist(), moved_bytes(timeline), bytes_held(timeline).tolist()
    ports = {(resource.name, resource.kind): row for row, resource in enumerate(timeline.resources)}
    energy = joules(timeline)
    uses = []
    for row, resource in enumerate(timeline.resources):
        if resource.kind != "device":
            continue
        sends, receives = (ports.get((resource.name, kind)) for kind in ("send_port", "receive_port"))
        uses.append(
            DeviceUse(
                name=resource.name,
                runs=runs[row],
                inputs=round(inputs[row]),
                busy_seconds=part[row] * span,
                idle_seconds=max(0.0, 1.0 - part[row]) * span,
                busy_share=part[row] if span > 0.0 else None,
                send_share=None if sends is None or span <= 0.0 else part[sends],
                receive_share=None if receives is None or span <= 0.0 else part[receives],
                bytes_in=0 if receives is None else moved[receives],
                bytes_out=0 if sends is None else moved[sends],
                memory_bytes=held[row],
                memory_limit=limits.get(resource.name),
                energy_joules=energy[row],
            )
        )
    return uses


def device_section(timeline: Timeline, uses: Sequence[DeviceUse]) -> Section:
    """The devices as a table; columns without information are left out."""
    kinds: set[ResourceKind] = {resource.kind for resource in timeline.resources}
    batches = bool((timeline.activities.count > 1).any())
    watts = any(use.energy_joules is not None for use in uses)
    columns: dict[str, tuple[bool, Callable[[DeviceUse], str]]] = {
        "device": (True, lambda use: use.name),
        "runs": (True, lambda use: f"{use.runs:,}"),
        "inputs": (batches, lambda use: f"{use.inputs:,}"),
        "mean batch": (batches, lambda use: f"{use.inputs / use.runs:.1f}" if use.runs else "-"),
        "busy": (True, lambda use: f"{precise_seconds(use.busy_seconds)} ({readable_share(use.busy_share)})"),
        "idle": (True, lambda use: precise_seconds(use.idle_seconds)),
        "sends": ("send_port" in kinds, lambda use: readable_share(use.send_share)),
        "receives": ("receive_port" in kinds, lambda use: readable_share(use.receive_share)),
        "bytes out": ("send_port" in kinds, lambda use: readable_bytes(use.bytes_out)),
        "bytes in": ("receive_port" in kinds, lambda use: readable_bytes(use.bytes_in)),
        "memory": (True, lambda use: readable_bytes(use.memory_bytes)),
        "limit": (True, lambda use: "-" if use.memory_limit is None else readable_bytes(use.memory_limit)),
        "energy": (watts, lambda use: "-" if use.energy_joules is None else f"{use.energy_joules:,.4g} J"),
    }
    return section_of("Devices", uses, {heading: write for heading, (wanted, write) in columns.items() if wanted})


def rows_of(timeline: Timeline, most: int) -> list[tuple[int, str]]:
    """Rows of a chart by resource, with titles: the busiest devices with their ports, and what all devices share."""
    count = np.bincount(timeline.activities.resource, minlength=len(timeline.resources))
    devices = [row for row, each in enumerate(timeline.resources) if each.kind == "device"]
    found = []
    for device in sorted(sorted(devices, key=lambda row: -count[row])[:most]):
        name = timeline.resources[device].name
        found.append((device, name))
        for row, each in enumerate(timeline.resources):
            if each.name == name and each.kind in PORT_WORDS:
                found.append((row, PORT_WORDS[each.kind]))
    return found + [(row, each.name) for row, each in enumerate(timeline.resources) if each.kind in ("link", "channel")]


def lanes(timeline: Timeline) -> IntArray:
    """Lanes of the activities, so that those of one resource do not overlap. Shape (activities,)."""
    acts = timeline.activities
    found = np.zeros(len(acts), dtype=np.int64)
    free: dict[int, list[float]] = {}
    for row in np.lexsort((acts.rank, acts.end, acts.start)).tolist():
        ends, start = free.setdefault(int(acts.resource[row]), []), acts.start[row] + ROUNDING * timeline.end
        lane = next((lane for lane, end in enumerate(ends) if end <= start), len(ends))
        ends[lane : lane + 1] = [float(acts.end[row])]
        found[row] = lane
    return found


def runs_in_order(timeline: Timeline) -> IntArray:
    """Rows of the runs by start; of runs that start together, the one that ends first comes first."""
    acts = timeline.activities
    runs = np.flatnonzero(acts.kind == ActivityKind.RUN)
    order: IntArray = runs[np.lexsort((acts.rank[runs], acts.end[runs], acts.start[runs]))]
    return order


def plan_of(
    graph: OpGraph, timeline: Timeline, uses: Sequence[DeviceUse], critical: frozenset[int], notes: Notes
) -> dict[str, object]:
    """Write a timeline as plain data.

    Returns
    -------
    dict
        Every measure that is defined, for example ``makespan_seconds``; ``devices`` (:class:`DeviceUse`);
        ``operators`` by start, each with ``operator``, ``kind``, ``device``, ``start``, ``end``, ``critical``,
        ``held_bytes`` (what its device holds while it starts) and the problem's notes; ``transfers`` by start, each
        with ``tensor`` (or the operator that it serves), ``consumer``, ``source``, ``target``, ``start``, ``end``,
        ``bytes`` and the problem's notes; with addresses, ``storages``, each with ``storage``, ``device``, ``offset``,
        ``bytes``, ``begin`` and ``end``.
    """
    suffix = {"makespan": "_seconds", "bottleneck": "_seconds", "latency": "_seconds", "energy": "_joules"}
    names = {"throughput": "inputs_per_second", "traffic": "traffic_bytes"}
    found = {names.get(name, name + suffix.get(name, "")): measure(timeline) for name, measure in MEASURES.items()}
    acts, lives = timeline.activities, timeline.lifetimes
    held = [bytes_over_time(timeline, place) for place in range(len(timeline.resources))]
    runs = []
    for row in runs_in_order(timeline).tolist():
        moments, level = held[int(acts.resource[row])]
        now = int(level[np.searchsorted(moments, float(acts.start[row]), side="right") - 1])
        runs.append({**activity_of(graph, timeline, row), "critical": row in critical, "held_bytes": now, **notes(row)})
    plan: dict[str, object] = {
        **{name: value for name, value in found.items() if value is not None},
        "devices": [asdict(use) for use in uses],
        "operators": runs,
        "transfers": [{**activity_of(graph, timeline, row), **notes(row)} for row in transfer_rows(timeline)],
    }
    if lives.offset is not None:
        columns = (lives.storage, lives.resource, lives.offset, lives.bytes, lives.begin, lives.end)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        plan["storages"] = [
            {"storage": timeline.name(storage), "device": timeline.resources[place].name}
            | dict(zip(("offset", "bytes", "begin", "end"), numbers, strict=True))
            for storage, place, *numbers in rows
        ]
    return plan


def transfer_rows(timeline: Timeline) -> Iterator[int]:
    """One row per transfer, by start: its sending end, or the receiving end if only that is known."""
    acts = timeline.activities
    ends = (acts.kind == ActivityKind.SEND) | ((acts.kind == ActivityKind.RECEIVE) & (acts.twin < 0))
    rows = np.flatnonzero(ends)
    yield from rows[np.lexsort((rows, acts.end[rows], acts.start[rows]))].tolist()


def activity_of(graph: OpGraph, timeline: Timeline, row: int) -> dict[str, object]:
    """Describe a run, or a transfer given either of its ends."""
    acts, place = timeline.activities, timeline.resources
    what, here = int(acts.what[row]), place[acts.resource[row]].name
    times = {"start": float(acts.start[row]), "end": float(acts.end[row])}
    if acts.kind[row] == ActivityKind.RUN:
        kind = graph.operators[what].kind if what < timeline.names.operators else ""
        return {"operator": timeline.name(what), "kind": kind, "device": here, **times}
    twin, reader = int(acts.twin[row]), int(acts.reader[row])
    ends = [here, None if twin < 0 else place[acts.resource[twin]].name]
    source, target = ends if acts.kind[row] == ActivityKind.SEND else ends[::-1]
    consumer = None if reader < 0 else timeline.name(reader)
    size = int(acts.bytes[row]) * int(acts.count[row])
    return {
        "tensor": timeline.name(what),
        "consumer": consumer,
        "source": source,
        "target": target,
        **times,
        "bytes": size,
    }
