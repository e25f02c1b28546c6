"""The largest of the lower bounds, cheapest first, and its name."""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.words import counted
from opweave.solvers.batched_mapping.bounds.area import area, energetic
from opweave.solvers.batched_mapping.bounds.mean_flow import mean_passage
from opweave.solvers.batched_mapping.bounds.modules import Known, lbound
from opweave.solvers.batched_mapping.bounds.one_input import least_span
from opweave.solvers.batched_mapping.bounds.reach import Reach, critical_path
from opweave.solvers.batched_mapping.modules import CHANNELS, WIDE, Module, module_problem, modules_of
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run

LARGEST_SEARCHED = 24
SEARCH_NODES = 300_000
"""Most operators of a set that is searched for LBound, and most nodes of that search."""

MOST_WHOLE = 200
"""Most operators for mean passage if the batch is never split. On more it takes long, and placement's windows prove
more."""

LEAST_SECONDS = 0.01
"""Seconds for each module without which LBound is not begun: if it is cut short, it proves nothing."""


def quick_bounds(instance: BatchedInstance, reach: Reach, run: Run) -> Best:
    """Critical path, area and energetic bound: a second or two at most, whatever the size.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no way to run, which makes its path infinite.
    """
    best = Best(run)
    if not instance.operators:
        best.report(0.0, "critical path")
        return best
    run.enter("bounds")
    path = critical_path(reach)
    if not np.isfinite(path):
        raise ContradictionError(_severed(instance, reach))
    best.report(path, "critical path with batches")
    whole = area(instance.seconds, np.zeros(len(instance.devices)), instance.granules)
    best.report(whole.value, "area")
    if run.should_stop():
        return best
    best.report(energetic(instance, reach, whole.price, max(best.value, 0.0), run.should_stop), "energetic")
    return best


def _severed(instance: BatchedInstance, reach: Reach) -> str:
    """A sentence that names an operator on no path of finite length."""
    through = (reach.heads + reach.seconds + reach.tails)[:, :, 1].min(axis=1)
    stuck = np.flatnonzero(~np.isfinite(through))
    if len(stuck):
        return (
            f"operator {instance.names[stuck[0]]!r} cannot run anywhere: no links join the devices that it and the "
            "operators around it may run on"
        )
    return "batch sizes and links together leave no way to send the whole batch through every operator"


def module_bounds(problem: BatchedMapping, instance: BatchedInstance, best: Best, run: Run) -> None:
    """Mean passage and LBound. That comes first if the batch is never split, because it then proves more."""
    whole = instance.granules == 1
    if whole:
        _lbounds(problem, instance, best, run)
    if not run.should_stop() and not (whole and instance.operators > MOST_WHOLE):
        _mean_passage(instance, best, run)
    if not whole and not run.should_stop():
        _lbounds(problem, instance, best, run)


def _mean_passage(instance: BatchedInstance, best: Best, run: Run) -> None:
    run.enter("mean passage")
    cuts = [modules_of(instance, channels) for channels in range(1, CHANNELS + 1)]
    ceiling = np.inf if run.objective is None else float(run.objective)
    best.report(mean_passage(instance, cuts, best.value, run.remaining(), ceiling), "mean passage")


def _lbounds(problem: BatchedMapping, instance: BatchedInstance, best: Best, run: Run) -> None:
    """LBound over modules with one or more channels, smallest modules first."""
    run.enter("bounds by modules")
    known = searched(problem, instance, run) if instance.granules == 1 else nothing_known
    wide = [(channels, modules_of(instance, channels, least=WIDE)) for channels in range(1, CHANNELS + 1)]
    tried: set[tuple[int, ...]] = set()
    for channels, modules in sorted(wide, key=lambda pair: max(len(module.operators) for module in pair[1])):
        sizes = tuple(len(module.operators) for module in modules)
        left = run.remaining()
        if sizes not in tried and (left is None or left > LEAST_SECONDS * len(modules)) and not run.should_stop():
            best.report(lbound(instance, modules, known, run.should_stop), f"LBound ({counted(channels, 'channel')})")
        tried.add(sizes)


def searched(problem: BatchedMapping, instance: BatchedInstance, run: Run) -> Known:
    """A function that bounds one granule's time through a set of operators by search; each set is searched once."""
    found: dict[bytes, float] = {}
    nothing = np.zeros(0, dtype=np.int64)
    rank = np.argsort(np.argsort(instance.order))

    def known(operators: IntArray) -> float:
        members = np.sort(operators)
        key = members.tobytes()
        if key not in found:
            found[key] = 0.0
            if len(members) <= LARGEST_SEARCHED and not problem.constraints and not run.should_stop():
                alone = Module(members[np.argsort(rank[members])], nothing, nothing)
                found[key] = least_span(module_problem(problem, instance, alone, None, None).problem, SEARCH_NODES, run)
        return found[key]

    return known


def nothing_known(_operators: IntArray) -> float:
    """The trivial bound 0 for every set of operators."""
    return 0.0
