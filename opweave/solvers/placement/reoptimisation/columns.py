"""The columns of a window's program: devices and starts of its blocks, and starts of what lies between.

Times are terms: sums of columns with whole coefficients. A column that is always 1 carries what is constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.whole import Interval
from opweave.solvers.placement.reoptimisation.timed import Activity, Resource
from opweave.solvers.placement.reoptimisation.window import TICKS, Block, Window

GAIN = 1e-5
"""Least relative gain of a better plan."""

Terms = dict[int, int]
"""Coefficients by column."""

Places = dict[int, int]
"""The devices on which an operator may run, each with the column that is 1 where it does."""


class HopelessError(Exception):
    """The plan is held up by what is not in the window."""


class Columns:
    """The model of a window, with its columns and no rows but those that bound its length.

    Attributes
    ----------
    end
        The length of the plan, which is less than now.
    places, starts
        Devices and start of every block.
    at
        Starts of what lies between.
    hint
        The plan at hand, as far as columns have values in it.
    machines
        The intervals on every resource.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.plan, self.network = window, window.plan, window.plan.network
        self.model, self.hint = IntervalModel(), dict[int, int]()
        self.machines: dict[Resource, list[Interval]] = defaultdict(list)
        least, most = window.least(), TICKS - max(1, round(GAIN * TICKS))
        if least > most:
            raise HopelessError
        self.one = self.model.whole(1, 1)
        self.end = self.model.whole(least, most)
        self.model.minimise(Linear.of(self.end))
        self.places = [self._places(block) for block in window.blocks]
        self.starts = [self._start(i, block) for i, block in enumerate(window.blocks)]
        self._tie()
        self.at = {activity: self._between(activity) for activity in window.middle}

    @cached_property
    def homes(self) -> dict[int, int]:
        """Devices of groups of operators that share one (Colocate), if some of them are not in the window."""
        outside = (v for v in range(len(self.network)) if v not in self.window.block_of)
        return {self.network.cluster[v]: self.plan.device[v] for v in outside}

    def _places(self, block: Block) -> Places:
        """Columns for the devices of a block."""
        seconds, now = self.network.seconds, self.plan.device[block[0]]
        devices = [k for k in range(len(seconds[0])) if all(seconds[v][k] < np.inf for v in block)]
        if any(self.network.cluster[v] in self.homes for v in block):
            devices = [now]
        if len(devices) == 1:
            return {now: self.one}
        places = {k: self.model.binary() for k in devices}
        self.model.row(dict.fromkeys(places.values(), 1), 1, 1)
        self.hint |= {column: int(k == now) for k, column in places.items()}
        return places

    def _start(self, number: int, block: Block) -> int:
        """A column for the start of a block."""
        start = self.model.whole(0, TICKS)
        self.hint[start] = self.window.begins(block[0])
        length = self.offset(block, len(block))
        for k, column in self.places[number].items():
            self.machines["device", k].append(Interval(start, length[k], column))
        ends = {start: 1}
        _add(ends, self.at_places(length, self.places[number]))
        self.after(ends, {self.end: 1})
        return start

    def _tie(self) -> None:
        """Blocks with operators of one group share a device."""
        first: dict[int, Places] = {}
        for block, places in zip(self.window.blocks, self.places, strict=True):
            for v in block:
                known = first.setdefault(self.network.cluster[v], places)
                for k in known.keys() | places.keys() if known is not places else ():
                    terms: Terms = {known[k]: 1} if k in known else {}
                    _add(terms, {places[k]: -1} if k in places else {})
                    self.model.row(terms, 0, 0)

    def _between(self, activity: Activity) -> int:
        """A column for the start of an activity that lies between."""
        column, lasts = self.model.whole(0, TICKS), self.window.lasts(activity)
        self.hint[column] = self.window.begins(activity)
        self.after({column: 1}, {self.end: 1}, lasts)
        if isinstance(activity, int):
            self.machines["device", self.plan.device[activity]].append(Interval(column, lasts, self.one))
        return column

    def offset(self, block: Block, count: int) -> list[int]:
        """Ticks that the first members of a block take, by device; 0 where they cannot run."""
        seconds = self.network.seconds
        totals = [sum(seconds[v][k] for v in block[:count]) for k in range(len(seconds[0]))]
        return [self.window.ticks(total) if total < np.inf else 0 for total in totals]

    @staticmethod
    def at_places(ticks: Sequence[int], places: Places) -> Terms:
        """The entry of ``ticks`` for the device that is chosen."""
        terms: Terms = {}
        for k, column in places.items():
            _add(terms, {column: ticks[k]})
        return terms

    def of(self, v: int) -> Places:
        """The devices on which an operator may run."""
        return self.places[self.window.block_of[v]] if v in self.window.block_of else {self.plan.device[v]: self.one}

    def _within_block(self, v: int, count: int) -> Terms:
        """The start of an operator's block, plus what its members take up to the operator and ``count`` more."""
        number = self.window.block_of[v]
        block = self.window.blocks[number]
        terms: Terms = {self.starts[number]: 1}
        _add(terms, self.at_places(self.offset(block, block.index(v) + count), self.places[number]))
        return terms

    def begin(self, activity: Activity) -> Terms:
        """The start of an operator, or of a transfer that the window does not decide."""
        if isinstance(activity, int) and activity in self.window.block_of:
            return self._within_block(activity, 0)
        if activity in self.at:
            return {self.at[activity]: 1}
        if activity in self.window.late:
            return {self.end: 1, self.one: -self.window.left(activity)}
        return {self.one: self.window.begins(activity)}

    def finish(self, v: int) -> Terms:
        """The end of an operator."""
        if v in self.window.block_of:
            return self._within_block(v, 1)
        terms = self.begin(v)
        _add(terms, {self.one: self.window.lasts(v)})
        return terms

    def is_moving(self, v: int) -> bool:
        """Whether the start of an operator is decided here."""
        return v in self.window.block_of or v in self.at

    def together(self, u: int, v: int) -> bool:
        """Whether two operators are in one block."""
        block_of = self.window.block_of
        return u in block_of and block_of[u] == block_of.get(v)

    def after(
        self, first: Mapping[int, int], second: Mapping[int, int], lag: int = 0, only_if: Iterable[int] = ()
    ) -> None:
        """Add the row that ``second`` is at least ``lag`` ticks after ``first`` if some columns are 1."""
        terms = dict(second)
        _add(terms, {column: -weight for column, weight in first.items()})
        terms = {column: weight for column, weight in terms.items() if weight}
        if terms or lag > 0:
            self.model.row(terms, lag, None, (column for column in only_if if column != self.one))


def _add(terms: Terms, more: Mapping[int, int]) -> None:
    for column, weight in more.items():
        terms[column] = terms.get(column, 0) + weight
