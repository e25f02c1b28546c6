"""Lower bounds: of the height of an arena, and of assignments to pools."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opweave.solvers.linear import LinearProgram
from opweave.solvers.memory_layout.sections import Space, live_bytes
from opweave.solvers.tree import Proof, least_whole

MOST_COLUMNS = 6_000
"""Most shares for which integer programs are solved."""


def height_bound(space: Space) -> int:
    """No layout is lower: live bytes, with what alignment wastes, and the tops of storages with given offsets.

    Storages whose offsets are multiples of a number lie upon each other in whole multiples of it, except for the
    highest one. If all have one alignment, the storages of a single moment can be stacked in no more than this; to say
    more, storages of several moments must be looked at, as the searches do.
    """
    highest = int((space.fixed + space.size)[space.fixed >= 0].max(initial=0))
    for step in np.unique(space.alignment).tolist():
        chosen = space.alignment >= step
        first, after, size = space.first[chosen], space.after[chosen], space.size[chosen]
        padded = (size + step - 1) // step * step
        live = live_bytes(padded, first, after, space.sections)
        if not len(live):
            continue
        if step == 1:
            highest = max(highest, int(live.max()))
            continue
        spare = np.zeros(space.sections, dtype=np.int64)
        for start, end, bytes_spare in zip(first.tolist(), after.tolist(), (padded - size).tolist(), strict=True):
            spare[start:end] = np.maximum(spare[start:end], bytes_spare)
        highest = max(highest, int((live - spare).max()))
    return highest


def whole_bound(
    program: LinearProgram, whole: int, ceiling: float, seconds: float, should_stop: Callable[[], bool]
) -> Proof | None:
    """A lower bound of a program whose first columns are whole, up to a ceiling; None if there are too many of them."""
    if whole > MOST_COLUMNS:
        return None
    scaled, factor = _scaled(program)
    integral = np.arange(len(program.cost)) < whole
    proof = least_whole(scaled, integral, np.zeros_like(integral), ceiling * factor, seconds, should_stop)
    return proof._replace(bound=proof.bound / factor)


def _scaled(program: LinearProgram) -> tuple[LinearProgram, float]:
    """The program with costs near 1, and the power of two they were multiplied by: engines have absolute tolerances."""
    largest = float(np.abs(program.cost).max(initial=0.0))
    factor = 2.0 ** (-math.frexp(largest)[1]) if largest > 0.0 else 1.0
    return replace(program, cost=program.cost * factor), factor
