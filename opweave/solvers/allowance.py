"""The time of runs: what solver, baseline and referee may take beyond the limit, and one thread for all flags."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

ALLOWED_SHARE, ALLOWED_SECONDS = 0.05, 0.5
"""A solve returns within its time limit plus this share of it plus these seconds."""

LAST_CALL, OVERDUE, LATE = 0.5, 0.8, 0.95
"""Three deadlines, as shares of the time allowed beyond the limit: the solver stops, the solver is interrupted, the
referee is interrupted. The first two come earlier if the referee needs the time."""

MOST_RESERVED, MOST_FOR_BASELINE = 0.5, 0.8
"""Largest share of the time that is kept for the referee, and of the remaining time that is kept for a baseline."""

LEAST_FOR_BASELINE, LOOKS_OF_BASELINE = 0.1, 1.5
"""Time for a baseline: a least number of seconds, and a multiple of the referee's time for one solution."""

LEAST_RESERVE = 0.02
"""Least number of seconds kept for the referee."""

FIRST_SECONDS, FIRST_PER_OPERATOR, FIRST_LOOKS, FIRST_MOST = 0.5, 200e-6, 2.0, 3.5
"""Seconds of the processor after the limit that a first plan may take: some, some for each operator, some looks of the
referee, and never more than the last. It matters for thousands of operators and tiny limits alone."""

BUSY = 2.0
"""How many times longer this may take on the wall, where other programs use the processor: a late plan is of more use
than none in time."""

STOP_SECONDS = 1.0
"""Time after which a solver is interrupted if it was asked to stop and has not."""


@dataclass(eq=False)
class Allowance:
    """Deadlines of one run, in seconds since it began.

    Attributes
    ----------
    limit
        The run's time limit; inf without one.
    elapsed
        Returns the time since the run began.
    reserve
        Time that the referee needs to judge one solution.
    """

    limit: float
    elapsed: Callable[[], float]
    reserve: float = LEAST_RESERVE
    _began: float = field(default_factory=time.process_time)
    _undisturbed: float = -math.inf

    @property
    def beyond(self) -> float:
        """Seconds allowed beyond the limit."""
        return ALLOWED_SHARE * self.limit + ALLOWED_SECONDS

    def _end(self, share: float) -> float:
        """The moment at which a share of the time allowed beyond the limit is used up."""
        return self.limit + share * self.beyond

    def _end_less_reserve(self, share: float) -> float:
        return self._end(share) - min(self.reserve, MOST_RESERVED * (self.limit + ALLOWED_SECONDS))

    @property
    def last_call(self) -> float:
        """The moment at which the solver has to stop, so that the referee ends in time."""
        return self._end_less_reserve(LAST_CALL)

    def until_overdue(self) -> float:
        """Seconds until a solver that has not stopped has to be interrupted; inf without a limit."""
        return max(self._end_less_reserve(OVERDUE) - self.elapsed(), self._still_undisturbed())

    def until_baseline(self) -> float:
        """As :meth:`until_overdue`, but earlier if there is time for a baseline; used while there is no solution."""
        end = self._end_less_reserve(OVERDUE)
        needed = max(LEAST_FOR_BASELINE, LOOKS_OF_BASELINE * self.reserve)
        end -= needed if needed <= MOST_FOR_BASELINE * end else 0.0
        return max(end - self.elapsed(), self._still_undisturbed())

    def until_late(self) -> float:
        """Seconds until the result has to be ready; inf without a limit."""
        return max(self._end(LATE) - self.elapsed(), self._still_undisturbed())

    def _still_undisturbed(self) -> float:
        extra = self._undisturbed
        used = time.process_time() - self._began
        return min(self.limit + BUSY * extra - self.elapsed(), self.limit + extra - used)

    @contextmanager
    def for_first_plan(self, operators: int) -> Iterator[None]:
        """Interrupt nothing for some seconds after the limit: without a first plan there is no answer.

        The seconds are counted from the limit, so that plans that turn out not to hold cannot add them up.
        """
        before = self._undisturbed
        needed = FIRST_SECONDS + FIRST_PER_OPERATOR * operators + FIRST_LOOKS * self.reserve
        self._undisturbed = min(FIRST_MOST, needed)
        try:
            yield
        finally:
            self._undisturbed = before


logger = logging.getLogger("opweave")

WATCH_SECONDS = 0.01
"""Seconds between comparisons of a run's time with its limit while loops on arrays run."""


class Watched(Protocol):
    """Something with a flag that depends on the time."""

    def update_halt(self) -> None:
        """Set the flag according to the clock."""


class Watch:
    """Updates the flags of everything that it watches; its thread ends when nothing of it exists any more."""

    def __init__(self) -> None:
        self._watched: weakref.WeakSet[Watched] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Watch one more, as long as it exists."""
        with self._lock:
            self._watched.add(watched)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._go_on, daemon=True, name="opweave-clock")
                self._thread.start()

    def _go_on(self) -> None:
        while True:
            with self._lock:
                present = list(self._watched)
                if not present:
                    self._thread = None
                    return
            for watched in present:
                try:
                    watched.update_halt()
                except Exception:  # of a run that is being taken apart; the flags of the others must go on
                    logger.debug("a run's clock failed", exc_info=True)
            del present, watched  # otherwise they would live as long as this thread sleeps
            time.sleep(WATCH_SECONDS)


WATCH = Watch()

if hasattr(os, "register_at_fork"):  # the thread may hold the lock at that moment, and it is not in the child
    os.register_at_fork(after_in_child=WATCH.__init__)  # type: ignore[misc]
