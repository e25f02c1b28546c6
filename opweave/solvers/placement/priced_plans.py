"""Plans that are short in time plus memory at a price: searched as short plans of a network with shadows.

Memory is priced as time. Every operator that takes memory gets a shadow on its own device that runs for price x bytes
of that device. The shadows run one after the other when everything else has ended. So a plan with shadows lasts as long
as the plan plus the price of its memory, and a search for short plans finds good plans at these prices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.annealing import anneal
from opweave.solvers.placement.arrays import PlacementArrays, with_arcs
from opweave.solvers.placement.moves import DRAWS, counted_plan

CHUNK_WORK = 6_000_000
"""Operators and flows judged in one annealing chunk; takes about a tenth of a second."""

MOST_MOVES = 100
"""Moves of a chunk per operator, so that small networks are not searched for too long."""

LAST_HEAT = 0.00002
"""Final temperature of annealing, as a share of the cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Cooling:
    """One annealing: operators with equal ``ties`` move together; ``heat`` is its first temperature over the cost."""

    ties: IntArray
    heat: float
    chunks: int
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Shadowed:
    """A network with shadows; ``owner`` is the operator of every shadow, ``count`` the number of operators."""

    arrays: PlacementArrays
    owner: IntArray
    count: int

    def devices(self, device: IntArray) -> IntArray:
        """Devices of the operators and their shadows, given the operators' devices."""
        return np.concatenate([device, device[self.owner]])

    def order(self, order: IntArray) -> IntArray:
        """An order of the operators, followed by their shadows."""
        return np.concatenate([order, self.count + np.arange(len(self.owner))])

    def ties(self, cluster: IntArray) -> IntArray:
        """Clusters of the operators and their shadows, given the operators' clusters."""
        return np.concatenate([cluster, cluster[self.owner]])

    def annealed(
        self, order: IntArray, device: IntArray, cost: float, cooling: Cooling
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """The order and the devices of the operators in the best plan so far, after every chunk of an annealing.

        Parameters
        ----------
        order, device, cost
            The plan that it begins with.
        cooling
            How it cools.
        """
        arrays, count, rng = self.arrays, self.count, np.random.default_rng(cooling.seed)
        moves = max(1, min(CHUNK_WORK // (len(arrays.seconds) + len(arrays.source)), MOST_MOVES * self.count))
        heats = cost * np.geomspace(cooling.heat, LAST_HEAT, cooling.chunks * moves)
        plan = counted_plan(arrays, self.order(order), self.devices(device), self.ties(cooling.ties))
        best_order, best_device = np.empty_like(plan.order), np.empty_like(plan.device)
        for heat in np.split(heats, cooling.chunks):
            draws = rng.random((moves, DRAWS))
            anneal(arrays, plan, draws, heat, best_order, best_device)
            yield best_order[best_order < count], best_device[:count]


def with_shadows(arrays: PlacementArrays, cost: FloatArray) -> Shadowed:
    """A network, followed by a shadow for every operator whose memory has a price.

    ``cost`` is the price of every operator's bytes on every device, in seconds. Shape (operators, devices).
    """
    count = len(arrays.seconds)
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
    return Shadowed(with_arcs(larger, Adjacency.from_pairs(total, late, early)), owner, count)
