"""Rounds of annealing: how many chunks of one there is time for."""

from __future__ import annotations

from opweave.solvers.run import Run

PACE = 1.5e-8
"""Seconds for an operator or flow that is judged, before the first chunk is measured."""


def chunks_within(run: Run, chunks: int, seconds: float) -> int:
    """Chunks of a round, of so many seconds each: fewer where there is no time for all, for a hot plan is of no use."""
    left = run.remaining()
    return chunks if left is None else max(1, min(chunks, int(left / max(seconds, 1e-6))))
