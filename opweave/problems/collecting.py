"""Python's garbage collector, paused while many objects are made at once that live on.

The collector looks at everything that lives whenever a share of it is new. Among the objects of a large model, it takes
longer than the work that it interrupts, and finds nothing to free.
"""

from __future__ import annotations

import gc
from typing import Self


class collector_paused:  # noqa: N801  (used like a function)
    """Collect no cycles meanwhile; nothing changes if the collector is off already.

    Examples
    --------
    >>> import gc
    >>> with collector_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """

    __slots__ = ("_running",)

    def __enter__(self) -> Self:
        self._running = gc.isenabled()
        try:
            gc.disable()
            return self
        except BaseException:  # an interruption
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:  # it makes no object itself, or the collector would begin here
        if self._running:
            gc.enable()
