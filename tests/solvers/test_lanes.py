"""Lanes: the same portfolio in several processes."""

from __future__ import annotations

import os
import pickle
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import opweave as ow
from opweave.problems.errors import EngineError
from opweave.solvers.lanes import Process, Round, play, work_in_lanes
from opweave.solvers.portfolio import News
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker
from tests.oracles.memory_ordering import best_ordering
from tests.tiny import graph_of

PLAN = ow.Ordering(order=["a"])
PROBLEM = ow.MemoryOrdering(graph=ow.OpGraph(tensors=[], operators=[ow.Operator(id="a")]))
HOME = int(os.environ.setdefault("OPWEAVE_TEST_HOME", str(os.getpid())))
"""The process of the tests; others inherit it."""


def _plan(_: ow.extend.Problem, run: Run) -> None:
    run.found(PLAN, 5)


def _prove_elsewhere(_: ow.extend.Problem, run: Run) -> None:
    while not run.should_stop():
        time.sleep(0.02)
        if os.getpid() != HOME:
            run.proved(5, "elsewhere")


def _refute_elsewhere(_: ow.extend.Problem, run: Run) -> Outcome | None:
    while os.getpid() == HOME and not run.should_stop():
        time.sleep(0.02)
    return None if os.getpid() == HOME else Outcome(infeasible=True, reason="refuted elsewhere")


def meeting(problem: ow.extend.Problem, _: Run) -> list[Worker]:
    return [Steps("plan", _plan, problem), Steps("prove", _prove_elsewhere, problem)]


def refuting(problem: ow.extend.Problem, _: Run) -> list[Worker]:
    return [Steps("wait", _refute_elsewhere, problem)]


def alone(problem: ow.extend.Problem, _: Run) -> list[Worker]:
    return [Steps("plan", _plan, problem), Steps("prove", _prove_alone, problem, seeded=False)]


def _prove_alone(_: ow.extend.Problem, run: Run) -> None:
    while not run.should_stop():
        time.sleep(0.02)
        if run.findings.lane is None:
            run.proved(5, "alone")


def dying(mark: Path, problem: ow.extend.Problem, _: Run) -> list[Worker]:
    return [Steps("plan", _plan, problem), Steps("die", partial(_die_once, mark), problem)]


def _die_once(mark: Path, _: ow.extend.Problem, run: Run) -> None:
    if os.getpid() != HOME and not mark.exists():
        mark.touch()
        os._exit(3)
    _prove_elsewhere(PROBLEM, run)


def test_what_another_process_proves_meets_a_plan_of_this_one() -> None:
    run = Run(time_limit=60.0, threads=2)
    work_in_lanes(PROBLEM, meeting, run)
    assert (run.objective, run.bound, run.findings.bound_source) == (5, 5, "elsewhere")


def test_a_proof_of_infeasibility_counts_from_elsewhere() -> None:
    outcome = work_in_lanes(PROBLEM, refuting, Run(time_limit=60.0, threads=2))
    assert (outcome.infeasible, outcome.reason) == (True, "refuted elsewhere")


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    run = Run(time_limit=60.0, threads=2)
    work_in_lanes(PROBLEM, partial(dying, tmp_path / "mark"), run)
    assert (tmp_path / "mark").exists()
    assert run.bound == 5


class Broken(Executor):
    """Takes calls and never carries them out."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()


class Dying(Executor):
    """Carries out one round of each lane, unless it has been served, and fails from then on."""

    def __init__(self, *served: int) -> None:
        self.served = set(served)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args)) if args[0].lane not in self.served else future.set_exception(OSError("lost"))
        self.served.add(args[0].lane)
        return future


def test_this_process_has_all_parts_again_once_the_others_are_lost() -> None:
    executor = Dying()
    run = Run(time_limit=60.0, executor=executor)
    work_in_lanes(PROBLEM, alone, run)
    assert (executor.served, run.bound, run.findings.bound_source) == ({1, 2}, 5, "alone")


def test_a_lane_that_has_finished_closes_its_workers() -> None:
    ended: list[str] = []
    plan = Steps("plan", _plan, PROBLEM)
    plan.close = lambda: ended.append("plan")  # type: ignore[method-assign]
    report = play(Round("solve", pickle.dumps(PROBLEM), lambda *_: [plan], 1, 2, 0, 0.0, 1.0, 9.0, News.of(Run())))
    assert (report.more, report.news.finder, ended) == (False, "plan", ["plan"])


@pytest.mark.parametrize("executor", [Broken(), Dying(1, 2)])
def test_executors_that_are_of_no_use_cost_nothing_but_themselves(executor: Executor) -> None:
    problem = ow.MemoryOrdering(graph=ow.OpGraph(tensors=[], operators=[ow.Operator(id=name) for name in "ab"]))
    result = ow.solve(problem, executor=executor, time_limit=10.0)
    assert result.status is ow.Status.OPTIMAL


def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(2) as pool:
        problem = ow.MemoryOrdering(graph_of({"a": 8, "b": 2, "c": 1}, dict.fromkeys("abc", "")))
        result = ow.solve(problem, executor=pool, time_limit=20.0)
    assert result.objective == best_ordering(problem)[0]


def test_a_process_carries_out_calls_and_reports_errors() -> None:
    with Process() as process:
        assert process.submit(divmod, 7, 2).result() == (3, 1)
        with pytest.raises(EngineError, match="ZeroDivisionError"):
            process.submit(divmod, 1, 0).result()
        with pytest.raises(EngineError, match="died"):
            process.submit(os._exit, 3).result()
