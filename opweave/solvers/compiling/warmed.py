"""What compiling all loops in advance tells: how far it is, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Warming = Callable[[int, int], None]
"""Called with the number of loops that are done, and the number of all loops."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What :func:`~opweave.solvers.warming.warm` did.

    Attributes
    ----------
    compiled
        Loops that this call compiled, as ``module:function``.
    ready
        Number of loops that had been compiled before.
    failed
        Loops that could not be compiled; they run uncompiled, with the same results.
    seconds
        Wall-clock time.
    folder
        Folder of the compiled code.
    """

    compiled: tuple[str, ...]
    ready: int
    failed: tuple[str, ...]
    seconds: float
    folder: str
