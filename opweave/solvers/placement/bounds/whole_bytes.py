"""Memory in whole bytes along a milestone chain: paths over the devices of its milestones that fit.

At prices of memory, a path that runs everything on one device may cost as little as one that changes its device: the
mean of several such paths fits. Here every path has to fit by itself, so it pays for its changes.

A *label* is the beginning of a path: the device of a milestone, the least seconds until then, the same with bytes at
their prices, and the bytes that devices hold for sure. A window between two devices is passed in one of its *ways*:

* one for every choice of devices for its largest operators: they hold their bytes there, and the window takes at least
  its longest path with these operators fixed.
* *at home*, where both ends are on one device: all of the window's *heavy* operators run there, too, and their bytes
  are held there. With this way, the others need that some heavy operator runs elsewhere, so the window takes at least
  its head, run time and tail there, the least over heavy operators and other devices.

The window's bound holds for all of them, and the priced bound, which is at least the seconds plus the least price of
all bytes, those on fixed devices at the price there.

Proof: every plan passes every window in one of these ways, whatever operators are fixed or called heavy. So each plan
that fits has labels whose seconds are at most its own and whose bytes are at most what its devices hold; a parameter
counts once on every device that uses it. A label that holds more than a device has memory begins no plan. From any
label, the shortest path over the remaining windows, with prices (minus the price of all memory) and without, bounds what follows.
The least such sum over the labels of one milestone bounds all plans, also with labels that are set aside at their sum
when there are too many. Labels with the same device and bytes become one with the least of all their numbers.

Source: Handler and Zang, "A dual algorithm for the constrained shortest path problem".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays, order_of_graph
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.rounding import SUMMATION

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.priced_block import PricedBlock
    from opweave.solvers.placement.bounds.prices import Chain

MOST_LABELS = 10_000
"""Most labels of a milestone; the others are set aside."""

MOST_WAYS = 64
"""Most choices of devices for the largest operators of a window between two devices."""


class Way(NamedTuple):
    """One way to pass a window: its least seconds, and operators (positions in the window) with their devices."""

    seconds: float
    operators: IntArray
    device: IntArray


class Labels(NamedTuple):
    """Labels of one milestone: device, seconds, seconds with priced bytes, bytes held, and shared parameters held.

    Shapes (labels,) three times, (labels, devices), (labels, parameters, devices).
    """

    device: IntArray
    seconds: FloatArray
    priced: FloatArray
    used: IntArray
    held: BoolArray

    def take(self, chosen: IntArray | BoolArray) -> Labels:
        """Some of the labels."""
        return Labels(*(column[chosen] for column in self))


class WholeBytes:
    """The paths of a priced chain that fit."""

    def __init__(self, chain: Chain) -> None:
        self.chain, self.arrays = chain, chain.arrays
        arrays, count = chain.arrays, len(chain.arrays.seconds)
        self.devices = arrays.seconds.shape[1]
        users = np.repeat(np.arange(count), np.diff(arrays.parameters_start))
        place = np.arange(count) + len(chain.blocks)
        for position, (kind, members) in enumerate(zip(chain.blocks, chain.members, strict=True)):
            window = kind.block.window
            place[members[int(window.entry) : len(members) - int(window.exit)]] = position
        first = np.full(len(arrays.parameter_bytes), np.iinfo(np.int64).max)
        last = np.full(len(arrays.parameter_bytes), -1)
        np.minimum.at(first, arrays.parameters, place[users])
        np.maximum.at(last, arrays.parameters, place[users])
        self.shared = np.flatnonzero((first < last) & (arrays.parameter_bytes > 0))
        self._number = np.full(len(arrays.parameter_bytes), -1)
        self._number[self.shared] = np.arange(len(self.shared))
        self._known: dict[tuple[PricedBlock, int, int, float], list[Way]] = {}

    def value(self, price: FloatArray, ceiling: float, seconds: Callable[[], float]) -> float:
        """A bound, at most ``ceiling``; the prices are those at which the windows' bounds are."""
        chain = self.chain
        own, plain = chain.own_costs(price), self.arrays.seconds[chain.milestones]
        rest_priced = self._rest([kind.values for kind in chain.blocks], own)
        rest = self._rest([kind.block.values for kind in chain.blocks], plain)
        cost = np.where(np.isfinite(self.arrays.seconds), chain.memory.bytes[:, None] * price, np.inf)[chain.outside]
        outside, room = float(cost.min(axis=1).sum()), float(chain.capacity @ price)
        held = np.zeros((1, len(self.shared), self.devices), dtype=np.bool_)
        used = np.zeros((1, self.devices), dtype=np.int64)
        labels = Labels(np.zeros(1, dtype=np.int64), np.zeros(1), np.full(1, outside), used, held)
        least, aside = 0.0, ceiling
        for position in range(len(chain.blocks)):
            labels = self._passed(labels, position, price, ceiling)
            if position < len(chain.milestones):
                v, device = int(chain.milestones[position]), labels.device
                labels = labels._replace(
                    seconds=labels.seconds + plain[position, device], priced=labels.priced + own[position, device]
                )
                labels = self._hold(labels, np.asarray([v]), device)
            total = (labels.priced + rest_priced[position][labels.device]) * (1.0 - SUMMATION)
            sums = np.maximum(total - room * (1.0 + SUMMATION), labels.seconds + rest[position][labels.device])
            good = (labels.used <= self.arrays.capacity).all(axis=1) & (sums < aside)
            labels, sums = self._merged(labels.take(good), sums[good])
            if len(sums) > MOST_LABELS:
                order = np.argpartition(sums, MOST_LABELS)
                aside = min(aside, float(sums[order[MOST_LABELS:]].min()))
                labels, sums = labels.take(order[:MOST_LABELS]), sums[order[:MOST_LABELS]]
            least = max(least, min(aside, float(sums.min(initial=math.inf))))
            if not len(sums) or seconds() <= 0.0:
                break
        return least

    def _rest(self, tables: list[FloatArray], own: FloatArray) -> list[FloatArray]:
        """The shortest paths from the end of every window to that of the plan, by device."""
        found = [np.zeros(self.devices)]
        for position in range(len(own) - 1, -1, -1):
            follows = tables[position + 1] + (found[-1] + (own[position + 1] if position + 1 < len(own) else 0.0))
            found.append(follows.min(axis=1))
        return found[::-1]

    def _passed(self, labels: Labels, position: int, price: FloatArray, ceiling: float) -> Labels:
        """The labels after a window."""
        kind, members = self.chain.blocks[position], self.chain.members[position]
        window, found = kind.block.window, list[Labels]()
        cost = np.where(np.isfinite(window.arrays.seconds), kind.bytes[:, None] * price, np.inf)
        least = cost.min(axis=1)
        for a in range(self.devices) if window.entry else (0,):
            here = labels.take(labels.device == a)
            for b in range(self.devices) if window.exit else (0,):
                if not len(here.device) or not math.isfinite(kind.block.values[a, b]):
                    continue
                for way in self._ways(kind, a, b, ceiling):
                    seconds = max(way.seconds, float(kind.block.values[a, b]))
                    dearer = float((cost[way.operators, way.device] - least[way.operators]).sum())
                    priced = max(float(kind.values[a, b]), seconds + float(least.sum()) + dearer)
                    passed = self._after(here, b, seconds, priced)
                    for k in set(way.device.tolist()):
                        passed = self._hold(
                            passed, members[way.operators[way.device == k]], np.full(len(here.device), k)
                        )
                    found.append(passed)
        return Labels(*(np.concatenate(columns) for columns in zip(*found, strict=True))) if found else labels.take([])

    def _after(self, labels: Labels, device: int, seconds: float, priced: float) -> Labels:
        return labels._replace(
            device=np.full(len(labels.device), device), seconds=labels.seconds + seconds, priced=labels.priced + priced
        )

    def _hold(self, labels: Labels, operators: IntArray, device: IntArray) -> Labels:
        """The labels with the bytes of some operators on one device each; shared parameters count once there."""
        arrays, rows = self.arrays, np.arange(len(device))
        found = [arrays.parameters[arrays.parameters_start[v] : arrays.parameters_start[v + 1]] for v in operators]
        parameters = np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
        shared = self._number[parameters] >= 0
        used, held = labels.used.copy(), labels.held.copy()
        bytes_ = arrays.memory[operators].sum() + arrays.parameter_bytes[parameters[~shared]].sum()
        used[rows, device] += bytes_
        for p in parameters[shared]:
            number = self._number[p]
            used[rows, device] += np.where(held[rows, number, device], 0, arrays.parameter_bytes[p])
            held[rows, number, device] = True
        return labels._replace(used=used, held=held)

    def _ways(self, kind: PricedBlock, a: int, b: int, ceiling: float) -> list[Way]:
        """The ways of a window between two devices that take less than ``ceiling``."""
        window, key = kind.block.window, (kind, a, b, ceiling)
        if key not in self._known:
            arrays, value = window.fixed(a, b), float(kind.block.values[a, b])
            none = np.zeros(0, dtype=np.int64)
            ways, heavy = [Way(value, none, none)], np.flatnonzero(kind.bytes > 0.0)
            if len(heavy):
                home = a if a == b or not window.exit else b if not window.entry else None
                ways = self._chosen(arrays, kind.bytes, value, ceiling)
                if home is not None:
                    inside = self._inside(arrays, kind.bytes, value, home)
                    away = [way._replace(seconds=max(way.seconds, inside.seconds)) for way in ways]
                    ways = [inside._replace(seconds=value), *(way for way in away if way.seconds < ceiling)]
            self._known[key] = ways
        return self._known[key]

    def _chosen(self, arrays: PlacementArrays, bytes_: FloatArray, value: float, ceiling: float) -> list[Way]:
        """A way for every choice of devices for the operators with most bytes, as many as there may be ways."""
        order, none = order_of_graph(arrays), np.zeros(0, dtype=np.int64)
        ways = [Way(value, none, none)]
        for v in np.argsort(-bytes_, kind="stable")[: int((bytes_ > 0.0).sum())].tolist():
            if len(ways) * self.devices > MOST_WAYS:
                break
            longer = list[Way]()
            for way, k in product(ways, np.flatnonzero(np.isfinite(arrays.seconds[v])).tolist()):
                operators, device = np.append(way.operators, v), np.append(way.device, k)
                seconds = np.full((len(operators), self.devices), np.inf)
                seconds[np.arange(len(operators)), device] = arrays.seconds[operators, device]
                fixed = arrays._replace(seconds=arrays.seconds.copy())
                fixed.seconds[operators] = seconds
                length = max(way.seconds, longest(fixed, reach_of(fixed, order)))
                if length < ceiling:
                    longer.append(Way(length, operators, device))
            ways = longer
        return ways

    def _inside(self, arrays: PlacementArrays, bytes_: FloatArray, value: float, home: int) -> Way:
        """The heavy operators at home, and the least seconds of a window if one of them is not.

        Any choice is valid; the one made has the largest product of their bytes and the seconds that this adds.
        """
        reach = reach_of(arrays)
        length = reach.heads + arrays.seconds + reach.tails
        length[:, home] = np.inf
        away, operators = length.min(axis=1), np.flatnonzero(bytes_ > 0.0)
        operators = operators[np.argsort(-away[operators], kind="stable")]
        gain = np.minimum(np.maximum(away[operators] - value, 0.0), 1e300) * np.cumsum(bytes_[operators])
        chosen = operators[: 1 + int(np.argmax(gain))]
        return Way(max(value, float(away[chosen].min())), chosen, np.full(len(chosen), home))

    def _merged(self, labels: Labels, sums: FloatArray) -> tuple[Labels, FloatArray]:
        """Labels with equal devices and bytes as one."""
        if not len(sums):
            return labels, sums
        state = np.concatenate(
            [labels.device[:, None], labels.used, labels.held.reshape(len(sums), -1)], axis=1, dtype=np.int64
        )
        weights = np.random.default_rng(1).integers(1, 2**62, state.shape[1]) | 1
        key = (state * weights).sum(axis=1)  # equal for equal states; the least of everything is safe for others
        order = np.lexsort((key, labels.device))
        new = np.concatenate([[True], (np.diff(key[order]) != 0) | (np.diff(labels.device[order]) != 0)])
        at = np.flatnonzero(new)
        merged = Labels(
            labels.device[order][at],
            np.minimum.reduceat(labels.seconds[order], at),
            np.minimum.reduceat(labels.priced[order], at),
            np.minimum.reduceat(labels.used[order], at, axis=0),
            np.logical_or.reduceat(labels.held[order], at, axis=0),
        )
        return merged, np.minimum.reduceat(sums[order], at)
