"""Lanes on executors: threads, processes, executors that lose work, answer nonsense or nothing."""

import random
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import opweave as ow

from .ways import chain, fake_solver, named, together


class Silent(Executor):
    """Takes work and never answers."""

    def submit(self, *_work):
        return Future()


class Babbling(Executor):
    """Answers with something else."""

    def submit(self, *_work):
        future: Future = Future()
        future.set_result("hello")
        return future


class Losing(ThreadPoolExecutor):
    """Loses every second task: its future fails."""

    def __init__(self):
        super().__init__(2)
        self.random = random.Random(0)
        self.lost = 0

    def submit(self, function, *work):
        if self.lost < 5 and self.random.random() < 0.5:
            self.lost += 1
            future: Future = Future()
            future.set_exception(ConnectionError("the worker is gone"))
            return future
        return super().submit(function, *work)


@pytest.mark.parametrize("pool", [lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2), Losing])
def test_what_one_lane_finds_and_another_proves_meets(pool):
    with fake_solver("idles", "finds", "proves"), pool() as executor:
        result = ow.solve(chain(), solver="fake", executor=executor, time_limit=20)
    assert together(result)
    assert result.timings.solve < 15


def test_a_killed_worker_costs_the_pool_and_not_the_answer(tmp_path):
    with fake_solver("finds", "dies_once"), ProcessPoolExecutor(1) as executor:
        result = ow.solve(
            named(chain(), str(tmp_path / "marker")), solver="fake", executor=executor, time_limit=3, threads=2
        )
    assert result.verified


@pytest.mark.parametrize("executor", [Silent, Babbling])
@pytest.mark.parametrize("solver", ["auto", "exact"])
def test_executors_that_are_of_no_use_cost_no_more_than_the_limit(executor, solver):
    result = ow.solve(chain(), solver=solver, executor=executor(), time_limit=5)
    assert result.status is ow.Status.OPTIMAL
    with fake_solver("finds", "proves"):
        result = ow.solve(chain(), solver="fake", executor=executor(), time_limit=0.5)
    assert result.objective == 8
    assert not together(result)
    assert result.timings.solve < 2.0


def test_without_a_limit_the_solver_here_decides_when_to_end():
    result = ow.solve(chain(), executor=Silent())
    assert result.status is ow.Status.OPTIMAL


def test_a_proof_of_infeasibility_counts_from_an_executor_too():
    with fake_solver("idles", "refutes"), ThreadPoolExecutor(2) as executor:
        result = ow.solve(chain(), solver="fake", executor=executor, time_limit=20)
    assert result.status is ow.Status.INFEASIBLE
