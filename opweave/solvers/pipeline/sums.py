"""The joint optimum of sums: the sum of transfers, the latency of one input, or a channel shared by all transfers.

Local search finds plans (see :mod:`.local`). A cheapest walk without an immediate return bounds the sum, and prices of
visits strengthen the bound. Labels that remember more and more devices turn the walk into a plan or raise the bound
(dynamic ng-routes, see :mod:`.labels`). With computing and a shared channel, the bottleneck is the longest stage or the
sum of all transfers. For a given limit on stages, the least sum is a problem of this kind, and the limit is bisected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.result import Termination
from opweave.solvers.pipeline.arrays import PipelineArrays, Window, window_at
from opweave.solvers.pipeline.exact import UNTIMED_SECONDS, affordable, find_any, neighbouring
from opweave.solvers.pipeline.labels import (
    FOUND,
    FULL,
    NOTHING,
    Hunt,
    Words,
    barriers,
    full_memories,
    new_labels,
    remember_repeats,
    search_labels,
    small_memories,
)
from opweave.solvers.pipeline.local import Descent, Sums
from opweave.solvers.pipeline.plans import Best, Plan, plan_of, stage_seconds, transfer_seconds
from opweave.solvers.pipeline.priced_walks import best_walk, new_table, table_work
from opweave.solvers.pipeline.threshold import FIRST_LABELS, MOST_LABELS, Thresholds
from opweave.solvers.run import Outcome, Run

WIDTH = 8
"""Labels at one place of the beam that searches for a first good plan."""

WORK = 2_000_000
"""Steps of one search between two checks of the time."""

PRICINGS, PATIENCE = 60, 8
"""Steps of the prices of visits, and steps without a better bound before the step length is reduced."""

DESCENTS, DESCENT_SHARE, DESCENT_SECONDS = 20, 0.15, 5.0
"""Limits of the local search before: descents, share of the time, and seconds when there is no time limit."""

HAIR = 1e-12
"""Relative difference below which a smaller sum counts as rounding."""


class Least(NamedTuple):
    """Knowledge of the least sum below a ceiling: a plan or None, a lower bound, and whether it is settled."""

    plan: Plan | None
    bound: float
    settled: bool


@dataclass(eq=False)
class SumSearch:
    """Finds the least weighted sum of stages and transfers.

    Attributes
    ----------
    stage_weight, link_weight
        1 or 0.
    """

    problem: Pipeline
    instance: PipelineInstance
    arrays: PipelineArrays
    run: Run
    best: Best
    stage_weight: float
    link_weight: float

    def __post_init__(self) -> None:
        devices, points = self.arrays.reach.shape
        self._memory = small_memories(devices)
        self._full = full_memories(devices)
        self._barrier = barriers(self.arrays.twin)
        self._table = new_table(points, devices)
        self._labels = new_labels(max(FIRST_LABELS, 2 * devices), points, devices)
        self._stages = np.zeros(points + 1, dtype=np.int64)
        self._ends = np.zeros(points + 1, dtype=np.int64)
        self._price = np.zeros(devices)
        self._work = table_work(self.arrays)

    def search(self) -> Outcome:
        """Run until the optimum is proved or time is up."""
        if self.best.plan is None:
            outcome = find_any(self.problem, self.instance, Thresholds(self.arrays, self.run.seed), self.best)
            if outcome is not None:
                return outcome
        if self.instance.goal == "bottleneck" and self.instance.compute_counts:
            self._balance()
        else:
            if self._is_open():
                self._descend()
            least = self.least(math.inf, self.best.value)
            if least.plan is not None:
                self.best.consider(least.plan)
            self.best.proved(self.best.value if least.settled else least.bound, "walks along the pipeline")
        if self.run.closed() or self.run.time_limit is not None or self.run.should_stop():
            return Outcome(self.run.termination())
        return Outcome(Termination.BUDGET)

    def least(self, stage_limit: float, ceiling: float) -> Least:
        """Search the least sum with stages within a limit, if it is below a ceiling."""
        window = window_at(self.arrays, stage_limit, math.inf)
        self._price[:] = 0.0
        count, simple, bound = self._walked(window)
        if bound >= ceiling * (1 - HAIR):
            return Least(None, bound, settled=True)
        if simple:
            return Least(plan_of(self._stages, self._ends, count), bound, settled=True)
        plan = None
        happened, count, _ = self._labelled(window, ceiling, self._full, WIDTH)
        if happened == FOUND:
            plan = plan_of(self._stages, self._ends, count)
            ceiling = min(ceiling, self._sum(plan))
        if ceiling < math.inf:
            bound = max(bound, self._priced(window, ceiling))
        return self._exactly(window, Least(plan, bound, settled=False), ceiling)

    def _priced(self, window: Window, ceiling: float) -> float:
        """Move the prices of visits so that the cheapest walk gives the best bound of the sum; return the bound.

        A plan pays every price at most once, so its sum is at least the cost of the cheapest walk minus all prices.
        """
        best, kept, factor, stale = -math.inf, self._price.copy(), 1.0, 0
        for _ in range(PRICINGS):
            count, simple, cost = self._walked(window)
            bound = self._below(cost)
            visits = np.bincount(self._stages[:count], minlength=len(self._price))
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
        self._walked(window)
        return best

    def _exactly(self, window: Window, known: Least, ceiling: float) -> Least:
        """Let labels remember more and more, until the best walk is the best plan."""
        plan, bound, work = known.plan, known.bound, WORK
        while not (self.run.should_stop() or self._too_long()):
            happened, count, cost = self._labelled(window, ceiling, self._memory, 0, affordable(self.run, work))
            if happened == NOTHING:
                return Least(plan, ceiling, settled=True)
            if happened == FULL and len(self._labels.point) < MOST_LABELS:
                self._labels = new_labels(4 * len(self._labels.point), *self._labels.head.shape)
            elif happened != FOUND:
                work *= 4
                if happened == FULL:
                    break
            else:
                bound = max(bound, self._below(cost))
                if not remember_repeats.sized(10_000)(self.arrays, self._memory, self._stages, count):
                    found = plan_of(self._stages, self._ends, count)
                    if self._sum(found) < ceiling:
                        plan, ceiling = found, self._sum(found)
                    if not self._forgive(window, found):
                        return Least(plan, ceiling, settled=True)
        return Least(plan, min(bound, ceiling), settled=False)

    def _below(self, cost: float) -> float:
        """The lower bound of every plan's sum, given that no walk costs less than ``cost`` with prices."""
        return cost - float(self._price.sum()) - HAIR * abs(cost)

    def _forgive(self, window: Window, plan: Plan) -> bool:
        """Drop the prices of devices that the cheapest plan does not visit; return False when there are none.

        Without these prices, it is also the cheapest plan by its own sum.
        """
        unvisited = np.ones(len(self._price), dtype=bool)
        unvisited[list(plan.devices)] = False
        if not (self._price[unvisited] > 0).any():
            return False
        self._price[unvisited] = 0.0
        self._walked(window)
        return True

    def _sum(self, plan: Plan) -> float:
        """The weighted sum of a plan."""
        stages, links = stage_seconds(self.instance, plan), transfer_seconds(self.instance, plan)
        return self.stage_weight * math.fsum(stages) + self.link_weight * math.fsum(links)

    def _walked(self, window: Window) -> tuple[int, bool, float]:
        """Fill the table; return the cheapest walk's stages, whether it is a plan, and its cost, which is a bound."""
        walking = best_walk.sized(self._work)
        count, simple = walking(
            self.arrays, window, self._price, self.stage_weight, self.link_weight, self._table, self._stages, self._ends
        )
        if count < 0:  # halted: only the trivial bound 0 is known
            return 0, False, 0.0
        return count, simple, float(self._table.cost[0, 0].min()) if count else math.inf

    def _labelled(
        self, window: Window, ceiling: float, memory: Words, width: int, work: int = WORK
    ) -> tuple[int, int, float]:
        """Search labels strictly below a ceiling."""
        prices = float(self._price.sum())
        budget = ceiling - max(HAIR * abs(ceiling), 5e-324) if ceiling < math.inf else math.inf
        budget += prices * (1 + HAIR)
        searching = search_labels.sized(4 * self._work)
        hunt = Hunt(
            price=self._price,
            stage_weight=self.stage_weight,
            link_weight=self.link_weight,
            budget=budget,
            enough=-1.0,
            memory=memory,
            barrier=self._barrier,
            width=width,
            noise=0.0,
            seed=self.run.seed,
            work=work,
        )
        happened, count, cost, _ = searching(
            self.arrays, window, self._table, hunt, self._labels, self._stages, self._ends
        )
        return happened, count, cost

    def _is_open(self) -> bool:
        """Whether the cheapest walks leave a gap for local search; their bound and plan are reported at once."""
        self._price[:] = 0.0
        window = window_at(self.arrays, math.inf, math.inf)
        count, simple, bound = self._walked(window)
        if simple:
            self.best.consider(plan_of(self._stages, self._ends, count))
            return False
        if math.isfinite(self.best.value):
            bound = max(bound, self._priced(window, self.best.value))
        self.run.proved(min(bound, self.best.value), "walks along the pipeline")
        return bound < self.best.value * (1 - HAIR) and not self.run.should_stop()

    def _descend(self) -> None:
        """Run local search for a while, so that labels have less to search."""
        if self.best.plan is None:
            return
        self.run.enter("sequences of devices")
        sums = Sums.of(self.instance, self.stage_weight, self.link_weight)
        with self.run.share(DESCENT_SHARE, DESCENT_SECONDS):
            descent = Descent(sums, self.best, self.run.should_stop)
            descent.run(list(self.best.plan.devices), DESCENTS, self.run.seed)

    def _balance(self) -> None:
        """Bisect the limit for stages against the sum of transfers."""
        self._bound_by_walks()
        low = -1.0
        while not (self.run.should_stop() or self._too_long()):
            limit = self._between(low, self.best.value)
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

    def _bound_by_walks(self) -> None:
        """Find the largest limit for stages that even the cheapest walk's sending exceeds: no plan is shorter."""
        low, high = -1.0, self.best.value
        while not (self.run.should_stop() or self._too_long()):
            limit = self._between(low, high)
            if limit is None:
                return
            _, _, bound = self._walked(window_at(self.arrays, limit, math.inf))
            if bound > limit:
                low = limit
                self.best.proved(min(low, self.best.value), "walks along the pipeline")
            else:
                high = limit

    def _between(self, low: float, high: float) -> float | None:
        """The time of a stage between two limits, both excluded, near their middle; None when there is none."""
        first = 0.0 if low < 0 else neighbouring(self.arrays, low, compute=True, links=False, down=False)
        if first >= high:
            return None
        last = max(first, neighbouring(self.arrays, high, compute=True, links=False, down=True))
        middle = math.nextafter(0.5 * (first + last), math.inf)
        return min(max(first, neighbouring(self.arrays, middle, compute=True, links=False, down=True)), last)

    def _too_long(self) -> bool:
        return self.run.time_limit is None and self.run.elapsed() > UNTIMED_SECONDS
