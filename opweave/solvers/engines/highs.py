"""The engine HiGHS, for integer programs."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import News, Verdict
from opweave.solvers.engines.base import MatrixEngine, judge, report
from opweave.solvers.engines.task import Task


class Highs(MatrixEngine):
    """HiGHS; it adds rows that formulations leave out, in rounds."""

    name = "highs"
    package = "highspy"
    install = "pip install highspy"
    function = "opweave.solvers.engines.highs_child:solve"
    separates: ClassVar[bool] = True

    def solve(self, task: Task) -> Verdict:
        """Solve; while the best solution violates rows that were left out, add them and solve again."""
        if task.matrix.columns == 0:
            report(task, News(np.zeros(0), task.matrix.offset))
            return "solved"
        rows = self.work(task, None).matrix.rows
        while True:
            work = self.work(task, task.run.remaining())
            verdict = judge(self.name, task, self.answer(task, replace(work, matrix=replace(work.matrix, rows=rows))))
            if verdict != "solved" or task.whole or task.run.closed():
                return verdict
            if task.run.should_stop():
                return "stopped"
            missing = task.missing_rows()
            if not len(missing):
                raise EngineError(f"{self.name} returned a solution that breaks rows which it was given")
            rows = rows.joined(missing)
