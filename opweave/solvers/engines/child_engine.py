"""Engines that run in a child process: their common code, and the data that they exchange."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import ClassVar

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.solvers.engines.answers import Answer, News
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.engines.engine import Engine, Verdict
from opweave.solvers.engines.task import Task
from opweave.solvers.run import Run

MEMORY_OPTION = "memory_bytes"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The work of a child.

    Attributes
    ----------
    seconds
        Time limit, counted from the start of the child; None for no limit.
    start
        Values by column, NaN where unknown; None without a start.
    """

    solver: str
    matrix: MatrixModel
    start: FloatArray | None
    seconds: float | None
    gap: float
    seed: int
    threads: int


def package_version(package: str) -> str | None:
    """Name and version of an installed package; None if it is not installed."""
    try:
        return f"{package} {installed_version(package)}"
    except PackageNotFoundError:
        return None


class ChildEngine(Engine):
    """An engine whose ``function(work, send)`` runs in a child process.

    Attributes
    ----------
    function
        ``"package.module:function"``; it takes the work, sends :class:`News` and returns an :class:`Answer`.
    """

    function: ClassVar[str]

    @abstractmethod
    def work(self, task: Task, seconds: float | None) -> object:
        """The work of the child, which has ``seconds`` for it."""

    def grace(self, run: Run, _seconds: float) -> float:
        """Seconds by which the child may exceed its time limit."""
        return run.patience()

    def solve(self, task: Task) -> Verdict:
        """Run the engine, and kill it if it exceeds its time limit.

        Raises
        ------
        EngineError
            If it crashes, fails, or returns something that cannot be true.
        """
        seconds = task.remaining()
        grace = None if seconds is None else seconds + self.grace(task.run, seconds)
        answer: Answer | None = run_in_child(
            self.name,
            self.function,
            self.work(task, seconds),
            ChildLimits(grace, memory_limit(task.run)),
            hear=lambda news: _take(task, news),
            should_stop=lambda: _asked_to_stop(task),
        )
        return Verdict.STOPPED if answer is None else _judge(self.name, task, answer)


class MatrixEngine(ChildEngine):
    """An engine for linear programs: its function takes a :class:`Work`."""

    @abstractmethod
    def solver(self) -> str:
        """What the child is to run: a solver's name, or the path of its program."""

    def work(self, task: Task, seconds: float | None) -> Work:
        """The arrays, without names."""
        return Work(
            solver=self.solver(),
            matrix=replace(task.matrix, names=(), rows=replace(task.matrix.rows, names=())),
            start=task.start,
            seconds=seconds,
            gap=task.run.gap,
            seed=task.run.seed,
            threads=task.run.threads,
        )


def memory_limit(run: Run) -> int | None:
    """Bytes that an engine may use: the option, otherwise the machine's memory."""
    asked = run.option(MEMORY_OPTION, 0)
    assert isinstance(asked, int)
    if asked < 0:
        raise InvalidInputError(f"option {MEMORY_OPTION!r} is {asked}; it must be a number of bytes above 0")
    if asked:
        return asked
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None


def _asked_to_stop(task: Task) -> bool:
    """Whether the callback or a closed gap asks to stop; at the time limit, the engine may first end by itself."""
    return task.run.stopped or (task.should_stop() and task.remaining() != 0.0)


def _take(task: Task, news: News) -> None:
    """Report what a child sends while it works: a solution, a bound, or both."""
    if news.values is not None:
        task.incumbent(news.values)
    if news.bound is not None:
        task.bound(news.bound)


def _judge(engine: str, task: Task, answer: Answer) -> Verdict:
    """Check how an engine ended, and report it."""
    if answer.verdict == "failed":
        raise EngineError(f"{engine} ended with {answer.reason!r}")
    if answer.values is not None:
        task.incumbent(answer.values)
    if answer.verdict == "solved":
        if answer.values is None:
            raise EngineError(f"{engine} calls the model solved but has no solution")
        # An engine that reports no bound has at least proved the requested gap.
        objective = task.program.objective(answer.values)
        task.bound(objective - task.run.gap * abs(objective) if answer.bound is None else answer.bound)
        task.settled(answer.values)
        return Verdict.SOLVED
    if answer.bound is not None and np.isfinite(answer.bound) and answer.verdict == "stopped":
        task.bound(answer.bound)
    return Verdict.INFEASIBLE if answer.verdict == "infeasible" else Verdict.STOPPED
