"""Placement's solvers at work on a batch whose operators each run on one device, and on the way of a single input.

With one input, or if devices support only the whole batch, this is the problem itself, and placement's bounds hold.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from opweave.formulations.batched_mapping.instance import lower, one_input, single, unsplit, whole
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.solvers.placement.decompose import solve_decompose
from opweave.solvers.registry import find_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Algorithm

MOST_CELLS = 50_000
"""Largest operators x devices x devices for the bound by one input. The decomposition begins with a bound for every two
end devices of a module, which takes up to a second for every 3,000."""


def solve_unsplit(algorithm: Algorithm | None, problem: BatchedMapping, run: Run) -> Outcome:
    """Run a solver of placement, None for "auto", on a batch that cannot be split; report what it finds at once."""
    same = unsplit(problem)
    if same is None:
        return Outcome(Termination.COMPLETED, reason="some operator has no device that takes the whole batch")
    start = single(problem, run.best) if isinstance(run.best, BatchedSchedule) else None
    inner = run.child(gap=run.gap, start=start, lift=partial(whole, problem), exact=True)
    solve = algorithm or find_solver(same, "auto").run
    return solve(same, inner) or Outcome(run.termination())


def prove_one_input(problem: BatchedMapping, run: Run) -> None:
    """A bound by one input: its shortest placement, with every operator as short as in any batch.

    Proof: take any plan and any of its inputs. Its batches, each shortened to the least time of any batch on its
    device, and the transfers of its own data form a placement of the graph (transfer model "delay") that ends no later:
    no two of these batches overlap on a device, and several inputs never move faster than one. So the optimum of that
    placement bounds every plan, whatever the batch. It is strong when the inputs cannot fill all devices.
    """
    instance, best = lower(problem), Best(run)
    if instance.operators * len(instance.devices) ** 2 > MOST_CELLS:
        return
    least = instance.seconds[:, :, 1:].min(axis=2)
    inner = run.child(callback=lambda now: now.objective is not None and now.objective <= (run.bound or 0.0))
    solve_decompose(one_input(problem, np.where(np.isfinite(least), least, np.nan)), inner)
    best.report(float(inner.bound or 0.0), "one input")
