"""The largest of all lower bounds on the latency, cheapest first, reported as they come.

Measured on four unlike boards with 100 and 800 Mbit/s, latency / bound - 1: Inception-v3 16 % with 600 cells for each
operator (2 s), 12 % with 1,000 (11 s), and 3 % on fast links; the linear program alone leaves 30 % and 5 % there,
because a pool that is cut along its channels, or kept on one device, seems to need nothing from others. ResNet50 6 %
and 1.5 %, VGG16 3 % and 0.3 %. MobileNetV2 is left with 36 % and 12 %. The linear program is the better bound where
layers have many rows and halos are small; both are tried. Where an operator has several inputs, cells count the mean
of what its devices wait for, not the most.
"""

from __future__ import annotations

import logging
from time import perf_counter

import numpy as np

from opweave.formulations.slicing.instance import SlicingInstance, lower, lower_unless_short
from opweave.problems.arrays import FloatArray
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.bounds.blocks import Blocks, blocks_of
from opweave.solvers.slicing.bounds.cut_boxes import cells_of
from opweave.solvers.slicing.bounds.instant import instant
from opweave.solvers.slicing.bounds.positions import by_position
from opweave.solvers.slicing.bounds.program import relax
from opweave.solvers.slicing.order import running_order

MOST_DEVICES = 6
"""Up to this many devices all their sets are looked at; beyond, a bound by speeds alone is all there is."""

MOST_COLUMNS = 400_000
"""Largest linear program."""

CELLS = (100, 200, 300, 450, 675, 1_000, 1_500, 2_250, 3_400)
"""Cells of an operator, step by step."""

FIRST_STEPS = 5
"""So many steps come before a linear program of more than ``FEW_COLUMNS``; the others only if there is a time limit."""

FEW_COLUMNS = 10_000
LEAST_SECONDS = 2.0
"""Cells are left alone where less time is left: loading their loops alone takes about one."""

GROWTH = 4.0
"""A step takes up to so many times as long as the one before."""

logger = logging.getLogger("opweave")


def bounding(problem: Slicing, instance: SlicingInstance) -> SlicingInstance:
    """The instance to prove bounds on: where the rule depends on an open order, that of all dimensions.

    With every device's memory limited, the rule counts what is free at each step, so another order may allow cuts that
    this one does not.
    """
    if problem.dimension == "free" or not instance.order_matters(problem):
        return instance
    return lower(problem.model_copy(update={"dimension": "free"}), instance.names)


def prove(instance: SlicingInstance, run: Run, steps: int) -> None:
    """Report all bounds as far as the time allows; cells in so many steps at most."""
    blocks = blocks_of(instance)
    run.enter("bounds")
    _report(run, _by_speed(blocks), SUMMATION, "speeds")
    if blocks.devices > MOST_DEVICES or run.should_stop():
        return
    alone = instant(blocks, run.should_stop)
    _report(run, float(alone.sum()), SUMMATION, "operators one by one")
    first = 0 if _columns(blocks) <= FEW_COLUMNS else FIRST_STEPS
    _by_cells(instance, alone, run, CELLS[: min(first, steps)])
    _by_program(blocks, run)
    _by_cells(instance, alone, run, CELLS[first:steps])


def _columns(blocks: Blocks) -> int:
    """About how many columns the linear program has."""
    return int(2**blocks.devices * (2 + 2 * blocks.devices) * (blocks.operators + len(blocks.producer)) // 2)


def _by_program(blocks: Blocks, run: Run) -> None:
    """The linear program, where it is not too large."""
    if _columns(blocks) > MOST_COLUMNS or run.should_stop():
        return
    run.enter("linear program")
    value = relax(blocks, run.remaining())
    if value is not None:
        _report(run, value, SUMMATION, "linear program over device sets")


def cell_steps(run: Run) -> int:
    """How fine cells may get: without a time limit, as fine as seconds allow on networks of a hundred operators."""
    return FIRST_STEPS if run.time_limit is None else len(CELLS)


def _by_cells(instance: SlicingInstance, alone: FloatArray, run: Run, steps: tuple[int, ...]) -> None:
    """Finer and finer cells, while the next step has a chance to end in time."""
    left = run.remaining()
    if left is not None and left < LEAST_SECONDS:
        return
    run.enter("cells")
    known = 0
    for most in steps:
        if run.should_stop():
            return
        began = perf_counter()
        cells = [cells_of(instance, v, most) for v in range(instance.operators)]
        count = sum(len(each.mode) for each in cells)
        if count == known:
            continue
        known, value = count, by_position(instance, cells, alone, run.should_stop, run.halt)
        if value is None:
            return
        _report(run, value, SUMMATION, "cuts by cells")
        seconds, left = perf_counter() - began, run.remaining()
        logger.debug("%d cells: bound %g s after %.1f s", count, value, seconds)
        if left is not None and GROWTH * seconds > left:
            return


def _report(run: Run, value: float, allowance: float, source: str) -> None:
    safe = value * (1.0 - allowance)
    known = run.objective
    if known is not None and known * (1.0 - 10.0 * SUMMATION) <= safe < known:
        safe = float(known)  # they differ by rounding only
    run.proved(max(0.0, safe), source)


def _by_speed(blocks: Blocks) -> float:
    """All devices together, nothing sent, no intercepts: 1 / sum of 1 / seconds, or the fastest device's seconds."""
    speed = np.where(blocks.most > 0.0, 1.0 / np.maximum(blocks.slope, 1e-30), 0.0).sum(axis=1)
    instant_device = ((blocks.slope <= 0.0) & (blocks.most > 0.0)).any(axis=1)
    return float(np.where(instant_device | (speed <= 0.0), 0.0, 1.0 / np.maximum(speed, 1e-30)).sum())


def solve_bound(problem: Slicing, run: Run) -> Outcome:
    """Bounds only; solver "bound"."""
    instance = lower_unless_short(problem, running_order(problem, run))
    prove(bounding(problem, instance), run, cell_steps(run))
    return Outcome(run.termination())


register(
    Solver(
        name="bound",
        problem=Slicing.kind,
        kind="algorithm",
        run=solve_bound,
        about="lower bounds only: operators one by one, the linear program over device sets, then cuts by cells",
        proves="bound",
        features=frozenset({Feature.CALLBACK}),
        supports=("cuts", "order_arcs"),
    )
)
