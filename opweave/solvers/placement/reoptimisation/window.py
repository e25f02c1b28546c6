"""Windows of a plan: some operators, and what everything else has to do with them.

Operators of a window that stay together are a block. Every activity that the window does not decide is of one kind.

* *Early* ones wait for nothing in the window. They keep their times.
* *Late* ones hold up nothing in the window. They keep their distance to the end of the plan, as late as they can run.
* What lies between is timed anew, on its device.

Times are counted in ticks, and rounded down. That keeps the plan at hand possible, since floor(a + b) >= floor(a) +
floor(b).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from opweave.solvers.placement.arrays import PORT_TENSOR
from opweave.solvers.placement.reoptimisation.timed import Activity, Timed

TICKS = 2**26
"""Ticks of the plan at hand; see :data:`opweave.solvers.placement.module_intervals.TICKS`."""

TOO_LONG = 2 * TICKS
"""Ticks of what takes longer than the plan at hand: engines count in 64 bits."""

ALMOST = 1e-13
"""Relative allowance of whole ticks for the rounding of sums of seconds."""

Block = tuple[int, ...]
"""Operators that run on one device one after the other, without a break."""


@dataclass(frozen=True, eq=False)
class Window:
    """Blocks of a plan that are to be decided anew."""

    plan: Timed
    blocks: tuple[Block, ...]

    @cached_property
    def tick(self) -> float:
        """Seconds of a tick."""
        return self.plan.makespan / TICKS

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, or some number that no plan has room for."""
        return int(min(seconds / self.tick * (1.0 + ALMOST), TOO_LONG))

    @cached_property
    def block_of(self) -> dict[int, int]:
        """The block of every operator of the window."""
        return {v: i for i, members in enumerate(self.blocks) for v in members}

    @cached_property
    def span(self) -> tuple[float, float]:
        """First start and last end of the operators."""
        return min(map(self.plan.start.__getitem__, self.block_of)), max(map(self.plan.end, self.block_of))

    @cached_property
    def inside(self) -> frozenset[Activity]:
        """The operators, and the transfers to and from them in the plan at hand."""
        return frozenset(activity for activity in self.plan.start if self._touches(activity))

    def _touches(self, activity: Activity) -> bool:
        if isinstance(activity, int):
            return activity in self.block_of
        target = self.plan.network.target
        readers = (target[f] for f in self.plan.carried(activity))
        return self.plan.producer(activity) in self.block_of or any(v in self.block_of for v in readers)

    @cached_property
    def _order(self) -> tuple[frozenset[Activity], frozenset[Activity]]:
        """What waits for the window, and what the window waits for.

        Transfers long before or after the operators do not count: otherwise all that lies in between would.
        """
        waits, (first, last) = self.plan.waits_for, self.span
        near = {
            activity
            for activity in self.inside
            if isinstance(activity, int) or (self.plan.end(activity) > first and self.plan.start[activity] < last)
        }
        reached, reaching = set(near), set(near)
        for activity in self.plan.start:
            if any(other in reached for other, _ in waits[activity]):
                reached.add(activity)
        for activity in reversed(self.plan.start):
            if activity in reaching:
                reaching.update(other for other, _ in waits[activity])
        return frozenset(reached - self.inside), frozenset(reaching - self.inside)

    @cached_property
    def early(self) -> frozenset[Activity]:
        """What keeps its time."""
        return frozenset(self.plan.start.keys() - self.inside - self._order[0])

    @cached_property
    def late(self) -> frozenset[Activity]:
        """What keeps its distance to the end."""
        reached, reaching = self._order
        return frozenset(a for a in reached - reaching if not self._may_be_read(a))

    @cached_property
    def middle(self) -> tuple[Activity, ...]:
        """What is timed anew, in the order of the plan."""
        reached = self._order[0]
        return tuple(a for a in self.plan.start if a in reached and a not in self.late)

    def _may_be_read(self, activity: Activity) -> bool:
        """Whether it is a transfer that operators of the window can read where it arrives."""
        network = self.plan.network
        if isinstance(activity, int) or network.model != PORT_TENSOR:
            return False
        return any(network.target[f] in self.block_of for f in network.flows(activity))

    def begins(self, activity: Activity) -> int:
        """The tick at which an activity starts now."""
        return self.ticks(self.plan.start[activity])

    def lasts(self, activity: Activity) -> int:
        """Ticks of an activity."""
        return self.ticks(self.plan.lasts(activity))

    def ends(self, activity: Activity) -> int:
        """The tick at which an activity ends now."""
        return self.begins(activity) + self.lasts(activity)

    def left(self, activity: Activity) -> int:
        """Ticks from the start of an activity to the end of the plan, if nothing waits needlessly."""
        return self.ticks(self.plan.tail[activity])

    def least(self) -> int:
        """The length that early and late activities require, whatever the window decides."""
        least = max(map(self.ends, self.early), default=0)
        for activity in self.late:
            left = self.left(activity)
            before = (self.ends(u) + self.ticks(lag) for u, lag in self.plan.waits_for[activity] if u in self.early)
            least = max(least, left + max(before, default=0))
        return least

    def near(self, copies: Iterable[Activity]) -> tuple[int, int]:
        """Ticks between which gaps are used: from the plan's beginning, and from its end.

        They are as far from the operators as these are from one another, and include some transfers as they are now.
        """
        first, last = self.span
        moments = [(self.plan.start[a], self.plan.tail[a] - self.plan.lasts(a)) for a in copies]
        begin = min([2.0 * first - last, *(start for start, _ in moments)])
        end = min([self.plan.makespan - 2.0 * last + first, *(left for _, left in moments)])
        return self.ticks(max(begin, 0.0)), self.ticks(max(end, 0.0))
