"""Engines: programs that solve models, each in a child process; how work is handed over, and how answers are judged."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from opweave.formulations.modeling.model import LinearModel
from opweave.problems.errors import EngineError
from opweave.solvers.arguments import checked_whole
from opweave.solvers.engines.answers import Answer, News, Verdict, Work
from opweave.solvers.engines.child import ChildLimits, prepare, run_in_child
from opweave.solvers.engines.task import Task
from opweave.solvers.run import Run

MEMORY_OPTION = "memory_bytes"

END_SECONDS = 1.0
"""Seconds that a child gets to end by itself once its time is over."""

SEEDS = 10**8
"""Seeds are taken modulo this; CBC takes no larger ones."""

_installed_version = cache(version)  # to read it from the disk takes as long as many a small solve


class Engine(ABC):
    """A program that solves models.

    Attributes
    ----------
    name
        The name of the engine, as in ``solve(..., solver=name)``.
    package, install
        The Python package that it needs, and the command that installs it.
    function
        ``"package.module:function"``, called in a child process: it takes the work, sends :class:`News` and returns an
        :class:`Answer`.
    takes
        The kind of model that the engine solves.
    separates
        Whether it uses :meth:`Task.missing_rows`, and so supports formulations that leave rows out.
    """

    name: str
    package: str
    install: str
    function: str
    takes: ClassVar[type[LinearModel]] = LinearModel
    separates: ClassVar[bool] = False

    @abstractmethod
    def work(self, task: Task, seconds: float | None) -> Any:
        """The work of the child, which has ``seconds`` for it."""

    def grace(self, _seconds: float) -> float:
        """Seconds by which the child may exceed its time limit."""
        return END_SECONDS

    def prepare(self) -> None:
        """Begin to start the process, which takes as long as many a small solve."""
        prepare(self.function)

    def solve(self, task: Task) -> Verdict:
        """Solve the task's model, and report findings to the task; an engine that exceeds its time limit is killed.

        Raises
        ------
        EngineError
            If it crashes, fails, or returns something that cannot be true.
        """
        return judge(self.name, task, self.answer(task, self.work(task, task.run.remaining())))

    def answer(self, task: Task, work: Any) -> Answer | None:
        """The answer of the child; None if it was killed."""
        answer: Answer | None = run_in_child(
            self.name,
            self.function,
            work,
            ChildLimits(None if work.seconds is None else work.seconds + self.grace(work.seconds), memory(task.run)),
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
        except PackageNotFoundError:
            return None


class MatrixEngine(Engine):
    """An engine for linear programs: its function takes a :class:`Work`."""

    def work(self, task: Task, seconds: float | None) -> Work:
        """The arrays, without names."""
        return Work(
            engine=self.name,
            matrix=replace(task.matrix, names=(), rows=replace(task.matrix.rows, names=())),
            start=task.start,
            seconds=seconds,
            gap=task.run.gap,
            seed=task.run.seed % SEEDS,
            threads=task.run.threads,
        )


def memory(run: Run) -> int | None:
    """Bytes that an engine may use: the option, otherwise the machine's memory."""
    asked = checked_whole(f"option {MEMORY_OPTION!r}", run.option(MEMORY_OPTION, 0), 0)
    if asked:
        return asked
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def _asked_to_stop(task: Task) -> bool:
    """Whether the callback or a closed gap asks to stop; at the time limit, the engine may first end by itself."""
    return task.run.stopped or (task.run.should_stop() and task.run.remaining() != 0.0)


def report(task: Task, news: News | Answer) -> None:
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


def judge(engine: str, task: Task, answer: Answer | None) -> Verdict:
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
