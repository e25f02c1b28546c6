"""The engines: programs that solve models, each in a child process; how work is handed over, how answers are judged."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from opweave.formulations.modeling.arrays import Program
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.errors import EngineError
from opweave.solvers.arguments import checked_whole
from opweave.solvers.engines.answers import Ending, News, Verdict, Work
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.engines.task import Task
from opweave.solvers.registry import Feature
from opweave.solvers.run import Run

MEMORY_OPTION = "memory_bytes"

WORKERS_OPTION, WORKERS = "workers", 6
"""Number of search strategies that take turns on CP-SAT's cores. Several prove far more than one, even on a single
core. Proofs are the same every time; with more than one, the choice among equally good solutions may differ."""

END_SECONDS = 1.0
"""Seconds that a child gets to end by itself once its time is over."""

LEAST_GRACE = 0.1
"""The least of these seconds, where a share of the time limit is enough, because findings are reported at once."""

FEATURES = frozenset(Feature) - {Feature.EXECUTOR}

SEEDS = 10**8
"""Seeds are taken modulo this; CBC takes no larger ones."""

CLOSE_ENOUGH = 2e-7
"""Relative gap that counts as closed by CP-SAT for seconds, below their rounding error. Bytes are integers."""

_installed_version = cache(version)  # to read it from the disk takes as long as many a small solve


class Engine:
    """A program that solves models.

    Attributes
    ----------
    name
        The name of the engine, as in ``solve(..., solver=name)``.
    package, install
        The Python package that it needs, and the command that installs it.
    function
        ``"package.module:function"``, called in a child process: it takes a :class:`Work`, sends :class:`News` and
        returns an :class:`Ending`.
    takes
        The kind of model that the engine solves.
    about
        Its own name, for the list of solvers.
    close
        Relative gap of seconds that counts as closed.
    patience
        Seconds that the child gets to end by itself once its time is over, as a share of its time limit.
    features, options
        The arguments of ``solve`` that it honours, and options beside those of all engines.
    """

    name: str
    about: str
    package: str
    install: str
    function: str
    takes: type[LinearModel] = LinearModel
    close = 0.0
    patience = math.inf
    features = FEATURES
    options: Mapping[str, str] = {}

    def work(self, task: Task) -> Work:
        """The work of the child: the arrays, without names."""
        run, program = task.run, task.program
        bare = None
        if isinstance(program, Program):
            bare = replace(program.matrix, names=(), rows=replace(program.matrix.rows, names=()))
        return Work(
            engine=self.name,
            program=bare or program,
            start=task.start,
            seconds=run.remaining(),
            gap=run.gap if task.problem.unit == "bytes" else max(run.gap, self.close),
            seed=run.seed % SEEDS,
            threads=run.threads,
            strategies=checked_whole(f"option {WORKERS_OPTION!r}", run.option(WORKERS_OPTION, WORKERS), 1),
        )

    def solve(self, task: Task) -> Verdict:
        """Solve the task's model, and report findings to the task; an engine that exceeds its time limit is killed.

        While the best solution violates rows that were left out, they are added, and the model is solved again.

        Raises
        ------
        EngineError
            If it crashes, fails, or returns something that cannot be true.
        """
        if isinstance(task.program, Program) and task.matrix.columns == 0:
            report(task, News(np.zeros(0), task.matrix.offset))
            return "solved"
        work = self.work(task)
        while True:
            verdict = judge(self.name, task, self.answer(task, work))
            if verdict != "solved" or task.whole or task.run.closed():
                return verdict
            if task.run.should_stop():
                return "stopped"
            missing = task.missing_rows()
            if not len(missing):
                raise EngineError(f"{self.name} returned a solution that violates constraints of its model")
            work = replace(self.work(task), program=replace(work.program, rows=work.program.rows.joined(missing)))

    def answer(self, task: Task, work: Work) -> Ending | None:
        """The answer of the child; None if it was killed."""
        seconds = work.seconds
        if seconds is not None:
            seconds += min(END_SECONDS, max(LEAST_GRACE, self.patience * seconds))
        answer: Ending | None = run_in_child(
            self.name,
            self.function,
            work,
            ChildLimits(seconds, memory(task.run)),
            hear=lambda news: report(task, news),
            should_stop=lambda: _asked_to_stop(task),
            pauses=task.run.shares_time,
            keep=True,
        )
        return answer

    def missing(self) -> str | None:
        """How to install what is missing; None if the engine can run."""
        return None if self.version() else self.install

    def version(self) -> str | None:
        """Name and version of the package; None if it is not installed."""
        try:
            return f"{self.package} {_installed_version(self.package)}"
        except (PackageNotFoundError, ValueError):  # a program has no package, and its version is unknown
            return None


class Highs(Engine):
    """HiGHS."""

    name, about, package, install = "highs", "HiGHS", "highspy", "pip install highspy"
    function = "opweave.solvers.engines.highs_child:solve"


class CpSat(Engine):
    """CP-SAT, for programs of integers and intervals. It cannot share a process with HiGHS."""

    name, about, package, install = "cp-sat", "CP-SAT", "ortools", "pip install ortools"
    function = "opweave.solvers.engines.interval_child:solve"
    takes = IntervalModel
    close, patience = CLOSE_ENOUGH, 0.05
    options = {WORKERS_OPTION: "number of search strategies that take turns on the cores"}


def memory(run: Run) -> int | None:
    """Bytes that an engine may use: the option, otherwise the machine's memory."""
    asked = checked_whole(f"option {MEMORY_OPTION!r}", run.option(MEMORY_OPTION, 0), 0)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    return asked or machine


def _asked_to_stop(task: Task) -> bool:
    """Whether the callback or a closed gap asks to stop; at the time limit, the engine may first end by itself."""
    return task.run.stopped or (task.run.should_stop() and task.run.remaining() != 0.0)


def report(task: Task, news: News | Ending) -> None:
    """Report what an engine has found: a solution, a bound, or both.

    Once the gap is closed, nothing counts any more: how much an engine says until it stops depends on the machine's
    load, and the same seed gives the same result.
    """
    if task.run.closed():
        return
    if news.values is not None:
        task.incumbent(news.values)
    if news.bound is not None:
        task.bound(news.bound)


def judge(engine: str, task: Task, answer: Ending | None) -> Verdict:
    """Check how an engine ended, and report it; without an answer, it was stopped."""
    if answer is None:
        return "stopped"
    if answer.verdict == "failed":
        raise EngineError(f"{engine} ended with {answer.reason!r}")
    if answer.verdict == "infeasible":
        return answer.verdict
    report(task, answer)
    if answer.verdict == "solved":
        if answer.values is None:
            raise EngineError(f"{engine} calls the model solved but has no solution")
        if answer.bound is None and not task.run.closed():  # it has at least proved the requested gap
            objective = task.program.objective(answer.values)
            task.bound(objective - task.run.gap * abs(objective))
        if not task.run.closed():
            task.settled(answer.values, answer.bound)
    return answer.verdict
