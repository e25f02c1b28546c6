"""``warm``: compile all loops in advance; it imports what it needs only when it is called."""

from __future__ import annotations

from opweave.problems.errors import InvalidInputError
from opweave.solvers.compiling.warmed import Warmed, Warming


def warm(jobs: int = 2, progress: Warming | None = None) -> Warmed:
    """Compile all loops of the solvers that are not compiled yet, for this user on this machine.

    Solvers also run without this. They then compile the loops that they need beside the solve, and are slower until
    then.

    Parameters
    ----------
    jobs
        Number of processes that compile side by side.
    progress
        Called in this thread with the number of loops that are done, and the number of all loops.

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
        raise InvalidInputError(f"jobs is {jobs}; it must be positive")
    from opweave.solvers.compiling.warm import compile_missing

    return compile_missing(jobs, progress)
