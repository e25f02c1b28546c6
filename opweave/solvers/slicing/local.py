"""Local search over cuts: annealing in rounds from the baselines and from the best plan so far.

The initial temperature of a round is a share of the latency. It falls with the moves of the round, whose number depends
only on the size of the problem, or with the time, if that ends first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.problems.solution import Solution
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.anneal import DRAWS, anneal, state_of
from opweave.solvers.slicing.arrays import CUT, MODE, SlicingArrays, arrays_of, is_limited, judge, matrix_of
from opweave.solvers.slicing.baselines import RULES, teams
from opweave.solvers.slicing.geneflow import scattered
from opweave.solvers.slicing.memory import empty_memory
from opweave.solvers.slicing.plans import Lowered, SlicingPlan, ended, judged, report

SOFT = 1e-5
"""What a byte over memory costs at the beginning of a round, as a share of what it costs at the end, once a plan fits.
At first, a device that holds twice as much as it has then costs a tenth of the latency, so that a round passes through
plans that do not fit."""

MOVES_PER_OPERATOR = 3_000
MOST_MOVES = 400_000
LEAST_MOVES = 2_000
"""Moves of a round."""

PIECE = 2_000_000
"""Moves times operators between two questions whether to stop, which take a few hundredths of a second."""

FIRST_HEAT = (0.0004, 0.0001, 0.00003)
"""Initial temperatures of successive rounds, as shares of the latency."""

UNTIMED_ROUNDS = 6
SEARCH_ROUNDS = 30
"""Rounds without a time limit; the second number applies while no plan fits."""

SCATTERED = 100
"""Number of random plans; the best of them is a round's origin while no plan fits."""

SCATTERED_EVERY = 5
"""If memory is limited, also every fifth round starts there: better plans may be far from the best plan so far."""


@dataclass(eq=False)
class SlicingSearch:
    """The best plan of one instance and the moves that improve it.

    ``nearest`` is the plan closest to being legal, ``known`` the last plan of the run that was looked at.
    """

    problem: Slicing
    instance: SlicingInstance
    arrays: SlicingArrays
    run: Run
    best: SlicingPlan | None = None
    nearest: SlicingPlan | None = None
    known: Solution | None = None
    _built: list[SlicingPlan] = field(default_factory=list)

    def consider(self, plan: SlicingPlan) -> bool:
        """Keep a plan if it is the best so far; remember the plan closest to being legal."""
        far = self.nearest is None or (plan.excess, plan.seconds) < (self.nearest.excess, self.nearest.seconds)
        if math.isfinite(plan.seconds) and far:
            self.nearest = plan
        if not plan.legal or (self.best is not None and plan.seconds >= self.best.seconds):
            return False
        self.best = plan
        if report(self.instance, plan, self.run):
            self.known = self.run.best
        return True

    def adopt(self) -> None:
        """Take over the best plan of the run, if it uses this order."""
        best = self.run.best
        if best is not self.known and isinstance(best, Slices) and best.order == self.instance.names:
            self.known = best
            self.consider(judged(self.arrays, *self.instance.plan(best)))

    def baselines(self) -> list[SlicingPlan]:
        """Every baseline, and teams of the fastest devices, as far as there is time; the fastest comes first.

        They are built once.
        """
        if not self._built:
            ruled = (rule(self.problem, self.instance, self.arrays) for rule, _ in RULES.values())
            for plan in chain(ruled, teams(self.instance, self.arrays)):
                self._built.append(plan)
                if self.run.should_stop():
                    break
        for plan in sorted(self._built, key=lambda plan: (plan.excess, plan.seconds)):
            self.consider(plan)
        return sorted((plan for plan in self._built if math.isfinite(plan.seconds)), key=lambda plan: plan.seconds)

    def plans(self) -> list[SlicingPlan]:
        """The best plan, if there is one, and all baselines."""
        plans = self.baselines()
        return plans if self.best is None else [self.best, *plans]

    def round(self, origin: SlicingPlan, number: int) -> bool:
        """Run one annealing round from a plan; return whether the best plan improved."""
        self.run.enter("annealing")
        rng = np.random.default_rng((self.run.seed, number))
        hottest = FIRST_HEAT[number % len(FIRST_HEAT)] * origin.seconds
        movable = len(self.instance.names)
        plan = matrix_of(origin.mode, origin.cuts)
        penalty = self._penalty(origin)
        soft = 1.0 if self.best is None else SOFT
        moves = max(LEAST_MOVES, min(MOST_MOVES, MOVES_PER_OPERATOR * movable))
        piece = max(1, min(moves // 8, PIECE // movable))
        began = self.run.elapsed()
        left = self.run.remaining()
        done = 0
        improved = False
        while done < moves and not self.run.should_stop():
            count = min(piece, moves - done)
            passed = (self.run.elapsed() - began) / left if left else 0.0
            progress = min(1.0, max(done / moves, passed))
            heat = np.maximum(0.0, hottest * (1.0 - progress - np.arange(count) / moves))
            now = state_of(plan)
            cost = penalty * soft ** (1.0 - progress)
            found = anneal(self.arrays, cost, rng.random((count, DRAWS)), heat, now, empty_memory(self.arrays))
            kept = now.best if math.isfinite(found) else now.plan
            better = self.consider(judged(self.arrays, kept[:, MODE].copy(), kept[:, CUT:].copy()))
            improved = improved or better
            plan = now.plan
            done += count
        return improved

    def scatter(self, number: int) -> SlicingPlan:
        """The random plan closest to being legal."""
        modes, cuts = scattered(self.instance, np.random.default_rng((self.run.seed, number, SCATTERED)), SCATTERED)
        found = judge(self.arrays, modes, cuts, memory=True)
        i = int(np.lexsort((found.seconds, found.excess))[0])
        plan = SlicingPlan(modes[i], cuts[i], float(found.seconds[i]), float(found.excess[i]))
        self.consider(plan)
        return plan

    def _penalty(self, origin: SlicingPlan) -> float:
        """Penalty in seconds of a byte over memory: the worst known excess costs ten times the latency."""
        if not is_limited(self.arrays):
            return -1.0
        worst = self.nearest.excess if self.nearest is not None else 0.0
        scale = max(1.0, min(worst, origin.excess) if worst else 0.001 * float(self.arrays.capacity.min()))
        return 10.0 * max(origin.seconds, 1e-9) / scale

    def rounds(self) -> None:
        """Run rounds, mostly from the best plan, until stopped; a fixed number of them without a time limit."""
        starts = self.baselines()
        number = 0
        if not starts or not self.instance.names:
            return  # no operator can be moved
        untimed = self.run.time_limit is None
        while not self.run.should_stop():
            if untimed and number >= (SEARCH_ROUNDS if self.best is None else UNTIMED_ROUNDS):
                return
            self.adopt()
            origin = self.best or self.nearest or starts[0]
            if number < min(3, len(starts)):
                origin = starts[number]
            elif self.best is None or (number % SCATTERED_EVERY == 0 and is_limited(self.arrays)):
                origin = self.scatter(number)
            self.round(origin, number)
            number += 1


def local_search(problem: Slicing, run: Run, lowered: Lowered | None = None) -> SlicingSearch:
    """A local search that starts from the user's start."""
    instance = (lowered or Lowered(problem)).instance(run)
    search = SlicingSearch(problem, instance, arrays_of(instance), run)
    if isinstance(run.start, Slices):
        search.consider(judged(search.arrays, *instance.plan(run.start)))
    return search


def solve_baselines(problem: Slicing, run: Run, lowered: Lowered | None = None) -> Outcome:
    """All baselines and teams."""
    local_search(problem, run, lowered).baselines()
    return ended(run)


@named_solver(Slicing, "local", "simulated annealing over cuts, shares, device sets and dimensions", supports=SUPPORTS)
def solve_local(problem: Slicing, run: Run, lowered: Lowered | None = None) -> Outcome:
    """Anneal from the baselines and the start; solver "local"."""
    local_search(problem, run, lowered).rounds()
    return ended(run)
