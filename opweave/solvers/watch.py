"""The clock of loops on arrays: one thread keeps the flags of all runs up to date."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Protocol

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
