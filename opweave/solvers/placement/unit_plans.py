"""Plans of one unit, short in time plus memory at a price; those that searches find have both ends on one device.

Memory is priced as time. Every operator that takes memory gets a shadow on its own device that runs for price x bytes
of that device. The shadows run one after the other when the unit has ended. So a plan with shadows lasts as long as the
unit plus the price of its memory, and a search for short plans finds good plans at these prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.anneal import DRAWS, counted_plan, order_for
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import PlacementArrays, makespan_within, with_arcs
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.local import descend
from opweave.solvers.placement.plans import memory_used, plan_of
from opweave.solvers.placement.units import Unit
from opweave.solvers.run import Run

CHUNK_WORK = 6_000_000
"""Operators and flows judged in one annealing chunk; takes about a tenth of a second."""

MOST_MOVES = 100
"""Moves of a chunk per operator, so that small units are not searched for too long."""

LAST_HEAT = 0.00002
"""Final temperature of annealing, as a share of the length."""

WORK_OF_A_RANK = 20
"""Steps for each operator and flow in which an assignment is ordered and timed."""

LARGEST_DESCENT = 2_000
"""Most operators of a unit that is searched by hub descent."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One plan of a unit.

    Attributes
    ----------
    entered
        Device of its entry, the operator before the unit.
    home
        Device of its exit. Unless that is where it was entered, the plan crosses from one device to the other.
    seconds
        Time from the end of its entry to the end of its exit.
    bytes
        Memory of the plan on every device. Shape (devices,).
    order, device
        The plan of the operators in the unit's window.
    """

    entered: int
    home: int
    seconds: float
    bytes: FloatArray
    order: IntArray
    device: IntArray

    def cost(self, price: FloatArray) -> float:
        """Cost in seconds, including memory at its price."""
        return self.seconds + float(self.bytes @ price)


@dataclass(frozen=True, slots=True, eq=False)
class Cooling:
    """One annealing: operators with equal ``ties`` move together; ``heat`` is its first temperature over the length."""

    ties: IntArray
    heat: float
    chunks: int
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Shadowed:
    """A unit with shadows; ``owner`` is the operator of every shadow, ``count`` the number of operators."""

    arrays: PlacementArrays
    cluster: IntArray
    owner: IntArray
    count: int

    def devices(self, device: IntArray) -> IntArray:
        """Devices of the operators and their shadows, given the operators' devices."""
        return np.concatenate([device, device[self.owner]])

    def order(self, order: IntArray) -> IntArray:
        """An order of the operators, followed by their shadows."""
        return np.concatenate([order, self.count + np.arange(len(self.owner))])

    def judged(self, device: IntArray, order: IntArray, most: float) -> float:
        """Length of an assignment in the order of its ranks, written to ``order``; or some value above ``most``."""
        work = WORK_OF_A_RANK * (len(self.arrays.seconds) + len(self.arrays.source))
        everywhere = self.devices(device)
        order_for.sized(work)(self.arrays, everywhere, order)
        return float(makespan_within.sized(work)(self.arrays, order, everywhere, most))


class UnitSearch:
    """Searches plans of one unit, at any prices and from any home."""

    def __init__(self, unit: Unit, instance: PlacementInstance, arrays: PlacementArrays) -> None:
        self.unit, self.window = unit, unit.window
        self.operators = unit.window.operators
        self.devices = arrays.seconds.shape[1]
        ties = instance.cluster[self.operators]
        self.cluster = np.unique(ties, return_inverse=True)[1].astype(np.int64)
        self.whole_branches = _tied(self.cluster, unit.branches)
        memory = memory_of(instance)
        self.bytes = np.zeros(len(self.operators)) if memory is None else memory.bytes[self.operators].copy()
        self.bytes[: unit.own.start] = 0.0
        own = self.operators[unit.own]
        held = Adjacency.from_lists([instance.parameters[v].tolist() for v in own.tolist()])
        self.own = arrays._replace(memory=instance.memory[own], parameters_start=held.start, parameters=held.items)
        self.last = arrays.seconds[self.operators[-1]] if self.window.exit else np.zeros(self.devices)

    def homes(self) -> list[int]:
        """Devices that both ends can be on."""
        possible = np.ones(self.devices, dtype=bool)
        if self.window.entry:
            possible &= np.isfinite(self.window.arrays.seconds[0])
        if self.window.exit:
            possible &= np.isfinite(self.window.arrays.seconds[-1])
        return [int(k) for k in np.flatnonzero(possible)]

    def pure(self, home: int) -> Option | None:
        """The plan with everything on one device; None if some operator cannot run there."""
        if not np.isfinite(self.window.arrays.seconds[:, home]).all():
            return None
        device = np.full(len(self.operators), home, dtype=np.int64)
        order = np.empty(len(device), dtype=np.int64)
        self._shadowed((home, home), np.zeros(self.devices)).judged(device, order, np.inf)
        return self.option((home, home), order, device)

    def option(self, ends: tuple[int, int], order: IntArray, device: IntArray) -> Option:
        """Time and memory of a plan with its entry and its exit on given devices."""
        plan = plan_of(self.window.fixed(*ends), order, device)
        used = memory_used(self.own, device[self.unit.own]).astype(np.float64)
        return Option(*ends, plan.makespan + float(self.last[ends[1]]), used, order.copy(), device.copy())

    def crossing(self, ends: tuple[int, int], device: IntArray) -> Option | None:
        """The plan with given devices, in an order by rank; None if it breaks ties."""
        if (device[first_of(self.cluster)][self.cluster] != device).any():
            return None
        arrays, order = self.window.fixed(*ends), np.empty(len(device), dtype=np.int64)
        order_for.sized(WORK_OF_A_RANK * (len(arrays.seconds) + len(arrays.source)))(arrays, device, order)
        return self.option(ends, order, device)

    def spread(self, home: int, price: FloatArray) -> Option | None:
        """Start with everything at home, and move more and more of equal branches to other devices while that pays."""
        first = self.pure(home)
        if first is None:
            return None
        shadowed = self._shadowed((home, home), price)
        device, order = first.device.copy(), np.empty(len(shadowed.arrays.seconds), dtype=np.int64)
        best, improved = shadowed.judged(device, order, np.inf), True
        while improved:
            improved = False
            for group in self.unit.branches:
                for source, target, many in self._shifts(group, device):
                    moved = [branch for branch in group if device[branch[0]] == source][:many]
                    if len(moved) < many:
                        continue
                    candidate = device.copy()
                    candidate[np.concatenate(moved)] = target
                    tied = candidate[first_of(self.cluster)][self.cluster]
                    if (tied != candidate).any() or not np.isfinite(self._seconds_of(candidate, home)).all():
                        continue
                    value = shadowed.judged(candidate, order, best)
                    if value < best * (1.0 - 1e-9):
                        best, device, improved = value, candidate, True
        shadowed.judged(device, order, np.inf)
        return self.option((home, home), order[order < len(device)], device)

    def _shifts(self, group: list[IntArray], device: IntArray) -> list[tuple[int, int, int]]:
        """Candidate moves: source device, target device and number of branches."""
        there = np.bincount([int(device[branch[0]]) for branch in group], minlength=self.devices).tolist()
        return [
            (source, target, many)
            for source in range(self.devices)
            for target in range(self.devices)
            for many in (1, 2, 4, 8, len(group))
            if source != target and many <= there[source]
        ]

    def _seconds_of(self, device: IntArray, home: int) -> FloatArray:
        return self.window.fixed(home, home).seconds[np.arange(len(device)), device]

    def descent(self, home: int, price: FloatArray, should_stop: Callable[[], bool]) -> Option | None:
        """Hub descent from the plan with everything at home."""
        first = self.pure(home)
        if first is None or len(self.operators) > LARGEST_DESCENT:
            return None
        shadowed = self._shadowed((home, home), price)
        everywhere = shadowed.devices(first.device)
        order, device, _ = descend(shadowed.arrays, shadowed.cluster, everywhere, should_stop)
        count = len(self.operators)
        return self.option((home, home), order[order < count], device[:count])

    def annealed(self, start: Option, price: FloatArray, cooling: Cooling, run: Run) -> Option:
        """Anneal from a plan until the run has to stop; return the best plan found."""
        ends = start.entered, start.home
        shadowed = self._shadowed(ends, price)
        arrays, count = shadowed.arrays, len(self.operators)
        best, rng = start, np.random.default_rng(cooling.seed)
        moves = max(1, min(CHUNK_WORK // (len(arrays.seconds) + len(arrays.source)), MOST_MOVES * count))
        work = moves * (len(arrays.seconds) + len(arrays.source))
        heats = start.cost(price) * np.geomspace(cooling.heat, LAST_HEAT, cooling.chunks * moves)
        cluster = cooling.ties[np.concatenate([np.arange(count), shadowed.owner])]
        plan = counted_plan(arrays, shadowed.order(start.order), shadowed.devices(start.device), cluster)
        order, device = np.empty_like(plan.order), np.empty_like(plan.device)
        for heat in np.split(heats, cooling.chunks):
            if run.should_stop():
                break
            draws = rng.random((moves, DRAWS))
            anneal.sized(work)(arrays, plan, draws, heat, run.halt, order, device)
            met = self.option(ends, order[order < count], device[:count])
            if met.cost(price) < best.cost(price):
                best = met
        return best

    def _shadowed(self, ends: tuple[int, int], price: FloatArray) -> _Shadowed:
        """The unit, followed by a shadow for every operator whose memory has a price."""
        arrays, count = self.window.fixed(*ends), len(self.operators)
        cost = self.bytes[:, None] * price
        owner = np.flatnonzero(cost.max(axis=1, initial=0.0) > 0.0)
        total, more = count + len(owner), (0, len(owner))
        late, early = np.repeat(np.arange(count), np.diff(arrays.before_start)), arrays.before
        if len(owner):
            shadows, sinks = np.arange(count, total), np.flatnonzero(np.diff(arrays.after_start) == 0)
            late = np.concatenate([late, np.full(len(sinks), count), shadows[1:]])
            early = np.concatenate([early, sinks, shadows[:-1]])
        larger = arrays._replace(
            seconds=np.ascontiguousarray(np.concatenate([arrays.seconds, cost[owner]])),
            in_start=np.pad(arrays.in_start, more, mode="edge"),
            out_start=np.pad(arrays.out_start, more, mode="edge"),
            memory=np.zeros(total, dtype=np.int64),
            parameters_start=np.zeros(total + 1, dtype=np.int64),
        )
        cluster = np.concatenate([self.cluster, self.cluster[owner]])
        return _Shadowed(with_arcs(larger, Adjacency.from_pairs(total, late, early)), cluster, owner, count)


def first_of(cluster: IntArray) -> IntArray:
    """The first operator of every cluster. Shape (clusters,)."""
    return np.unique(cluster, return_index=True)[1].astype(np.int64)


def _tied(cluster: IntArray, branches: list[list[IntArray]]) -> IntArray:
    """Clusters when the operators of every branch are tied together as well."""
    joined = cluster.copy()
    for group in branches:
        for branch in group:
            joined[np.isin(joined, joined[branch])] = joined[branch[0]]
    return np.unique(joined, return_inverse=True)[1].astype(np.int64)
