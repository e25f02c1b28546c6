"""The ways to pass a window between two devices: how long it takes at least, and where operators may run then."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.port_cuts import Cuts
from opweave.solvers.placement.bounds.windows import Window

MOST_LEVELS = 8
"""Most levels of a window's length for each choice."""


class Ways(NamedTuple):
    """Ways to pass a window: least seconds, and where operators may run then.

    Shapes (ways,), (ways, operators, devices).
    """

    seconds: FloatArray
    allowed: BoolArray


class WindowWays:
    """The ways of a window with the bytes of its operators."""

    def __init__(self, window: Window, bytes_: FloatArray) -> None:
        self.window, self.bytes, self.heavy = window, bytes_, bytes_ > 0.0
        self._cuts: Cuts | None = None
        self._lengths: dict[tuple[int, int], FloatArray] = {}
        self._known: dict[tuple[int, int, float, int], Ways] = {}

    def length(self, a: int, b: int) -> FloatArray:
        """The least lengths by operator and device. Shape (operators, devices)."""
        if (a, b) not in self._lengths:
            if self._cuts is None:
                self._cuts = self.window.port_cuts(np.flatnonzero(self.heavy))
            ports = self._cuts.lengths(a, b, self.window.entry, self.window.exit)
            self._lengths[a, b] = np.maximum(lengths_of(self.window.fixed(a, b)), ports)
        return self._lengths[a, b]

    def within(self, a: int, b: int, slack: float, choices: int) -> Ways:
        """The ways between two devices that take less than ``slack``, with some choices for the largest operators."""
        key = (a, b, slack, choices)
        if key not in self._known:
            levels = [_levels(length, self.heavy, slack) for length in self._chosen(a, b, slack, choices)]
            none = Ways(np.zeros(0), np.zeros((0, *self.length(a, b).shape), dtype=np.bool_))
            self._known[key] = Ways(*(np.concatenate(columns) for columns in zip(none, *levels, strict=True)))
        return self._known[key]

    def _chosen(self, a: int, b: int, slack: float, most: int) -> list[FloatArray]:
        """Lengths by operator and device for every choice of devices for the operators with most bytes."""
        arrays, length = self.window.fixed(a, b), self.length(a, b)
        found, devices = [length], length.shape[1]
        for v in np.argsort(-self.bytes, kind="stable")[: int(self.heavy.sum())].tolist():
            if len(found) * devices > most:
                break
            longer = list[FloatArray]()
            for known, k in product(found, range(devices)):
                if not known[v, k] < slack:
                    continue
                seconds = np.where(known < slack, arrays.seconds, np.inf)
                seconds[v, np.arange(devices) != k] = np.inf
                longer.append(np.maximum(lengths_of(arrays._replace(seconds=seconds)), known[v, k]))
            found = longer
        return found


def lengths_of(arrays: PlacementArrays) -> FloatArray:
    """The least length of a plan with an operator on a device. Shape (operators, devices)."""
    reach = reach_of(arrays)
    return reach.heads + arrays.seconds + reach.tails


def _levels(length: FloatArray, heavy: BoolArray, slack: float) -> Ways:
    """Ways by the length of the plan, divided where lengths with operators on devices differ most."""
    least = float(length.min(axis=1).max(initial=0.0))
    values = np.unique(np.append(np.maximum(length[heavy], least), least))
    values = values[values < slack]
    begins = np.sort(np.append(0, 1 + np.argsort(-np.diff(values), kind="stable")[: MOST_LEVELS - 1]))
    if not len(values):
        return Ways(values, np.zeros((0, *length.shape), dtype=np.bool_))
    last = np.append(values[begins[1:] - 1], values[-1])
    return Ways(values[begins], length <= last[:, None, None])
