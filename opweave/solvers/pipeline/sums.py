"""The joint optimum of sums: the sum of transfers, the latency of one input, or a channel shared by all transfers.

With few devices, dynamic programming over sets of them settles a sum (see :mod:`.sets`). Otherwise local search finds
plans (see :mod:`.local`). A cheapest walk without an immediate return bounds the sum, and prices of visits strengthen
the bound. Labels that remember more and more devices turn the walk into a plan or raise the bound (dynamic ng-routes,
see :mod:`.labels`). With computing and a shared channel, the bottleneck is the longest stage or the sum of all
transfers. For a given limit on stages, the least sum is a problem of this kind, and the limit is bisected.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.arrays import Times, arrays_of
from opweave.solvers.pipeline.bottleneck import ThresholdTests, find_any
from opweave.solvers.pipeline.labels import FOUND, FULL, NOTHING, Words
from opweave.solvers.pipeline.local import Descent, Sums
from opweave.solvers.pipeline.plans import (
    BestPlan,
    PipelinePlan,
    finished,
    nothing_fits,
    stage_seconds,
    transfer_seconds,
)
from opweave.solvers.pipeline.priced_walks import PricedWalks
from opweave.solvers.pipeline.sets import CheapestSums, Sets, StageSteps
from opweave.solvers.run import Outcome, Run

WIDTH = 8
"""Labels at one place of the beam that searches for a first good plan."""

WORK = 2_000_000
"""Steps of one search between two checks of the time."""

PRICINGS, PATIENCE = 60, 8
"""Steps of the prices of visits, and steps without a better bound before the step length is reduced."""

DESCENTS, DESCENT_SHARE = 20, 0.15
"""Limits of the local search before: descents, and share of the time."""

AT_ONCE = 2**21
"""Entries of a table over sets of devices that is filled without trying anything else first."""

ROUNDS = 3
"""Searches of labels before a larger table is filled."""

HAIR = 1e-12
"""Relative difference below which a smaller sum counts as rounding."""


class Least(NamedTuple):
    """Knowledge of the least sum below a ceiling: a plan or None, a lower bound, and whether it is settled."""

    plan: PipelinePlan | None
    bound: float
    settled: bool


@dataclass(eq=False)
class SumSearch:
    """Finds the least sum of transfers, and of stages if these count."""

    problem: Pipeline
    instance: PipelineInstance
    run: Run
    best: BestPlan

    def __post_init__(self) -> None:
        self.arrays = arrays_of(self.instance)
        self.stage_weight = 1.0 if self.instance.goal == "latency" and self.instance.compute_counts else 0.0
        self._sets = Sets.of(self.instance)
        self._walks = PricedWalks(self.arrays, self.run.should_stop, self.run.seed, self.stage_weight, 1.0)
        self._times = Times(self.arrays, stages=True, transfers=False)
        self._price = np.zeros(len(self.arrays.twin))

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        summed = self.instance.goal != "bottleneck" or not self.instance.compute_counts
        if summed and self._sets is not None and self._sets.entries(self.instance) <= AT_ONCE:
            self.run.enter("sets of devices")
            least = self._by_sets(math.inf)
            if least is not None and least.bound == math.inf:
                return Outcome(infeasible=True, reason=nothing_fits(self.problem, self.instance))
            if least is not None:
                return self._settled(least)
        if self.best.plan is None:
            tester = ThresholdTests(self.arrays, self.run.should_stop, self.run.seed)
            outcome = find_any(self.problem, self.instance, tester, self.best)
            if outcome is not None:
                return outcome
        if self.instance.goal == "bottleneck" and self.instance.compute_counts:
            self._balance()
        else:
            if self._is_open():
                self._descend()
            return self._settled(self.least(math.inf, self.best.value))
        return finished(self.run, proved=self.run.closed())

    def _settled(self, least: Least) -> Outcome:
        """Report what is known of the least sum."""
        if least.plan is not None:
            self.best.consider(least.plan)
        self.best.proved(self.best.value if least.settled else least.bound, "walks along the pipeline")
        return finished(self.run, proved=self.run.closed())

    def _by_sets(self, stage_limit: float) -> Least | None:
        """The least sum by a table over sets of devices; None if there are too many, or too little time."""
        if self._sets is None:
            return None
        steps = StageSteps(self.instance, self.stage_weight, stage_limit)
        found = CheapestSums(self.instance, self._sets, steps, self.run.should_stop).solve()
        return None if found is None else Least(found[1], found[0], settled=True)

    def least(self, stage_limit: float, ceiling: float) -> Least:
        """Search the least sum with stages within a limit, if it is below a ceiling."""
        self._walks.open(stage_limit, math.inf)
        self._price[:] = 0.0
        simple, bound = self._walked()
        if bound >= ceiling * (1 - HAIR):
            return Least(None, bound, settled=True)
        if simple:
            return Least(self._walks.plan(), bound, settled=True)
        plan = None
        happened, _ = self._labelled(ceiling, self._walks.everything, WIDTH)
        if happened == FOUND:
            plan = self._walks.plan()
            ceiling = min(ceiling, self._sum(plan))
        if ceiling < math.inf:
            bound = max(bound, self._priced(ceiling))
        return self._exactly(Least(plan, bound, settled=False), ceiling, stage_limit)

    def _priced(self, ceiling: float) -> float:
        """Move the prices of visits so that the cheapest walk gives the best bound of the sum; return the bound.

        A plan pays every price at most once, so its sum is at least the cost of the cheapest walk minus all prices.
        """
        best, kept, factor, stale = -math.inf, self._price.copy(), 1.0, 0
        for _ in range(PRICINGS):
            simple, cost = self._walked()
            bound = self._below(cost)
            visits = np.bincount(self._walks.stages, minlength=len(self._price))
            if bound > best:
                best, kept, stale = bound, self._price.copy(), 0
            else:
                stale += 1
                factor *= 0.7 if stale % PATIENCE == 0 else 1.0
            slope = np.where((self._price > 0) | (visits > 1), visits - 1.0, 0.0)
            if simple or best >= ceiling or not slope.any() or self.run.should_stop():
                break
            self._price = np.maximum(0.0, self._price + factor * max(ceiling - bound, 0.0) / (slope @ slope) * slope)
        self._price = kept
        self._walked()
        return best

    def _exactly(self, known: Least, ceiling: float, stage_limit: float) -> Least:
        """Let labels remember more and more, until the best walk is the best plan."""
        plan, bound, work = known.plan, known.bound, WORK
        for number in itertools.count():
            if self._over():
                break
            least = self._by_sets(stage_limit) if number == ROUNDS else None
            if least is not None:
                return least if least.bound < ceiling else Least(plan, ceiling, settled=True)
            happened, cost = self._labelled(ceiling, self._walks.memory, 0, work)
            if happened == NOTHING:
                return Least(plan, ceiling, settled=True)
            if happened == FULL:
                break
            if happened != FOUND:
                work *= 4
                continue
            bound = max(bound, self._below(cost))
            if not self._walks.repeats():
                found = self._walks.plan()
                if self._sum(found) < ceiling:
                    plan, ceiling = found, self._sum(found)
                if not self._forgive(found):
                    return Least(plan, ceiling, settled=True)
        return Least(plan, min(bound, ceiling), settled=False)

    def _below(self, cost: float) -> float:
        """The lower bound of every plan's sum, given that no walk costs less than ``cost`` with prices."""
        return cost - float(self._price.sum()) - HAIR * abs(cost)

    def _forgive(self, plan: PipelinePlan) -> bool:
        """Drop the prices of devices that the cheapest plan does not visit; return False when there are none.

        Without these prices, it is also the cheapest plan by its own sum.
        """
        unvisited = np.ones(len(self._price), dtype=bool)
        unvisited[list(plan.devices)] = False
        if not (self._price[unvisited] > 0).any():
            return False
        self._price[unvisited] = 0.0
        self._walked()
        return True

    def _sum(self, plan: PipelinePlan) -> float:
        """The weighted sum of a plan."""
        stages, links = stage_seconds(self.instance, plan), transfer_seconds(self.instance, plan)
        return self.stage_weight * math.fsum(stages) + math.fsum(links)

    def _walked(self) -> tuple[bool, float]:
        """Fill the table; return whether the cheapest walk is a plan, and its cost, which is a bound."""
        if not self._walks.cheapest(self._price):  # it is time to stop: only the trivial bound 0 is known
            return False, 0.0
        return self._walks.simple(), float(self._walks.table.cost[0, 0].min())

    def _labelled(self, ceiling: float, memory: Words, width: int, work: int = WORK) -> tuple[int, float]:
        """Search labels strictly below a ceiling."""
        budget = ceiling - max(HAIR * abs(ceiling), 5e-324) if ceiling < math.inf else math.inf
        budget += float(self._price.sum()) * (1 + HAIR)
        return self._walks.label(self._price, budget, memory, width=width, work=work)[:2]

    def _is_open(self) -> bool:
        """Whether the cheapest walks leave a gap for local search; their bound and plan are reported at once."""
        self._price[:] = 0.0
        self._walks.open(math.inf, math.inf)
        simple, bound = self._walked()
        if simple:
            self.best.consider(self._walks.plan())
            return False
        if math.isfinite(self.best.value):
            bound = max(bound, self._priced(self.best.value))
        self.run.proved(min(bound, self.best.value), "walks along the pipeline")
        return bound < self.best.value * (1 - HAIR) and not self.run.should_stop()

    def _descend(self) -> None:
        """Run local search for a while, so that labels have less to search."""
        if self.best.plan is None:
            return
        self.run.enter("sequences of devices")
        sums = Sums.of(self.instance, self.stage_weight)
        with self.run.share(DESCENT_SHARE):
            descent = Descent(sums, self.best, self.run.should_stop)
            descent.run(list(self.best.plan.devices), DESCENTS, self.run.seed)

    def _balance(self) -> None:
        """Bisect the limit for stages against the sum of transfers."""
        self._bound_by_walks()
        low = -1.0
        while not self._over():
            limit = self._times.between(low, self.best.value)
            if limit is None:
                self.best.proved(self.best.value, "bisection")
                return
            least = self.least(limit, self.best.value)
            if least.plan is not None:
                self.best.consider(least.plan)
            if not least.settled:
                # a better plan has a stage longer than the limit, or sends at least as long as the bound
                self.best.proved(min(max(low, min(limit, least.bound)), self.best.value), "bisection")
                return
            reached = math.inf if least.plan is None else least.bound
            if reached > limit:  # no plan keeps both within the limit
                low = limit
                self.best.proved(min(low, self.best.value), "bisection")

    def _over(self) -> bool:
        self.best.look()
        return self.run.should_stop() or self._walks.worn_out(self.run)

    def _bound_by_walks(self) -> None:
        """Find the largest limit for stages that even the cheapest walk's sending exceeds: no plan is shorter."""
        low, high = -1.0, self.best.value
        while not self._over():
            limit = self._times.between(low, high)
            if limit is None:
                return
            self._walks.open(limit, math.inf)
            _, bound = self._walked()
            if bound > limit:
                low = limit
                self.best.proved(min(low, self.best.value), "walks along the pipeline")
            else:
                high = limit
