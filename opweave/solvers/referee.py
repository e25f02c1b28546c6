"""The referee at the end of a run: it judges plans within the time reserved for it."""

from __future__ import annotations

import time
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.solution import Evaluation, Solution
from opweave.solvers.run import LEAST_RESERVE, Run

SECONDS_PER_OPERATOR = {
    "memory_ordering": 15e-6,
    "placement": 50e-6,
    "batched_mapping": 60e-6,
    "pipeline": 20e-6,
    "slicing": 100e-6,
}
"""Approximate seconds that a referee takes for each operator, on a core of 2024."""

UNKNOWN_SECONDS = 60e-6
"""The same for other problems."""

WORTH_MEASURING = 0.1
"""Seconds of a judgement above which the first plan is judged at once. This measures the referee's speed, and provides
a verified plan in any case."""

MEASURED_SHARE = 0.2
"""Largest share of the time that this may take."""

SAFETY = 1.3
"""Later judgements may take this many times as long as the first."""


class Referee:
    """Judges the plans of one run, each once, and predicts how long that takes."""

    def __init__(self, problem: Problem[Any, Any], run: Run) -> None:
        self._problem, self._run = problem, run
        self._judged: list[tuple[Solution, Evaluation[Any]]] = []
        expected = SECONDS_PER_OPERATOR.get(problem.kind, UNKNOWN_SECONDS) * len(problem.graph.operators)
        run.reserve = max(LEAST_RESERVE, expected)
        left = run.remaining()
        if left is not None and WORTH_MEASURING < expected < MEASURED_SHARE * left:
            run.on_first = self._measure

    def known(self, solution: Solution) -> Evaluation[Any] | None:
        """The earlier judgement of a plan, if there is one."""
        return next((evaluation for known, evaluation in self._judged if known is solution), None)

    def judge(self, solution: Solution) -> Evaluation[Any]:
        """Judge a plan, or return the earlier judgement of it."""
        known = self.known(solution)
        if known is None:
            known = self._problem.evaluate(solution)
            self._judged.append((solution, known))
        return known

    def _measure(self, solution: Solution) -> None:
        began = time.perf_counter()
        self.judge(solution)
        self._run.reserve = max(LEAST_RESERVE, SAFETY * (time.perf_counter() - began))
