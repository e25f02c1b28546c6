"""Python's garbage collector, paused while many objects are made at once that live on.

The collector looks at everything that lives whenever a share of it is new. Among the objects of a large model, it takes
longer than the work that it interrupts, and finds nothing to free.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
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
    running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:  # an interruption of the first line comes here, too
        if running:
            gc.enable()
