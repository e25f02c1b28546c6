"""Plans as schedules: operators and transfers with their times, and the order in which each resource takes them.

Constraint programming sends transfers in orders that no list scheduler gives. So a plan is kept as a list of activities
by start: the operators, and the transfers that are sent. Every activity begins as soon as its resources and its data
allow, when all resources take their activities in this order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE, PlacementArrays, durations

ROUNDING = 1e-12
"""Share of a plan's length that sums of seconds may be off by."""


class Copy(NamedTuple):
    """A transfer: of a flow (``one_port_edge``), or of a tensor to a device (``one_port_tensor``)."""

    item: int
    target: int


@dataclass(frozen=True, eq=False)
class Network:
    """A problem as lists, which plain Python reads faster than arrays.

    Attributes
    ----------
    seconds
        Run times, by operator and device.
    cluster
        The group of every operator; those of one group share a device.
    before, after
        The predecessors and successors of every operator.
    incoming, outgoing
        The flows into and out of every operator.
    source, target, tensor
        Both ends of every flow, and what it carries.
    lasts
        Seconds of every flow, by source and target device; inf without a link.
    flows_of
        The flows of every tensor that is sent.
    level
        Every operator comes after its predecessors' levels.
    """

    arrays: PlacementArrays
    cluster: list[int]
    seconds: list[list[float]]
    before: list[list[int]]
    after: list[list[int]]
    incoming: list[list[int]]
    outgoing: list[list[int]]
    source: list[int]
    target: list[int]
    tensor: list[int]
    lasts: list[list[list[float]]]
    flows_of: Mapping[int, list[int]]
    level: list[int]

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def model(self) -> int:
        """The kind of transfers."""
        return self.arrays.model

    def copy_of(self, flow: int, target: int) -> Copy:
        """The transfer that carries a flow to a device."""
        return Copy(flow if self.model == PORT_EDGE else self.tensor[flow], target)

    def flows(self, copy: Copy) -> Sequence[int]:
        """The flows that a transfer may carry."""
        return (copy.item,) if self.model == PORT_EDGE else self.flows_of[copy.item]


def network_of(arrays: PlacementArrays, cluster: IntArray) -> Network:
    """The lists of a problem."""

    def rows(start: IntArray, items: IntArray) -> list[list[int]]:
        flat = items.tolist()
        return [flat[a:b] for a, b in pairwise(start.tolist())]

    before, after = rows(arrays.before_start, arrays.before), rows(arrays.after_start, arrays.after)
    flows_of: dict[int, list[int]] = defaultdict(list)
    for flow, tensor in enumerate(arrays.tensor.tolist()):
        flows_of[tensor].append(flow)
    return Network(
        arrays,
        cluster.tolist(),
        arrays.seconds.tolist(),
        before,
        after,
        rows(arrays.in_start, arrays.incoming),
        rows(arrays.out_start, arrays.outgoing),
        arrays.source.tolist(),
        arrays.target.tolist(),
        arrays.tensor.tolist(),
        np.where(np.isfinite(arrays.latency), durations(arrays), np.inf).tolist(),
        flows_of,
        _levels(before, after),
    )


def _levels(before: list[list[int]], after: list[list[int]]) -> list[int]:
    """The number of arcs on the longest path to every operator."""
    missing, level = [len(each) for each in before], [0] * len(before)
    ready = [v for v, count in enumerate(missing) if not count]
    for u in ready:
        for v in after[u]:
            level[v] = max(level[v], level[u] + 1)
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return level


Activity = int | Copy
"""An operator or a transfer."""

Resource = tuple[str, int]
"""What takes one activity at a time: "device", "send" or "receive", and the device."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A plan whose activities begin as soon as they can.

    Attributes
    ----------
    device
        Device of every operator.
    start
        Start of every activity, in an order in which every activity comes after those that it waits for.
    """

    network: Network
    device: list[int]
    start: dict[Activity, float]

    def lasts(self, activity: Activity) -> float:
        """Seconds of an activity."""
        if isinstance(activity, int):
            return self.network.seconds[activity][self.device[activity]]
        flow = self.network.flows(activity)[0]
        return self.network.lasts[flow][self.device[self.network.source[flow]]][activity.target]

    def end(self, activity: Activity) -> float:
        """End of an activity."""
        return self.start[activity] + self.lasts(activity)

    def carried(self, copy: Copy) -> list[int]:
        """The flows that a transfer carries."""
        network = self.network
        return [f for f in network.flows(copy) if self.device[network.target[f]] == copy.target]

    def is_needed(self, activity: Activity) -> bool:
        """Whether an activity is an operator, or a transfer between devices that an operator reads."""
        if isinstance(activity, int):
            return True
        return self.device[self.producer(activity)] != activity.target and bool(self.carried(activity))

    def producer(self, copy: Copy) -> int:
        """The operator whose result a transfer carries."""
        return self.network.source[self.network.flows(copy)[0]]

    def resources(self, activity: Activity) -> tuple[Resource, ...]:
        """What an activity occupies."""
        if isinstance(activity, int):
            return (("device", self.device[activity]),)
        return ("send", self.device[self.producer(activity)]), ("receive", activity.target)

    def place(self, activity: Activity, last: dict[Resource, Activity]) -> None:
        """Let an activity begin as soon as it can after all that were placed before."""
        self.start[activity] = max((self.end(other) + lag for other, lag in self._waits(activity, last)), default=0.0)

    @cached_property
    def waits_for(self) -> dict[Activity, list[tuple[Activity, float]]]:
        """What every activity waits for, and how long after the end of that."""
        last: dict[Resource, Activity] = {}
        return {activity: self._waits(activity, last) for activity in self.start}

    def _waits(self, activity: Activity, last: dict[Resource, Activity]) -> list[tuple[Activity, float]]:
        """What one activity waits for; ``last`` is the latest activity of every resource."""
        resources = self.resources(activity)
        waits = [(last[each], 0.0) for each in resources if each in last]
        last.update(dict.fromkeys(resources, activity))
        return [*waits, *self.reads(activity)]

    def reads(self, activity: Activity) -> list[tuple[Activity, float]]:
        """Whose results an activity needs, and how long after the end of that."""
        if not isinstance(activity, int):
            return [(self.producer(activity), 0.0)]
        network, here = self.network, self.device[activity]
        reads: list[tuple[Activity, float]] = [(u, 0.0) for u in network.before[activity]]
        for flow in network.incoming[activity]:
            there = self.device[network.source[flow]]
            if there != here and network.model == DELAY:
                reads.append((network.source[flow], network.lasts[flow][there][here]))
            elif there != here:
                reads.append((network.copy_of(flow, here), 0.0))
        return reads

    @cached_property
    def tail(self) -> dict[Activity, float]:
        """Seconds from the start of every activity to the end of the plan, if nothing waits needlessly."""
        after = dict.fromkeys(self.start, 0.0)
        tail: dict[Activity, float] = {}
        for activity in reversed(self.start):
            tail[activity] = after[activity] + self.lasts(activity)
            for other, lag in self.waits_for[activity]:
                after[other] = max(after[other], lag + tail[activity])
        return tail

    @cached_property
    def makespan(self) -> float:
        """End of the last operator."""
        return max((self.end(v) for v in range(len(self.network))), default=0.0)

    def arrays(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Devices, starts of operators, and starts of flows' transfers (-1: none)."""
        begins = np.full(len(self.network.source), -1.0)
        for activity, start in self.start.items():
            if not isinstance(activity, int):
                first = min(self.carried(activity), key=lambda f: self.start[self.network.target[f]])
                begins[first] = start
        starts = np.asarray([self.start[v] for v in range(len(self.network))], dtype=np.float64)
        return np.asarray(self.device, dtype=np.int64), starts, begins


def timed(network: Network, device: list[int], wanted: Mapping[Activity, float], tick: float) -> Timed:
    """The plan in which all resources take their activities in the order of ``wanted`` starts.

    Of those that start together, the ones that take less than a ``tick`` come first. Transfers that no operator reads
    are left out.
    """
    plan, due = Timed(network, device, {}), dict[Activity, float]()

    def level(activity: Activity) -> tuple[int, int]:
        if isinstance(activity, int):
            return 2 * network.level[activity], activity
        return 2 * network.level[plan.producer(activity)] + 1, activity.item

    for activity in sorted(filter(plan.is_needed, wanted), key=level):  # rounding may hide what comes first
        due[activity] = max([wanted[activity], *(due[other] for other, _ in plan.reads(activity))])
    last: dict[Resource, Activity] = {}
    for activity in sorted(due, key=lambda each: (due[each], plan.lasts(each) >= tick, *level(each))):
        plan.place(activity, last)
    return plan


def timed_from(network: Network, device: IntArray, starts: FloatArray, begins: FloatArray) -> Timed:
    """A plan from its arrays; ``begins`` has the starts of flows' transfers, -1 for none."""
    wanted: dict[Activity, float] = dict(enumerate(starts.tolist()))
    where = device.tolist()
    for flow in np.flatnonzero(begins >= 0.0).tolist():
        wanted[network.copy_of(flow, where[network.target[flow]])] = float(begins[flow])
    return timed(network, where, wanted, ROUNDING * float(starts.max(initial=0.0)))
