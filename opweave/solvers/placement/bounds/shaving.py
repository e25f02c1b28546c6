"""Devices that no plan of a given length can use, found by trial: heads and tails with an operator on one device.

For a length, every operator is tried on each of its devices. On it, its data come from that device alone, so what
follows starts later and what comes before has to end earlier; heads, tails and clusters (:mod:`.clustered`) say
how much. If an operator is left without a device, this device is deleted. Otherwise some device of the tried operator
is taken, so each head may rise to the least that any of them leads to. If an operator loses all devices, no plan is as
short as the length. Only what a trial changes is worked out again, which takes a fraction of a millisecond.

Proof: a plan of the length or shorter runs the operator on one of its devices and obeys the heads and tails of that
trial. By induction over the deletions, it runs no operator where a trial has failed. What a trial shows stays true: a
plan that runs the operator on the device obeys its heads and tails. So trials are kept, and programs of windows have
rows for them (:mod:`.conditional`), which tell of clusters and of the ports that these have to pass.

Source: Martin and Shmoys, "A new approach to computing optimal schedules for the job-shop scheduling problem"
(shaving); Carlier and Pinson, "Adjustment of heads and tails for the job-shop problem".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net
from opweave.solvers.placement.bounds.clustered import Front
from opweave.solvers.placement.bounds.critical_path import Reach, new_front, operator_order, passed_on
from opweave.solvers.placement.bounds.energetic import energetic
from opweave.solvers.rounding import SUMMATION

ROUNDS = 6
"""Most times that heads and tails delete devices in turn; what is left counts as possible."""


class Side(NamedTuple):
    """One direction of time: the problem and its operators with predecessors first."""

    arrays: PlacementArrays
    order: IntArray


class Trial(NamedTuple):
    """Heads and tails of the plans that run an operator on a device."""

    operator: int
    device: int
    reach: Reach


class Space:
    """Heads and tails of the plans that are as short as a length; inf where an operator cannot run.

    ``trials`` are those of the last round that left a plan possible.
    """

    def __init__(self, sides: tuple[Side, Side], fronts: tuple[Front, Front], most: float) -> None:
        self.sides, self.fronts, self.most = sides, fronts, most
        self.trials: list[Trial] = []

    @classmethod
    def of(cls, arrays: PlacementArrays, length: float, known: Reach | None = None) -> Space | None:
        """The plans of at most a length, from valid heads and tails; None if there are none."""
        order = operator_order(arrays)
        sides = (Side(arrays, order), Side(reversed_net(arrays), np.ascontiguousarray(order[::-1])))
        heads, tails = (None, None) if known is None else known
        fronts = (new_front(arrays, heads), new_front(sides[1].arrays, tails))
        space = cls(sides, fronts, length * (1.0 + SUMMATION))
        every = np.ones(len(order), dtype=bool)
        return space if space._settled(every, every.copy()) else None

    @property
    def reach(self) -> Reach:
        """Heads and tails."""
        return Reach(self.fronts[0].heads, self.fronts[1].heads)

    def possible(self) -> BoolArray:
        """Whether an operator can run on a device. Shape (operators, devices)."""
        return np.isfinite(self.fronts[0].heads)

    def copy(self) -> Space:
        """A space to try something in."""
        first, second = (Front(*(each.copy() for each in front)) for front in self.fronts)
        return Space(self.sides, (first, second), self.most)

    def without(self, v: int, devices: BoolArray) -> bool:
        """Delete devices of an operator, and what follows from it; whether a plan may be left."""
        marked = np.zeros(len(self.sides[0].order), dtype=bool)
        marked[v] = True
        for front in self.fronts:
            front.heads[v, devices] = np.inf
        return self._settled(marked, marked.copy())

    def _settled(self, forward: BoolArray, backward: BoolArray) -> bool:
        """Raise heads and tails in turn until they agree on the devices."""
        marks = (forward, backward)
        for turn in range(2 * ROUNDS):
            here, other = turn % 2, 1 - turn % 2
            if not marks[here].any():
                break
            tails = self.fronts[other].heads
            if not passed_on(*self.sides[here], self.fronts[here], marks[here], tails, self.most):
                return False
            deleted = np.isinf(self.fronts[here].heads) & np.isfinite(tails)
            tails[deleted] = np.inf
            marks[other][deleted.any(axis=1)] = True
        return True

    def shave(self, late: Callable[[], bool]) -> bool:
        """Try every operator on each device once, those with least slack first; whether a plan may be left."""
        through = self.fronts[0].heads + self.sides[0].arrays.seconds + self.fronts[1].heads
        self.trials = []
        for v in np.argsort(-through.min(axis=1), kind="stable").tolist():
            if late():
                break
            if not self._tried(v):
                return False
        return True

    def _tried(self, v: int) -> bool:
        """Try an operator on each of its devices."""
        possible = self.possible()[v]
        devices = np.flatnonzero(possible)
        if len(devices) < 2:
            return True
        least: list[FloatArray] | None = None
        for k in devices.tolist():
            trial = self.copy()
            if not trial.without(v, np.arange(len(possible)) != k):
                possible[k] = False
                continue
            self.trials.append(Trial(v, k, trial.reach))
            found = [array for front in trial.fronts for array in front]
            least = found if least is None else [np.minimum(*pair) for pair in zip(least, found, strict=True)]
        if least is None:
            return False
        self.fronts = (Front(*least[:3]), Front(*least[3:]))
        return True


def shaved_space(arrays: PlacementArrays, length: float, known: Reach | None, late: Callable[[], bool]) -> Space | None:
    """The plans of at most a length after one round of trials; None if there are none or their work does not fit."""
    space = Space.of(arrays, length, known)
    if space is None or not space.shave(late):
        return None
    left = arrays._replace(seconds=np.where(space.possible(), arrays.seconds, np.inf))
    return None if energetic(left, space.reach, 0.0) > space.most else space
