"""Silence while models are written: Pyomo reports on standard error whatever ends the writing, time limits included."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WRITING: ContextVar[bool] = ContextVar("a model is being written here", default=False)


class _Silence(logging.Filter):
    """Drops what is said while this thread writes a model."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record may pass."""
        return not _WRITING.get()


_SILENCE = _Silence()


@contextmanager
def quiet_pyomo() -> Iterator[None]:
    """Keep Pyomo's messages off the terminal; what has gone wrong is raised all the same.

    Handlers of the application's own still hear them.
    """
    import pyomo.common.log  # noqa: F401  # has set up the handlers, once it is there

    for handler in logging.getLogger("pyomo").handlers:
        handler.addFilter(_SILENCE)  # no more than once
    token = _WRITING.set(True)
    try:
        yield
    finally:
        _WRITING.reset(token)
