"""HiGHS apart from the calling thread: in a fresh one here, or in a child process where highspy cannot be loaded.

Its thread pool belongs to the calling thread and keeps its first size, so every solve gets a fresh thread. And ortools
brings a HiGHS of its own along: once that is loaded, highspy's can no longer be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar

from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, Send, run_in_child
from opweave.solvers.patience import wait_for
from opweave.solvers.run import at_work, patience

logger = logging.getLogger("opweave")

ResultT = TypeVar("ResultT")
ArgumentT = TypeVar("ArgumentT")

START_SECONDS = 5.0
"""What a child may take to start and to end beside its time limit."""


def never() -> bool:
    """No reason to stop."""
    return False


@cache
def highspy_fits() -> bool:
    """Whether highspy can be loaded into this process."""
    try:
        import highspy  # noqa: F401
    except ImportError as error:
        logger.info("HiGHS runs in processes of its own: highspy cannot be loaded here (%s)", error)
        return False
    return True


class Worker(threading.Thread, Generic[ResultT]):
    """A thread whose exception is kept for the caller, not printed."""

    def __init__(self, work: Callable[[], ResultT]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self._answer: ResultT | None = None

    def run(self) -> None:
        """Do the work."""
        try:
            self._answer = self._work()
        except BaseException as error:  # handed to the caller
            self._error = error

    def answer(self) -> ResultT | None:
        """What the work returned; None while it is not done.

        Raises
        ------
        EngineError
            When it raised; the exception is its cause.
        """
        if self._error is not None:
            raise EngineError(f"highs failed: {type(self._error).__name__}: {self._error}") from self._error
        return self._answer


def with_highs(
    function: Callable[[ArgumentT, Callable[[], bool]], ResultT],
    argument: ArgumentT,
    seconds: float | None,
    should_stop: Callable[[], bool] = never,
) -> ResultT | None:
    """Call a function that uses highspy.

    Parameters
    ----------
    function
        Of an argument and of ``should_stop``; of a module, so that a child can import it, too. It keeps to its time by
        itself.
    argument
        Can be pickled.
    seconds
        Its time limit; None for none.
    should_stop
        When to leave off; a child is killed then.

    Returns
    -------
    object
        What the function returns; None when it failed, which is logged, or ran out of time.
    """
    try:
        if highspy_fits():
            worker = Worker(lambda: function(argument, should_stop))
            worker.start()
            wait_for(worker)
            return worker.answer()
        grace = START_SECONDS if at_work() is None else patience()
        limits = ChildLimits(None if seconds is None else seconds + grace)
        task = (function, argument)
        found: ResultT | None = run_in_child("highs", f"{__name__}:perform", task, limits, should_stop=should_stop)
    except EngineError as error:
        logger.warning("%s", error, exc_info=error)
        return None
    return found


def perform(task: tuple[Callable[[Any, Callable[[], bool]], Any], Any], _: Send) -> Any:
    """Call the function; runs in the child."""
    function, argument = task
    return function(argument, never)
