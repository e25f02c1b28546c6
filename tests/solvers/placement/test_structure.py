"""Contracted chains and long coolings: plans of a part are plans of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of, order_for, order_of_graph
from opweave.solvers.placement.cooling import contraction_of, cool_down
from opweave.solvers.placement.local import empty_search
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import small_problem


def lowered(problem: Placement) -> tuple[PlacementInstance, PlacementArrays]:
    instance = lower(problem)
    return instance, arrays_of(instance, problem)


@pytest.mark.parametrize("light", [0.0, 0.25, 100.0])
@pytest.mark.parametrize("seed", range(15))
def test_a_plan_of_the_chains_is_a_plan_of_the_operators(seed: int, light: float) -> None:
    """It lasts as long at most, whether only chains are joined or trees as well."""
    problem = small_problem(seed, most_operators=7)
    instance, arrays = lowered(problem)
    chains = contraction_of(arrays, instance.cluster, light)
    able = np.isfinite(chains.arrays.seconds)
    if not able.any(axis=1).all():
        return
    device = np.where(able, chains.arrays.seconds, np.inf).argmin(axis=1).astype(np.int64)
    order = order_for(chains.arrays, device)
    together = plan_of(chains.arrays, order, device)
    apart = plan_of(arrays, *chains.expanded(order, device))
    assert apart.makespan <= together.makespan * (1 + 1e-9)
    again, where = chains.contracted(*chains.expanded(order, device))
    assert (where == device).all()
    assert (again == order).all()
    assert sorted(chains.members.items.tolist()) == list(range(instance.operators))


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_long_cooling_improves_what_it_starts_from(seed: int) -> None:
    problem = small_problem(seed, most_operators=6)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    run = Run(time_limit=0.3)
    search = empty_search(problem, run)
    search.consider(order_of_graph(search.arrays), search.arrays.seconds.argmin(axis=1).astype(np.int64))
    first = search.makespan
    cool_down(search)
    assert run.objective is not None
    assert optimum * (1 - 1e-9) <= run.objective <= first
    assert run.objective < first or first <= optimum * 1.2
    assert problem.evaluate(run.best).objective == pytest.approx(run.objective)
