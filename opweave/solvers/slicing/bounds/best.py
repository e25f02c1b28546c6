"""The largest of all lower bounds of the latency, computed cheapest first and reported as they improve.

Measured on four different boards with 100 and 800 Mbit/s, latency / bound - 1: Inception-v3 16 % with 600 cells for
each operator (2 s), 12 % with 1,000 (11 s), and 3 % on fast links. ResNet50 has 6 % and 3 %, VGG16 3 % and 0.5 %,
MobileNetV2 36 % and 12 %. If an operator has several inputs, cells count the mean wait of its devices, not the largest.
"""

from __future__ import annotations

from opweave.formulations.slicing.instance import SUPPORTS, SlicingInstance, lower
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.bounds.blocks import blocks_of
from opweave.solvers.slicing.bounds.cut_boxes import by_position, cells_of
from opweave.solvers.slicing.bounds.instant import by_speed, instant
from opweave.solvers.slicing.plans import Lowered

MOST_DEVICES = 6
"""Number of devices up to which all their sets are examined; beyond it, there is only a bound by speeds."""

CELLS = (100, 200, 300, 450, 675, 1_000, 1_500, 2_250, 3_400)
"""Cells of an operator in successive steps."""

UNTIMED_STEPS = 5
"""Number of steps without a time limit; they take seconds on networks of a hundred operators."""

GROWTH = 3.0
"""Usual ratio of the times of successive steps, which is 2 to 4."""


def bounding(problem: Slicing, instance: SlicingInstance) -> SlicingInstance:
    """The instance for bounds; if the rule depends on an open order, it allows all dimensions.

    With every device's memory limited, the rule counts the free memory at each step, so another order may allow cuts
    that this one does not.
    """
    if problem.dimension == "free" or not instance.order_matters(problem):
        return instance
    return lower(problem.model_copy(update={"dimension": "free"}), instance.names)


def prove(instance: SlicingInstance, run: Run) -> None:
    """Report all bounds as far as time allows, the quickest first."""
    blocks = blocks_of(instance)
    run.enter("bounds")
    _report(run, float(by_speed(blocks).sum()), "speeds")
    if blocks.devices > MOST_DEVICES or run.should_stop():
        return
    alone = instant(blocks, run.should_stop)
    _report(run, float(alone.sum()), "operators one by one")
    left = run.remaining()
    run.enter("cells")
    known = 0
    for most in CELLS if left is not None else CELLS[:UNTIMED_STEPS]:
        if run.should_stop():
            return
        began = run.elapsed()
        cells = [cells_of(instance, v, most) for v in range(instance.operators) if not run.should_stop()]
        if len(cells) < instance.operators:
            return
        count = sum(len(each.mode) for each in cells)
        if count == known:
            continue
        known = count
        value = by_position(instance, cells, alone, run.should_stop)
        if value is None:
            return
        _report(run, value, "cuts by cells")
        seconds = run.elapsed() - began
        left = run.remaining()
        if left is not None and GROWTH * seconds > left:
            return


def _report(run: Run, value: float, source: str) -> None:
    safe = value * (1.0 - SUMMATION)
    known = run.objective
    if known is not None and known * (1.0 - 10.0 * SUMMATION) <= safe < known:
        safe = float(known)  # they differ by rounding only
    run.proved(max(0.0, safe), source)


@named_solver(
    Slicing,
    "bound",
    "lower bounds only: operators one by one, then cuts by cells",
    proves="bound",
    features=frozenset({Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_bound(problem: Slicing, run: Run, lowered: Lowered | None = None) -> Outcome:
    """Compute bounds only; solver "bound"."""
    prove(bounding(problem, (lowered or Lowered(problem)).instance(run)), run)
    return Outcome(run.termination())
