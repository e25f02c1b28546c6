"""A search that obeys any rule: rows of genes are changed bit by bit, and what a plan misses is a penalty.

The penalty's weight rises while the search is at plans that do not obey, and falls while they do (strategic
oscillation: F. Glover, "Heuristics for integer programming using surrogate constraints", Decision Sciences 8(1), 1977,
doi:10.1111/j.1540-5915.1977.tb01074.x). So it stays near the edge of what obeys, where the best plans are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.evolution.encoding import Encoding, encoding_of
from opweave.solvers.run import Run

if TYPE_CHECKING:
    from opweave.solvers.obeying import Judge

ROWS = 16
"""Changed rows that are judged at once."""

UNTIMED_ROUNDS = 150
HOT, COLD = 0.03, 0.0005
"""First and last temperature, as shares of the objective."""

RISE, FALL = 1.3, 0.9
"""Factors of the penalty's weight after a round at a plan that does not obey, and at one that does."""


def search_with_penalties(judge: Judge, problem: Problem[Any, Any], run: Run) -> None:
    """Search until the run is over.

    Parameters
    ----------
    judge
        Knows the rules.
    problem
        The problem without the rules.
    run
        Receives the plans that obey.

    Raises
    ------
    InvalidInputError
        If the problem has no encoding.
    """
    encoding = encoding_of(problem, run)
    if not encoding.genes:
        return
    rng, search = np.random.default_rng(run.seed), _Search(judge, encoding, run)
    for row in encoding.seeds():
        search.consider(row)
        if run.should_stop():
            return
    rounds = 0
    while not run.should_stop() and (run.time_limit is not None or rounds < UNTIMED_ROUNDS):
        left, limit = run.remaining(), run.time_limit
        done = rounds / UNTIMED_ROUNDS if left is None or not limit else 1.0 - left / limit
        search.round(rng, HOT * (COLD / HOT) ** min(1.0, done))
        rounds += 1


class _Search:
    """The row at which the search is, and the weight of penalties."""

    def __init__(self, judge: Judge, encoding: Encoding, run: Run) -> None:
        self._judge, self._encoding, self._run = judge, encoding, run
        self._row: FloatArray | None = None
        self._objective, self._penalty = math.inf, math.inf
        self._weight = 1.0
        self._known: Solution | None = None
        self._others: list[FloatArray] = []

    def consider(self, row: FloatArray) -> None:
        """Go to a row if it is better than the present one."""
        self._others.append(row)
        judged = self._encoding.judge(row[None, :])
        self._weigh(row, float(judged.objective[0]), float(judged.excess[0].sum()), 0.0)

    def round(self, rng: np.random.Generator, heat: float) -> None:
        """Change the present row in several ways, and go to the first that is good enough."""
        best = self._run.best
        if best is not None and best is not self._known:
            self._known = best
            self.consider(self._encoding.encode(best))
            self._others = self._others[-20:]
        if self._row is None:
            self._row = rng.random(self._encoding.genes)
        rows = self._encoding.repair(np.asarray([self._changed(rng) for _ in range(ROWS)]))
        judged = self._encoding.judge(rows)
        for place in np.argsort(judged.objective, kind="stable").tolist():
            slack = -heat * math.log(max(1e-12, rng.random()))
            self._weigh(rows[place], float(judged.objective[place]), float(judged.excess[place].sum()), slack)
        self._weight *= RISE if self._penalty > 0.0 else FALL
        self._weight = min(max(self._weight, 1e-3), 1e6)

    def _weigh(self, row: FloatArray, objective: float, excess: float, slack: float) -> None:
        """Go to a row if its objective and penalty are at most a little larger than those of the present one."""
        most = self._objective * (1.0 + self._weight * self._penalty) * (1.0 + slack)
        if not math.isfinite(objective) or objective * (1.0 + self._weight * excess) > most:
            return
        solution = self._encoding.decode(row)
        penalty = excess + self._judge.penalty(solution)
        better = self._run.objective is None or objective < self._run.objective
        if better and penalty == 0.0 and self._judge.report(self._run, solution):
            self._known = self._run.best
        if objective * (1.0 + self._weight * penalty) <= most:
            self._row, self._objective, self._penalty = row, objective, penalty

    def _changed(self, rng: np.random.Generator) -> FloatArray:
        """The present row with one block of genes moved together, some shifted a little, or some of another row."""
        assert self._row is not None
        row, count = self._row.copy(), len(self._row)
        first = int(rng.integers(count))
        last = min(count, first + 1 + int(rng.geometric(0.5) if rng.random() < 0.5 else rng.integers(count)))
        way = rng.random()
        if way < 0.5:
            row[first:last] = rng.random()
        elif way < 0.8 or not self._others:
            row[first:last] += rng.normal(0.0, 0.1, last - first)
        else:
            row[first:last] = self._others[int(rng.integers(len(self._others)))][first:last]
        return np.clip(row, 0.0, 1.0)
