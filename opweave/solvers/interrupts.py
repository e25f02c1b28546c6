"""Ctrl-C while modules are being imported: it waits until they are whole.

A module that is left half imported breaks whoever imports it next, compiled ones for good. Solvers import engines and
loops on first use, so a run may be anywhere in an import when Ctrl-C is pressed.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

LATER_SECONDS = 0.02
"""How long an interrupt waits before it looks again whether the import has ended."""

IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class WholeImports:
    """A context in which Ctrl-C is put off for as long as the main thread imports; else it raises at once, as ever.

    Does nothing in other threads, which Ctrl-C does not reach, and where the user has a handler of their own.
    """

    def __init__(self) -> None:
        self._outside: FrameType | None = None
        self._again: threading.Timer | None = None

    def __enter__(self) -> WholeImports:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._outside = sys._getframe(1)  # what is being imported further out may well take a whole program's time
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
        """Whether an interrupt has been put off and not come again yet; it will not, after this."""
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
        return again is not None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise now, or come again."""
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
