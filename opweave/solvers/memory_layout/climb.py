"""Local search over the order in which storages are placed, each as low as it can stand.

``hill_climb`` follows Arm's Vela compiler: what forces the highest storage up is what lies below it, below its
neighbours, and so on; two of these change places in the order, and the order is kept unless the arena grows.
``annealing`` swaps any two storages, and also keeps worse orders, less and less often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.result import Termination
from opweave.solvers.memory_layout.greedy import FIRST_GAP, Places, place
from opweave.solvers.memory_layout.plans import LISTENING, contradiction, report, worth_of
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run

ROUNDS = 10_000
"""Orders that are tried if there is no time limit."""

STUCK = 50
"""Orders without a gain after which a hill climb swaps twice at once."""

HEAT = 0.02
"""First temperature of annealing, as a share of the objective."""

Change = Callable[[IntArray, Places, int], IntArray]
"""Makes another order, given one, its layout, and how many orders were tried without a gain."""


class Climb:
    """The search from one order to the next."""

    def __init__(self, problem: MemoryLayout, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.noise = np.random.default_rng(run.seed)
        self.most = rounds_asked(run, "rounds", ROUNDS)
        self._met: dict[int, IntArray] = {}

    def solve(self, change: Change, share: float) -> Outcome:
        """Change the order until the time is up; the first temperature is a share of the objective."""
        order = np.lexsort([-self.instance.bytes, self.instance.begin - self.instance.end])
        places = self._placed(order)
        if places is None:
            return Outcome(self.run.termination(), reason="no layout was found within the bytes of the pools")
        worth, idle, rounds = worth_of(self.problem, self.instance, places), 0, 0
        heat = share * worth
        while len(order) > 1 and not self.run.should_stop():
            if rounds == self.most:
                return Outcome(Termination.BUDGET)
            rounds, idle = rounds + 1, idle + 1
            other = change(order, places, idle)
            found = self._placed(other)
            if found is None:
                continue
            reached = worth_of(self.problem, self.instance, found)
            allowed = -heat * self._coolness(rounds) * math.log(1.0 - self.noise.random())
            if reached - worth <= allowed:
                idle = idle if reached >= worth else 0
                order, places, worth = other, found, reached
        return Outcome(self.run.termination())

    def _coolness(self, rounds: int) -> float:
        """Share of the first temperature that is left."""
        if self.most is not None:
            return 1.0 - rounds / (self.most + 1)
        assert self.run.time_limit is not None
        return 1.0 - min(1.0, self.run.elapsed() / max(self.run.time_limit, 1e-9))

    def _placed(self, order: IntArray) -> Places | None:
        places = place(self.instance, order, FIRST_GAP)
        if places is not None:
            report(self.problem, self.instance, places, self.run)
        return places

    def swap_any(self, order: IntArray, _places: Places, _idle: int) -> IntArray:
        """Two storages change places in the order."""
        return _swapped(order, *self.noise.integers(len(order), size=2).tolist())

    def swap_culprits(self, order: IntArray, places: Places, idle: int) -> IntArray:
        """Two of the storages that force the highest one up change places in the order."""
        turn = np.empty(len(order), dtype=np.int64)
        turn[order] = np.arange(len(order))
        top = np.where(self.instance.solid, places.offset + self.instance.bytes, -1)
        highest = int(top.argmax())
        culprits = self._below(highest, places, top, turn)
        for j in self._meets(highest).tolist():
            culprits |= self._below(j, places, top, turn)
        for _ in range(1 if idle <= STUCK else 2):
            order = _swapped(order, *turn[self.noise.choice(sorted(culprits), size=2)].tolist())
        return order

    def _meets(self, j: int) -> IntArray:
        """Storages that take space at the same time as one; of tens of thousands, few are ever asked for."""
        if j not in self._met:
            at, begin, end = self.instance.solid.copy(), self.instance.begin, self.instance.end
            at[j] = False
            self._met[j] = np.flatnonzero(at & (begin < end[j]) & (end > begin[j]))
        return self._met[j]

    def _below(self, j: int, places: Places, top: IntArray, turn: IntArray) -> set[int]:
        """A storage, the one on which it lies, and so on down to the bottom."""
        found = {j}
        while places.offset[j] > 0:
            near = self._meets(j)
            near = near[places.pool[near] == places.pool[j]]
            under = near[(top[near] <= places.offset[j]) & (turn[near] < turn[j])]
            if not len(under):
                break
            j = int(under[top[under].argmax()])
            found.add(j)
        return found


def _swapped(order: IntArray, one: int, other: int) -> IntArray:
    changed = order.copy()
    changed[[one, other]] = order[[other, one]]
    return changed


_searching = partial(
    named_solver,
    MemoryLayout,
    features=LISTENING,
    supports=(VIOLATIONS,),
    options={"rounds": "number of orders to try; 0 for as many as the time allows"},
)


def _possible(instance: LayoutInstance) -> Outcome | None:
    reason = contradiction(instance)
    return None if reason is None else Outcome(infeasible=True, reason=reason)


@_searching("hill_climb", "Arm Vela's search: swaps what forces the highest storage up, as long as it helps")
def solve_hill_climb(problem: MemoryLayout, run: Run) -> Outcome:
    """Swap what forces the highest storage up; solver "hill_climb"."""
    climb = Climb(problem, run)
    return _possible(climb.instance) or climb.solve(climb.swap_culprits, 0.0)


@_searching("annealing", "simulated annealing over the order in which storages are placed")
def solve_annealing(problem: MemoryLayout, run: Run) -> Outcome:
    """Swap any two storages, at falling temperatures; solver "annealing"."""
    climb = Climb(problem, run)
    return _possible(climb.instance) or climb.solve(climb.swap_any, HEAT)
