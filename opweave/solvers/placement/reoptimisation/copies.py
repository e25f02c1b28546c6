"""The transfers of a window's program, where there are ports.

A transfer from or to an operator of the window depends on the devices of both ends. It has an interval on both ports of
each of its ways, which is present if its producer and one of its readers are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opweave.formulations.modeling.whole import Interval
from opweave.solvers.placement.arrays import PORT_EDGE
from opweave.solvers.placement.reoptimisation.columns import Columns, Terms
from opweave.solvers.placement.reoptimisation.timed import Activity, Copy
from opweave.solvers.placement.reoptimisation.window import TICKS


class Message(NamedTuple):
    """Some transfers that start at one time: a flow to any device, or a tensor to one."""

    item: int
    targets: tuple[int, ...]


class Way(NamedTuple):
    """From a device to another, the column that is 1 if a message goes there, and its ticks."""

    source: int
    target: int
    taken: int
    ticks: int


class Copies:
    """The transfers of a window's program; see :class:`.Columns`."""

    def __init__(self, columns: Columns) -> None:
        self.columns, self.window = columns, columns.window
        self.plan, self.network = columns.plan, columns.network
        self.starts: dict[Message, int] = {}
        self.ways: dict[Message, list[Way]] = {}
        messages: dict[Message, None] = {}
        for flow in self._flows():
            self._forbid(flow)
            devices = tuple(columns.of(self.network.target[flow]))
            if self.network.model == PORT_EDGE:
                messages[Message(flow, devices)] = None
            else:
                messages |= dict.fromkeys(Message(self.network.tensor[flow], (k,)) for k in devices)
        for message in messages:
            self._write(message)
        decided = {Copy(message.item, k) for message in messages for k in message.targets}
        for activity in self.window.middle:
            if not isinstance(activity, int) and activity not in decided:
                self._keep(activity)
        self._join_the_rest()

    def _flows(self) -> list[int]:
        """Flows with an end in the window that are not within one block."""
        network, window = self.network, self.window
        found = {f for v in window.block_of for f in (*network.incoming[v], *network.outgoing[v])}
        return sorted(f for f in found if not self.columns.together(network.source[f], network.target[f]))

    def _forbid(self, flow: int) -> None:
        """The ends of a flow are not on devices without a link."""
        network, columns = self.network, self.columns
        for a, there in columns.of(network.source[flow]).items():
            for b, here in columns.of(network.target[flow]).items():
                if a != b and network.lasts[flow][a][b] == np.inf:
                    columns.model.row({there: 1, here: 1} if there != here else {there: 2}, None, 1)

    def _write(self, message: Message) -> None:
        """The ways of a message, and the readers that wait for it."""
        columns, network = self.columns, self.network
        flows = network.flows(Copy(*message[:1], message.targets[0]))
        producer = network.source[flows[0]]
        now = self._now(message)
        if now in self.window.early:
            self._await(flows, now.target, {columns.one: self.window.ends(now)})
            return
        ways = [
            Way(a, b, self._taken(there, flows, b), self.window.ticks(network.lasts[flows[0]][a][b]))
            for a, there in columns.of(producer).items()
            for b in message.targets
            if a != b and network.lasts[flows[0]][a][b] < np.inf
        ]
        if not ways:
            return
        start = columns.at[now] if now in columns.at else columns.model.whole(0, TICKS)
        if now in self.plan.start:
            columns.hint[start] = self.window.begins(now)
        self.starts[message], self.ways[message] = start, ways
        columns.after(columns.finish(producer), {start: 1})
        arrivals: dict[int, Terms] = defaultdict(lambda: {start: 1})
        for way in ways:
            for port in (("send", way.source), ("receive", way.target)):
                columns.machines[port].append(Interval(start, way.ticks, way.taken))
            arrivals[way.target][way.taken] = arrivals[way.target].get(way.taken, 0) + way.ticks
            is_now = self.plan.device[producer] == way.source and now.target == way.target and now in self.plan.start
            columns.hint.setdefault(way.taken, int(is_now))
        for target, arrival in arrivals.items():
            self._await(flows, target, arrival)

    def _now(self, message: Message) -> Copy:
        """The transfer of a message for the devices of the plan at hand; it may not be sent."""
        if self.network.model == PORT_EDGE:
            return Copy(message.item, self.plan.device[self.network.target[message.item]])
        return Copy(message.item, message.targets[0])

    def _await(self, flows: Sequence[int], target: int, arrival: Terms) -> None:
        """Readers on a device start after a transfer has arrived there."""
        columns = self.columns
        for f in flows:
            u, v = self.network.source[f], self.network.target[f]
            if target in columns.of(v) and not columns.together(u, v):
                columns.after(arrival, columns.begin(v), 0, (columns.of(v)[target],))

    def _taken(self, there: int, flows: Sequence[int], target: int) -> int:
        """A column that is 1 if the producer is there, and a reader on the target."""
        columns = self.columns
        places = [columns.of(self.network.target[f]) for f in flows]
        readers = list(dict.fromkeys(each[target] for each in places if target in each))
        if columns.one in readers:
            return there
        if there == columns.one and len(readers) == 1:
            return readers[0]
        taken = columns.model.binary()
        columns.after({taken: 1}, dict.fromkeys(readers, 1))
        columns.after({taken: 1}, {there: 1})
        for reader in readers:
            columns.after({reader: 1}, {taken: 1}, 0, (there,))
        return taken

    def _keep(self, copy: Copy) -> None:
        """A transfer between that has no end in the window."""
        columns, start, lasts = self.columns, self.columns.at[copy], self.window.lasts(copy)
        for port in self.plan.resources(copy):
            columns.machines[port].append(Interval(start, lasts, columns.one))
        columns.after(columns.finish(self.plan.producer(copy)), {start: 1})
        self._await(self.plan.carried(copy), copy.target, {start: 1, columns.one: lasts})

    def _join_the_rest(self) -> None:
        """Operators between wait for early transfers, and late transfers for operators between."""
        columns, window, plan = self.columns, self.window, self.plan
        for activity in window.middle:
            for other, _ in plan.waits_for[activity]:
                if isinstance(activity, int) and not isinstance(other, int) and other in window.early:
                    columns.after({columns.one: window.ends(other)}, columns.begin(activity))
        for activity in window.late:
            if not isinstance(activity, int) and plan.producer(activity) in columns.at:
                columns.after(columns.finish(plan.producer(activity)), columns.begin(activity))

    def sent(self, values: Sequence[int]) -> Iterable[tuple[Activity, int]]:
        """The transfers that a solution decides, with their starts."""
        for message, ways in self.ways.items():
            for way in ways:
                if values[way.taken]:
                    yield Copy(message.item, way.target), values[self.starts[message]]
