"""Runs in a child process: many models for the price of one start."""

from __future__ import annotations

from typing import Any

from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import solve


def solve_all(works: list[Any], send: Send) -> list[Any]:
    """Solve one after the other."""
    return [solve(work, lambda _: None) for work in works]
