"""The largest of all lower bounds on the latency, cheapest first, reported as they come.

Measured on four unlike boards with 100 and 800 Mbit/s, 60 s of "auto", latency / bound - 1: VGG16 2.9 % and 0.3 %,
ResNet50 6.6 % and 1.5 %, Inception-v3 30 % and 5.3 %. What is left open on Inception-v3 with slow links is not a matter
of contradicting device sets alone: weights for pairs of sets along every edge, each with its own least time, leave the
bound as it is to six digits, at four times the cost.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.slicing.instance import SlicingInstance, lower_unless_short
from opweave.problems.slicing import Slicing
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.bounds.blocks import Blocks, blocks_of
from opweave.solvers.slicing.bounds.instant import instant
from opweave.solvers.slicing.bounds.program import relax
from opweave.solvers.slicing.order import running_order

ROUNDING = 1e-9
"""Relative allowance for sums in floating point."""

TOLERANCE = 1e-6
"""Relative allowance for the linear program: an interior-point method's."""

MOST_DEVICES = 6
"""Up to this many devices all their sets are looked at; beyond, a bound by speeds alone is all there is."""

MOST_COLUMNS = 400_000
"""Largest linear program."""


def prove(instance: SlicingInstance, run: Run) -> None:
    """Report all bounds as far as the time allows."""
    blocks = blocks_of(instance)
    run.enter("bounds")
    _report(run, _by_speed(blocks), ROUNDING, "speeds")
    if blocks.devices > MOST_DEVICES or run.should_stop():
        return
    _report(run, float(instant(blocks).sum()), ROUNDING, "operators one by one")
    columns = 2**blocks.devices * (2 + 2 * blocks.devices) * (blocks.operators + len(blocks.producer)) // 2
    if columns > MOST_COLUMNS or run.should_stop():
        return
    run.enter("linear program")
    relaxed = relax(blocks, run.remaining())
    if relaxed is not None:
        _report(run, relaxed.value, TOLERANCE, "linear program over device sets")


def _report(run: Run, value: float, allowance: float, source: str) -> None:
    safe = value * (1.0 - allowance)
    known = run.objective
    if known is not None and known * (1.0 - 10.0 * ROUNDING) <= safe:
        safe = float(known)  # they differ by rounding only
    run.proved(max(0.0, safe), source)


def _by_speed(blocks: Blocks) -> float:
    """All devices together, nothing sent, no intercepts: 1 / sum of 1 / seconds, or the fastest device's seconds."""
    speed = np.where(blocks.most > 0.0, 1.0 / np.maximum(blocks.slope, 1e-30), 0.0).sum(axis=1)
    instant_device = ((blocks.slope <= 0.0) & (blocks.most > 0.0)).any(axis=1)
    return float(np.where(instant_device | (speed <= 0.0), 0.0, 1.0 / np.maximum(speed, 1e-30)).sum())


def solve_bound(problem: Slicing, run: Run) -> Outcome:
    """Bounds only; solver "bound"."""
    prove(lower_unless_short(problem, running_order(problem, run)), run)
    return Outcome(run.termination())


register(
    Solver(
        name="bound",
        problem=Slicing.kind,
        kind="algorithm",
        run=solve_bound,
        about="lower bounds only: operators one by one, then the linear program over device sets",
        proves="bound",
        features=frozenset({Feature.CALLBACK}),
        targets=("cuts", "order_arcs"),
    )
)
