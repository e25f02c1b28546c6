"""Tabu search by reinsertion: longest paths, the best plans of small problems, and bounds of whole times."""

from __future__ import annotations

import pytest

import opweave as ow
from benchmarks.readers import read_job_shop
from opweave.formulations.placement.instance import common_tick, lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import small_problem
from tests.tiny import graph_of


def delayed(problem: Placement) -> Placement:
    """The same problem without ports."""
    return problem.model_copy(update={"transfers": "delay"})


@pytest.mark.parametrize("seed", range(12))
def test_small_problems_reach_the_optimum(seed: int) -> None:
    problem = delayed(small_problem(seed, most_operators=5))
    optimum, _ = best_placement(problem)

    def reached(now: ow.results.Progress) -> bool:
        return optimum is not None and now.objective is not None and now.objective <= optimum * (1 + 1e-9)

    # without constraints there is a plan and the optimum is met; a busy machine needs seconds
    limit = 0.4 if optimum is None or problem.constraints else 30.0
    result = ow.solve(problem, solver="tabu", time_limit=limit, callback=reached)
    if optimum is None:
        assert result.objective is None
    elif not problem.constraints and result.objective is not None:
        assert result.objective == pytest.approx(optimum)
    elif result.objective is not None:  # tied operators stay where list schedules put them
        assert result.objective >= optimum * (1 - 1e-9)


def test_rounds_may_be_counted() -> None:
    problem = delayed(small_problem(0, most_operators=8))
    one, more = (ow.solve(problem, solver="tabu", options={"rounds": rounds}).objective for rounds in (1, 4))
    assert one >= more
    with pytest.raises(ow.InvalidInputError, match="a whole number from 0"):
        ow.solve(problem, solver="tabu", options={"rounds": -1})


def test_whole_times_round_bounds_up_unless_a_rule_may_add_times() -> None:
    shop = read_job_shop("3 2\n1 2 1 3 2 3\n1 2 1 3 2 3\n1 2 1 3 2 3")
    run = Run()
    run.findings.grain = 1.0
    run.proved(4.5, "area")
    assert run.bound == pytest.approx(5.0)
    assert run.bound < 5.0
    run.proved(5.0 * (1 - 1e-9), "again")
    assert run.bound == pytest.approx(5.0)
    result = ow.solve(shop, solver="auto", time_limit=5)
    assert result.status is ow.Status.OPTIMAL
    assert result.bound == pytest.approx(6.0)


def test_bounds_are_not_rounded_up_to_a_measure_that_leaves_out_tiny_times() -> None:
    """Hundreds of times that are nothing beside a thousand seconds are something together."""
    tiny = {f"s{k}": 9e-8 for k in range(290)}
    seconds = {"first": 1000.0, **tiny, "last": 1000.0}
    names = list(seconds)
    chain = graph_of(dict.fromkeys(names, 0), dict(zip(names, ["", *names], strict=False)))
    problem = ow.Placement(
        graph=chain,
        cluster=ow.Cluster(devices=[ow.Device(name="d"), ow.Device(name="e")], shared=1e12),
        costs=ow.Costs.from_table({name: {"d": each, "e": each} for name, each in seconds.items()}),
        transfers="delay",
    )
    instance = lower(problem)
    assert common_tick(instance, 3000.0, 1e7) is None
    result = ow.solve(problem, time_limit=5)
    assert result.reason is None
    assert result.status is ow.Status.OPTIMAL
    assert result.bound <= 2000.0 + 290 * 9e-8
