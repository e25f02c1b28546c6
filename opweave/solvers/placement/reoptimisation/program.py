"""The program of one window: its operators choose devices and times anew, with their transfers; the rest keeps its own.

Blocks and transfers may go into the gaps between early and between late activities. So, but for rounding, the shortest
plan of the program is the shortest plan in which all else keeps its device, and the early and the late keep their order
and what they wait for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from opweave.formulations.modeling.whole import Interval, WholeProgram
from opweave.problems.arrays import NO_LIMIT
from opweave.solvers.placement.arrays import DELAY
from opweave.solvers.placement.reoptimisation.columns import Columns, Terms
from opweave.solvers.placement.reoptimisation.copies import Copies
from opweave.solvers.placement.reoptimisation.timed import Activity, Resource, Timed, timed
from opweave.solvers.placement.reoptimisation.window import TICKS, Window


class WindowProgram:
    """The program of a window.

    Raises
    ------
    HopelessError
        If no decision in the window shortens the plan.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.plan, self.network = window, window.plan, window.plan.network
        self.columns = Columns(window)
        self.copies: Copies | None = None
        self._arcs()
        if self.network.model == DELAY:
            self._delays()
        else:
            self.copies = Copies(self.columns)
        self._apart()
        self._memory()

    def _arcs(self) -> None:
        """Operators start after their predecessors."""
        network, columns = self.network, self.columns
        for v in (*self.window.block_of, *(a for a in columns.at if isinstance(a, int))):
            for u in network.before[v]:
                if not columns.together(u, v):
                    columns.after(columns.finish(u), columns.begin(v))
            for w in network.after[v]:
                if not columns.is_moving(w):
                    columns.after(columns.finish(v), columns.begin(w))

    def _delays(self) -> None:
        """Without ports, data arrives some time after its producer has ended."""
        network, columns = self.network, self.columns
        moving = (*self.window.block_of, *(a for a in columns.at if isinstance(a, int)))
        for f in sorted({f for v in moving for f in (*network.incoming[v], *network.outgoing[v])}):
            u, v = network.source[f], network.target[f]
            for a, there in columns.of(u).items():
                for b, here in columns.of(v).items():
                    if a == b or columns.together(u, v):
                        continue
                    if network.lasts[f][a][b] == np.inf:
                        columns.model.row({there: 1, here: 1} if there != here else {there: 2}, None, 1)
                    else:
                        lag = self.window.ticks(network.lasts[f][a][b])
                        columns.after(columns.finish(u), columns.begin(v), lag, (there, here))

    def _apart(self) -> None:
        """One thing at a time on a resource; blocks and transfers use gaps that are near, and no others."""
        rest: dict[Resource, list[Activity]] = defaultdict(list)
        now: dict[Resource, list[Activity]] = defaultdict(list)
        for activity in self.plan.start:
            kind = rest if activity in self.window.early or activity in self.window.late else now
            for resource in self.plan.resources(activity):
                kind[resource].append(activity)
        for resource, intervals in self.columns.machines.items():
            self._take_turns(intervals, rest[resource], self.window.near(now[resource]))

    def _take_turns(self, intervals: list[Interval], rest: list[Activity], near: tuple[int, int]) -> None:
        """The intervals of one resource do not overlap, and neither do early and late activities that are near."""
        columns, window, model = self.columns, self.window, self.columns.model
        before, after, fixed = 0, 0, list[Interval]()
        for activity in rest:
            lasts, left = window.lasts(activity), window.left(activity)
            if activity in window.early and window.ends(activity) <= near[0]:
                before = max(before, window.ends(activity))
            elif activity in window.late and left <= near[1]:
                after = max(after, left)
            else:
                start = model.whole(0, TICKS)
                columns.after(columns.begin(activity), {start: 1})
                columns.after({start: 1}, columns.begin(activity))
                columns.hint[start] = TICKS - left if activity in window.late else window.begins(activity)
                fixed.append(Interval(start, lasts))
        for each in intervals:
            assert each.present is not None
            if before:
                columns.after({columns.one: before}, {each.start: 1}, 0, (each.present,))
            if after:
                columns.after({each.start: 1}, {columns.end: 1}, after + each.size, (each.present,))
        always = [replace(each, present=None) if each.present == columns.one else each for each in intervals]
        model.apart.append([*always, *fixed])

    def _memory(self) -> None:
        """Devices hold their operators and the parameters of these, each once."""
        arrays, columns = self.network.arrays, self.columns
        for k in np.flatnonzero(arrays.capacity != NO_LIMIT).tolist():
            rest = [v for v, device in enumerate(self.plan.device) if device == k and v not in self.window.block_of]
            held = {p for v in rest for p in self._parameters(v)}
            room = int(arrays.capacity[k]) - sum(int(arrays.memory[v]) for v in rest)
            room -= sum(int(arrays.parameter_bytes[p]) for p in held)
            users: dict[int, set[int]] = defaultdict(set)
            taken: Terms = defaultdict(int)
            for v in self.window.block_of:
                if k in columns.of(v):
                    taken[columns.of(v)[k]] += int(arrays.memory[v])
                    for p in self._parameters(v):
                        users[p].add(columns.of(v)[k])
            for p in users.keys() - held:
                taken[self._any(users[p])] += int(arrays.parameter_bytes[p])
            if sum(taken.values()) > room:
                columns.model.row(taken, None, room)

    def _any(self, places: set[int]) -> int:
        """A column that is 1 if one of some columns is."""
        if len(places) == 1:
            return next(iter(places))
        if self.columns.one in places:
            return self.columns.one
        found = self.columns.model.binary()
        for place in sorted(places):
            self.columns.after({place: 1}, {found: 1})
        return found

    def _parameters(self, v: int) -> list[int]:
        arrays = self.network.arrays
        held: list[int] = arrays.parameters[arrays.parameters_start[v] : arrays.parameters_start[v + 1]].tolist()
        return held

    def program(self) -> WholeProgram:
        """The program as plain data, with the plan at hand as a hint."""
        return replace(self.columns.model.program(), hint=self.columns.hint)

    def plan_of(self, values: Sequence[int]) -> Timed:
        """The plan of a solution, in which everything begins as soon as it can."""
        window, columns, device = self.window, self.columns, list(self.plan.device)
        wanted: dict[Activity, float] = {}
        for places, start, block in zip(columns.places, columns.starts, window.blocks, strict=True):
            (k,) = (k for k, column in places.items() if values[column])
            for count, v in enumerate(block):
                device[v], wanted[v] = k, values[start] + columns.offset(block, count)[k]
        for activity in window.early:
            wanted[activity] = window.begins(activity)
        for activity in window.late:
            wanted[activity] = values[columns.end] - window.left(activity)
        for activity, column in columns.at.items():
            wanted[activity] = values[column]
        wanted.update(() if self.copies is None else self.copies.sent(values))
        return timed(self.network, device, wanted, window.tick)
