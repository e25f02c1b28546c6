"""A bound by one input: the shortest placement of a single one, each operator as short as in any batch.

Proof: take any plan and any of its inputs. The batches that it is in, each shortened to the least time of any batch on
its device, and the way of its own data between them are a placement of the graph (transfer model "delay") that ends no
later: no two of these batches overlap on a device, and more inputs never move faster than one. So the optimum of that
placement bounds every plan, whatever the batch. Placement's decomposition at cut vertices finds it, or a bound on it.

It is what decides where there are more devices than the inputs can fill; where devices are short, area does.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.unsplit import one_input
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Progress, Run

MOST_CELLS = 50_000
"""Most operators x devices x devices: the decomposition begins with a bound for every two end devices of a module,
which takes up to a second for every 3,000."""


RULES = ("one_device", "heft", "cpop", "peft")
"""Rules of placement that give the first plan for one input."""


def shortest_way(problem: BatchedMapping, instance: BatchedInstance, known: float, run: Run) -> float:
    """The bound, in seconds; ``known`` where it cannot be more.

    Parameters
    ----------
    problem, instance
        The problem in its two forms.
    known
        A lower bound that this one has to beat; nothing is searched where a list schedule of one input shows that it
        cannot, nor beyond :data:`MOST_CELLS`.
    run
        Only for the seed and the time.
    """
    if not instance.operators or instance.operators * len(instance.devices) ** 2 > MOST_CELLS:
        return known
    least = instance.seconds[:, :, 1:].min(axis=2)
    relaxed = one_input(problem, np.where(np.isfinite(least), least, np.nan))
    scout = Run()
    for rule in RULES:
        go_on_with(relaxed, rule, scout)
    first, ends = scout.best, scout.objective
    if first is None or ends is None or ends <= known:
        return known

    def needless(now: Progress) -> bool:
        return run.should_stop() or (now.objective is not None and now.objective <= known)

    inner = Run(time_limit=run.remaining(), seed=run.seed, callback=needless)
    inner.found(first, ends)
    go_on_with(relaxed, "decompose", inner)
    return known if inner.bound is None else max(known, float(inner.bound))
