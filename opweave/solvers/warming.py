"""``warm``: compile all loops in advance; nothing is imported for that before it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opweave.problems.errors import InvalidInputError

Warming = Callable[[int, int], None]
"""Told the number of loops that are done, and of all."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """What :func:`warm` has done.

    Attributes
    ----------
    compiled
        Loops that were compiled now, as ``module:function``.
    ready
        How many had been compiled before.
    failed
        Loops that could not be compiled; they run uncompiled, with the same results.
    seconds
        Wall-clock time.
    folder
        Where the compiled code is kept.
    """

    compiled: tuple[str, ...]
    ready: int
    failed: tuple[str, ...]
    seconds: float
    folder: str


def warm(jobs: int = 2, progress: Warming | None = None) -> Warmed:
    """Compile all loops of the solvers that are not compiled yet, for this user on this machine.

    Solvers run without this, too: they compile beside the work what they need, and are slower meanwhile.

    Parameters
    ----------
    jobs
        Processes that compile side by side.
    progress
        Told the number of loops that are done, and of all; called in this thread.

    Raises
    ------
    InvalidInputError
        When ``jobs`` is not positive.

    Examples
    --------
    >>> import opweave as ow
    >>> ow.warm().failed  # doctest: +SKIP
    ()
    """
    if jobs < 1:
        raise InvalidInputError(f"jobs is {jobs}; it takes a positive number")
    from opweave.solvers.compiling.warm import compile_missing

    return compile_missing(jobs, progress)
