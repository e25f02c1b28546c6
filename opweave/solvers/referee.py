"""The referee at the end of a run: it judges plans within the time reserved for it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.solution import Evaluation, Solution
from opweave.solvers.allowance import LEAST_RESERVE
from opweave.solvers.run import Run

SECONDS_PER_OPERATOR = {
    "memory_ordering": 15e-6,
    "placement": 25e-6,
    "batched_mapping": 100e-6,
    "pipeline": 20e-6,
    "slicing": 250e-6,
}
"""Approximate seconds that a referee takes for each operator, on a core of 2024."""

UNKNOWN_SECONDS = 60e-6
"""The same for other problems."""

WORTH_MEASURING = 0.02
"""Seconds of a look from which on the first plan is judged at once: to know how long it takes, and to have one that
holds whatever becomes of the time."""

SAFETY = 1.3
"""Later judgements may take this many times as long as the first."""


class Referee:
    """Judges the plans of one run, each once, and predicts how long that takes."""

    def __init__(self, problem: Problem[Any, Any], run: Run) -> None:
        self._problem, self._run = problem, run
        self._judged: list[tuple[Solution, Evaluation[Any]]] = []
        expected = SECONDS_PER_OPERATOR.get(problem.kind, UNKNOWN_SECONDS) * len(problem.graph.operators)
        run.allowance.reserve = max(LEAST_RESERVE, expected)
        if run.time_limit is not None and expected > WORTH_MEASURING:
            run.on_first = self._measure

    def first_plan(self) -> AbstractContextManager[None]:
        """Let a first plan be found and judged some seconds after the limit; changes nothing once there is one."""
        if any(evaluation.feasible for _, evaluation in self._judged):
            return nullcontext()
        return self._run.allowance.for_first_plan(len(self._problem.graph.operators))

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
        with self.first_plan():
            self.judge(solution)
        self._run.allowance.reserve = max(LEAST_RESERVE, SAFETY * (time.perf_counter() - began))
