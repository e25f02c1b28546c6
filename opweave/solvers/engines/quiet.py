"""Silence while models are written: Pyomo logs to standard error whatever stops the writing, even a time limit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WRITING: ContextVar[bool] = ContextVar("a model is being written here", default=False)


class _Silence(logging.Filter):
    """Drops log records while this thread writes a model."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to let the record pass."""
        return not _WRITING.get()


_SILENCE = _Silence()


@contextmanager
def quiet_pyomo() -> Iterator[None]:
    """Keep Pyomo's messages off the terminal; errors are raised all the same.

    The application's own log handlers still receive the messages.
    """
    import pyomo.common.log  # noqa: F401  # importing it sets up the handlers

    for handler in logging.getLogger("pyomo").handlers:
        handler.addFilter(_SILENCE)  # adding it twice has no effect
    token = _WRITING.set(True)
    try:
        yield
    finally:
        _WRITING.reset(token)
