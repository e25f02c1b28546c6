"""HiGHS outside the calling thread: in a new thread, or in a child process if highspy cannot be loaded here.

The thread pool of HiGHS belongs to the calling thread and keeps its first size, so every solve gets a new thread.
Ortools contains a HiGHS of its own; once it is loaded, highspy's can no longer be loaded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from opweave.solvers.engines.child import ChildLimits, Send, run_in_child

if TYPE_CHECKING:
    import highspy

logger = logging.getLogger("opweave")

ResultT = TypeVar("ResultT")
ArgumentT = TypeVar("ArgumentT")

START_SECONDS = 5.0
"""Time that a child may take to start and to end, in addition to its time limit."""

FIRST_PAUSE, LONGEST_PAUSE = 1e-4, 0.01
"""Seconds between checks of a thread, short at first, because most calls take milliseconds."""


def never() -> bool:
    """Always False: no reason to stop."""
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


def silent_highs() -> highspy.Highs:
    """HiGHS that prints nothing, not even its licence, which version 1.16 prints before options can be set."""
    return _silent()()


@cache
def _silent() -> type[highspy.Highs]:
    import highspy

    class Silent(highspy.Highs):  # type: ignore[misc,unused-ignore]
        def enableCallbacks(self) -> None:  # noqa: N802
            """Begin to listen, as highspy does first of all."""
            self.silent()
            super().enableCallbacks()  # type: ignore[no-untyped-call,unused-ignore]

    return Silent


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
        Takes the argument and ``should_stop``. It must be a module's function, so that a child can import it, and it
        must obey the time limit itself.
    argument
        An object that can be pickled.
    seconds
        Time limit of the function; None for no limit.
    should_stop
        Whether to stop; a child is killed then.

    Returns
    -------
    object
        What the function returns; None if it failed (which is logged) or ran out of time.
    """
    try:
        if highspy_fits():
            return aside(lambda: function(argument, should_stop))
        grace = START_SECONDS
        limits = ChildLimits(None if seconds is None else seconds + grace)
        task = (function, argument)
        found: ResultT | None = run_in_child("highs", f"{__name__}:perform", task, limits, should_stop=should_stop)
    except Exception as error:  # the function, or its process, may raise anything
        logger.warning("%s: %s", type(error).__name__, error, exc_info=error)
        return None
    return found


def aside(call: Callable[[], ResultT]) -> ResultT:
    """Run a call in a new thread and return its result; waiting for it can be interrupted.

    A call that is left behind continues; the process waits for it at its end, since an interpreter that ends while a
    thread is inside C++ code makes that library abort.

    Raises
    ------
    BaseException
        Any exception that the call raises.
    """
    found: list[ResultT] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:  # passed to the waiting thread
            failed.append(error)

    worker = threading.Thread(target=work, name="opweave-aside")
    worker.start()
    pause = FIRST_PAUSE
    while worker.is_alive():  # unlike join, this can be interrupted
        time.sleep(pause)
        pause = min(2.0 * pause, LONGEST_PAUSE)
    if failed:
        raise failed[0]
    return found[0]


def perform(task: tuple[Callable[[Any, Callable[[], bool]], Any], Any], _: Send) -> Any:
    """Call the function; runs in the child."""
    function, argument = task
    return function(argument, never)
