"""The smallest largest load, where a stage pays for what it receives and sends, or has replicas that take turns.

A *load* is what a device needs for an input. Where a stage begins, only the seconds of its receiving matter for what
comes later: less is never worse. So a test of one threshold is a dynamic program over points, which keeps the shortest
receiving; over sets of devices (see :mod:`.sets`) it is exact, along one sequence of devices it gives a plan, and over
walks that may use devices again it gives a bound. Each test also finds the smallest load that it refused: no plan has a
largest load between the threshold and that one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.pipeline.plans import PipelinePlan, stage_seconds, transfer_seconds
from opweave.solvers.pipeline.sets import Sets, StageSteps, first_begins, seconds_by_point

CLOSE = 1e-11
"""Relative difference of a bound and a plan that counts as none."""

ANY = sys.float_info.max
"""The threshold that every plan keeps; no infinite load does."""

NEAR = 1e-6
"""Relative difference below which thresholds are the smallest refused loads, one after the other."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Inner cut points, and the devices of each stage."""

    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]

    @property
    def plan(self) -> PipelinePlan:
        """The same with the first device of each stage alone."""
        return PipelinePlan(self.cuts, tuple(each[0] for each in self.devices))


@dataclass(eq=False)
class Refused:
    """The smallest load that a test refused; infinite if it refused none."""

    least: float = math.inf

    def above(self, loads: FloatArray, limit: float) -> None:
        """Note loads above a limit."""
        self.least = min(self.least, float(np.min(loads, where=loads > limit, initial=math.inf)))


@dataclass(eq=False)
class Loads:
    """Loads on one instance, with its stages."""

    instance: PipelineInstance
    steps: StageSteps

    def ended(self, team: list[int], turns: int, begun: FloatMatrix, limit: float, refused: Refused) -> FloatMatrix:
        """Least receiving and computing of stages by their ends; without ``summed``, 0 if computing takes no longer."""
        least = self.steps.least(team, begun)
        if self.instance.summed:
            return least
        refused.above(least / turns, limit)
        return np.where(least / turns <= limit, 0.0, math.inf)

    def received(
        self, ended: FloatMatrix, sending: FloatArray, turns: tuple[int, int], limit: float, refused: Refused
    ) -> FloatMatrix:
        """Receiving of the next stage by the point where it begins; infinite where the limit forbids that."""
        summed = self.instance.summed
        loads = (ended + sending) / turns[0] if summed else ended + sending / min(turns)
        refused.above(loads, limit)
        return np.where(loads <= limit, sending if summed else 0.0, math.inf)

    def value(self, crew: Crew) -> float:
        """The largest load of a plan."""
        turns = [len(each) for each in crew.devices]
        computing = stage_seconds(self.instance, crew.plan)
        sending = transfer_seconds(self.instance, crew.plan)
        if self.instance.summed:
            sums = zip([0.0, *sending], computing, [*sending, 0.0], turns, strict=True)
            return max((before + own + after) / n for before, own, after, n in sums)
        both = map(min, turns[:-1], turns[1:])  # replicas of both sides take turns
        shares = [seconds / count for seconds, count in zip(sending, both, strict=True)]
        return max([*(each / n for each, n in zip(computing, turns, strict=True)), *shares])


Test = Callable[[float], tuple[Crew | None, float] | None]
"""Tests a threshold: a plan that keeps it or None, and the smallest load refused; None if there is no time."""


@dataclass(eq=False)
class SetLoads:
    """The exact test over sets of devices."""

    loads: Loads
    sets: Sets
    should_stop: Callable[[], bool]
    _ended: FloatMatrix = field(init=False)

    def __post_init__(self) -> None:
        self._ended = self.sets.empty_table(self.loads.instance)

    def test(self, limit: float) -> tuple[Crew | None, float] | None:
        """As :data:`Test`."""
        sets, refused, instance = self.sets, Refused(), self.loads.instance
        self._ended[:] = math.inf
        for team, there in sets.layers(instance.most_devices):
            if self.should_stop():
                return None
            begun = self._begun(team, there, limit, refused)
            turns = int(sets.turns[team])
            self._ended[sets.rows[there, team]] = self.loads.ended(sets.team(team), turns, begun, limit, refused)
        final = np.where(sets.rows >= 0, self._ended[sets.rows, instance.last] / sets.turns, math.inf)
        refused.above(final, limit)
        kept = np.argwhere(final <= limit)
        for state, team in kept[np.argsort(sets.used[kept[:, 0]], kind="stable")].tolist():
            crew = self._crew(state, team, limit)
            if instance.least <= len(crew.devices) <= instance.most:
                return crew, refused.least
        return None, refused.least

    def _begun(self, team: int, there: IntArray, limit: float, refused: Refused) -> FloatMatrix:
        sets, before = self.sets, self.sets.without(there, team)
        begun = np.full((len(there), self.loads.instance.last + 1), math.inf)
        begun[before == 0, 0] = 0.0
        for source in range(len(sets.turns)):
            rows = sets.rows[before, source]
            known = rows >= 0
            if known.any():
                sending = seconds_by_point(self.loads.instance, *sets.pair(source, team))
                turns = int(sets.turns[source]), int(sets.turns[team])
                coming = self.loads.received(self._ended[rows[known]], sending, turns, limit, refused)
                begun[known] = np.minimum(begun[known], coming)
        return begun

    def _crew(self, state: int, team: int, limit: float) -> Crew:
        """Go back along the table."""
        sets, loads, point = self.sets, self.loads, self.loads.instance.last
        cuts, teams, nothing = [], [team], Refused()
        while True:
            begun = self._begun(team, np.array([state]), limit, nothing)[0]
            point = loads.steps.origin(sets.team(team), begun, point)
            state = int(sets.without(np.array([state]), team)[0])
            if state == 0:
                break
            cuts.append(point)
            team = self._before(state, team, point, limit)
            teams.append(team)
        return Crew(tuple(reversed(cuts)), tuple(map(tuple, sets.devices(teams[::-1]))))

    def _before(self, state: int, team: int, point: int, limit: float) -> int:
        """The team whose stage ends at a point and sends to another team in the shortest time."""
        sets, nothing, found = self.sets, Refused(), []
        for source in range(len(sets.turns)):
            row = sets.rows[state, source]
            sending = seconds_by_point(self.loads.instance, *sets.pair(source, team))[point : point + 1]
            turns = int(sets.turns[source]), int(sets.turns[team])
            ended = self._ended[row : row + 1, point] if row >= 0 else np.full(1, math.inf)
            found.append(float(self.loads.received(ended[:, None], sending, turns, limit, nothing)[0, 0]))
        return int(np.argmin(found))


@dataclass(eq=False)
class SequenceLoads:
    """The test along one sequence of devices, each alone in its stage."""

    loads: Loads
    devices: Sequence[int]

    def test(self, limit: float) -> tuple[Crew | None, float] | None:
        """As :data:`Test`."""
        loads, instance, refused = self.loads, self.loads.instance, Refused()
        begun = np.full((1, instance.last + 1), math.inf)
        begun[0, 0] = 0.0
        tables = []
        for place, v in enumerate(self.devices):
            ended = loads.ended([v], 1, begun, limit, refused)
            tables.append((begun, ended))
            if place + 1 < len(self.devices):
                sending = seconds_by_point(instance, v, self.devices[place + 1])
                begun = loads.received(ended, sending, (1, 1), limit, refused)
        refused.above(ended[:, -1], limit)
        if not ended[0, -1] <= limit:
            return None, refused.least
        cuts, point = [], instance.last
        for v, (begun, _) in zip(reversed(self.devices), reversed(tables), strict=True):
            point = loads.steps.origin([v], begun[0], point)
            cuts.append(point)
        return Crew(tuple(reversed(cuts[:-1])), tuple((v,) for v in self.devices)), refused.least


@dataclass(eq=False)
class WalkLoads:
    """The test over walks that may use devices again: what it refuses, no plan keeps."""

    loads: Loads
    should_stop: Callable[[], bool]

    def test(self, limit: float) -> float | None:
        """The smallest load refused if no walk keeps the limit; None if one does, or if there is no time."""
        loads, instance, refused = self.loads, self.loads.instance, Refused()
        begins = first_begins(instance)
        count, points = instance.reach.shape
        begun = np.full((count, points), math.inf)
        begun[:, 0] = 0.0
        for e in range(1, points):
            if self.should_stop():
                return None
            ended = np.empty(count)
            for v in range(count):
                ended[v] = self._ended(v, e, begun[v, begins[v, e] : e], limit, refused)
            if e == points - 1:
                refused.above(ended, limit)
                return refused.least if not (ended <= limit).any() else None
            sending = instance.send_seconds_between(e)
            coming = loads.received(ended[:, None], sending, (1, 1), limit, refused)
            begun[:, e] = coming.min(axis=0)
        return None

    def _ended(self, v: int, e: int, begun: FloatArray, limit: float, refused: Refused) -> float:
        elapsed = self.loads.instance.elapsed[v]
        least = float(np.min(begun - elapsed[e - len(begun) : e], initial=math.inf) + elapsed[e])
        if self.loads.instance.summed:
            return least
        if limit < least < refused.least:
            refused.least = least
        return 0.0 if least <= limit else math.inf


def next_threshold(low: float, high: float) -> float | None:
    """The threshold to test between a bound and the best plan's value; None if they agree."""
    if high == math.inf:
        return ANY
    if low >= high * (1.0 - CLOSE):
        return None
    if high - low <= NEAR * high:
        return low
    return min(max(math.sqrt(low) * math.sqrt(high) if low > 0.0 else 0.5 * high, low), high)
