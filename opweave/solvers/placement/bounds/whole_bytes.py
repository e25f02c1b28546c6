"""Memory in whole bytes along a milestone chain: paths over the devices of its milestones that fit.

At prices of memory, a path that runs everything on one device may cost as little as one that changes its device: the
mean of several such paths fits. Here every path has to fit by itself, so it pays for its changes.

A *label* is the beginning of a path: the device of a milestone, the least seconds until then, the same with bytes at
their prices, and the bytes that sets of devices hold for sure: those of operators that can run in the set only. A
window between two devices is passed in one of its *ways* (:mod:`.ways`). Its bound holds for all of them, and so does
the priced bound, which is at least the seconds plus the least price of all bytes, each where its operator may run.

Proof: every plan below the ceiling passes every window in one of its ways. So each plan that fits has labels whose
seconds are at most its own and whose bytes are at most what its devices hold; a parameter counts once on every device
that uses it. A label that holds more than a set of devices has memory begins no plan. From any label, the shortest path
over the remaining windows, with prices (minus the price of all memory) and without, bounds what follows. The least such
sum over the labels of one milestone bounds all plans, also with labels that are set aside at their sum when there are
too many. Labels with the same device and bytes become one with the least of their numbers.

Source: Handler and Zang, "A dual algorithm for the constrained shortest path problem".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.ways import Ways, WindowWays
from opweave.solvers.rounding import SUMMATION

if TYPE_CHECKING:
    from opweave.solvers.placement.bounds.prices import Chain, PricedBlock

TRIES = (100, 0), (1_000, 1), (1_000, 16), (2_000, 64), (10_000, 64)
"""Most labels of a milestone, the others are set aside, and most choices of devices for the largest operators of a
window between two devices, of one try after the other."""

MOST_SHARED = 16
"""Most parameters of several operators that count once on every device; others are divided among their users."""

MOST_SUBSETS = 6
"""Most devices of which all sets are watched; of more, single devices and pairs."""

ANYWHERE = -1
"""The device of a reader that may be on several."""

MOST_JOINED = 200_000
"""Most pairs of a label and a way after it."""

COMPARED = 30
"""Labels and ways that others are compared with, to drop those that are no better in any respect."""


class Labels(NamedTuple):
    """Labels of one milestone: device, seconds, seconds with priced bytes, bytes in sets, shared parameters held.

    Shapes (labels,) three times, (labels, sets), (labels, parameters, devices).
    """

    device: IntArray
    seconds: FloatArray
    priced: FloatArray
    used: IntArray
    held: BoolArray

    def take(self, chosen: IntArray | BoolArray) -> Labels:
        """Some of the labels."""
        return Labels._make(column[chosen] for column in self)


class Passing(NamedTuple):
    """Ways of a step from one device to another.

    Also, where the readers of operators outside are then (-1: on several devices), and least seconds of messages that
    enter the device at the end.
    """

    entry: int
    ways: Labels
    readers: tuple[int, ...]
    port: float


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
        limited = np.flatnonzero(chain.limited).tolist()
        sizes = range(1, 1 + (len(limited) if len(limited) <= MOST_SUBSETS else 2))
        chosen = [each for size in sizes for each in combinations(limited, size)]
        self.sets = np.zeros((len(chosen), self.devices), dtype=np.bool_)
        for number, each in enumerate(chosen):
            self.sets[number, each] = True
        self.room = np.asarray([int(arrays.capacity[list(each)].sum()) for each in chosen], dtype=np.int64)
        self.ways = {kind: WindowWays(kind.block, kind.weight) for kind in chain.kinds}

    def cut(self, seconds: Callable[[], float]) -> None:
        """Let ways count what ports have to pass, as far as there is time."""
        for ways in self.ways.values():
            if seconds() > 0.0:
                ways.cut()

    def raise_bound(
        self,
        price: FloatArray,
        ceiling: Callable[[], float],
        seconds: Callable[[], float],
        report: Callable[[float], None],
        tries: Sequence[tuple[int, int]] = TRIES,
    ) -> None:
        """Report bounds at some prices, at most ``ceiling``, which may fall meanwhile."""
        self.chain.reprice(price)
        for most, choices in tries:
            bound, complete = self._bound(price, ceiling(), (most, choices), seconds)
            report(bound)
            if complete or seconds() <= 0.0:
                break

    def _bound(
        self, price: FloatArray, ceiling: float, most: tuple[int, int], seconds: Callable[[], float]
    ) -> tuple[float, bool]:
        """A bound with some number of labels and choices, and whether more of them are of no use."""
        chain = self.chain
        own, plain = chain.own_costs(price), self.arrays.seconds[chain.milestones]
        rest_priced = self._rest([kind.values for kind in chain.blocks], own)
        tables = [kind.block.values for kind in chain.blocks]
        rest, room = self._rest(tables, plain), float(chain.capacity @ price)
        slack = self.slack(ceiling)
        labels = self.first(price, ceiling, chain.outside)
        least, aside, ahead = 0.0, ceiling, None
        for position, kind in enumerate(chain.blocks):
            if seconds() <= 0.0:
                break
            if kind.bytes.any():
                labels = self._passed(_moved(labels, ahead), position, price, slack[kind], most[1], seconds)
                ahead = None
            else:
                table = np.stack([kind.block.values, kind.values])
                ahead = table if ahead is None else composed(ahead, table)
            if position < len(plain):
                v, times = int(chain.milestones[position]), np.stack([plain[position], own[position]])
                if ahead is not None and not chain.memory.bytes[v] and position + 1 < len(chain.blocks):
                    ahead += times[:, None, :]
                    continue
                labels, ahead = _moved(labels, ahead), None
                seconds_, priced = times[:, labels.device]
                labels = labels._replace(seconds=labels.seconds + seconds_, priced=labels.priced + priced)
                labels = self._hold(labels, v, labels.device)
            labels, ahead = _moved(labels, ahead), None
            total = (labels.priced + rest_priced[position][labels.device]) * (1.0 - SUMMATION)
            alone = (labels.seconds + rest[position][labels.device]) * (1.0 - SUMMATION)
            sums = np.maximum(total - room * (1.0 + SUMMATION), alone)
            good = (labels.used <= self.room).all(axis=1) & (sums < aside)
            labels, sums = self._merged(labels.take(good), sums[good])
            if len(sums) > most[0]:
                aside = min(aside, float(sums[most[0]]))
                labels, sums = labels.take(np.arange(most[0])), sums[: most[0]]
            least = max(least, min(aside, float(sums.min(initial=math.inf))))
        return least, least >= ceiling or (least < aside and most[1] == TRIES[-1][1])

    def first(self, price: FloatArray, ceiling: float, outside: IntArray) -> Labels:
        """The label of the beginning: operators outside the windows hold their bytes where they may run."""
        used = np.zeros((1, len(self.sets)), dtype=np.int64)
        cost = np.where(np.isfinite(self.arrays.seconds), self.chain.memory.bytes[:, None] * price, np.inf)[outside]
        if len(outside) and math.isfinite(ceiling):
            reach = reach_of(self.arrays)
            length = reach.heads + self.arrays.seconds + reach.tails
            used[0] = self.own[outside] @ self._within(length[outside] < ceiling)
        held = np.zeros((1, len(self.shared), self.devices), dtype=np.bool_)
        return Labels(np.zeros(1, dtype=np.int64), np.zeros(1), np.full(1, cost.min(axis=1).sum()), used, held)

    def _within(self, allowed: BoolArray) -> IntArray:
        """Whether operators can run in every set only. Shape (..., operators, sets)."""
        return np.asarray((allowed.astype(np.int64) @ (~self.sets).T.astype(np.int64)) == 0, dtype=np.int64)

    def _rest(self, tables: list[FloatArray], own: FloatArray) -> list[FloatArray]:
        """The shortest paths from the end of every window to that of the plan, by device."""
        found = [np.zeros(self.devices)]
        for position in range(len(own) - 1, -1, -1):
            follows = tables[position + 1] + (found[-1] + (own[position + 1] if position + 1 < len(own) else 0.0))
            found.append(follows.min(axis=1))
        return found[::-1]

    def slack(self, ceiling: float) -> dict[PricedBlock, FloatArray]:
        """Seconds that windows between devices may take in a plan below the ceiling. Shape (devices, devices) each."""
        tables, own = [kind.block.values for kind in self.chain.blocks], self.arrays.seconds[self.chain.milestones]
        rest = self._rest(tables, own)
        found: dict[PricedBlock, FloatArray] = {}
        before = np.zeros(self.devices)
        for position, (kind, table) in enumerate(zip(self.chain.blocks, tables, strict=True)):
            after = rest[position] + (own[position] if position < len(own) else 0.0)
            spent = before[:, None] + after
            left = np.where(np.isfinite(spent), ceiling - np.minimum(spent, sys.float_info.max), -np.inf)
            found[kind] = np.maximum(found.get(kind, -np.inf), left)
            before = (before[:, None] + table).min(axis=0) + (own[position] if position < len(own) else 0.0)
        return found

    def _passed(
        self,
        labels: Labels,
        position: int,
        price: FloatArray,
        slack: FloatArray,
        choices: int,
        seconds: Callable[[], float],
    ) -> Labels:
        """The labels after a window; where there are many, its ways without choices have to do."""
        kind, window = self.chain.blocks[position], self.chain.blocks[position].block.window
        found = [labels.take(np.zeros(0, dtype=np.int64))]
        for a, b in product(
            range(self.devices) if window.entry else (0,), range(self.devices) if window.exit else (0,)
        ):
            here = labels.take(labels.device == a)
            if not len(here.device) or not kind.block.values[a, b] < slack[a, b]:
                continue
            for most in (choices, 0):
                each = self.passing(position, price, a, b, self.ways[kind].within(a, b, slack, most, seconds))
                if len(here.device) * len(each.device) <= MOST_JOINED:
                    break
            found.append(self._joined(here, each))
        return Labels(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def passing(self, position: int, price: FloatArray, a: int, b: int, ways: Ways) -> Labels:
        """The ways of a window between two devices as labels of what they add."""
        kind, members = self.chain.blocks[position], self.chain.members[position]
        usable, heavy = np.isfinite(kind.block.window.arrays.seconds), kind.bytes > 0.0
        time = np.maximum(ways.seconds, kind.block.values[a, b])
        least = np.where(ways.allowed & usable, kind.bytes[:, None] * price, np.inf).min(axis=2).sum(axis=1)
        sole = ways.allowed & (ways.allowed.sum(axis=2) == 1)[:, :, None]
        each = Labels(
            np.full(len(time), b),
            time,
            np.maximum(kind.values[a, b], time + least),
            np.where(heavy, self.own[members], 0) @ self._within(ways.allowed),
            np.einsum("vp,wvk->wpk", self.uses[members] & heavy[:, None], sole),
        )
        return each.take(undominated(each))

    def _joined(self, labels: Labels, ways: Labels) -> Labels:
        """Every label with every way after it."""
        first, then = np.divmod(np.arange(len(labels.device) * len(ways.device)), len(ways.device))
        used = labels.used[first] + ways.used[then]
        good = np.flatnonzero((used <= self.room).all(axis=1))
        first, then = first[good], then[good]
        joined = Labels(
            ways.device[then],
            labels.seconds[first] + ways.seconds[then],
            labels.priced[first] + ways.priced[then],
            used[good],
            labels.held[first],
        )
        return self._holding(joined, ways.held[then])

    def _holding(self, labels: Labels, held: BoolArray) -> Labels:
        """The labels with shared parameters on some devices, where they count once."""
        new = held & ~labels.held
        if not new.any():
            return labels
        more = np.einsum("lpk,p->lk", new, self.arrays.parameter_bytes[self.shared])
        return labels._replace(used=labels.used + more @ self.sets.T, held=labels.held | held)

    def _hold(self, labels: Labels, v: int, device: IntArray) -> Labels:
        """The labels with the bytes of an operator on one device each; shared parameters count once there."""
        there = np.eye(self.devices, dtype=np.bool_)[device]
        labels = labels._replace(used=labels.used + self.own[v] * self.sets.T[device])
        return self._holding(labels, self.uses[v][None, :, None] & there[:, None, :])

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
        best = np.argsort(np.minimum.reduceat(sums[order], at), kind="stable")
        merged, sums = merged.take(best), np.minimum.reduceat(sums[order], at)[best]
        good = undominated(merged)
        return merged.take(good), sums[good]


def composed(first: FloatArray, then: FloatArray) -> FloatArray:
    """Least sums of two tables, or stacks of tables, one after the other. Shape (..., devices, devices)."""
    return np.asarray((first[..., :, None] + then[..., None, :, :]).min(axis=-2))


def _moved(labels: Labels, table: FloatArray | None) -> Labels:
    """The labels after windows without bytes, from device to device. Shape of the table (2, devices, devices)."""
    if table is None:
        return labels
    label, device = np.nonzero(np.isfinite(table[0, labels.device]))
    seconds, priced = table[:, labels.device[label], device]
    moved = labels.take(label)
    return moved._replace(device=device, seconds=moved.seconds + seconds, priced=moved.priced + priced)


def undominated(labels: Labels) -> BoolArray:
    """Whether labels are better than each of the first ones in some respect; later ones are dropped."""
    count = len(labels.device)
    good, columns = np.ones(count, dtype=np.bool_), np.column_stack([labels.seconds, labels.priced])
    for first in range(min(COMPARED, count)):
        if good[first]:
            worse = (labels.device == labels.device[first]) & (columns >= columns[first]).all(axis=1)
            worse &= (labels.used >= labels.used[first]).all(axis=1)
            worse &= (labels.held == labels.held[first]).all(axis=(1, 2))
            worse[first] = False
            good &= ~worse
    return good


def passings(
    whole: WholeBytes,
    position: int,
    slack: dict[PricedBlock, FloatArray],
    choices: int,
    seconds: Callable[[], float],
) -> list[Passing]:
    """The ways of a step from every device, without those that no plan shorter than the ceiling takes."""
    kind, v = whole.chain.blocks[position], whole.chain.milestones[position : position + 1]
    window, found = kind.block.window, list[Passing]()
    readers = [
        np.flatnonzero(whole.chain.members[position] == each.reader)[0] for each in whole.chain.sources[position]
    ]
    for a, b in product(*(range(whole.devices if exists else 1) for exists in (window.entry, window.exit))):
        if kind.block.values[a, b] < slack[kind][a, b]:
            ways = whole.ways[kind].within(a, b, slack[kind], choices, seconds)
            sole = np.where(ways.allowed.sum(axis=2) == 1, ways.allowed.argmax(axis=2), ANYWHERE)[:, readers]
            port = whole.ways[kind].port(a, b)
            for where in sorted(set(map(tuple, sole.tolist()))):
                chosen = Ways(*(column[(sole == where).all(axis=1)] for column in ways))
                each = whole.passing(position, np.zeros(whole.devices), a, b, chosen)
                if len(v):
                    held = each.held.copy()
                    held[:, :, b] |= whole.uses[v[0]]
                    later, more = each.seconds + whole.arrays.seconds[v[0], b], whole.own[v[0]] * whole.sets[:, b]
                    each = each._replace(seconds=later, used=each.used + more, held=held)
                each = each.take(
                    np.isfinite(each.seconds)
                )  # the milestone may not run there, unlike others of its kind
                each = each._replace(priced=each.seconds).take(np.argsort(each.seconds, kind="stable"))
                found.append(Passing(a, each.take(undominated(each)), where, port))
    return found
