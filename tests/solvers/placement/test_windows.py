"""Windows of a plan by constraint programming: never worse than their start, and plans that the referee accepts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opweave.solvers.placement.cooling import reoptimise
from opweave.solvers.placement.local import Spell, empty_search, list_plans
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem


@pytest.mark.parametrize("transfers", ["delay", "one_port_edge", "one_port_tensor"])
@pytest.mark.parametrize("memory", [False, True])
def test_windows_never_lengthen_a_plan(transfers: str, *, memory: bool) -> None:
    problem = small_problem(5, most_operators=7, memory=memory).model_copy(update={"transfers": transfers})
    optimum, _ = best_placement(problem)
    assert optimum is not None
    search = empty_search(problem, Run(time_limit=10.0))
    list_plans(search)
    before = search.makespan
    if not math.isfinite(before):
        return
    reoptimise(search, Spell(search.run, 0.5), least=1)
    assert search.run.objective is not None
    assert optimum * (1 - 1e-9) <= search.run.objective <= before * (1 + 1e-9)
    judged = problem.evaluate(search.run.best)
    assert judged.feasible, judged.violations
    assert judged.objective == pytest.approx(search.run.objective)


def test_windows_shorten_a_plan_on_one_device() -> None:
    """Layers of branches on the first device only: windows find others for some of them."""
    problem, before = layered_problem(4, 4), 0.0
    search = empty_search(problem, Run(time_limit=20.0, callback=lambda now: (now.objective or before) < before))
    search.consider(np.arange(search.instance.operators), search.device)
    before = search.makespan
    reoptimise(search, Spell(search.run, 5.0))
    assert search.run.objective is not None
    assert search.run.objective < before
    assert problem.evaluate(search.run.best).feasible
