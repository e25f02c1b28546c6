"""Delaying Ctrl-C while modules are being imported.

A half-imported module breaks every later import of it, and compiled modules break for good. Solvers import engines and
loops on first use, so a run may be inside an import at any moment when Ctrl-C is pressed.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

LATER_SECONDS = 0.02
"""Seconds before a delayed interrupt checks again whether the import has ended."""

IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class WholeImports:
    """A context that delays Ctrl-C while the main thread imports modules; otherwise Ctrl-C raises at once, as usual.

    It does nothing in other threads, which Ctrl-C does not reach, or if the user has installed a handler.
    """

    def __init__(self) -> None:
        self._outside: FrameType | None = None
        self._again: threading.Timer | None = None

    def __enter__(self) -> WholeImports:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._outside = sys._getframe(1)  # an import further out may take as long as a whole program
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._outside is None:
            return
        self._outside = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.take_back() and kind is None:
            raise KeyboardInterrupt

    def take_back(self) -> bool:
        """Whether an interrupt is delayed and has not been raised yet; this call cancels it."""
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
        return again is not None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise now, or try again later."""
        self._again = None
        if not self._importing(frame):
            signal.default_int_handler(number, frame)
        self._again = threading.Timer(LATER_SECONDS, signal.raise_signal, (number,))
        self._again.daemon = True
        self._again.start()

    def _importing(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self._outside:
            if frame.f_code.co_filename == IMPORT_SYSTEM:
                return True
            frame = frame.f_back
        return False
