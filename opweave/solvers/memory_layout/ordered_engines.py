"""Engines that run a formulation of order and offsets together, with the searches' plan and bound as a head start."""

from __future__ import annotations

from contextlib import suppress

from opweave.formulations.ordered_layout import program  # noqa: F401 - it registers itself
from opweave.problems.errors import InfeasibleError
from opweave.problems.ordered_layout import OrderedLayout, OrderedOffsets
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.memory_layout.ordered import Joint
from opweave.solvers.run import Run

SHARE, SECONDS = 0.25, 2.0
"""For the order with the least peak: share of the time left, and seconds at most."""


def searched(run: Run) -> HeadStart:
    """The offsets of an order with the least peak, and the bound of that peak; both without rules."""
    left = run.remaining()
    seconds = SECONDS if left is None else min(SECONDS, SHARE * left)
    scout = Run(time_limit=max(1e-3, seconds), seed=run.seed)

    def initial(problem: OrderedLayout) -> OrderedOffsets | None:
        with suppress(InfeasibleError):
            Joint(problem.model_copy(update={"constraints": ()}), scout).first()
        return scout.best if isinstance(scout.best, OrderedOffsets) else None

    return HeadStart(initial, lambda _: scout.bound)


KNOWN_BEFORE = HeadStart(within=searched)

register_engines(OrderedLayout, "which operator runs first, and which storage is below the other", KNOWN_BEFORE)
register_cp_sat(OrderedLayout, "the same in whole units", KNOWN_BEFORE)
