"""Local search over cuts: annealing in rounds from the baselines and from the best plan so far.

The initial temperature of a round is a share of the latency. The number of moves in a round depends only on the size of
the problem, so the same seed gives the same plan unless the time limit cuts it short. A round that would not end in
time cools faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance, lower_unless_short
from opweave.problems.result import Termination
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.problems.solution import Solution
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.anneal import DRAWS, Span, anneal
from opweave.solvers.slicing.arrays import SlicingArrays, arrays_of, is_limited, judge
from opweave.solvers.slicing.baselines import RULES, teams
from opweave.solvers.slicing.genes import scattered
from opweave.solvers.slicing.plans import Plan, judged, report, running_order

CHUNKS = 8
"""Chunks of a round, between which the time is checked."""

SOFT = 1e-5
"""What a byte over memory costs in a round's first chunk, as a share of what it costs in the last one, once a plan
fits. At first, a device that holds twice as much as it has then costs a tenth of the latency, so that a round passes
through plans that do not fit."""

MOVES_PER_OPERATOR = 3_000
MOST_MOVES = 400_000
LEAST_MOVES = 2_000
"""Moves of a round."""

PACE = 1e-8
"""Assumed seconds of a move per operator, before the first chunk is measured."""

FIRST_HEAT = (0.004, 0.001, 0.0003)
"""Initial temperatures of successive rounds, as shares of a tenth of the latency."""

UNTIMED_ROUNDS = 6
SEARCH_ROUNDS = 30
"""Rounds without a time limit; the second number applies while no plan fits."""

SCATTERED = 100
"""Number of random plans; the best of them is a round's origin while no plan fits."""

SCATTERED_EVERY = 5
"""If memory is limited, also every fifth round starts there: better plans may be far from the best plan so far."""

STALE_ROUNDS = 60
"""Rounds without improvement after which the search of a small problem ends."""


@dataclass(eq=False)
class LocalSearch:
    """The best plan of one instance and the moves that improve it.

    ``caught`` is the last plan taken over from another lane, ``pace`` the seconds that a move took recently.
    """

    problem: Slicing
    instance: SlicingInstance
    arrays: SlicingArrays
    run: Run
    best: Plan | None = None
    nearest: Plan | None = None
    caught: Solution | None = None
    number: int = 0
    pace: float = 0.0
    _built: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        ruled = (rule(self.problem, self.instance, self.arrays) for rule, _ in RULES.values())
        self._to_build = chain(ruled, teams(self.instance, self.arrays))

    def consider(self, plan: Plan) -> bool:
        """Keep a plan if it is the best so far; remember the plan closest to being legal."""
        far = self.nearest is None or (plan.excess, plan.seconds) < (self.nearest.excess, self.nearest.seconds)
        if math.isfinite(plan.seconds) and far:
            self.nearest = plan
        if not plan.legal or (self.best is not None and plan.seconds >= self.best.seconds):
            return False
        self.best = plan
        report(self.instance, plan, self.run)
        return True

    def catch_up(self) -> None:
        """Take over the best plan of the other lanes."""
        if self.run.exchange is not None and self.run.best is not self.caught:
            self.caught = self.run.best
            self.adopt()

    def adopt(self) -> None:
        """Take over plans that others have reported to the run, if they use this order."""
        best = self.run.best
        if isinstance(best, Slices) and best.order == self.instance.names:
            self.consider(judged(self.arrays, *self.instance.plan(best)))

    def baselines(self) -> list[Plan]:
        """Every baseline, and teams of the fastest devices, as far as there is time; the fastest comes first.

        Each is built once. The referee looks at the first plan that is reported, which takes most of a short time limit
        on a large network.
        """
        while not (self._built and self.run.should_stop()):
            plan = next(self._to_build, None)
            if plan is None:
                break
            self._built.append(plan)
        for plan in sorted(self._built, key=lambda plan: (plan.excess, plan.seconds)):
            self.consider(plan)
        return sorted((plan for plan in self._built if math.isfinite(plan.seconds)), key=lambda plan: plan.seconds)

    def known(self) -> list[Plan]:
        """The best plan, if there is one, and all baselines."""
        plans = self.baselines()
        return plans if self.best is None else [self.best, *plans]

    def anneal_round(self, origin: Plan, number: int) -> bool:
        """Run one annealing round from a plan; return whether the best plan improved."""
        self.run.enter("annealing")
        rng = np.random.default_rng((self.run.seed, number))
        movable = len(self.instance.names)
        hottest = FIRST_HEAT[number % len(FIRST_HEAT)] / 10 * origin.seconds
        span = Span(self.instance.first, self.instance.first + movable)
        mode, cuts = origin.mode.copy(), origin.cuts.copy()
        penalty, soft = self._penalty(origin), 1.0 if self.best is None else SOFT
        improved = False
        for chunk in range(CHUNKS):
            if self.run.should_stop():
                return improved
            began = self.run.elapsed()
            moves = self._moves_within(self._moves() // CHUNKS, CHUNKS - chunk)
            best_mode, best_cuts = mode.copy(), cuts.copy()
            found = anneal(
                self.arrays,
                span,
                penalty * soft ** (1.0 - chunk / (CHUNKS - 1)),
                rng.random((moves, DRAWS)),
                hottest * (1.0 - (chunk + np.arange(moves) / moves) / CHUNKS),
                self.run.halt,
                mode,
                cuts,
                best_mode,
                best_cuts,
            )
            if math.isfinite(found):
                improved = self.consider(judged(self.arrays, best_mode, best_cuts)) or improved
            else:
                self.consider(judged(self.arrays, mode.copy(), cuts.copy()))
            self.pace = (self.run.elapsed() - began) / moves
        return improved

    def longest(self) -> float:
        """Seconds that a round takes if there is time enough."""
        return self._moves() * self._pace()

    def _moves(self) -> int:
        return max(LEAST_MOVES, min(MOST_MOVES, MOVES_PER_OPERATOR * len(self.instance.names)))

    def _pace(self) -> float:
        return self.pace or PACE * len(self.instance.names)

    def _moves_within(self, moves: int, chunks: int) -> int:
        """Moves of a chunk: fewer if time is short for all that are left, because a round must still cool down."""
        left = self.run.remaining()
        most = moves if left is None else int(left / (self._pace() * chunks))
        return max(1, min(moves, most))

    def scatter(self, number: int) -> Plan:
        """The random plan closest to being legal."""
        rng = np.random.default_rng((self.run.seed, number, SCATTERED))
        modes, cuts = scattered(self.instance, self.arrays, rng, SCATTERED)
        found = judge(self.arrays, modes, cuts, memory=True)
        i = int(np.lexsort((found.seconds, found.excess))[0])
        plan = Plan(modes[i], cuts[i], float(found.seconds[i]), float(found.excess[i]))
        self.consider(plan)
        return plan

    def _penalty(self, origin: Plan) -> float:
        """Penalty in seconds of a byte over memory: the worst known excess costs ten times the latency."""
        if not is_limited(self.arrays):
            return -1.0
        worst = self.nearest.excess if self.nearest is not None else 0.0
        scale = max(1.0, min(worst, origin.excess) if worst else 0.001 * float(self.arrays.capacity.min()))
        return 10.0 * max(origin.seconds, 1e-9) / scale

    def rounds(self, count: int | None) -> None:
        """Run ``count`` rounds, mostly from the best plan; None: until stopped or a small problem stops improving.

        A second call continues with other random numbers.
        """
        starts = self.baselines()
        if not self.instance.names:
            return  # no operator can be moved
        done = stale = 0
        small = len(self.instance.names) * len(self.instance.devices) <= 40
        while (
            starts and (count is None or done < (count if self.best else SEARCH_ROUNDS)) and not self.run.should_stop()
        ):
            self.catch_up()
            number = self.run.turn("annealing", self.number)
            done, self.number = done + 1, number + 1
            origin = self.best or self.nearest or starts[0]
            if number < len(starts) and number < 3:
                origin = starts[number]
            elif self.best is None or (number % SCATTERED_EVERY == 0 and is_limited(self.arrays)):
                origin = self.scatter(number)
            stale = 0 if self.anneal_round(origin, number) else stale + 1
            if small and stale >= (STALE_ROUNDS if self.best is None else UNTIMED_ROUNDS):
                return


def local_search(problem: Slicing, run: Run) -> LocalSearch:
    """A local search that starts from the user's start."""
    instance = lower_unless_short(problem, _order(problem, run))
    search = LocalSearch(problem, instance, arrays_of(instance), run)
    if isinstance(run.start, Slices):
        search.consider(judged(search.arrays, *instance.plan(run.start)))
    return search


def _order(problem: Slicing, run: Run) -> tuple[str, ...]:
    """The start's order if there is a start, because its memory fits in that order."""
    return run.start.order if isinstance(run.start, Slices) else running_order(problem, run)


def ended(run: Run) -> Outcome:
    """The outcome of a search without a proof."""
    if run.best is None:
        return Outcome(run.termination(), reason="no plan was found whose memory fits, and no proof that there is none")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())


@named_solver(
    Slicing,
    "local",
    "simulated annealing over cuts, shares, device sets and dimensions",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "proportional")
def solve_local(problem: Slicing, run: Run) -> Outcome:
    """Anneal from the baselines and the start; solver "local"."""
    search = local_search(problem, run)
    search.rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    return ended(run)
