"""CP-SAT on programs of whole numbers and intervals: what it has of its own."""

from __future__ import annotations

from typing import ClassVar

from opweave.formulations.modeling.intervals import ExactProgram, IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.errors import InvalidInputError
from opweave.solvers.engines.child_engine import ChildEngine, package_version
from opweave.solvers.engines.interval_child import IntervalWork
from opweave.solvers.engines.task import Task
from opweave.solvers.run import Run

LARGEST_SEED = 2**31 - 1

WORKERS_OPTION = "workers"
WORKERS = 6
"""Search strategies that take turns on the cores: several prove far more than one, even on a single core. Proofs are
the same every time; which of several best solutions comes back may differ, unless there is one worker."""

CLOSE_ENOUGH = 2e-7
"""Relative gap that is as good as none for seconds: less than what they lose by rounding. Bytes are whole numbers."""

GRACE, LEAST_GRACE = 0.05, 0.1
"""Of its time, and in seconds: how long the child may take to come to an end."""


class CpSat(ChildEngine):
    """The engine for constraint programs; in a child process, as it cannot share one with HiGHS."""

    name: ClassVar[str] = "cp-sat"
    takes: ClassVar[type[LinearModel]] = IntervalModel
    function: ClassVar[str] = "opweave.solvers.engines.interval_child:solve"

    def missing(self) -> str | None:
        """How to install it."""
        return None if self.version() else "pip install 'opweave[cp]'"

    def version(self) -> str | None:
        """Version of ortools."""
        return package_version("ortools")

    def work(self, task: Task, seconds: float | None) -> IntervalWork:
        """The program with its hint."""
        assert isinstance(task.program, ExactProgram)
        run = task.run
        return IntervalWork(
            task.program.hinted(task.start),
            seconds,
            run.gap if task.problem.unit == "bytes" else max(run.gap, CLOSE_ENOUGH),
            run.seed % LARGEST_SEED,
            run.threads,
            _workers(run),
        )

    def grace(self, run: Run, seconds: float) -> float:
        """Few seconds, for what the child finds is reported at once, and others wait for the time."""
        return min(run.patience(), max(LEAST_GRACE, GRACE * seconds))


def _workers(run: Run) -> int:
    """How many strategies to run side by side.

    Raises
    ------
    InvalidInputError
        When the user asks for none.
    """
    workers = run.option(WORKERS_OPTION, WORKERS)
    assert isinstance(workers, int)
    if workers < 1:
        raise InvalidInputError(f"option {WORKERS_OPTION!r} is {workers}; it takes a whole number from 1")
    return workers
