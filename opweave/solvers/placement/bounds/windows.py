"""Windows: the operators strictly between two milestones, as small problems with both ends on fixed devices.

In any schedule, by precedence, every operator after u and before v lies between the end of u and the start of v, and so
does every transfer among these operators, u and v. Anything else in that time can only take resources away. So the
shortest plan of the window alone, with u and v on their devices, bounds start(v) - end(u) from below. Under
``one_port_tensor`` a tensor may also be read outside the window and be sent for that reader, too. But to every device
that reads it *inside* the window it is sent at least once between the two milestones.

An operator on every path is a *cut vertex*: every other operator comes before or after it, and no arc bypasses it.
While it runs, no other operator runs and no transfer is under way. So, given the device of the cut vertex, the schedule
splits exactly there. This holds under all three transfer models, because a tensor made before the cut vertex cannot be
read after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.arrays import DELAY, PlacementArrays, durations, order_of_graph, with_arcs
from opweave.solvers.placement.bounds.area import energetic
from opweave.solvers.placement.bounds.critical_path import Reach, heads_of, longest, tails_of


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A window as a small instance: its entry (if any), the operators, its exit (if any); both ends take 0 seconds.

    Attributes
    ----------
    arrays
        The small problem; an end that cannot run on a device has inf there.
    operators, flows
        Positions in the whole problem, entry and exit included.
    entry, exit
        Whether the window has this end; without it, the window begins or ends with the plan.
    """

    arrays: PlacementArrays
    operators: IntArray
    flows: IntArray
    entry: bool
    exit: bool
    _heads: dict[int, FloatArray] = field(default_factory=dict, init=False)
    _tails: dict[int, FloatArray] = field(default_factory=dict, init=False)

    @property
    def inner(self) -> IntArray:
        """The operators between the ends, as positions in the whole problem."""
        return self.operators[int(self.entry) : len(self.operators) - int(self.exit)]

    def key(self) -> bytes:
        """A key that is equal for windows that differ only in the names of operators and tensors."""
        arrays = self.arrays
        ends = np.asarray([self.entry, self.exit, len(arrays.seconds)], dtype=np.int64)
        flows = arrays.source, arrays.target, arrays.tensor, arrays.size
        parts = ends, arrays.seconds, *flows, arrays.before_start, arrays.before
        return b"|".join(part.tobytes() for part in parts)

    def cells(self, a: int, b: int) -> tuple[slice, slice]:
        """Entries of a table that two end devices stand for; a missing end stands for all devices. Shape (K, K)."""
        return slice(a, a + 1) if self.entry else slice(None), slice(b, b + 1) if self.exit else slice(None)

    def fixed(self, a: int | None, b: int | None) -> PlacementArrays:
        """The arrays with the entry on device a and the exit on device b; None leaves an end free."""
        seconds = self.arrays.seconds.copy()
        self._fix(seconds, a, b)
        return self.arrays._replace(seconds=seconds)

    def _fix(self, times: FloatArray, a: int | None, b: int | None) -> None:
        """Leave the ends no finite times on other devices."""
        for exists, end, device in ((self.entry, 0, a), (self.exit, -1, b)):
            if exists and device is not None:
                times[end, np.arange(times.shape[1]) != device] = np.inf

    def reach(self, a: int, b: int) -> Reach:
        """Heads and tails with the ends on two devices.

        What comes before an operator does not depend on the exit, nor what follows it on the entry.
        """
        if a not in self._heads:
            self._heads[a] = heads_of(self.fixed(a, None), order_of_graph(self.arrays))
        if b not in self._tails:
            self._tails[b] = tails_of(self.fixed(None, b), order_of_graph(self.arrays))
        reach = Reach(self._heads[a].copy(), self._tails[b].copy())
        self._fix(reach.heads, a, b)
        self._fix(reach.tails, a, b)
        return reach

    def first_bounds(self) -> FloatArray:
        """Critical path and energetic bound for every pair of end devices; inf for impossible pairs. Shape (K, K)."""
        devices = self.arrays.seconds.shape[1]
        table = np.full((devices, devices), np.inf)
        for a, b in product(self._usable(0) if self.entry else [0], self._usable(-1) if self.exit else [0]):
            table[a, b] = self._first_bound(a, b) if len(self.inner) else self._crossing(a, b)
        if not self.entry:
            table[:] = table[0]
        if not self.exit:
            table[:] = table[:, :1]
        return table

    def _crossing(self, a: int, b: int) -> float:
        """Time from entry to exit when nothing lies between: the transfers, one after the other if there are ports."""
        arrays = self.arrays
        if not (self.entry and self.exit):
            return 0.0
        times = durations(arrays)[:, a, b].tolist()
        return max(times, default=0.0) if arrays.model == DELAY else float(sum(times))

    def _first_bound(self, a: int, b: int) -> float:
        arrays, reach = self.fixed(a, b), self.reach(a, b)
        return energetic(arrays, reach, longest(arrays, reach))

    def _usable(self, end: int) -> list[int]:
        """Devices on which an end can run."""
        return np.flatnonzero(np.isfinite(self.arrays.seconds[end])).tolist()


def cut_window(arrays: PlacementArrays, members: IntArray, entry: int | None, exit_: int | None) -> Window:
    """Cut a window out of an instance.

    Parameters
    ----------
    arrays
        The whole problem.
    members
        The operators between the ends, predecessors first.
    entry, exit_
        The milestones at the ends; None at the beginning and the end of the plan.
    """
    ends = [[] if entry is None else [entry], members.tolist(), [] if exit_ is None else [exit_]]
    operators = np.asarray(list(chain.from_iterable(ends)), dtype=np.int64)
    local = {v: i for i, v in enumerate(operators.tolist())}
    incoming = Adjacency(arrays.in_start, arrays.incoming)
    earlier = Adjacency(arrays.before_start, arrays.before)
    chosen = [f for v in local for f in incoming[v].tolist() if int(arrays.source[f]) in local]
    before = Adjacency.from_lists([sorted(local[u] for u in earlier[v].tolist() if u in local) for v in local])
    seconds = arrays.seconds[operators]
    for end, position in ((entry, 0), (exit_, len(operators) - 1)):
        if end is not None:
            seconds[position] = np.where(np.isfinite(seconds[position]), 0.0, np.inf)
    flows = np.asarray(chosen, dtype=np.int64)
    small = _small_net(with_arcs(arrays, before), seconds, flows, local)
    return Window(small, operators, flows, entry is not None, exit_ is not None)


def _small_net(arrays: PlacementArrays, seconds: FloatArray, flows: IntArray, local: dict[int, int]) -> PlacementArrays:
    """The arrays of some operators and flows, without memory; the arcs are there already."""
    count, each = len(seconds), np.arange(len(flows))
    source = np.asarray([local[u] for u in arrays.source[flows].tolist()], dtype=np.int64)
    target = np.asarray([local[v] for v in arrays.target[flows].tolist()], dtype=np.int64)
    numbers: dict[int, int] = {}
    tensor = [numbers.setdefault(t, len(numbers)) for t in arrays.tensor[flows].tolist()]
    incoming = Adjacency.from_pairs(count, target, each)
    outgoing = Adjacency.from_pairs(count, source, each)
    return arrays._replace(
        seconds=np.ascontiguousarray(seconds),
        source=source,
        target=target,
        tensor=np.asarray(tensor, dtype=np.int64),
        size=arrays.size[flows],
        in_start=incoming.start,
        incoming=incoming.items,
        out_start=outgoing.start,
        outgoing=outgoing.items,
        memory=np.zeros(count, dtype=np.int64),
        parameters_start=np.zeros(count + 1, dtype=np.int64),
        parameters=np.zeros(0, dtype=np.int64),
        parameter_bytes=np.zeros(0, dtype=np.int64),
        capacity=np.full(seconds.shape[1], NO_LIMIT, dtype=np.int64),
        tensors=len(numbers),
    )


def cut_vertices(arrays: PlacementArrays, order: IntArray) -> IntArray:
    """Operators on every path, in order, found by one sweep over the arcs.

    Proof: give every source an arc from before the first position, and every sink an arc to after the last. No arc
    crosses position i of the order exactly when no path from beginning to end avoids the operator there.

    Parameters
    ----------
    arrays
        The problem.
    order
        Operators with predecessors first.
    """
    count = len(order)
    position, here = np.empty(count, dtype=np.int64), np.arange(count)
    position[order] = here
    farthest, before = np.full(count, -1), np.diff(arrays.before_start)
    np.maximum.at(farthest, position[arrays.before], position[np.repeat(here, before)])
    farthest[farthest < 0] = count
    passed = np.maximum.accumulate(np.append(position[before == 0].max(initial=-1), farthest[:-1]))
    return np.asarray(order[passed[:count] <= here])


def windows_between(arrays: PlacementArrays, ends: Sequence[int | None], members: Sequence[IntArray]) -> list[Window]:
    """The windows between consecutive ends; None at the beginning and the end of the plan."""
    return [cut_window(arrays, row, ends[i], ends[i + 1]) for i, row in enumerate(members)]


def modules(arrays: PlacementArrays) -> tuple[IntArray, list[Window]]:
    """Cut vertices in order, and the modules before, between and after them."""
    cuts, members = _divided(arrays)
    return cuts, windows_between(arrays, [None, *cuts.tolist(), None], members)


def _divided(arrays: PlacementArrays) -> tuple[IntArray, list[IntArray]]:
    """Cut vertices in order, and the operators before, between and after them."""
    order = order_of_graph(arrays)
    cuts = cut_vertices(arrays, order)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    at = position[cuts].tolist()
    return cuts, [order[a + 1 : b] for a, b in zip([-1, *at], [*at, len(order)], strict=True)]


MOST_OPERATORS, MOST_MILESTONES = 4_000, 2_000
"""Most operators of a problem for which chains are sought, and most operators whose pairs are examined: those with work
first, and with the most others before or after them, so that a chain of them leaves little outside its windows."""

BAND = 200
"""Milestones whose windows are counted at a time, with ends that are no further away than twice a window's size."""

WINDOW_SIZE = 100
"""Most operators of a window."""

FINER = 1e-6
"""Reward of one more milestone, as a share of all work; for one that a short flow passes, a loss."""

SHORT = 10
"""Most operators between the ends of a short flow. Windows do not see flows that pass a milestone: a chain through the
small operators of a norm would let its state change devices for nothing."""

NEAR = 4 * SHORT
"""Most operators that are looked at from either end of a flow."""


def reachable(arrays: PlacementArrays, order: IntArray) -> NDArray[np.bool_]:
    """Whether the first operator of every pair equals the second or comes before it. Shape (operators, operators)."""
    count = len(order)
    reach = np.eye(count, dtype=bool)
    for v in order[::-1].tolist():
        for w in arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]].tolist():
            reach[v] |= reach[w]
    return reach


class Chain(NamedTuple):
    """Milestones in order, and the operators before, between and after them (predecessors first)."""

    milestones: IntArray
    members: list[IntArray]


def milestone_chain(arrays: PlacementArrays, most: int = WINDOW_SIZE) -> Chain:
    """The best chain of windows of at most so many operators; one without milestones when the problem is too large.

    A chain is a longest path over pairs u before v. A pair is worth the least work strictly between its operators (0 if
    those are too many for a window); an operator is worth its own least work, a little more where no short flow passes
    it, and a little less elsewhere. Any chain gives a valid bound.
    """
    count = len(arrays.seconds)
    order = order_of_graph(arrays)
    if not 2 <= count <= MOST_OPERATORS:
        return Chain(np.zeros(0, dtype=np.int64), [order])
    reach = reachable(arrays, order)[np.ix_(order, order)]
    work = arrays.seconds[order].min(axis=1)
    numeric = reach.astype(np.float32)
    after, before = numeric.sum(axis=1), numeric.sum(axis=0)
    chosen = np.sort(np.lexsort((-after - before, work <= 0.0))[:MOST_MILESTONES])
    rows = numeric[chosen]
    columns = numeric[:, chosen]
    own = work[chosen]
    number = len(chosen) + 2
    # position 0 stands for the beginning of the plan, the last one for its end
    inside, follows = np.zeros((number, number)), np.ones((number, number), dtype=bool)
    size = np.full((number, number), np.inf)
    for first in range(0, len(chosen), BAND):
        last = min(first + BAND, len(chosen))
        low, high = chosen[first], chosen[last - 1] + 2 * most
        near = int(np.searchsorted(chosen, high))
        part, ends = rows[first:last, low:high], columns[low:high, first:near]
        cells = slice(1 + first, 1 + last), slice(1 + first, 1 + near)
        inside[cells] = (part * work[low:high].astype(np.float32)) @ ends - own[first:last, None] - own[first:near]
        size[cells] = part @ ends - 2.0
    inside[0, 1:-1], inside[1:-1, -1] = work @ columns - own, rows @ work - own
    size[0, 1:-1], size[1:-1, -1] = before[chosen] - 1.0, after[chosen] - 1.0
    follows[1:-1, 1:-1] = reach[np.ix_(chosen, chosen)]
    follows[1:, 0] = follows[-1, 1:] = follows[0, -1] = False
    np.fill_diagonal(follows, False)
    reward = np.where(_passed(arrays, reach, order), -FINER, FINER)[chosen] * max(float(work.sum()), 1e-300)
    chain = chosen[_longest(inside, size, follows, own, reward, most)]
    return Chain(order[chain], [order[row] for row in _members(reach, chain)])


def _passed(arrays: PlacementArrays, reach: NDArray[np.bool_], order: IntArray) -> NDArray[np.bool_]:
    """Positions that some short flow passes, and those that a long flow passes at its ends.

    A flow passes the operators on all paths from its source to its target. Those at its ends have no bytes, nor has any
    between them and the source or the target. So the sum of two branches is no milestone if a residual joins later.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    passed, heavy = np.zeros(len(order), dtype=bool), np.diff(arrays.parameters_start)[order] > 0
    for u, v in zip(place[arrays.source].tolist(), place[arrays.target].tolist(), strict=True):
        between = u + 1 + np.flatnonzero(reach[u, u + 1 : v] & reach[u + 1 : v, v])
        for near in (between[:NEAR], between[::-1][:NEAR]):
            inside = reach[np.ix_(near, near)]
            closer = np.triu(inside | inside.T)
            at_end = (closer.sum(axis=0) <= SHORT) & ~(heavy[near] @ closer)
            passed[near[at_end | (len(between) <= SHORT)]] = True
    return passed


def _longest(
    inside: FloatArray, size: FloatArray, before: NDArray[np.bool_], work: FloatArray, reward: FloatArray, most: int
) -> IntArray:
    """Positions of the best chain."""
    count = len(work)
    gain = np.where(before, np.where(size <= most, np.maximum(inside, 0.0), 0.0), -np.inf).T.copy()
    own = np.concatenate([[0.0], work + reward, [0.0]])
    value = np.full(count + 2, -np.inf)
    value[0] = 0.0
    previous = np.zeros(count + 2, dtype=np.int64)
    for v in range(1, count + 2):
        sums = value[:v] + gain[v, :v]
        previous[v] = int(np.argmax(sums))
        value[v] = sums[previous[v]] + own[v]
    chain: list[int] = []
    v = int(previous[-1])
    while v > 0:
        chain.append(v - 1)
        v = int(previous[v])
    return np.asarray(chain[::-1], dtype=np.int64)


def _members(reach: NDArray[np.bool_], chain: IntArray) -> list[IntArray]:
    """Positions strictly between consecutive milestones, before the first and after the last."""
    everything = np.ones(len(reach), dtype=bool)
    between = ~np.isin(np.arange(len(reach)), chain)
    late = [everything, *reach[chain]]
    early = [*reach[:, chain].T, everything]
    return [np.flatnonzero(after & before & between) for after, before in zip(late, early, strict=True)]
