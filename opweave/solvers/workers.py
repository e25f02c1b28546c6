"""Workers: algorithms that improve a plan or raise a bound, a slice of time after the other."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from opweave.problems.errors import (
    EngineError,
    InvalidInputError,
    LimitExceededError,
    OpweaveError,
    UnsupportedFeatureError,
)
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.registry import Feature, load_solvers
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

Algorithm = Callable[[Any, Run], Outcome | None]
"""What works on a problem and reports to a run until nothing is left to do or :meth:`Run.should_stop` says so."""


class Worker(Protocol):
    """One algorithm at work on one problem.

    It keeps its own state between slices. It may take the best plan and bound from the run when a slice begins, and
    reports with ``run.found`` and ``run.proved``.

    Attributes
    ----------
    name
        What :attr:`Result.incumbents` calls it.
    outcome
        How it ended; None while something is left to do.
    seeded
        Whether it does something else with another seed, so that it is worth its time in several lanes.
    """

    name: str
    outcome: Outcome | None
    seeded: bool

    def work(self, run: Run, until: float) -> bool:
        """Work until about ``until``, in seconds of ``run.elapsed()``; False when nothing is left to do."""
        ...

    def close(self) -> None:
        """Give back what it holds, such as a process; it does not work again."""
        ...


class Steps:
    """A worker made of an ordinary function ``algorithm(problem, run)``.

    The function asks ``run.should_stop()`` every few hundredths of a second, as every solver does. Once its slice is
    over, that call does not return: the function rests there, in the middle of its work, until its next slice begins.
    (It runs in a greenlet, a function call that can be left and entered again.)

    Parameters
    ----------
    name
        The name of the worker.
    algorithm, problem
        The function, and the problem that it works on.
    seeded
        Whether the function uses the seed.

    Attributes
    ----------
    error
        Why it could not work on this problem; the other workers go on without it.
    """

    def __init__(self, name: str, algorithm: Algorithm, problem: Problem[Any, Any], *, seeded: bool = True) -> None:
        self.name, self.seeded = name, seeded
        self.outcome: Outcome | None = None
        self.error: OpweaveError | None = None
        self._algorithm, self._problem = algorithm, problem
        self._until, self._run = math.inf, Run()
        self._call: greenlet | None = None

    def work(self, run: Run, until: float) -> bool:
        """Continue the call until its slice is over.

        Raises
        ------
        RuleError
            If a function of the user's raised. An engine that fails, or cannot take the problem, only ends this worker.
        """
        self._until = until
        if self._call is None:
            self._run = run.as_worker(self.name, self._rest)
            self._call = greenlet(self._whole)
            self._call.gr_context = copy_context()
        self._call.parent = getcurrent()
        self._call.switch()
        return self.outcome is None

    def close(self) -> None:
        """Leave the call where it rests, so that its context managers end."""
        if self._call is not None and not self._call.dead:
            self._call.throw()

    def _rest(self) -> None:
        """Hand over to the portfolio once the slice is over."""
        if self._call is getcurrent() and self._run.elapsed() >= self._until:
            assert self._call.parent is not None
            self._call.parent.switch()

    def _whole(self) -> None:
        try:
            self.outcome = self._algorithm(self._problem, self._run) or Outcome(self._run.termination())
        except (EngineError, UnsupportedFeatureError, LimitExceededError) as error:
            self._fail(error)
        except InvalidInputError as error:
            if self._run.extend is not None or self._run.best is None:
                raise  # a mistake of the user's; an engine that cannot take the numbers begins when there is a plan
            self._fail(error)

    def _fail(self, error: OpweaveError) -> None:
        logger.info("%s ends: %s", self.name, error)
        self.error = error
        self.outcome = Outcome(Termination.ENGINE_ERROR, reason=f"{self.name}: {error}")


def by_name(problem: Problem[Any, Any], *names: str) -> list[Worker]:
    """Workers that are registered solvers, without those that cannot run here or do not know the problem's mode."""
    found = {each.name: each for each in load_solvers(problem.kind) if problem.mode in each.modes}
    able = [found[name] for name in names if name in found and found[name].missing() is None]
    return [Steps(each.name, each.run, problem, seeded=Feature.EXECUTOR in each.features) for each in able]
