"""Lower bounds: of the height of an arena, and of assignments to pools, beside good ones from the same programs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.linear import LinearProgram
from opweave.solvers.memory_layout.sections import Space, live_bytes
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Run
from opweave.solvers.tree import least_whole, whole_point

MOST_COLUMNS = 6_000
"""Most shares for which integer programs are solved."""

SEARCH_SHARE, BOUND_SHARE = 0.2, 0.4
"""Shares of the time left for a good assignment, and then for a bound."""

UNTIMED_NODES, UNTIMED_SECONDS = 2_000, 20.0
"""Limits of the engine's search without a time limit."""


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


def best_assignment(program: LinearProgram, whole: int, run: Run) -> FloatArray | None:
    """The best whole shares that an engine finds in a part of the time left; None if it finds none."""
    if whole > MOST_COLUMNS:
        return None
    run.enter("assignment to pools")
    left = run.remaining()
    seconds, nodes = (UNTIMED_SECONDS, UNTIMED_NODES) if left is None else (SEARCH_SHARE * left, 2**31 - 1)
    scaled, integral = _scaled(program)[0], np.arange(len(program.cost)) < whole
    options = {"mip_max_nodes": nodes, "random_seed": run.seed % 2**31}
    found = whole_point(scaled, integral, seconds, run.should_stop, **options)
    return None if found is None else found[:whole]


def prove_assignment(program: LinearProgram, whole: int, run: Run) -> float | None:
    """A lower bound of the program with whole shares, in a part of the time left; None if there is none."""
    left = run.remaining()
    if whole > MOST_COLUMNS or left is None or run.objective is None:
        return None
    run.enter("bound of the assignment")
    scaled, factor = _scaled(program)
    integral = np.arange(len(program.cost)) < whole
    ceiling = float(run.objective) * factor
    nothing = np.zeros(len(program.cost), dtype=bool)
    proof = least_whole(scaled, integral, nothing, ceiling, BOUND_SHARE * left, run.should_stop)
    return proof.bound / factor * (1.0 - SUMMATION) if math.isfinite(proof.bound) else None


def _scaled(program: LinearProgram) -> tuple[LinearProgram, float]:
    """The program with costs near 1, and the power of two they were multiplied by: engines have absolute tolerances."""
    largest = float(np.abs(program.cost).max(initial=0.0))
    factor = 2.0 ** (-math.frexp(largest)[1]) if largest > 0.0 else 1.0
    return replace(program, cost=program.cost * factor), factor
