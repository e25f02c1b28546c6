"""Dynamic programming over the sets of devices that are used up: exact for a dozen devices.

Interchangeable devices are counted, not told apart, so a server of many equal devices has few sets. A *team* takes
turns in a stage: numbers of devices of each class, one in all unless replicas are allowed. Devices that constraints
tell apart are of different classes, and still form teams. A row of the table belongs to a set and the team of its last
stage, and has an entry for every point where that stage may end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.pipeline.arrays import twins
from opweave.solvers.pipeline.plans import PipelinePlan

MOST_SETS = 2**13
"""Most sets; 12 different devices have half as many."""

MOST_ENTRIES = 2**25
"""Most entries of a table, which take 8 bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """The sets of devices, and the teams.

    Attributes
    ----------
    members
        The devices of every class of interchangeable ones.
    teams, turns
        Number of devices of every class in each team, and in all. Shapes (teams, classes), (teams,).
    counts
        Number of devices of every class that a set has used up. Shape (sets, classes).
    used
        Number of devices of each set. Shape (sets,).
    rows
        Row of a set and the team that came last; -1 if the set does not have that many devices. Shape (sets, teams).
    """

    members: tuple[tuple[int, ...], ...]
    teams: IntMatrix
    turns: IntArray
    counts: IntMatrix
    used: IntArray
    rows: IntMatrix

    @classmethod
    def of(cls, instance: PipelineInstance, most_turns: int = 1) -> Sets | None:
        """All sets; None if there are too many, or their table would be too large."""
        twin = twins(instance)
        alike = instance.alike if most_turns > 1 else np.zeros_like(twin)
        groups: dict[tuple[int, ...], list[int]] = {}
        for v, key in enumerate(zip(twin, instance.capacity, alike, strict=True)):
            groups.setdefault(tuple(map(int, key)), []).append(v)
        members = tuple(map(tuple, groups.values()))
        sizes = [len(each) for each in members]
        if math.prod(size + 1 for size in sizes) > MOST_SETS:
            return None
        numbers = [range(size + 1) for size in sizes]
        counts = np.array(list(itertools.product(*numbers)), dtype=np.int64)
        group = np.array([key[2] for key in groups])
        turns = counts.sum(axis=1)
        few = counts[(turns >= 1) & (turns <= most_turns)]
        alone = np.array([len(set(group[each > 0].tolist())) == 1 for each in few], dtype=bool)
        teams = few[alone]
        there = (counts[:, None, :] >= teams[None]).all(axis=2)
        rows = np.where(there, np.cumsum(there).reshape(there.shape) - 1, -1)
        if int(there.sum()) * (instance.last + 1) > MOST_ENTRIES:
            return None
        return cls(members, teams, teams.sum(axis=1), counts, counts.sum(axis=1), rows)

    def entries(self, instance: PipelineInstance) -> int:
        """Entries of a table."""
        return int((self.rows >= 0).sum()) * (instance.last + 1)

    def empty_table(self, instance: PipelineInstance) -> FloatMatrix:
        """A table that knows no way to any set: all infinite. Shape (rows, points)."""
        rows = int(self.rows.max(initial=-1)) + 1
        return np.full((rows, instance.last + 1), np.inf)

    def team(self, team: int) -> list[int]:
        """The first device of every class in a team."""
        return [self.members[c][0] for c in np.flatnonzero(self.teams[team])]

    def pair(self, source: int, target: int) -> tuple[int, int]:
        """A device of each of two teams; two different ones if there are."""
        first, second = self.team(source)[0], int(np.flatnonzero(self.teams[target])[0])
        return first, next((v for v in self.members[second] if v != first), first)

    def without(self, sets: IntArray, team: int) -> IntArray:
        """The sets before a team was used."""
        sizes = [len(each) + 1 for each in self.members]
        strides = [math.prod(sizes[c + 1 :]) for c in range(len(sizes))]
        return sets - int(self.teams[team] @ strides)

    def layers(self, most: int) -> Iterator[tuple[int, IntArray]]:
        """Every team with the sets that it can complete, the smallest sets first; at most ``most`` devices."""
        for size in range(1, min(most, int(self.used.max(initial=0))) + 1):
            for team in range(len(self.turns)):
                there = np.flatnonzero((self.used == size) & (self.rows[:, team] >= 0))
                if len(there):
                    yield team, there

    def devices(self, teams: list[int]) -> list[list[int]]:
        """Different devices for a sequence of teams; interchangeable ones in the order of their places."""
        free = [list(each) for each in self.members]
        found = []
        for team in teams:
            taken = list[int]()
            for c, count in enumerate(self.teams[team].tolist()):
                taken += free[c][:count]
                del free[c][:count]
            found.append(taken)
        return found


@dataclass(eq=False)
class StageSteps:
    """The stages between points.

    Attributes
    ----------
    weight
        Cost of a second of computing.
    limit
        Most seconds of a stage.
    """

    instance: PipelineInstance
    weight: float = 1.0
    limit: float = math.inf

    def __post_init__(self) -> None:
        self._first = first_begins(self.instance, self.limit)
        self._elapsed = self.weight * self.instance.elapsed

    def least(self, team: list[int], begun: FloatMatrix) -> FloatMatrix:
        """Least sums by the end of a stage that every device of a team can run, from the sums by its beginning."""
        elapsed = self._elapsed[team[0]]
        return np.asarray(least_before(begun - elapsed, self._first[team].max(axis=0)) + elapsed)

    def origin(self, team: list[int], begun: FloatArray, point: int) -> int:
        """Where the stage that ends at a point with the least sum begins."""
        low, v = int(self._first[team, point].max()), team[0]
        return low + int(np.argmin(begun[low:point] - self._elapsed[v, low:point]))


@dataclass(eq=False)
class CheapestSums:
    """The least sum of stages and transfers, by sets of devices."""

    instance: PipelineInstance
    sets: Sets
    steps: StageSteps
    should_stop: Callable[[], bool]

    def __post_init__(self) -> None:
        self._ended = self.sets.empty_table(self.instance)

    def solve(self) -> tuple[float, PipelinePlan | None] | None:
        """The least sum and a plan that has it, infinite and None if there is no plan; None if there is no time."""
        sets, last = self.sets, self.instance.last
        for team, there in sets.layers(self.instance.most):
            if self.should_stop():
                return None
            begun = self._begun(team, there)
            self._ended[sets.rows[there, team]] = self.steps.least(sets.team(team), begun)
        counted = (sets.used >= self.instance.least) & (sets.used <= self.instance.most)
        values = np.where((sets.rows >= 0) & counted[:, None], self._ended[sets.rows, last], np.inf)
        best = int(np.argmin(values))
        value = float(values.flat[best])
        if not math.isfinite(value):
            return math.inf, None
        return value, self._plan(*divmod(best, len(sets.turns)))

    def _begun(self, team: int, there: IntArray) -> FloatMatrix:
        """Least sums when a stage of a team begins at each point, by the set that it completes."""
        sets, before = self.sets, self.sets.without(there, team)
        begun = np.full((len(there), self.instance.last + 1), np.inf)
        begun[before == 0, 0] = 0.0
        for source in range(len(sets.turns)):
            rows = sets.rows[before, source]
            known = rows >= 0
            if known.any():
                sending = seconds_by_point(self.instance, *sets.pair(source, team))
                begun[known] = np.minimum(begun[known], self._ended[rows[known]] + sending)
        return begun

    def _plan(self, state: int, team: int) -> PipelinePlan:
        """Go back along the table."""
        sets, point = self.sets, self.instance.last
        cuts, teams = [], [team]
        while True:
            begun = self._begun(team, np.array([state]))[0]
            point = self.steps.origin(sets.team(team), begun, point)
            state = int(sets.without(np.array([state]), team)[0])
            if state == 0:
                break
            cuts.append(point)
            arriving = [
                self._ended[row, point] + seconds_by_point(self.instance, *sets.pair(source, team))[point]
                if (row := sets.rows[state, source]) >= 0
                else math.inf
                for source in range(len(sets.turns))
            ]
            team = int(np.argmin(arriving))
            teams.append(team)
        return PipelinePlan(tuple(reversed(cuts)), tuple(each[0] for each in sets.devices(teams[::-1])))


def seconds_by_point(instance: PipelineInstance, source: int, target: int) -> FloatArray:
    """Seconds to send what crosses each point from a device to another; infinite without a link. Shape (points,)."""
    rate = float(instance.rate[source, target])
    if rate <= 0.0:
        return np.full(len(instance.sent), np.inf)
    return float(instance.latency[source, target]) + instance.sent / rate


def first_begins(instance: PipelineInstance, stage_limit: float = math.inf) -> IntMatrix:
    """First point where a stage that ends at each point may begin; the end itself if there is none.

    Shape (devices, points).
    """
    points = np.arange(instance.last + 1)
    first = np.zeros(instance.reach.shape, dtype=np.int64)
    for v, reach in enumerate(instance.reach):
        last = reach
        if math.isfinite(stage_limit):
            elapsed = instance.elapsed[v]
            within = np.searchsorted(elapsed, elapsed + stage_limit, side="right") - 1
            last = np.minimum(last, within)
        first[v] = np.searchsorted(np.maximum.accumulate(np.where(last > points, last, 0)), points, side="left")
    return np.minimum(first, points)


def least_before(values: FloatMatrix, first: IntArray) -> FloatMatrix:
    """The least value from column ``first[e]`` to before column e, for every e; infinite if there are none.

    Parameters
    ----------
    values
        Shape (rows, columns).
    first
        Never decreasing. Shape (columns,).
    """
    found = np.full_like(values, np.inf)
    if not first.any():
        np.minimum.accumulate(values[:, :-1], axis=1, out=found[:, 1:])
        return found
    width = np.arange(len(first)) - first
    power = np.frexp(np.maximum(width, 1).astype(np.float64))[1] - 1
    level = values
    for k in range(int(power.max(initial=0)) + 1):
        ends = np.flatnonzero((power == k) & (width > 0))
        found[:, ends] = np.minimum(level[:, first[ends]], level[:, ends - (1 << k)])
        half = 1 << k
        if half < values.shape[1]:
            pairs = np.minimum(level[:, :-half], level[:, half:])
            level = np.concatenate([pairs, level[:, -half:]], axis=1)
    return found
