"""Messages from the child process of an engine to its parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opweave.problems.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """What a child sends while it works: a solution, a lower bound, or both."""

    values: FloatArray | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """How an engine ended; ``reason`` is the engine's own word for it."""

    verdict: Literal["solved", "infeasible", "stopped", "failed"]
    values: FloatArray | None = None
    bound: float | None = None
    reason: str = ""
