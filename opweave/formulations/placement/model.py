"""Columns that all programs of placement share (devices, starts, routes), users' variables, and reading solutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from opweave.formulations.modeling.intervals import WHOLE, Interval
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import NEGLIGIBLE, Key, LinearModel
from opweave.formulations.order_arcs import ancestors
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.windows import (
    Message,
    Route,
    Timetable,
    Windows,
    retimed,
)
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.placement.spec import Schedule, TransferModel

ABSENT = -1
"""Replaces a column whose variable is 0 in every schedule."""


Known = Callable[[], tuple[FloatArray, BoolArray]]
"""The latest end of activities, and an entry [b, a] that is true if a always ends before b starts."""


@dataclass(eq=False)
class PlacementModel(LinearModel):
    """The data from which a model was written, and its columns; times are in units of ``tick`` seconds.

    Attributes
    ----------
    place
        Column of "operator v runs on device k", or ABSENT; tied operators share columns. Shape (operators, devices).
    starts_at, sent_at
        Columns of the starts of operators and messages.
    takes
        For every message, the column of each of its routes.
    length
        Column of C_max.
    """

    instance: PlacementInstance
    transfers: TransferModel
    messages: tuple[Message, ...]
    windows: Windows
    place: IntArray = field(init=False)
    starts_at: IntArray = field(init=False)
    sent_at: IntArray = field(init=False)
    takes: list[dict[Route, int]] = field(init=False, default_factory=list)
    length: int = field(init=False, default=-1)

    rounds: ClassVar[bool] = False
    """Whether times are whole units, rounded down."""

    def add_places(self, together: BoolArray) -> None:
        """Add x[i, k] if group i of tied operators may run on device k; keys use the group's first operator."""
        instance = self.instance
        first = np.unique(instance.cluster, return_index=True)[1].tolist()
        keys: list[Key] = [(instance.names[first[i]], instance.devices[k]) for i, k in np.argwhere(together).tolist()]
        columns = np.full(together.shape, ABSENT, dtype=np.int64)
        columns[together] = self.binaries("x", keys)
        self.place = columns[instance.cluster]

    def add_routes(self) -> None:
        """Add y[t, r, q, k] for every route of every message."""
        devices, named = self.instance.devices, list(zip(self.message_keys(), self.messages, strict=True))
        keys: list[Key] = [(t, r, devices[way.source], devices[way.target]) for (t, r), m in named for way in m.routes]
        fresh = iter(self.binaries("y", keys).tolist())
        self.takes = [{way: next(fresh) for way in message.routes} for message in self.messages]

    def together(self, fits: BoolArray) -> BoolArray:
        """Whether all operators of a group fit on a device. Shape (groups, devices)."""
        cluster = self.instance.cluster
        found = np.ones((int(cluster.max(initial=-1)) + 1, len(self.instance.devices)), dtype=bool)
        np.logical_and.at(found, cluster, fits)
        return found

    def units(self, seconds: FloatArray) -> FloatArray | IntArray:
        """Convert seconds to units."""
        return seconds / self.tick

    def add_times(self, least: float) -> None:
        """Add S[i], T[m] and C_max within their windows; no schedule takes less than ``least`` seconds."""
        windows, instance = self.windows, self.instance
        self.starts_at = self._within("S", instance.names, windows.earliest(), windows.latest_start())
        ended, due = windows.earliest_end(), windows.latest_end()
        ready = [float(ended[message.producer]) for message in self.messages]
        latest = [max(windows.message_due(message), float(due[message.producer])) for message in self.messages]
        self.sent_at = self._within("T", self.message_keys(), np.asarray(ready), np.asarray(latest))
        (self.length,) = self._within("C_max", (None,), np.array([least]), np.array([windows.horizon])).tolist()

    def _within(self, name: str, keys: Sequence[Key], low: FloatArray, high: FloatArray) -> IntArray:
        begin = self.units(low)
        columns = self.columns(name, keys, begin, np.maximum(begin, self.units(high) + self.rounds), self.rounds)
        self.timed.update(columns.tolist())
        return columns

    def message_keys(self) -> list[tuple[str, str]]:
        """Names of messages: the tensor, and its reader or target device."""
        instance = self.instance
        return [
            (instance.tensors[m.tensor], instance.names[m.readers[0]] if m.target < 0 else instance.devices[m.target])
            for m in self.messages
        ]

    def at(self, v: int) -> Linear:
        """Start of operator v, in units."""
        return Linear.of(int(self.starts_at[v]))

    def runs_on(self, v: int, k: int) -> Linear:
        """1 if operator v runs on device k."""
        return Linear() if self.place[v, k] == ABSENT else Linear.of(int(self.place[v, k]))

    def devices_of(self, v: int) -> list[int]:
        """Devices that operator v may run on."""
        return np.flatnonzero(self.place[v] != ABSENT).tolist()

    def weighted(self, v: int, seconds: FloatArray) -> Linear:
        """The entry of ``seconds`` for the device that operator v runs on, in units."""
        there = self.place[v] != ABSENT
        units = self.units(seconds[there]).tolist()
        return Linear(
            0, {c: w for c, w in zip(self.place[v, there].tolist(), units, strict=True) if abs(w) > NEGLIGIBLE}
        )

    def lasts(self, v: int) -> Linear:
        """(4b) Run time of operator v, in units: sum over k of p[v, k] x[v, k]."""
        return self.weighted(v, self.instance.seconds[v])

    def one_device(self) -> None:
        """(4c) Every operator runs on one device: the sum over k of x[i, k] is 1."""
        for v in np.unique(self.instance.cluster, return_index=True)[1].tolist():
            self.rows("one_device").add(total(self.runs_on(v, k) for k in self.devices_of(v)) == 1)

    def heads_and_tails(self) -> None:
        """S[v] >= sum over k of head[v, k] x[v, k]; (4) C_max >= C[v] + sum over k of tail[v, k] x[v, k]."""
        after = self.instance.seconds + self.windows.tail
        for v in range(self.instance.operators):
            self.rows("heads").add(self.weighted(v, self.windows.head[v]) <= self.at(v))
            self.rows("tails").add(self.at(v) + self.weighted(v, after[v]) <= Linear.of(self.length))

    def area(self) -> None:
        """The work of a device, and the traffic of a port, end by C_max, with the least head and tail of a device."""
        windows, length, rows = self.windows, Linear.of(self.length), self.rows("area")
        for k, device in enumerate(self.instance.devices):
            seconds = np.where(np.arange(len(self.instance.devices)) == k, self.instance.seconds, 0.0)
            work = {v: lasts for v, row in enumerate(seconds) if (lasts := self.weighted(v, row)).terms}
            if work:
                busy = self.any_column("busy", device, (self.runs_on(v, k) for v in work))
                outside = self.units(np.stack([windows.head[[*work], k], windows.tail[[*work], k]]).min(axis=1)).sum()
                around = Linear.of(busy, float(outside)) if outside > NEGLIGIBLE else Linear()
                rows.add(total([*work.values(), around]) <= length)
        for taken in self.at_ports().values():
            rows.add(total(self.sending(takes) for _, takes in taken) <= length)

    def at_ports(self) -> dict[tuple[str, int], list[tuple[int, dict[Route, int]]]]:
        """For every port, the start of each message that may pass it, and the columns of its routes there."""
        ports: dict[tuple[str, int], list[tuple[int, dict[Route, int]]]] = {}
        if self.transfers != "delay":
            for at, takes in zip(self.sent_at.tolist(), self.takes, strict=True):
                for port in dict.fromkeys(port for way in takes for port in way.ports):
                    here = {way: column for way, column in takes.items() if port in way.ports}
                    ports.setdefault(port, []).append((at, here))
        return ports

    def sending(self, takes: Mapping[Route, int]) -> Linear:
        """The time of a message on these routes, in units."""
        units = {column: self.units(np.asarray(way.seconds)).item() for way, column in takes.items()}
        return Linear(0, {column: size for column, size in units.items() if size > NEGLIGIBLE})

    def precedence(self) -> None:
        """(4a) S[v] >= C[u] along every arc; v runs only on devices to which that of u can send."""
        rows, instance, linked = self.rows("precedence"), self.instance, np.isfinite(self.instance.latency)
        for v, u in zip(instance.before.heads().tolist(), instance.before.items.tolist(), strict=True):
            rows.add(self.at(u) + self.lasts(u) <= self.at(v))
        for u, v in set(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            for k in self.devices_of(v) if not linked.all() else ():
                rows.add(self.runs_on(v, k) <= total(self.runs_on(u, q) for q in np.flatnonzero(linked[:, k]).tolist()))

    def keep_apart(self, name: str, groups: Sequence[Sequence[Interval]], starts: IntArray, known: Known) -> None:
        """Let no two intervals of a group overlap.

        Parameters
        ----------
        name
            The family of the 0/1 columns that say which comes first.
        groups
            Intervals, each with a column; those of one activity have the same start.
        starts, known
            Columns of the starts of all activities, and what is known of them, in the same order.
        """

    def no_overlap(self) -> None:
        """(6) One operator at a time on a device; (8) one message at a time out of a device, and one into it."""
        runs = [
            [
                Interval(int(self.starts_at[v]), self.units(lasts[v]).item(), int(self.place[v, k]))
                for v in np.flatnonzero(self.place[:, k] != ABSENT).tolist()
            ]
            for k, lasts in enumerate(self.instance.seconds.T)
        ]
        self.keep_apart("first", runs, self.starts_at, self._runs)
        shared = {  # one object for the two ports of a route
            column: Interval(at, self.units(np.asarray(way.seconds)).item(), column)
            for at, takes in zip(self.sent_at.tolist(), self.takes, strict=True)
            for way, column in takes.items()
        }
        sent = [[shared[each] for _, takes in taken for each in takes.values()] for taken in self.at_ports().values()]
        if sent:
            self.keep_apart("first_sent", sent, self.sent_at, self._sendings)

    def _runs(self) -> tuple[FloatArray, BoolArray]:
        """Latest ends of operators, and the paths between them."""
        return self.windows.latest_end() / self.tick, ancestors(self.instance.after)

    def _sendings(self) -> tuple[FloatArray, BoolArray]:
        """Latest ends of messages; one is before another if all its readers lead to the other's producer."""
        reached, producers = ancestors(self.instance.after), [each.producer for each in self.messages]
        np.fill_diagonal(reached, val=True)
        implied = [reached[np.ix_(producers, each.readers)].all(axis=1) for each in self.messages]
        due = [self.windows.message_due(each) / self.tick for each in self.messages]
        return np.asarray(due), np.stack(implied, axis=1)

    def delays(self) -> None:
        """Nothing: without ports, messages wait for nothing but their routes."""

    def write(self, least: float, check_time: Callable[[], None] = lambda: None) -> None:
        """Write everything but memory and side constraints; row families are in the paper's order.

        Parameters
        ----------
        least
            A lower bound of the makespan in seconds.
        check_time
            Called now and then; may raise an exception.
        """
        self.add_places(self.together(self.windows.fits))
        self.add_times(least * (1 - WHOLE) if self.rounds else least)
        self.minimise(Linear.of(self.length), self.tick)
        self.add_routes()
        for write in (
            self.one_device,
            self.heads_and_tails,
            self.precedence,
            self.routes,
            self.arrivals,
            self.delays,
            self.no_overlap,
            self.area,
        ):
            check_time()
            write()

    def routes(self) -> None:
        """(7) A message takes the route from its producer's device to the device of a reader."""
        rows = self.rows("routes")
        for message, takes in zip(self.messages, self.takes, strict=True):
            u, readers = message.producer, message.readers
            for way, y in takes.items():
                rows.add(Linear.of(y) <= self.runs_on(u, way.source))
                rows.add(Linear.of(y) <= total(self.runs_on(v, way.target) for v in dict.fromkeys(readers)))
            for k in sorted({way.target for way in takes}):
                into = Linear.over(y for way, y in takes.items() if way.target == k)
                for v in readers:
                    rows.add(self.runs_on(v, k) <= into + self.runs_on(u, k))
            for q in sorted({way.source for way in takes}) if message.target < 0 else ():
                out = Linear.over(y for way, y in takes.items() if way.source == q)
                rows.add(self.runs_on(u, q) <= out + self.runs_on(readers[0], q))

    def arrivals(self) -> None:
        """(4a) T[m] >= C[u]; S[v] >= T[m] + the time of m for each reader v that needs m."""
        for message, at, takes in zip(self.messages, self.sent_at.tolist(), self.takes, strict=True):
            u, sent = message.producer, Linear.of(at)
            self.rows("arrivals").add(self.at(u) + self.lasts(u) <= sent)
            for v in message.readers:
                big = self.high[at] - self.low[int(self.starts_at[v])]
                needed = () if message.target < 0 else (self.runs_on(v, message.target),)
                if not needed or (needed[0].terms and big > NEGLIGIBLE):
                    self.where("arrivals", sent + self.sending(takes) <= self.at(v), needed, big)

    def memory(self) -> None:
        """(5) Sum of m[i] x[i, k], with shared parameters once (stored[p, k] >= x[i, k]), is at most Mem[k]."""
        for device, capacity in zip(self.instance.devices, self.instance.capacity.tolist(), strict=True):
            if capacity != NO_LIMIT:
                self.within("memory", self.held(device), capacity)

    @cached_property
    def _operator(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.instance.names)}

    def on(self, op: str, device: str) -> Linear:
        """1 if operator ``op`` runs on ``device``, otherwise 0."""
        return self.runs_on(self._operator[op], self.instance.devices.index(device))

    def start(self, op: str) -> Linear:
        """The start of operator ``op``, in seconds."""
        return self.at(self._operator[op]) * self.tick

    def end(self, op: str) -> Linear:
        """The end of operator ``op``, in seconds."""
        v = self._operator[op]
        seconds, dust = self.instance.seconds[v].tolist(), NEGLIGIBLE * self.windows.horizon
        lasts = {int(self.place[v, k]): seconds[k] for k in self.devices_of(v) if seconds[k] > dust}
        return self.start(op) + Linear(0.0, lasts)

    def uses(self, device: str) -> Linear:
        """1 if any operator runs on ``device``, otherwise 0."""
        places = (self.on(op, device) for op in self.instance.names)
        return Linear.of(self.any_column("used", device, places))

    def held(self, device: str) -> Linear:
        """Bytes on ``device``: those of its operators, and those of their parameters, each counted once."""
        instance, k = self.instance, self.instance.devices.index(device)
        own, shared = instance.group_bytes()
        first = np.unique(instance.cluster, return_index=True)[1].tolist()
        held = [self.runs_on(v, k) * size for v, size in zip(first, own.tolist(), strict=True)]
        users = instance.readers() if shared else []
        for p in shared:
            places = [self.runs_on(v, k) for v in users[p].tolist()]
            key = (self.problem.graph.parameters[p].id, device)
            stored = self.any_column("stored", key, places, self.rounds)
            held.append(Linear.of(stored, int(instance.parameter_bytes[p])))
        return total(held)

    def device(self, values: FloatArray) -> list[int]:
        """Device of every operator, from values by column."""
        known = np.where(self.place == ABSENT, 0.0, values[self.place])
        return known.argmax(axis=1).tolist() if len(known) else []

    def written(self, table: Timetable) -> FloatArray:
        """Values of the columns in a schedule; 0 for columns that only one program has."""
        values = np.zeros(len(self))
        placed = np.zeros(self.place.shape)
        placed[np.arange(len(table.device)), table.device] = 1.0
        there = self.place >= 0
        values[self.place[there]] = placed[there]
        for way, takes in zip(table.ways, self.takes, strict=True):
            for route, column in takes.items():
                values[column] = route == way
        values[self.starts_at], values[self.sent_at] = self.units(table.start), self.units(table.sent)
        ends = float(self.units(table.end).max(initial=0.0))
        values[self.length] = max(ends, self.low[self.length])
        return self.completed(values)

    def schedule(self, values: FloatArray, *, keeps_times: bool) -> Schedule:
        """The devices and order of the values, with exact times: the earliest, or none before the values' times."""
        start, sent = values[self.starts_at] * self.tick, values[self.sent_at] * self.tick
        release = start if keeps_times else None
        return retimed(self.transfers, self.instance, self.messages, self.device(values), start, sent, release)
