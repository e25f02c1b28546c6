"""Problems that are large for their time limit: a plan comes all the same, and more time gives no worse one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import opweave as ow
from benchmarks.overrun_cases import PROBLEMS
from opweave.formulations.expressions import express
from opweave.formulations.formulation import Formulation, find_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.errors import UnsupportedFeatureError
from opweave.solvers import fallback, registry
from opweave.solvers.approved import left_to_ask, note_approval
from opweave.solvers.engines import engine as engine_module
from opweave.solvers.fallback import BASELINES
from opweave.solvers.run import Outcome, Run
from opweave.solvers.verdict import Referee
from tests.tiny import PROBLEMS as TINY

ow.list_solvers()  # or the first test would count the seconds of importing them all


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_limit_that_is_too_short_still_gives_a_plan_and_a_bound(kind: str) -> None:
    result = ow.solve(PROBLEMS[kind]("1000"), time_limit=0.01)
    assert result.verified, result.reason
    assert result.bound is not None
    assert result.bound <= result.objective


def filled() -> ow.Placement:
    """No device holds the whole model, so that the cheapest baseline that finds a plan is ``fill``."""
    plain = PROBLEMS["placement"]("600")
    whole = sum(parameter.bytes for parameter in plain.graph.parameters) + sum(t.bytes for t in plain.graph.tensors)
    devices = [device.model_copy(update={"memory_bytes": whole // 2}) for device in plain.cluster.devices]
    cluster = plain.cluster.model_copy(update={"devices": tuple(devices)})
    return ow.Placement(graph=plain.graph, cluster=cluster, costs=plain.costs)


@pytest.mark.parametrize("limit", [0.01, 0.3, 1.0])
def test_more_time_gives_no_worse_plan_than_the_cheapest_baseline(limit: float) -> None:
    problem = filled()
    cheap = ow.solve(problem, solver="fill").objective
    assert ow.solve(problem, solver="one_device").solution is None
    assert ow.solve(problem, time_limit=limit).objective <= cheap * (1 + 1e-9)


@pytest.mark.parametrize("kind", BASELINES)
def test_auto_contains_what_a_run_without_time_ends_with(kind: str) -> None:
    problem = TINY[kind]
    plans = [ow.solve(problem, solver=name).objective for name in BASELINES[kind]]
    best = ow.solve(problem).objective
    assert all(best <= plan * (1 + 1e-9) for plan in plans if plan is not None)


def test_the_referee_of_slicing_takes_time_that_grows_with_the_operators() -> None:
    """Tensors that wait for their readers, hundreds at a time, are not counted anew at each step."""

    def seconds(operators: int) -> float:
        problem = waiting(operators)
        cut = ow.Slice(dimension="rows", cuts=[0, 4, 4, 4, 4, 4])
        names = [op.id for op in problem.graph.operators]
        plan = ow.Slices(devices=[f"d{k}" for k in range(5)], slices=dict.fromkeys(names, cut), order=names)
        began = time.process_time()
        assert problem.evaluate(plan).feasible
        return time.process_time() - began

    small, large = (min(seconds(count) for _ in range(3)) for count in (300, 2400))
    assert large < 2.5 * 8 * small


def waiting(operators: int) -> ow.Slicing:
    """The first half makes tensors that the second half reads, each after as many steps."""
    half = operators // 2
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=64, shape=[1, 4, 4]) for i in range(-1, operators)],
        operators=[
            ow.Operator(id=f"o{i}", kind="Relu", inputs=["t-1" if i < half else f"t{i - half}"], outputs=[f"t{i}"])
            for i in range(operators)
        ],
    )
    table = {op.id: {f"d{k}": 1.0 + k for k in range(5)} for op in graph.operators}
    cluster = ow.Cluster(devices=[ow.Device(name=f"d{k}") for k in range(5)], rates=[1e6] * 5)
    return ow.Slicing(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table))


@pytest.mark.parametrize("answer", ["stops", "raises"])
def test_a_callback_that_ends_the_run_leaves_no_time_for_anything(answer: str) -> None:
    """Whoever asks how much time is left is told none, whatever the limit."""

    def callback(_: ow.Progress) -> bool:
        if answer == "raises":
            raise ValueError
        return True

    run = Run(time_limit=100.0, callback=callback)
    assert run.remaining() > 90.0
    assert run.should_stop()
    assert run.remaining() == 0.0
    assert run.halt[0] == 1
    assert run.until_overdue() < 2.0


def test_a_solver_that_does_not_hear_the_callback_is_interrupted() -> None:
    def deaf(problem: ow.Problem, run: Run) -> Outcome:
        run.enter("work")
        while True:
            time.sleep(0.001)

    key = ("memory_ordering", "deaf")
    registry.register(registry.Solver(name=key[1], problem=key[0], kind="algorithm", run=deaf, about="for a test"))
    try:
        began = time.monotonic()
        result = ow.solve(TINY[key[0]], solver="deaf", progress=_fail)
        assert time.monotonic() - began < 20.0
        assert result.termination is ow.Termination.CALLBACK_ERROR
    finally:
        registry._SOLVERS.pop(key)


def _fail(_: ow.Progress) -> None:
    raise ValueError("no such column")


def test_a_users_file_stands_for_no_module_of_an_engine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    import sys

    from opweave.solvers.engines.child import PACKAGE_FOLDER, _module_folders

    script = tmp_path / "script.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/lib", PACKAGE_FOLDER])
    assert _module_folders() == ["/lib", PACKAGE_FOLDER, str(tmp_path)]
    monkeypatch.setattr(sys, "path", ["/elsewhere", "/lib"])
    assert _module_folders() == ["/elsewhere", "/lib"]


def test_halfway_a_plan_is_judged_so_that_a_starved_machine_has_an_answer() -> None:
    problem = TINY["memory_ordering"]
    plan = ow.solve(problem, solver="definition").solution
    run = Run(time_limit=0.4)
    referee = Referee(problem, run)
    run.found(plan, 10**9)
    assert not run.should_stop()
    assert referee.best() is None  # a quick solve is judged once, at its end
    time.sleep(0.2)
    run.should_stop()
    found = referee.best()
    assert found is not None
    assert found[0] is plan
    assert found[1].objective == problem.evaluate(plan).objective
    better = plan.model_copy()
    run.found(better, 10**8)
    assert referee.known(better) is None  # not so soon
    run.look_from = run.elapsed()
    run.should_stop()
    assert referee.known(better) is not None


def test_a_plan_comes_before_a_solver_that_needs_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a plan could only come too late, a baseline makes one first, which the solver does not see."""
    problem, seen = PROBLEMS["placement"]("1000"), []
    monkeypatch.setattr(fallback, "PLAN_PER_OPERATOR", 1e-3)

    def finds(found: bool) -> ow.Result:
        def slow(_: ow.Problem, run: Run) -> Outcome:
            seen.append((run.best, run.spare))
            if found:
                plan = ow.solve(problem, solver="heft").solution
                run.found(plan, problem.evaluate(plan).objective)
            return Outcome(ow.Termination.TIME_LIMIT)

        key = ("placement", "slow")
        registry.register(registry.Solver(name=key[1], problem=key[0], kind="algorithm", run=slow, about="for a test"))
        try:
            return ow.solve(problem, solver="slow", time_limit=4.0)
        finally:
            registry._SOLVERS.pop(key)

    cheap = ow.solve(problem, solver="one_device").objective
    without, with_plan = finds(False), finds(True)
    assert [best for best, _ in seen] == [None, None]
    assert all(spare is not None and spare[1] == "one_device" for _, spare in seen)
    assert without.objective == pytest.approx(cheap)
    assert "one_device" in without.reason
    assert with_plan.objective == ow.solve(problem, solver="heft").objective


class NotAsListed(ow.Constraint):
    """A rule that no solver knows: the listed order is not welcome."""

    def check(self, problem: ow.Problem) -> None:
        """Fit every problem."""

    def violations(self, problem: ow.Problem, solution: ow.Ordering):
        """Object to the listed order."""
        if solution.order == tuple(op.id for op in problem.graph.operators):
            yield ow.Violation(rule="listed", message="this order is not welcome")


@pytest.mark.parametrize("kind", ["slicing", "batched"])
def test_a_problem_under_other_constraints_keeps_what_they_do_not_touch(kind: str) -> None:
    problem = PROBLEMS[kind]("100")
    capped = problem.under([ow.MemoryCap(device="a", bytes=2**40)])
    assert capped.known_seconds is problem.known_seconds
    assert capped.memory_limits["a"] == 2**40 != problem.memory_limits["a"]
    assert capped == type(problem)(**{name: getattr(capped, name) for name in type(problem).model_fields})


def test_no_search_begins_that_could_only_come_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline has the plan of 2,000 storages whose time limit is as if there were millions."""
    monkeypatch.setattr(fallback, "PLAN_PER_OPERATOR", 1.0)
    result = ow.solve(PROBLEMS["layout"]("2000"), time_limit=0.1)
    assert result.verified
    assert "'size_classes' made one" in (result.reason or "")


def test_a_late_plan_obeys_a_rule_that_no_baseline_knows() -> None:
    problem = PROBLEMS["ordering"]("2000").model_copy(update={"constraints": (NotAsListed(),)})
    result = ow.solve(problem, time_limit=1e-3)
    assert result.solution is not None
    assert result.verified
    assert problem.evaluate(result.solution).feasible


class Counting(ow.Constraint):
    """A rule that accepts every plan, and counts how often it is asked."""

    def check(self, problem: ow.Problem[Any, Any]) -> None:
        """Fit every problem."""

    def violations(self, problem: ow.Problem[Any, Any], solution: ow.Solution) -> Iterator[ow.Violation]:
        """Note the plan."""
        ASKED.append(solution)
        yield from ()


ASKED: list[ow.Solution] = []


@pytest.mark.parametrize("kind", ["batched", "pipeline", "slicing"])
def test_a_rule_is_asked_once_about_a_late_plan(kind: str) -> None:
    ASKED.clear()
    problem = PROBLEMS[kind]("300")
    result = ow.solve(problem.under((Counting(),)), time_limit=1e-6)
    assert result.verified
    assert sum(1 for plan in ASKED if plan is result.solution) == 1


def test_a_plan_that_other_rules_have_accepted_is_judged_by_all() -> None:
    problem = PROBLEMS["placement"]("7")
    whole = problem.under((*problem.constraints, Counting()))
    run, plan = Run(), ow.solve(problem).solution
    note_approval(run, problem, plan, problem.constraints)
    assert left_to_ask(run, whole, plan) == whole.constraints
    note_approval(run, whole, plan, whole.constraints[-1:])
    assert left_to_ask(run, whole, plan) == problem.constraints
    assert left_to_ask(run, whole, plan.model_copy()) == whole.constraints


class WhereFew(ow.Constraint):
    """Where the problem limits the number of devices, an operator stays off one."""

    op: str
    device: str

    def check(self, problem: ow.Problem[Any, Any]) -> None:
        """Fit every problem."""

    def violations(self, problem: ow.Problem[Any, Any], solution: ow.Solution) -> Iterator[ow.Violation]:
        """Look at the other rules of the problem."""
        if (
            any(isinstance(rule, ow.MaxDevices) for rule in problem.constraints)
            and solution.device[self.op] == self.device
        ):
            yield self.broken(f"{self.op!r} is on {self.device!r}")


@express(WhereFew, "order_arcs")
def _says_nothing(_problem: ow.Problem[Any, Any], _rule: WhereFew) -> tuple[tuple[int, int], ...]:
    return ()


@pytest.mark.parametrize("device", "abcd")
def test_rules_that_are_left_are_asked_about_the_whole_problem(device: str) -> None:
    """HEFT knows the second rule by a wrong translation; MaxDevices accepts its plans before the referee sees them."""
    problem = PROBLEMS["placement"]("20")
    first = problem.graph.operators[0].id
    ruled = problem.under((ow.MaxDevices(count=2), WhereFew(op=first, device=device)))
    result = ow.solve(ruled, solver="heft")
    assert result.verified == (result.solution is not None)
    assert result.solution is None or ruled.evaluate(result.solution).feasible


@pytest.mark.parametrize("memory", [None, 2**24])
def test_everything_on_one_device_is_timed_as_by_the_loops(memory: int | None) -> None:
    """Placements, batches and slices on a single device are timed without loops, for the first plan of large models."""
    for kind in ("placement", "batched", "slicing"):
        problem = PROBLEMS[kind]("100")
        if memory is not None:
            devices = [device.model_copy(update={"memory_bytes": memory}) for device in problem.cluster.devices]
            cluster = problem.cluster.model_copy(update={"devices": tuple(devices)})
            problem = problem.model_copy(update={"cluster": cluster})
        name = "best_device" if kind == "batched" else "one_device"
        result = ow.solve(problem, solver=name)
        assert (result.solution is None) == (result.objective is None)
        if result.solution is not None:
            assert problem.evaluate(result.solution).objective == pytest.approx(result.objective)
            assert result.reason is None  # the referee agrees with what the baseline claims


@pytest.mark.parametrize(
    ("kind", "case", "engine"),
    [
        ("batched", "2000", "highs"),
        ("ordering", "14000", "highs"),
        ("totals", "14000", "highs"),
        ("placement", "14000", "highs"),
        ("layout", "5000", "highs"),
        ("pools", "3000", "highs"),
        ("serving", "20000", "highs"),
    ],
)
def test_a_program_that_is_too_large_is_refused_before_a_first_plan_is_sought(
    kind: str, case: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "first_knowledge", lambda *_: pytest.fail("nobody waits for this plan"))
    with pytest.raises(ow.LimitExceededError):
        ow.solve(PROBLEMS[kind](case), solver=engine)


@pytest.mark.parametrize("kind", list(PROBLEMS))
def test_no_program_is_refused_for_more_rows_than_it_counts_when_it_is_written(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, counts = PROBLEMS[kind]("7"), list[int]()
    monkeypatch.setattr(Formulation, "check_size", lambda _, rows: counts.append(rows))
    for row in ow.list_formulations(problem):
        takes = IntervalModel if row.engines == ("cp-sat",) else LinearModel
        formulation = find_formulation(type(problem), row.name, takes)()
        counts.clear()
        with suppress(UnsupportedFeatureError):
            formulation.build(problem)
            assert formulation.least_rows(problem) <= max(counts, default=0)
