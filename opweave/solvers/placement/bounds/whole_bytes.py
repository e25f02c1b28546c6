"""Memory in whole bytes along a milestone chain: paths over the devices of its milestones that fit.

At prices of memory, a path that runs everything on one device may cost as little as one that changes its device: the
mean of several such paths fits. Here every path has to fit by itself, so it pays for its changes.

A *label* is the beginning of a path: the device of a milestone, the least seconds until then, the same with bytes at
their prices, and the bytes that devices hold for sure. A window between two devices is passed in one of its *ways*:

* one for every choice of devices for its largest operators: they hold their bytes there, and the window takes at least
  its longest path with these operators fixed.
* where both ends are on one device, and these operators, too, the others follow in some order: some of them run there
  and hold their bytes there, then one runs elsewhere, so the window takes at least its head, run time and tail there.
  Or all of them stay.

The window's bound holds for all of them, and the priced bound, which is at least the seconds plus the least price of
all bytes, those on fixed devices at the price there.

Proof: every plan passes every window in one of these ways, whatever operators are fixed. So each plan
that fits has labels whose seconds are at most its own and whose bytes are at most what its devices hold; a parameter
counts once on every device that uses it. A label that holds more than a device has memory begins no plan. From any
label, the shortest path over the remaining windows, with prices (minus the price of all memory) and without, bounds
what follows. The least such sum over the labels of one milestone bounds all plans, also with labels that are set aside
at their sum when there are too many. Labels with the same device and bytes become one with the least of their numbers.

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

MOST_LABELS = 100, 1_000, 10_000
"""Most labels of a milestone, of one try after the other; the others are set aside."""

MOST_SHARED = 16
"""Most parameters of several operators that count once on every device; others are divided among their users."""

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
        return Labels(
            self.device[chosen], self.seconds[chosen], self.priced[chosen], self.used[chosen], self.held[chosen]
        )


class WholeBytes:
    """The paths of a priced chain that fit."""

    def __init__(self, chain: Chain) -> None:
        self.chain, self.arrays = chain, chain.arrays
        arrays = chain.arrays
        self.devices = arrays.seconds.shape[1]
        times = np.bincount(arrays.parameters, minlength=len(arrays.parameter_bytes))
        often = np.flatnonzero((times > 1) & (arrays.parameter_bytes > 0))
        self.shared = often[np.argsort(-arrays.parameter_bytes[often], kind="stable")][:MOST_SHARED]
        divided = arrays.parameter_bytes // np.maximum(times, 1)
        divided[self.shared] = 0
        users = np.repeat(np.arange(len(arrays.seconds)), np.diff(arrays.parameters_start))
        self.own = arrays.memory.copy()
        np.add.at(self.own, users, divided[arrays.parameters])
        self.uses = np.zeros((len(arrays.seconds), len(self.shared)), dtype=np.bool_)
        for number, p in enumerate(self.shared):
            self.uses[users[arrays.parameters == p], number] = True
        self._known: dict[tuple[PricedBlock, int, int, float], list[Way]] = {}

    def raise_bound(
        self, price: FloatArray, ceiling: float, seconds: Callable[[], float], report: Callable[[float], None]
    ) -> None:
        """Report bounds, at most ``ceiling``; the prices are those at which the windows' bounds are."""
        for most in MOST_LABELS:
            bound, complete = self._bound(price, ceiling, most, seconds)
            report(bound)
            if complete or seconds() <= 0.0:
                break

    def _bound(self, price: FloatArray, ceiling: float, most: int, seconds: Callable[[], float]) -> tuple[float, bool]:
        """A bound with some number of labels, and whether more of them are of no use."""
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
                labels = self._hold(labels, v, device)
            total = (labels.priced + rest_priced[position][labels.device]) * (1.0 - SUMMATION)
            sums = np.maximum(total - room * (1.0 + SUMMATION), labels.seconds + rest[position][labels.device])
            good = (labels.used <= self.arrays.capacity).all(axis=1) & (sums < aside)
            labels, sums = self._merged(labels.take(good), sums[good])
            if len(sums) > most:
                order = np.argpartition(sums, most)
                aside = min(aside, float(sums[order[most:]].min()))
                labels, sums = labels.take(order[:most]), sums[order[:most]]
            least = max(least, min(aside, float(sums.min(initial=math.inf))))
            if not len(sums) or seconds() <= 0.0:
                break
        return least, aside >= ceiling or least < aside

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
                    for v, k in zip(way.operators.tolist(), way.device.tolist(), strict=True):
                        passed = self._hold(passed, int(members[v]), np.full(len(here.device), k))
                    found.append(passed)
        return (
            Labels(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
            if found
            else labels.take(np.zeros(0, dtype=np.int64))
        )

    def _after(self, labels: Labels, device: int, seconds: float, priced: float) -> Labels:
        return labels._replace(
            device=np.full(len(labels.device), device), seconds=labels.seconds + seconds, priced=labels.priced + priced
        )

    def _hold(self, labels: Labels, v: int, device: IntArray) -> Labels:
        """The labels with the bytes of an operator on one device each; shared parameters count once there."""
        rows, used, held = np.arange(len(device)), labels.used.copy(), labels.held
        used[rows, device] += self.own[v]
        if self.uses[v].any():
            held = held.copy()
            for number in np.flatnonzero(self.uses[v]):
                used[rows, device] += np.where(
                    held[rows, number, device], 0, self.arrays.parameter_bytes[self.shared[number]]
                )
                held[rows, number, device] = True
        return labels._replace(used=used, held=held)

    def _ways(self, kind: PricedBlock, a: int, b: int, ceiling: float) -> list[Way]:
        """The ways of a window between two devices that take less than ``ceiling``."""
        window, key = kind.block.window, (kind, a, b, ceiling)
        if key not in self._known:
            arrays = window.fixed(a, b)
            ways = self._chosen(arrays, kind.bytes, ceiling)
            home = a if a == b or not window.exit else b if not window.entry else None
            apart = [way for way in ways if (way.device != home).any()]
            for way in ways:
                if home is not None and (way.device == home).all():
                    apart += self._inside(way, arrays, kind.bytes, home)
            ways = ways if home is None else [way for way in apart if way.seconds < ceiling]
            self._known[key] = ways
        return self._known[key]

    def _chosen(self, arrays: PlacementArrays, bytes_: FloatArray, ceiling: float) -> list[Way]:
        """A way for every choice of devices for the operators with most bytes, as many as there may be ways."""
        order, none = order_of_graph(arrays), np.zeros(0, dtype=np.int64)
        ways = [Way(0.0, none, none)]
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

    def _inside(self, way: Way, arrays: PlacementArrays, bytes_: FloatArray, home: int) -> list[Way]:
        """The ways in which all operators of a way and some of the others are at home, or all of them."""
        reach, found, least = reach_of(arrays), list[Way](), math.inf
        length = reach.heads + arrays.seconds + reach.tails
        length[:, home] = np.inf
        away = np.maximum(length.min(axis=1), way.seconds)
        for v in np.argsort(-bytes_, kind="stable")[: int((bytes_ > 0.0).sum())].tolist():
            if v in way.operators:
                continue
            if away[v] < least:  # others take as long and hold more
                least = float(away[v])
                found.append(way._replace(seconds=least))
            way = Way(way.seconds, np.append(way.operators, v), np.append(way.device, home))
        return [*found, way]

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
