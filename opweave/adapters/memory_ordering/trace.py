"""An order as a Chrome trace: one block for each step, and the live bytes as a counter."""

from __future__ import annotations

from opweave.adapters.trace import Trace
from opweave.problems.memory_ordering import MemoryOrdering, MemoryProfile, Ordering

STEP = 1000.0
"""Width of a step in the trace, in microseconds; the problem knows no times."""

BUSY = 800.0
"""The part of a step in which its operator runs; what is left shows the bytes between two steps."""


def trace_json(problem: MemoryOrdering, ordering: Ordering, profile: MemoryProfile) -> dict[str, object]:
    """Draw an order as a trace; ``profile`` is the order's.

    The counter track "live bytes" shows the stable footprint while an operator runs and the transient footprint after
    it; every block carries both.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    kinds = {op.id: op.kind for op in problem.graph.operators}
    trace = Trace(f"opweave: {problem.graph.name}")
    for step, name in enumerate(ordering.order):
        stable, transient = profile.stable[step], profile.transient[step]
        details = {"step": step, "kind": kinds[name], "stable_bytes": stable, "transient_bytes": transient}
        trace.block(name, "operators", start=step * STEP, duration=BUSY, details=details)
        trace.counter("live bytes", step * STEP, {"live": stable})
        trace.counter("live bytes", step * STEP + BUSY, {"live": transient})
    return trace.to_json()
