"""Every plan of a tiny problem is judged in every relevant order, which gives the best plan with a proof.

The cuts of operators are enumerated. If the order is open and decides which plans fit, all orders are enumerated, too.
If there are too many orders, the best plan of a single order is found, and nothing is proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from opweave.formulations.order_arcs import with_order_arcs
from opweave.formulations.slicing.instance import SlicingInstance, lower
from opweave.formulations.slicing.shortage import rules_in_the_way
from opweave.problems.arrays import IntArray
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.arrays import arrays_of, is_limited, judge
from opweave.solvers.slicing.chain import states_of
from opweave.solvers.slicing.local import LocalSearch
from opweave.solvers.slicing.plans import Plan

MOST_PLANS = 100_000
"""Most plans in all orders together."""

MOST_STEPS = 500_000
"""Largest plans times operators; beyond it, bounds and the integer program are faster."""

BATCH = 2_000
"""Plans judged between two checks of the time."""


def every_plan(problem: Slicing, search: LocalSearch, run: Run) -> Outcome | None:
    """Judge all plans of a tiny problem; None if there are too many, or if they prove nothing."""
    instance = search.instance
    plans = count_of(instance)
    if plans > MOST_PLANS or plans * instance.operators > MOST_STEPS:
        return None
    run.enter("all plans")
    if not _judge_all(search, run):
        return None
    if instance.order_matters(problem):
        most = int(MOST_STEPS // (max(1.0, plans) * instance.operators))
        orders = list(itertools.islice(legal_orders(problem), min(most, int(MOST_PLANS // max(1.0, plans))) + 1))
        if len(orders) > most or len(orders) * plans > MOST_PLANS:
            return None
        for order in orders:
            if order != instance.names and not _judge_all(_in_order(problem, search, order), run):
                return None
    if run.objective is None:
        return Outcome(infeasible=True, reason=f"no cuts respect {rules_in_the_way(problem)}")
    run.proved(run.objective, "all plans")
    return Outcome(run.termination())


def _in_order(problem: Slicing, search: LocalSearch, order: tuple[str, ...]) -> LocalSearch:
    """The same search for another order, with its own best plan."""
    instance = lower(problem, order)
    return replace(search, instance=instance, arrays=arrays_of(instance), best=None, nearest=None)


def _judge_all(search: LocalSearch, run: Run) -> bool:
    """Judge all plans in one order; return whether there was time for all."""
    instance = search.instance
    ways = [_allowed_ways(instance, v) for v in range(instance.first, instance.first + len(instance.names))]
    count = prod(len(modes) for modes, _ in ways)
    mode, cuts = np.zeros(instance.operators, dtype=np.int64), instance.blank_cuts()
    for start in range(0, count, BATCH):
        if run.should_stop():
            return False
        batch = np.arange(start, min(count, start + BATCH))
        all_modes, all_cuts = np.repeat(mode[None], len(batch), axis=0), np.repeat(cuts[None], len(batch), axis=0)
        for v, (modes, places) in enumerate(ways, start=instance.first):
            batch, chosen = np.divmod(batch, len(modes))
            all_modes[:, v], all_cuts[:, v] = modes[chosen], places[chosen]
        found = judge(search.arrays, all_modes, all_cuts, memory=is_limited(search.arrays))
        i = int(np.lexsort((found.seconds, found.excess))[0])
        search.consider(Plan(all_modes[i], all_cuts[i], float(found.seconds[i]), float(found.excess[i])))
    return True


def legal_orders(problem: Slicing) -> Iterator[tuple[str, ...]]:
    """All orders of the operators that data flow and order arcs allow."""
    before = with_order_arcs(problem, problem.graph.arrays.predecessors)
    names = problem.graph.operator_ids
    needs = [frozenset(before[v].tolist()) for v in range(len(names))]
    stack: list[tuple[int, ...]] = [()]
    while stack:
        done = stack.pop()
        if len(done) == len(names):
            yield tuple(names[v] for v in done)
            continue
        ready = (v for v in range(len(names)) if v not in done and needs[v].issubset(done))
        stack.extend((*done, v) for v in ready)


def count_of(instance: SlicingInstance) -> float:
    """Upper bound of the number of plans; a float, because it may be infinite."""
    inner = len(instance.devices) - 1
    plans = 1.0
    for v in range(instance.first, instance.first + len(instance.names)):
        lengths = instance.length[v][instance.length[v] > 0].astype(np.float64)
        plans *= sum(float(np.prod((length + np.arange(1, inner + 1)) / np.arange(1, inner + 1))) for length in lengths)
        if plans > MOST_PLANS:
            break
    return plans


def _allowed_ways(instance: SlicingInstance, v: int) -> tuple[IntArray, IntArray]:
    """Modes and cuts of an operator that give no part to a device that may not run it."""
    modes, cuts = states_of(instance, v, int(instance.length[v].max()))
    allowed = (np.isfinite(instance.intercept[v]) | (np.diff(cuts, axis=1) == 0)).all(axis=1)
    return modes[allowed], cuts[allowed]
