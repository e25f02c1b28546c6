"""A bound by one input: its shortest placement, with every operator as short as in any batch.

Proof: take any plan and any of its inputs. Its batches, each shortened to the least time of any batch on its device,
and the transfers of its own data form a placement of the graph (transfer model "delay") that ends no later: no two of
these batches overlap on a device, and several inputs never move faster than one. So the optimum of that placement
bounds every plan, whatever the batch. Placement's decomposition at cut vertices finds this optimum or a bound of it.

This bound is strong when the inputs cannot fill all devices; when devices are scarce, the area bound is.

Source of the bound of a few operators by themselves: Ghannane and Abdelfattah, "DiviML", section IV-B2.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.unsplit import one_input, unsplit
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Progress, Run

MOST_CELLS = 50_000
"""Largest operators x devices x devices. The decomposition begins with a bound for every two end devices of a module,
which takes up to a second for every 3,000."""


RULES = ("one_device", "heft", "cpop", "peft")
"""Rules of placement that build the first plan for one input."""


def shortest_way(problem: BatchedMapping, instance: BatchedInstance, known: float, run: Run) -> float:
    """The bound, in seconds; ``known`` when it cannot be more.

    Parameters
    ----------
    problem, instance
        The problem and its instance.
    known
        A lower bound that this one has to beat. There is no search when a list schedule of one input shows that it
        cannot, nor beyond :data:`MOST_CELLS`.
    run
        Gives only the seed and the time.
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


def least_span(problem: BatchedMapping, nodes: int, run: Run) -> float:
    """The length of the shortest unsplit plan, or a lower bound of it, in seconds: DiviML's OPT(M).

    If OPT is not solved to the end, its lower bound takes its place; otherwise bounds built on it would be wrong.

    Parameters
    ----------
    nodes
        Most nodes of the search, so that every machine gives the same result.
    run
        Gives only the time.
    """
    same = unsplit(problem)
    if same is None:
        return 0.0
    inner = Run(time_limit=run.remaining(), callback=lambda _: run.should_stop())
    try:
        go_on_with(same, "search", inner, nodes=nodes)
    except ContradictionError:
        return 0.0  # there is no unsplit plan; that is proved elsewhere
    return float(inner.bound or 0.0)
