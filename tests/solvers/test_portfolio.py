"""The portfolio: who gets how much time, and how it ends."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

import opweave as ow
from opweave.problems.errors import EngineError, RuleError
from opweave.problems.result import Termination
from opweave.solvers.portfolio import SLICE, News, Portfolio, work_off
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps

PLAN = ow.Ordering(order=["a"])
PROBLEM = ow.MemoryOrdering(graph=ow.OpGraph(tensors=[], operators=[ow.Operator(id="a")]))

Algorithm = Callable[[ow.extend.Problem, Run], Outcome | None]


def plan_of(value: int) -> Algorithm:
    return lambda _, run: run.found(PLAN, value) and None


class Busy:
    """Works without any gain, unless its steps gain something, and counts its seconds after its preparation."""

    def __init__(self, step: Callable[[Run], object] = bool, prepares: float = 0.0) -> None:
        self.step, self.prepares, self.spent = step, prepares, 0.0

    def __call__(self, _: ow.extend.Problem, run: Run) -> None:
        time.sleep(self.prepares)
        while True:
            time.sleep(0.01)
            self.spent += 0.01
            self.step(run)
            if run.should_stop():
                return


def test_bound_and_plan_of_two_workers_meet() -> None:
    def prove(_: ow.extend.Problem, run: Run) -> None:
        while run.objective != 5:
            assert not run.should_stop()
        run.proved(5, "other")

    run = Run(time_limit=20.0)
    outcome = work_off([Steps("bound", prove, PROBLEM), Steps("plan", plan_of(5), PROBLEM)][::-1], run)
    assert outcome.termination is Termination.COMPLETED
    assert {each.worker for each in run.findings.incumbents} == {"plan", "bound"}


def test_the_first_worker_has_the_time_until_there_is_a_plan() -> None:
    seen: list[str] = []

    def slow(_: ow.extend.Problem, run: Run) -> None:
        for _round in range(3):
            time.sleep(SLICE)
            seen.append("slow")
            assert not run.should_stop()
        run.found(PLAN, 3)

    other = Steps("other", lambda name, run: seen.append(name), "other")
    work_off([Steps("slow", slow, PROBLEM), other], Run(time_limit=20.0))
    assert seen == ["slow", "slow", "slow", "other"]


def test_proofs_have_the_time_that_searches_have_in_another_lane() -> None:
    search, proof, run = Busy(), Busy(), Run(time_limit=20.0)
    run.found(PLAN, 5)
    workers = [Steps("search", search, PROBLEM), Steps("proof", proof, PROBLEM, seeded=False)]
    Portfolio(workers, searched=True).work(run, 1.5)
    assert proof.spent > 2.0 * search.spent > 0.0


def test_workers_rest_until_they_are_called_back() -> None:
    plan, other = Steps("plan", plan_of(5), PROBLEM), Steps("other", lambda _, run: run.proved(4, "other"), PROBLEM)
    portfolio, run = Portfolio([plan, other]), Run(time_limit=20.0)
    portfolio.rest([other])
    assert (portfolio.work(run), run.objective, run.bound) == (False, 5, None)
    portfolio.rest([])
    assert (portfolio.work(run), run.bound) == (False, 4)


def test_time_follows_gain() -> None:
    values = (1_000_000 * 0.9**number for number in itertools.count())
    idle, gainful, run = Busy(), Busy(lambda run: run.found(PLAN, next(values))), Run(time_limit=3.0)
    run.proved(1, "trivial")
    run.found(PLAN, 2_000_000.0)
    work_off([Steps("idle", idle, PROBLEM), Steps("gain", gainful, PROBLEM)], run)
    assert gainful.spent > 1.5 * idle.spent > 0.0


def test_a_bound_from_elsewhere_is_a_gain_of_its_provers_namesake() -> None:
    search, prover, run = Busy(), Busy(), Run(time_limit=20.0)
    run.found(PLAN, 5)
    portfolio = Portfolio([Steps("search", search, PROBLEM), Steps("prover", prover, PROBLEM)])
    portfolio.work(run, 0.4)
    portfolio.hear(run, News(None, (4, "rule"), "", "prover"))
    portfolio.work(run, 1.6)
    assert (prover.spent > 1.5 * search.spent > 0.0, run.findings.incumbents[-1].worker) == (True, "prover")


def test_what_prepares_a_worker_is_not_held_against_it() -> None:
    idle, prepared, run = Busy(), Busy(prepares=1.0), Run(time_limit=20.0)
    run.found(PLAN, 5)
    Portfolio([Steps("idle", idle, PROBLEM), Steps("prepared", prepared, PROBLEM)]).work(run, 2.2)
    assert prepared.spent > 0.5 * idle.spent > 0.0


def test_all_get_some_time() -> None:
    crew = [Busy() for _ in range(4)]
    run = Run(time_limit=2.0)
    run.found(PLAN, 7)
    work_off([Steps(str(number), each, PROBLEM) for number, each in enumerate(crew)], run)
    assert min(each.spent for each in crew) > 0.1


def test_it_ends_when_nobody_has_anything_left_to_do() -> None:
    run = Run(time_limit=60.0)
    began = time.perf_counter()
    outcome = work_off([Steps("plan", plan_of(5), PROBLEM)], run)
    assert outcome.termination is Termination.BUDGET
    assert time.perf_counter() - began < 10.0


def test_a_proof_that_there_is_no_plan_ends_it() -> None:
    idle = Busy()
    refuter = Steps("refuter", lambda *_: Outcome(infeasible=True, reason="too large"), PROBLEM)
    outcome = work_off([refuter, Steps("idle", idle, PROBLEM)], Run(time_limit=60.0))
    assert (outcome.infeasible, outcome.reason) == (True, "too large")


def test_an_engine_that_fails_ends_alone() -> None:
    def fail(*_: object) -> None:
        raise EngineError("no licence")

    run = Run(time_limit=5.0)
    outcome = work_off([Steps("engine", fail, PROBLEM), Steps("plan", plan_of(4), PROBLEM)], run)
    assert run.objective == 4
    assert not outcome.infeasible


def test_a_users_mistake_is_raised() -> None:
    def fail(*_: object) -> None:
        raise RuleError("rule")

    with pytest.raises(RuleError):
        work_off([Steps("rule", fail, PROBLEM)], Run(time_limit=5.0))


def test_context_managers_of_a_resting_worker_end() -> None:
    ended: list[bool] = []

    def hold(_: ow.extend.Problem, run: Run) -> None:
        try:
            while not run.should_stop():
                time.sleep(0.01)
        finally:
            ended.append(True)

    run = Run(time_limit=30.0)
    run.found(PLAN, 5)
    prove = Steps("prove", lambda _, run: run.proved(5, "rule"), PROBLEM)
    work_off([Steps("hold", hold, PROBLEM), prove], run)
    assert ended == [True]


def test_without_a_limit_workers_take_turns_whole() -> None:
    seen: list[str] = []

    def work(name: str) -> Algorithm:
        def algorithm(_: ow.extend.Problem, run: Run) -> None:
            for _round in range(3):
                time.sleep(2 * SLICE)
                seen.append(name)
                assert not run.should_stop()

        return algorithm

    run = Run()
    run.found(PLAN, 5)
    work_off([Steps(name, work(name), PROBLEM) for name in "ab"], run)
    assert seen == ["a", "a", "a", "b", "b", "b"]


def test_portfolios_nest() -> None:
    seen: list[str] = []

    def inner(_: ow.extend.Problem, run: Run) -> Outcome:
        part = run.child(seconds=1.0)
        part.found(PLAN, 3)
        return work_off([Steps("work", Busy(lambda _: seen.append("inner")), PROBLEM)], part)

    run = Run(time_limit=1.5)
    run.found(PLAN, 5)
    outer = Steps("outer", Busy(lambda _: seen.append("outer")), PROBLEM)
    work_off([Steps("nested", inner, PROBLEM), outer], run)
    changes = sum(first != second for first, second in itertools.pairwise(seen))
    assert changes > 4
