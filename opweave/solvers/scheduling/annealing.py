"""Annealing rounds: how many chunks of a round fit into the time left."""

from __future__ import annotations

from opweave.solvers.run import Run

PACE = 1.5e-8
"""Assumed seconds to judge one operator or flow, before the first chunk is measured."""


def chunks_within(run: Run, chunks: int, seconds: float) -> int:
    """Number of chunks to run, of ``seconds`` each. Fewer fit when time is short: a round must still cool down."""
    left = run.remaining()
    return chunks if left is None else max(1, min(chunks, int(left / max(seconds, 1e-6))))
