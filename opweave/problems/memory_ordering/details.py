"""What the referee of memory ordering measures: the live bytes at every step."""

from __future__ import annotations

from opweave.problems.solution import Details
from opweave.problems.spec import Many, Name


class MemoryProfile(Details):
    """Live bytes at every step of an order.

    Attributes
    ----------
    peak_bytes, peak_step, peak_operator
        The largest stable footprint, its first step, and the operator that runs then; None for a graph without
        operators.
    total_bytes
        Sum of the stable footprints over the steps.
    stable
        Live bytes while each operator runs: everything it reads and writes, its workspace, and tensors still needed
        later.
    transient
        Live bytes after each operator, once it has freed everything that is not needed any more.
    peak_tensors
        Storages that are live at the peak step, largest first.
    """

    peak_bytes: int
    peak_step: int | None
    peak_operator: str | None
    total_bytes: int
    stable: Many[int]
    transient: Many[int]
    peak_tensors: Many[Name]
