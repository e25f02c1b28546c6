"""HiGHS in a child process, for programs that have loaded ortools, after which highspy cannot be loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from opweave.formulations.modeling.arrays import Program
from opweave.solvers.engines.child_engine import MatrixEngine
from opweave.solvers.engines.engine import Verdict
from opweave.solvers.engines.task import Task


class HighsInChild(MatrixEngine):
    """The replacement of the embedded engine; it also adds rows that formulations leave out, in rounds."""

    name: ClassVar[str] = "highs"
    separates: ClassVar[bool] = True
    function: ClassVar[str] = "opweave.solvers.engines.highs:solve"

    def solver(self) -> str:
        """Highspy needs no further name."""
        return self.name

    def missing(self) -> str | None:
        """Always None; the embedded engine, which this one replaces, checks the installation."""
        return None

    def version(self) -> str | None:
        """Always None; the embedded engine, which this one replaces, reports the version."""
        return None

    def solve(self, task: Task) -> Verdict:
        """Solve; while solutions violate rows that were left out, add them and solve again."""
        while True:
            verdict = super().solve(task)
            missing = task.missing_rows()
            if verdict is not Verdict.SOLVED or len(missing) == 0 or task.run.closed():
                return verdict
            if task.should_stop():
                return Verdict.STOPPED
            assert isinstance(task.program, Program)
            whole = replace(task.matrix, rows=task.matrix.rows.joined(missing))
            task = replace(task, program=replace(task.program, matrix=whole))
