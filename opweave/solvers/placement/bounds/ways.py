"""The ways to pass a window between two devices: how long it takes at least, and where operators may run then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.chain_bound import Block
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.port_cuts import Cuts, port_cuts

MOST_LEVELS = 8
"""Most levels of a window's length for each choice."""


class Ways(NamedTuple):
    """Ways to pass a window: least seconds, and where operators may run then.

    Shapes (ways,), (ways, operators, devices).
    """

    seconds: FloatArray
    allowed: BoolArray


class WindowWays:
    """The ways of a window with the bytes of its operators: cheap ones at first, shorter ones are refuted later."""

    def __init__(self, block: Block, bytes_: FloatArray) -> None:
        self.block, self.window, self.bytes, self.heavy = block, block.window, bytes_, bytes_ > 0.0
        self._cuts: Cuts | None = None
        self._lengths: dict[tuple[int, int], FloatArray] = {}
        self._known: dict[tuple[int, int, float, int], Ways] = {}

    def cut(self) -> None:
        """Let lengths count what ports have to pass, and the window's bounds, too."""
        if self._cuts is None and len(self.window.inner):
            window, heavy = self.window, np.flatnonzero(self.heavy)
            self._cuts = port_cuts(window.arrays, window.entry, window.exit, heavy)
            self.block.values = np.maximum(self.block.values, self._cuts.whole)
            self._lengths, self._known = {}, {}

    def length(self, a: int, b: int) -> FloatArray:
        """The least lengths by operator and device. Shape (operators, devices)."""
        if (a, b) not in self._lengths:
            window, reach = self.window, self.window.reach(a, b)
            length = reach.heads + window.fixed(a, b).seconds + reach.tails
            if self._cuts is not None:
                length = np.maximum(length, self._cuts.lengths(a, b, window.entry, window.exit))
            self._lengths[a, b] = length
        return self._lengths[a, b]

    def within(self, a: int, b: int, slack: float, choices: int, seconds: Callable[[], float]) -> Ways:
        """The ways between two devices that take less than ``slack``, with some choices for the largest operators."""
        key = (a, b, slack, choices)
        if key not in self._known:
            levels = [_levels(length, self.heavy, slack) for length in self._chosen(a, b, slack, choices, seconds)]
            none = Ways(np.zeros(0), np.zeros((0, *self.length(a, b).shape), dtype=np.bool_))
            self._known[key] = Ways(*(np.concatenate(columns) for columns in zip(none, *levels, strict=True)))
        return self._known[key]

    def _chosen(self, a: int, b: int, slack: float, most: int, seconds: Callable[[], float]) -> list[FloatArray]:
        """Lengths by operator and device for every choice of devices for the operators with most bytes.

        When time is up, choices for fewer operators have to do.
        """
        arrays, length = self.window.fixed(a, b), self.length(a, b)
        found, devices = [length], length.shape[1]
        for v in np.argsort(-self.bytes, kind="stable")[: int(self.heavy.sum())].tolist():
            longer = list[FloatArray]()
            for known, k in product(found, range(devices)):
                if len(found) * devices > most or seconds() <= 0.0:
                    return found
                if not known[v, k] < slack:
                    continue
                times = np.where(known < slack, arrays.seconds, np.inf)
                times[v, np.arange(devices) != k] = np.inf
                longer.append(np.maximum(lengths_of(arrays._replace(seconds=times)), known[v, k]))
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
