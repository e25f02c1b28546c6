"""What no plan of serving can exceed: configurations of single layers, priced by devices.

For a flow F, devices that hold a layer have to be at least as fast as F together. A device with k layers is in k of
these sets, so let it count 1/k in each. Prices of kinds of devices then make a certificate: if the cheapest set that is
fast enough costs more than all devices' prices divided by the number of layers, no plan reaches F. The best prices are
found by column generation.

Links count where they part devices into regions: groups between which no link carries F. If one device alone served
each layer, all tokens would take one link from each to the next, so all devices were of one region. So a plan is within
a region, or some layer has two devices or more, and the cheapest such set costs more. Apart from that, links are
ignored, which can only raise the flow.

The cheapest set is a covering knapsack, solved by lists of sets of which none is dominated. A set that misses the flow
by rounding only counts as fast enough, so the certificate holds.
"""

from __future__ import annotations

import math

import numpy as np

from opweave.formulations.serving_flow.instance import ServingInstance, clustered, lower
from opweave.problems.arrays import BoolMatrix, FloatArray, FloatMatrix, IntArray
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run

CLOSE, EQUAL = 1e-4, 5e-7
"""Relative distance of flows at which bisection ends, and of a refuted flow that proves that a plan is the best."""

LEAST_SHARE, SLOWEST = 1e-6, 1e-200
"""The least share of a refuted flow that is tried next, and the flow below which no lower one is tried."""

MOST_LISTED, ROUNDS = 1000, 200
"""Most sets in a list, about: longer ones round speeds up to so many steps. Most sets that are priced for a flow."""

SOURCE = "sets of devices for a layer"


class Certificates:
    """Certificates that no plan reaches a flow."""

    def __init__(self, instance: ServingInstance, run: Run) -> None:
        self._run = run
        self._layers = instance.layers
        self._speeds: FloatMatrix = np.stack([instance.most[rows[0]] for rows in instance.kinds])
        self._number: FloatArray = np.asarray([float(len(rows)) for rows in instance.kinds])
        self._links = instance.links
        self._size = float(instance.sizes[1:-1].min(initial=np.inf))
        self._kinds = instance.kinds

    def most(self, high: float) -> float:
        """A flow that no plan exceeds, at most ``high``; as low as the time allows."""
        low, share = 0.0, 0.9
        while high - low > CLOSE * high and high > SLOWEST and not self._run.should_stop():
            middle = math.sqrt(low) * math.sqrt(high) if low else share * high
            share = max(share * share, LEAST_SHARE)  # the first flow may be far too large
            if self.refutes(middle):
                high = middle
            else:
                low = middle
        return high

    def refutes(self, flow: float) -> bool:
        """Whether a certificate is found that no plan has this flow."""
        from scipy.optimize import linprog  # takes half a second, and few bounds ask for it

        price = 1.0 / self._number
        columns: list[FloatArray] = []
        regions = self._regions(flow)
        for _ in range(ROUNDS):
            least, column = self._cheapest(price, flow)
            if self._too_dear(price, least, self._layers * least, self._number):
                return True
            if len(regions) > 1 and self._crossed(price, flow, least, regions):
                return True
            if column is None or self._run.should_stop() or (columns and least >= 1.0 - SUMMATION):
                return False
            columns.append(column)
            found = linprog(-np.ones(len(columns)), A_ub=np.stack(columns, axis=1), b_ub=self._number, method="highs")
            room = 1.0 if len(regions) > 1 else 0.0  # a layer with two devices costs no more than twice as much, about
            if found.status != 0 or -found.fun >= (self._layers + room) * (1.0 - SUMMATION):
                return False
            price = np.maximum(-found.ineqlin.marginals, 0.0)
        return False

    @staticmethod
    def _too_dear(price: FloatArray, least: float, work: float, number: FloatArray) -> bool:
        """Whether layers cost more than all devices of some numbers together."""
        return least > 0.0 and work * (1.0 - SUMMATION) > float(price @ number) * (1.0 + SUMMATION)

    def _regions(self, flow: float) -> list[FloatArray]:
        """Number of devices of every kind in each region: no link between two regions carries the flow."""
        needed = flow * (1.0 - SUMMATION) * self._size
        near = self._links >= needed if 0.0 < needed < np.inf else self._links > 0.0
        groups = clustered(np.asarray(near, dtype=bool))
        return [np.asarray([float(np.isin(rows, group).sum()) for rows in self._kinds]) for group in groups]

    def _crossed(self, price: FloatArray, flow: float, least: float, regions: list[FloatArray]) -> bool:
        """Whether a certificate with regions is found: neither one of them, nor a layer with two devices will do."""
        whole = self._layers * least
        if not all(self._too_dear(price, least, whole, number) for number in regions):
            return False
        kinds, counts = np.nonzero(_useful(np.minimum(self._speeds, flow)))
        speed = np.minimum(self._speeds[kinds, counts], flow)
        cost = price[kinds] / counts
        missing = np.maximum(flow * (1.0 - SUMMATION) - speed, 0.0)
        others = (cost * np.maximum(1.0, missing[:, None] / speed)).min(axis=1)
        two = float((cost + others).min())
        return self._too_dear(price, least, whole - least + max(least, two), self._number)

    def _cheapest(self, price: FloatArray, flow: float) -> tuple[float, FloatArray | None]:
        """The least price of devices that are fast enough together, and their shares by kind.

        The price is infinite if no devices are fast enough, and a lower bound if there are too many sets to list.
        """
        enough = flow * (1.0 - SUMMATION)
        kinds, counts = np.nonzero(_useful(np.minimum(self._speeds, flow)))
        speed = np.minimum(self._speeds[kinds, counts], flow)
        cost = price[kinds] / counts
        with np.errstate(over="ignore"):  # kinds that are dear beyond all numbers come last
            order = np.argsort(cost / speed, kind="stable")
        reached, paid, best = np.zeros(1), np.zeros(1), np.inf
        trail: list[tuple[int, int, IntArray, IntArray]] = []
        chosen: tuple[int, int] | None = None
        for item in order.tolist():
            kind, each = int(kinds[item]), float(speed[item])
            copies = np.arange(min(int(self._number[kind]), int(np.ceil(flow / each))) + 1)
            origin = np.repeat(np.arange(len(reached)), len(copies))
            taken = np.tile(copies, len(reached))
            total = np.minimum(reached[origin] + taken * each, flow)
            price_of = paid[origin] + taken * float(cost[item])
            done = np.flatnonzero(total >= enough)
            if len(done):
                cheapest = int(done[price_of[done].argmin()])
                if price_of[cheapest] < best:
                    best, chosen = float(price_of[cheapest]), (len(trail), cheapest)
            # what is missing costs at least as much as by this item, because later ones cost more for their speed
            hopeful = price_of + (flow - total) * (float(cost[item]) / each) * (1.0 - SUMMATION) < best
            kept = np.flatnonzero(hopeful & (total < enough))
            if len(kept) > MOST_LISTED:
                total = np.minimum(np.ceil(total * (MOST_LISTED / flow)) * (flow / MOST_LISTED), enough)
            kept = kept[np.lexsort([-total[kept], price_of[kept]])]
            rising = np.maximum.accumulate(np.concatenate([[-1.0], total[kept][:-1]])) if len(kept) else total[kept]
            kept = kept[total[kept] > rising]
            trail.append((kind, int(counts[item]), origin, taken))
            if not len(kept):
                break
            trail.append((-1, 0, kept, kept))
            reached, paid = total[kept], price_of[kept]
        if chosen is None:
            return np.inf, None
        return best, self._shares(trail, *chosen)

    def _shares(self, trail: list[tuple[int, int, IntArray, IntArray]], step: int, at: int) -> FloatArray:
        """Follow the lists back: how much of each kind a set takes."""
        column = np.zeros(len(self._number))
        for kind, count, origin, taken in reversed(trail[: step + 1]):
            if kind >= 0:
                column[kind] += float(taken[at]) / count
            at = int(origin[at])
        return column


def _useful(speeds: FloatMatrix) -> BoolMatrix:
    """Which numbers of layers are faster than all larger ones, which cost less; the last number comes first."""
    after = np.maximum.accumulate(speeds[:, ::-1], axis=1)[:, ::-1]
    beyond = np.concatenate([after[:, 1:], np.zeros((len(speeds), 1))], axis=1)
    return np.asarray(speeds > beyond)


def solve_bound(problem: ServingFlow, run: Run) -> Outcome:
    """Prove the best bound that can be found."""
    instance = lower(problem)
    if instance.bounded > 0.0 and not instance.short():
        run.proved(1.0 / Certificates(instance, run).most(instance.bounded) * (1.0 - SUMMATION), SOURCE)
        prove_best(instance, run)
    return Outcome(run.termination())


def prove_best(instance: ServingInstance, run: Run) -> None:
    """Prove that no plan is better than the best one, if that can be shown."""
    if run.objective and not run.should_stop():
        flow = 1.0 / run.objective * (1.0 + EQUAL)
        if Certificates(instance, run).refutes(flow):
            run.proved(1.0 / flow, SOURCE)
