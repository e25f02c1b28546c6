"""The paper's two random searches over strings alone, in layer order and from every operator's fastest string.

Sources: S. Droste, T. Jansen, I. Wegener, "On the analysis of the (1+1) evolutionary algorithm", 2002; S. Kirkpatrick
et al., "Optimization by simulated annealing", 1983; both as in "DiviML", section V-A.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower_unless_short
from opweave.formulations.expressions import NARROWED
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.solvers.batched_mapping.anneal import DRAWS, PAPER_MOVES, climb
from opweave.solvers.batched_mapping.arrays import nodes_of
from opweave.solvers.batched_mapping.baselines import best_device, breadth_first, met
from opweave.solvers.batched_mapping.local import BatchSearch, ended, new_search
from opweave.solvers.batched_mapping.plans import BatchPlan, plan_of, report
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import Feature, named_solver
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Outcome, Run

STEPS = 4000
CHUNKS = 25
"""Steps of a chunk, and number of chunks when there is no time limit."""

FIRST, LAST = 0.01, 0.0001
"""Temperatures of the annealing, as shares of the first makespan."""

MOST_FLIPS = 8


def first_plan(search: BatchSearch) -> BatchPlan | None:
    """Every operator by its fastest string, or one device for all if that does not fit."""
    instance, arrays = search.instance, search.arrays
    rules = (partial(rule, instance, arrays, search.strings) for rule in (met, best_device))
    found = next(plans_of(rules), None)
    return None if found is None else plan_of(arrays, found.where, nodes_of(instance, breadth_first(instance)))


def evolve(search: BatchSearch, plan: BatchPlan) -> None:
    """(1+1) EA: flip every granule with probability 1 / (number of granules); keep a plan that is no worse."""
    rng = np.random.default_rng(search.run.seed)
    where = plan.where
    done = 0
    while not search.run.should_stop() and (search.run.time_limit is not None or done < CHUNKS):
        best = where.copy()
        climb(
            search.arrays,
            where.copy(),
            plan.order.copy(),
            search.tail,
            _flips(rng, where),
            search.run.halt,
            best,
        )
        where, done = best, done + 1
        report(search.instance, plan_of(search.arrays, where, plan.order), search.run)


def _flips(rng: np.random.Generator, where: IntArray) -> FloatArray:
    """Cells to flip and their new devices. The number of flips is binomial; unused cells are 1 (none)."""
    count = np.minimum(rng.binomial(where.size, 1.0 / where.size, STEPS), MOST_FLIPS)
    draws = rng.random((STEPS, MOST_FLIPS, 2))
    draws[np.arange(MOST_FLIPS)[None, :] >= count[:, None], 0] = 1.0
    return draws


def cool(search: BatchSearch, plan: BatchPlan) -> None:
    """Simulated annealing of single granules; with a time limit the temperature falls with the time."""
    rng = np.random.default_rng(search.run.seed)
    where, order = plan.where.copy(), plan.order.copy()
    scale, done = plan.makespan, 0
    began = search.run.elapsed()
    while not search.run.should_stop() and (search.run.time_limit is not None or done < CHUNKS):
        left = search.run.remaining()
        share = done / CHUNKS if left is None else 1.0 - left / max(1e-9, left + search.run.elapsed() - began)
        heat = scale * FIRST * (LAST / FIRST) ** min(1.0, share)
        draws = rng.random((STEPS, DRAWS))
        best = search.annealed(where, order, draws, np.full(STEPS, heat), PAPER_MOVES)
        done += 1
        report(search.instance, plan_of(search.arrays, *best), search.run)


def solve_by(improve: Callable[[BatchSearch, BatchPlan], None], problem: BatchedMapping, run: Run) -> Outcome:
    """Run one of the two searches from the first plan."""
    search = new_search(problem, lower_unless_short(problem), run)
    if not search.instance.operators:
        run.found(BatchedSchedule(batches=()), 0.0)
        return Outcome(run.termination())
    plan = first_plan(search)
    if plan is not None and np.isfinite(plan.makespan):
        report(search.instance, plan, run)
        improve(search, plan)
    return ended(run)


for _name, _improve, _about in (
    ("ea", evolve, "(1+1) evolutionary algorithm on strings, from every operator's fastest"),
    ("anneal", cool, "simulated annealing of single granules in layer order, from every operator's fastest"),
):
    named_solver(
        BatchedMapping,
        _name,
        _about,
        features=frozenset({Feature.GAP, Feature.CALLBACK}),
        supports=(*SUPPORTS, NARROWED),
    )(by_best_way(SUPPORTS, "heft")(partial(solve_by, _improve)))
