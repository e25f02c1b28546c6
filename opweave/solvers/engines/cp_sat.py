"""The engine CP-SAT, for programs of integers and intervals."""

from __future__ import annotations

from typing import ClassVar

from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import WholeProgram
from opweave.solvers.arguments import checked_whole
from opweave.solvers.engines.base import END_SECONDS, SEEDS, Engine
from opweave.solvers.engines.interval_child import IntervalWork
from opweave.solvers.engines.task import Task

WORKERS_OPTION = "workers"
WORKERS = 6
"""Number of search strategies that take turns on the cores. Several prove far more than one, even on a single core.
Proofs are the same every time; with more than one worker, the choice among equally good solutions may differ."""

CLOSE_ENOUGH = 2e-7
"""Relative gap that counts as closed for seconds; it is smaller than their rounding error. Bytes are integers."""

GRACE, LEAST_GRACE = 0.05, 0.1
"""Time that the child may take to end: a share of its time limit, and a number of seconds at least."""


class CpSat(Engine):
    """The engine for constraint programs. It runs in a child process because it cannot share one with HiGHS."""

    name = "cp-sat"
    package = "ortools"
    install = "pip install ortools"
    takes: ClassVar[type[LinearModel]] = IntervalModel
    function = "opweave.solvers.engines.interval_child:solve"

    def work(self, task: Task, seconds: float | None) -> IntervalWork:
        """The program with its hint."""
        assert isinstance(task.program, WholeProgram)
        run = task.run
        return IntervalWork(
            task.program.hinted(task.start),
            seconds,
            run.gap if task.problem.unit == "bytes" else max(run.gap, CLOSE_ENOUGH),
            run.seed % SEEDS,
            run.threads,
            checked_whole(f"option {WORKERS_OPTION!r}", run.option(WORKERS_OPTION, WORKERS), 1),
        )

    def grace(self, seconds: float) -> float:
        """Few seconds are enough, because the child reports its findings at once."""
        return min(END_SECONDS, max(LEAST_GRACE, GRACE * seconds))
