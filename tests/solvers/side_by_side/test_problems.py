"""All problems with two threads, with an executor, and with one thread as ever."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import opweave as ow
from opweave.solvers.registry import Feature

from .hard import HARD

SEARCHES = {
    "memory_ordering": "exact",
    "placement": "local",
    "batched_mapping": "local",
    "slicing": "local",
    "pipeline": "exact",
}


@pytest.mark.parametrize("name", HARD)
def test_two_threads_are_not_worse_than_the_baselines_and_verified(name):
    problem = HARD[name]()
    alone = ow.solve(problem, time_limit=0.5)
    both = ow.solve(problem, threads=2, time_limit=1, start=alone.solution)
    assert both.verified
    assert both.objective <= alone.objective
    assert both.bound is not None
    assert both.bound <= both.objective


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_take_threads_and_executors(name):
    problem = HARD[name]()
    with ThreadPoolExecutor(1) as pool:
        for more in ({"threads": 2}, {"executor": pool}):
            result = ow.solve(problem, solver=SEARCHES[name], time_limit=0.5, **more)
            assert result.verified


@pytest.mark.parametrize("name", HARD)
def test_what_takes_threads_says_so(name):
    rows = {row.name: row for row in ow.list_solvers(HARD[name]())}
    assert {Feature.THREADS, Feature.EXECUTOR} <= rows["auto"].features


@pytest.mark.parametrize("name", ["memory_ordering", "placement", "batched_mapping", "slicing", "pipeline"])
def test_one_seed_and_one_thread_give_the_same_run(name):
    """The same sequence of objectives and bounds; no time limit, by which searches would pace themselves."""
    problem, solver = HARD[name](), SEARCHES[name]
    first, second = (_first_steps(problem, solver) for _ in range(2))
    common = min(len(first), len(second))
    assert common > 1
    assert first[:common] == second[:common]


def _first_steps(problem, solver):
    seen = []

    def enough(progress):
        if not seen or seen[-1] != (progress.objective, progress.bound):
            seen.append((progress.objective, progress.bound))
        return len(seen) > 6

    result = ow.solve(problem, solver=solver, seed=5, callback=enough)
    return [(step.objective, step.bound) for step in result.incumbents]
