"""Placement's solvers at work on a batch whose operators each run on one device, and on the way of a single input.

With one input, or if devices support only the whole batch, this is the problem itself, and placement's bounds hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.unsplit import one_input, single, unsplit, whole
from opweave.formulations.reduction import Reduction
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.solvers.reduced import ReducedRun
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Outcome, Progress, Run

MOST_CELLS = 50_000
"""Largest operators x devices x devices for the bound by one input. The decomposition begins with a bound for every two
end devices of a module, which takes up to a second for every 3,000."""


def never_splits(instance: BatchedInstance) -> bool:
    """Whether the batch cannot be split at all."""
    return instance.granules == 1


def solve_unsplit(problem: BatchedMapping, run: Run, solver: Callable[[Any, Run], Outcome]) -> Outcome:
    """Run a solver of placement on a batch that cannot be split; report its plans and bounds as they are found."""
    same = unsplit(problem)
    if same is None:
        return Outcome(Termination.COMPLETED, reason="some operator has no device that takes the whole batch")
    first = single(problem, run.best) if isinstance(run.best, BatchedSchedule) else None
    reduction: Reduction[Any, Any] = Reduction(problem=same, lift=partial(whole, problem), exact=True)
    inner = ReducedRun(
        time_limit=run.remaining(),
        gap=run.gap,
        seed=run.seed,
        start=first,
        callback=lambda _: run.should_stop(),
        outer=run,
        reduction=reduction,
    )
    if first is not None and run.objective is not None:
        inner.found(first, run.objective)
    outcome = solver(same, inner)
    termination = run.termination() if outcome.termination is Termination.INTERRUPTED else outcome.termination
    return replace(outcome, termination=termination)


def shortest_way(problem: BatchedMapping, instance: BatchedInstance, known: float, run: Run) -> float:
    """A bound by one input: its shortest placement, with every operator as short as in any batch.

    Proof: take any plan and any of its inputs. Its batches, each shortened to the least time of any batch on its
    device, and the transfers of its own data form a placement of the graph (transfer model "delay") that ends no later:
    no two of these batches overlap on a device, and several inputs never move faster than one. So the optimum of that
    placement bounds every plan, whatever the batch. It is strong when the inputs cannot fill all devices.

    Parameters
    ----------
    known
        A lower bound that this one has to beat; it is returned when a list schedule of one input shows that it cannot.
    run
        Gives only the seed and the time.
    """
    if instance.operators * len(instance.devices) ** 2 > MOST_CELLS:
        return known
    least = instance.seconds[:, :, 1:].min(axis=2)
    relaxed = one_input(problem, np.where(np.isfinite(least), least, np.nan))

    def needless(now: Progress) -> bool:
        return run.should_stop() or (now.objective is not None and now.objective <= known)

    inner = Run(time_limit=run.remaining(), seed=run.seed, callback=needless)
    for solver in ("heft", "decompose"):
        if not inner.should_stop():
            go_on_with(relaxed, solver, inner)
    return known if inner.bound is None else max(known, float(inner.bound))
