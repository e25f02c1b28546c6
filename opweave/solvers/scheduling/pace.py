"""How much work fits into the time that is left."""

from __future__ import annotations

from opweave.solvers.run import Run

PACE = 1.5e-8
"""Assumed seconds to judge one operator or flow, before the first chunk is measured."""


def chunks_within(run: Run, chunks: int, seconds: float) -> int:
    """How many chunks of an annealing round to run, if a chunk takes ``seconds``.

    Fewer fit when time is short, because a round must still cool down.
    """
    left = run.remaining()
    return chunks if left is None else max(1, min(chunks, int(left / max(seconds, 1e-6))))
