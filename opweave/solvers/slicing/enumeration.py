"""Every plan of a tiny problem, judged: the best one in any reading, and a proof where there is none.

Only operators' own cuts are enumerated, in one order. Where the order is open and decides what fits, the best plan
found is one of that order, and nothing is proved.
"""

from __future__ import annotations

from math import prod

import numpy as np

from opweave.formulations.slicing.instance import SlicingInstance
from opweave.problems.graph_arrays import IntArray
from opweave.problems.slicing import Slicing
from opweave.problems.slicing_shortage import rules_in_the_way
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.chain import states_of
from opweave.solvers.slicing.local import LocalSearch
from opweave.solvers.slicing.net import is_limited, judge
from opweave.solvers.slicing.plans import Plan

MOST_PLANS = 5_000
MOST_STEPS = 20_000
"""Plans times operators: beyond, bounds and the integer program are faster."""

BATCH = 2_000
"""Plans that are judged at a time, between which the clock is looked at."""


def every_plan(problem: Slicing, search: LocalSearch, run: Run) -> Outcome | None:
    """Judge all plans of a tiny problem; None where there are too many, or where they prove nothing."""
    instance = search.instance
    if count_of(instance) > MOST_PLANS or count_of(instance) * instance.operators > MOST_STEPS:
        return None
    run.enter("all plans")
    ways = [_allowed_ways(instance, v) for v in range(instance.first, instance.first + len(instance.names))]
    count = prod(len(modes) for modes, _ in ways)
    mode, cuts = np.zeros(instance.operators, dtype=np.int64), instance.blank_cuts()
    for start in range(0, count, BATCH):
        if run.should_stop():
            return None
        batch = np.arange(start, min(count, start + BATCH))
        all_modes, all_cuts = np.repeat(mode[None], len(batch), axis=0), np.repeat(cuts[None], len(batch), axis=0)
        for v, (modes, places) in enumerate(ways, start=instance.first):
            batch, chosen = np.divmod(batch, len(modes))
            all_modes[:, v], all_cuts[:, v] = modes[chosen], places[chosen]
        found = judge(search.net, all_modes, all_cuts, memory=is_limited(search.net))
        i = int(np.lexsort((found.seconds, found.excess))[0])
        search.consider(Plan(all_modes[i], all_cuts[i], float(found.seconds[i]), float(found.excess[i])))
    if instance.order_matters(problem):
        return None
    if run.objective is None:
        return Outcome(infeasible=True, reason=f"no cuts respect {rules_in_the_way(problem)}")
    run.proved(run.objective, "all plans")
    return Outcome(run.termination())


def count_of(instance: SlicingInstance) -> float:
    """At most so many plans; a float, as it may be endless."""
    inner = len(instance.devices) - 1
    plans = 1.0
    for v in range(instance.first, instance.first + len(instance.names)):
        lengths = instance.length[v][instance.length[v] > 0].astype(np.float64)
        plans *= sum(float(np.prod((length + np.arange(1, inner + 1)) / np.arange(1, inner + 1))) for length in lengths)
        if plans > MOST_PLANS:
            break
    return plans


def _allowed_ways(instance: SlicingInstance, v: int) -> tuple[IntArray, IntArray]:
    """Modes and cuts of an operator that give a part to nobody who may not run it."""
    modes, cuts = states_of(instance, v, int(instance.length[v].max()))
    allowed = (np.isfinite(instance.intercept[v]) | (np.diff(cuts, axis=1) == 0)).all(axis=1)
    return modes[allowed], cuts[allowed]
