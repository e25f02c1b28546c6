"""The remaining time of a child."""

from __future__ import annotations

import time

LEAST_SECONDS = 0.1
"""Engines read a limit of 0 as no limit, so at least this many seconds are left."""


class Deadline:
    """A time limit that starts when the object is created.

    Examples
    --------
    >>> Deadline(None).left() is None
    True
    >>> 0 < Deadline(10.0).left() <= 10
    True
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """The remaining seconds, at least :data:`LEAST_SECONDS`; None without a limit."""
        return None if self._end is None else max(LEAST_SECONDS, self._end - time.monotonic())
