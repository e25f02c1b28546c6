"""What goes between an engine and the solve: the work, the news while it lasts, and the answer.

This module is kept light, because every child process of an engine imports it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from opweave.problems.arrays import FloatArray

if TYPE_CHECKING:
    from opweave.formulations.modeling.arrays import MatrixModel

LEAST_SECONDS = 0.1
"""Engines read a limit of 0 as no limit, so at least this many seconds are left."""


Verdict = Literal["solved", "infeasible", "stopped", "failed"]
"""How an engine ended."""


def seconds_left(seconds: float | None, began: float) -> float | None:
    """What is left of a time limit that began at a moment of ``time.time()``, at least :data:`LEAST_SECONDS`."""
    return None if seconds is None else max(LEAST_SECONDS, began + seconds - time.time())


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A linear program to solve.

    Attributes
    ----------
    engine
        Name of the engine.
    start
        Values by column, NaN where unknown; None without a start.
    seconds
        Time limit, counted from ``began``, so that it includes the start of a process; None for no limit.
    """

    engine: str
    matrix: MatrixModel
    start: FloatArray | None
    seconds: float | None
    gap: float
    seed: int
    threads: int
    began: float = field(default_factory=time.time)

    def left(self) -> float | None:
        """The remaining seconds; None without a limit."""
        return seconds_left(self.seconds, self.began)


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """What an engine sends while it works: a solution, a lower bound, or both."""

    values: FloatArray | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """How an engine ended; ``reason`` is the engine's own word for it."""

    verdict: Verdict
    values: FloatArray | None = None
    bound: float | None = None
    reason: str = ""
