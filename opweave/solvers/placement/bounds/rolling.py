"""Heads of wide networks, raised one after the other along a chain of operators that decides the bound.

A window between two milestones does not see what may run before its first operator. Here a window is an operator v and
the ancestors of v that start last, and each of them begins no earlier than its own head, whatever comes before. If no
plan of the window ends v so early that its tail fits into a length, then v starts later on every device, and so does
all that follows. The next window contains v, so what is gained adds up from the beginning of the plan to its end.

Proof: in a plan as short as the length, v ends early enough for its tail. The ancestors then form a plan of the window:
they keep their heads, their order, and at least the transfers among them. So if the window has no such plan, the length
minus the run time and tail of v on a device is a head of v there. All other heads may be raised by propagation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.chains import reachable
from opweave.solvers.placement.bounds.critical_path import Reach, longest, operator_order, reach_of
from opweave.solvers.placement.bounds.settled import (
    Link,
    Tries,
    joined_reach,
    links_inside,
    refutes,
    settle_windows,
)
from opweave.solvers.placement.bounds.windows import cut_window
from opweave.solvers.rounding import SUMMATION


class Sweep(NamedTuple):
    """Least operators of a window, how many are new in the next one at least, and the work that a try may take."""

    least: int
    fresh: int
    work: float


SWEEPS = (Sweep(45, 25, 0.1), Sweep(60, 40, 0.4))

LARGEST, GROWTH = 160, 1.3
"""Most operators of a window. Windows grow where a plan is found, and shrink where tries do not end in time."""

FIRST, LEAST = 0.006, 0.001
"""First step above the bound, and the least for which a try is worth its time, as shares of the bound."""

FAR = 3.0
"""Most first steps from the length of a plan through an operator to the first that is tried for it."""

TRIES, UNDECIDED = 7, 2
"""Most tries for one operator in a sweep, and most of them that do not end in time."""


@dataclass(eq=False)
class Heads:
    """Heads and tails of a problem, which grow, and the links that they obey; windows have ``most`` operators."""

    arrays: PlacementArrays
    links: list[Link]
    reach: Reach
    order: IntArray
    ancestors: NDArray[np.bool_]
    most: int = 0

    def lengths(self) -> FloatArray:
        """Least length of a plan through every operator. Shape (operators,)."""
        through: FloatArray = (self.reach.heads + self.arrays.seconds + self.reach.tails).min(axis=1)
        return through

    def chain(self, fresh: int) -> list[int]:
        """Operators along the chain that decides the bound, each with so many more ancestors than the one before."""
        arrays, lengths = self.arrays, self.lengths()
        middle = int(np.argmax(lengths))
        path = [middle]
        while len(before := arrays.before[arrays.before_start[path[0]] : arrays.before_start[path[0] + 1]]):
            path.insert(0, int(before[np.argmax(lengths[before])]))
        while len(after := arrays.after[arrays.after_start[path[-1]] : arrays.after_start[path[-1] + 1]]):
            path.append(int(after[np.argmax(lengths[after])]))
        chosen, seen = [], 0
        for v in path:
            count = int(self.ancestors[:, v].sum())
            if count - seen >= fresh or v == path[-1]:
                chosen.append(v)
                seen = count
        return chosen

    def raise_at(self, v: int, sweep: Sweep, tries: Tries) -> None:
        """Raise the heads of an operator as far as a few tries lead, and then those of all that follow."""
        bound = longest(self.arrays, self.reach)
        first = low = float(self.lengths()[v])
        high, step = np.inf, FIRST * bound
        length, window = min(bound + step, low + FAR * step), self._window(v)
        undecided = 0
        for _ in range(TRIES):
            if length - low <= LEAST * bound or undecided == UNDECIDED or tries.late():
                break
            refuted = self._refuted(v, window, length, sweep.work, tries)
            if refuted:
                low, step = length, 2.0 * step
            elif refuted is False and self.most < LARGEST and len(window) == self.most:
                self.most = min(math.ceil(GROWTH * self.most), LARGEST)
                window = self._window(v)
                continue
            else:
                high = length
                undecided += refuted is None
            length = min(low + step, 0.5 * (low + high))
        if low > first:
            heads = self.reach.heads.copy()
            rest = self.arrays.seconds[v] + self.reach.tails[v]
            heads[v] = np.maximum(heads[v], low * (1.0 - SUMMATION) - rest)
            self.reach = joined_reach(self.arrays, self.links, Reach(heads, self.reach.tails))
        elif undecided:
            self.most = max(int(self.most / GROWTH), sweep.least)

    def _refuted(self, v: int, before: IntArray, length: float, work: float, tries: Tries) -> bool | None:
        """Whether no plan of an operator and some ancestors leaves room for its tail within a length."""
        window = cut_window(self.arrays, before, None, v)
        seconds = window.arrays.seconds.copy()
        seconds[-1] = self.arrays.seconds[v] + self.reach.tails[v]
        arrays, links = window.arrays._replace(seconds=seconds), links_inside(self.links, window.operators)
        known = Reach(self.reach.heads[window.operators], np.zeros(seconds.shape))
        return refutes(arrays, links, length, work, tries.left(), known)

    def _window(self, v: int) -> IntArray:
        """The ancestors of an operator that start last, predecessors first; those with slack count as earlier."""
        found = self.order[self.ancestors[self.order, v] & (self.order != v)]
        last = np.argsort(-(self.reach.heads.min(axis=1) + self.lengths())[found], kind="stable")[: self.most]
        near: IntArray = found[np.sort(last)]
        return near


def settle(work: tuple[PlacementArrays, float], send: Send) -> None:
    """Settle small windows, roll larger ones, and send every bound of the makespan; runs in the child.

    ``work`` is a problem, whose memory is not seen, and the time at which to end, in seconds since the epoch.
    """
    tries = settle_windows(work[0], perf_counter() + work[1] - time(), send)
    for value in roll(work[0], tries, SWEEPS):
        send(value)


def roll(arrays: PlacementArrays, tries: Tries, sweeps: Sequence[Sweep]) -> Iterator[float]:
    """Bounds from heads that are raised along the deciding chain, until the tries have to end."""
    order, reach = operator_order(arrays), joined_reach(arrays, tries.links, reach_of(arrays))
    heads = Heads(arrays, tries.links, reach, order, reachable(arrays, order))
    yield longest(arrays, heads.reach)
    for sweep in sweeps:
        heads.most = sweep.least
        for v in heads.chain(sweep.fresh):
            if tries.late():
                return
            heads.raise_at(v, sweep, tries)
            yield longest(arrays, heads.reach)
