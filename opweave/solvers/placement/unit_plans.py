"""Plans of one unit, short in time plus memory at a price; those that searches find have both ends on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.local import descend
from opweave.solvers.placement.plans import memory_used, plan_of
from opweave.solvers.placement.priced_plans import Cooling, Shadowed, ranked, with_shadows
from opweave.solvers.placement.units import Unit
from opweave.solvers.run import Run

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
        return self.option(ends, ranked(self.window.fixed(*ends), device), device)

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
        order, device, _ = descend(shadowed.arrays, shadowed.ties(self.cluster), everywhere, should_stop)
        count = len(self.operators)
        return self.option((home, home), order[order < count], device[:count])

    def annealed(self, start: Option, price: FloatArray, cooling: Cooling, run: Run) -> Option:
        """Anneal from a plan until the run has to stop; return the best plan found."""
        net = self._shadowed((start.entered, start.home), price)
        return self._annealed(net, start, price, cooling, run)

    def filled(self, start: Option, room: FloatArray, cooling: Cooling, run: Run) -> Option:
        """Anneal from a plan that takes no more than ``room`` bytes on every device; return the fastest found."""
        free = np.zeros(self.devices)
        net = self._shadowed((start.entered, start.home), free)
        nothing = np.zeros(self.unit.own.start, dtype=np.int64)  # what comes before the unit holds its memory elsewhere
        kinds, parameters = np.unique(self.own.parameters, return_inverse=True)
        within = net.arrays._replace(
            memory=np.concatenate([nothing, self.own.memory]),
            parameters_start=np.concatenate([nothing, self.own.parameters_start]),
            parameters=parameters.astype(np.int64),
            parameter_bytes=self.own.parameter_bytes[kinds],
            capacity=np.minimum(room, NO_LIMIT // 2).astype(np.int64),
        )
        return self._annealed(replace(net, arrays=within), start, free, cooling, run)

    def _annealed(self, net: Shadowed, start: Option, price: FloatArray, cooling: Cooling, run: Run) -> Option:
        best = start
        for order, device in net.annealed(start.order, start.device, start.cost(price), cooling, run.halt):
            met = self.option((start.entered, start.home), order, device)
            if met.cost(price) < best.cost(price):
                best = met
            if run.should_stop():
                break
        return best

    def _shadowed(self, ends: tuple[int, int], price: FloatArray) -> Shadowed:
        """The unit, followed by a shadow for every operator whose memory has a price."""
        return with_shadows(self.window.fixed(*ends), self.bytes[:, None] * price)


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
