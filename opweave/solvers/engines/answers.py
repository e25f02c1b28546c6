"""What goes between an engine and the solve: the work, the news while it lasts, and the answer.

This module is kept light, because every child process of an engine imports it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from opweave.problems.arrays import FloatArray

LEAST_SECONDS = 0.1
"""Engines read a limit of 0 as no limit, so at least this many seconds are left."""


Verdict = Literal["solved", "infeasible", "stopped", "failed"]
"""How an engine ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A program to solve.

    Attributes
    ----------
    engine
        Name of the engine.
    program
        A ``MatrixModel``, or for CP-SAT a ``WholeProgram``.
    start
        Values by column, NaN where unknown; None without a start.
    seconds
        Time limit, counted from ``began``, so that it includes the start of a process and its imports; None for no
        limit.
    gap
        Relative gap at which the engine may stop.
    strategies
        Number of search strategies that take turns on CP-SAT's cores.
    """

    engine: str
    program: Any
    start: FloatArray | None = None
    seconds: float | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    strategies: int = 1
    began: float = field(default_factory=time.time)

    def left(self) -> float | None:
        """The remaining seconds, at least :data:`LEAST_SECONDS`; None without a limit."""
        return None if self.seconds is None else max(LEAST_SECONDS, self.began + self.seconds - time.time())


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """What an engine sends while it works: a solution, a lower bound, or both."""

    values: FloatArray | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """How an engine ended; ``reason`` is the engine's own word for it."""

    verdict: Verdict
    values: FloatArray | None = None
    bound: float | None = None
    reason: str = ""
