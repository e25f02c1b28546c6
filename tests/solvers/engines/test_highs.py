"""HiGHS: every status has a meaning, dropped rows are noticed, limits and interrupts keep what was found."""

from __future__ import annotations

import threading
from dataclasses import replace

import highspy
import numpy as np
import pytest

import opweave as ow
from opweave.formulations.modeling.arrays import MatrixModel
from opweave.formulations.modeling.rows import RowBlock
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines import highs_child
from opweave.solvers.engines.answers import Ending, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.highs_child import STATUS, load_highs, run_checked
from opweave.solvers.engines.known import Engine, Highs, report
from opweave.solvers.engines.task import Task
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.placement import best_placement
from tests.tiny import PROBLEMS, graph_of

PLAIN = {"head_start": False}
WORK = Work("highs", None)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS runs in this process."""

    def answer(_: Highs, task: Task, work: Work) -> Ending:
        return highs_child.solve(work, lambda news: report(task, news))

    monkeypatch.setattr(Engine, "answer", answer)


def knapsack(rows: int = 1) -> MatrixModel:
    """Minimise -x0 - x1 with x0 + x1 <= 1, ``rows`` times."""
    return MatrixModel(
        cost=np.array([-1.0, -1.0]),
        offset=0.0,
        lower=np.zeros(2),
        upper=np.ones(2),
        whole=np.ones(2, dtype=bool),
        rows=block(rows),
        names=("x0", "x1"),
    )


def block(rows: int, value: float = 1.0) -> RowBlock:
    return RowBlock(
        start=np.arange(0, 2 * rows + 1, 2, dtype=np.int32),
        index=np.tile(np.array([0, 1], dtype=np.int32), rows),
        value=np.full(2 * rows, value),
        lower=np.full(rows, -np.inf),
        upper=np.ones(rows),
        names=tuple(f"r{r}" for r in range(rows)),
    )


def wide_problem(branches: int = 12) -> ow.MemoryOrdering:
    """Chains of three between x and a join, of unlike sizes: enough for HiGHS to need a while."""
    rng = np.random.default_rng(5)
    tensors, operators, ends = [ow.Tensor(id="x", bytes=7)], [], []
    for b in range(branches):
        before = ["x"]
        for step in range(4):
            name = f"{b}.{step}"
            tensors.append(ow.Tensor(id=name, bytes=int(rng.integers(1, 1000))))
            operators.append(ow.Operator(id=name, inputs=before, outputs=[name]))
            before = [name, f"{(b * 7) % branches}.{step}"] if b > 3 else [name]
        ends.append(name)
    tensors.append(ow.Tensor(id="join", bytes=1))
    operators.append(ow.Operator(id="join", inputs=ends, outputs=["join"]))
    return ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=operators, outputs=["join"]))


NEVER = {
    "kObjectiveBound",
    "kObjectiveTarget",
    "kUnbounded",
    "kUnboundedOrInfeasible",
    "kModelEmpty",
    "kLoadError",
    "kModelError",
    "kPresolveError",
    "kSolveError",
    "kPostsolveError",
    "kNotset",
    "kUnknown",
}
"""Statuses that must not occur with our models."""


def six() -> ow.MemoryOrdering:
    """Six operators of which the listed order is not the best."""
    reads = {"o0": "", "o1": "", "o2": "o0", "o3": "o0", "o4": "", "o5": "o2 o3"}
    graph = graph_of(dict(zip(reads, (4, 9, 8, 7, 1, 7), strict=True)), reads)
    return ow.MemoryOrdering(graph, objective="total")


def full_to_the_byte() -> ow.Placement:
    """Two operators of 2**50 bytes that one device holds but for a byte, which an engine's tolerance does not see."""
    names = {"t": 10, "u": 2**50, "v": 2**50 + 1}
    reads = {"make": ([], "t"), "left": (["t"], "u"), "right": (["t"], "v")}
    return ow.Placement(
        graph=ow.OpGraph(
            tensors=[ow.Tensor(id=name, bytes=size) for name, size in names.items()],
            operators=[ow.Operator(id=name, inputs=read, outputs=[made]) for name, (read, made) in reads.items()],
        ),
        cluster=ow.Cluster(
            devices=[ow.Device(name=name, memory_bytes=2**51 + 10) for name in "ab"], bandwidth=[[0, 1], [1, 0]]
        ),
        costs=ow.Costs.from_table({"make": {"a": 1, "b": 1}, "left": {"a": 4, "b": 4}, "right": {"a": 4, "b": 4}}),
        transfers="delay",
    )


def listed_order(problem: ow.MemoryOrdering) -> ow.Ordering:
    return ow.Ordering(order=[operator.id for operator in problem.graph.operators])


def test_every_model_status_of_highs_has_a_meaning_or_is_an_error():
    assert not NEVER & set(STATUS)
    assert NEVER | set(STATUS) == set(highspy.HighsModelStatus.__members__)


def test_rows_that_do_not_arrive_are_noticed(monkeypatch):
    monkeypatch.setattr(highspy.Highs, "getNumRow", lambda self: 1)
    with pytest.raises(EngineError, match="highs holds 2 columns, 1 rows"):
        load_highs(knapsack(rows=2), WORK)


def test_a_warning_on_the_way_is_an_error(monkeypatch):
    monkeypatch.setattr(highspy.Highs, "passModel", lambda self, lp: highspy.HighsStatus.kWarning)
    with pytest.raises(EngineError, match="kWarning to passModel"):
        load_highs(knapsack(), WORK)


def test_rows_that_were_left_out_are_added_and_no_solution_may_break_them(monkeypatch, here):
    """Rows that HiGHS was given and whose solution breaks them all the same are an error, not an endless loop."""
    sizes: list[int] = []
    plain = highs_child.load_highs

    def counted(matrix: MatrixModel, work: Work) -> highspy.Highs:
        sizes.append(len(matrix.rows))
        return plain(matrix, work)

    monkeypatch.setattr(highs_child, "load_highs", counted)
    problem = full_to_the_byte()
    result = ow.solve(problem, solver="highs", options=PLAIN)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(best_placement(problem)[0]))
    assert len(set(sizes)) > 1
    assert sorted(sizes) == sizes
    monkeypatch.setattr(RowBlock, "joined", lambda self, _: self)  # the rows are lost on the way
    lost = ow.solve(problem, solver="highs", options=PLAIN)
    assert lost.termination is ow.results.Termination.ENGINE_ERROR
    assert "violates constraints of its model" in lost.reason


@pytest.mark.parametrize("status", sorted(NEVER))
def test_a_status_that_must_not_be_is_an_error(monkeypatch, here, problem, status):
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: highspy.HighsModelStatus.__members__[status])
    result = ow.solve(problem, solver="highs", options=PLAIN)
    assert result.termination is ow.results.Termination.ENGINE_ERROR
    assert status in result.reason
    assert result.status is not ow.Status.OPTIMAL


def test_a_failing_run_is_an_error(monkeypatch, here, problem):
    monkeypatch.setattr(highspy.Highs, "run", lambda self: highspy.HighsStatus.kError)
    result = ow.solve(problem, solver="highs", options=PLAIN)
    assert (result.status, result.termination) == (ow.Status.UNKNOWN, ow.results.Termination.ENGINE_ERROR)
    assert "kError" in result.reason


def test_where_highs_returns_the_start_instead_of_the_optimum_it_solves_again(monkeypatch, here):
    """As HiGHS 1.16 does with some programs."""
    problem = six()
    starts: list[FloatArray | None] = []
    plain_solution, plain_begin = highs_child.solution_of, highs_child.begin

    def begun(solver: highspy.Highs, work: Work) -> None:
        starts.append(work.start)
        plain_begin(solver, work)

    def returned(solver: highspy.Highs) -> FloatArray | None:
        return plain_solution(solver) if starts[-1] is None else starts[-1]

    monkeypatch.setattr(highs_child, "begin", begun)
    monkeypatch.setattr(highs_child, "solution_of", returned)
    result = ow.solve(problem, solver="highs", start=listed_order(problem), options=PLAIN)
    assert starts[0] is not None
    assert starts[-1] is None
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, best_ordering_by_states(problem)[0])


def test_a_point_above_the_engines_own_bound_is_not_optimal(monkeypatch, here):
    problem = six()
    plain = highs_child.solve

    def solved(work: Work, send: Send) -> Ending:
        answer = plain(replace(work, start=None), lambda news: None)
        return answer if work.start is None else replace(answer, values=work.start)

    monkeypatch.setattr(highs_child, "solve", solved)
    result = ow.solve(problem, solver="highs", start=listed_order(problem), options=PLAIN)
    optimum = best_ordering_by_states(problem)[0]
    assert result.objective > optimum >= result.bound
    assert result.status is ow.Status.FEASIBLE


def test_solved_without_a_solution_is_an_error(monkeypatch, here, problem):
    monkeypatch.setattr(highs_child, "solution_of", lambda solver: None)
    result = ow.solve(problem, solver="highs", options=PLAIN)
    assert result.termination is ow.results.Termination.ENGINE_ERROR
    assert "has no solution" in result.reason


def test_solves_with_unlike_numbers_of_threads_do_not_disturb_each_other():
    results: dict[int, ow.Result] = {}

    def solve(threads: int) -> None:
        results[threads] = ow.solve(wide_problem(6), solver="highs", options=PLAIN, threads=threads, time_limit=30)

    workers = [threading.Thread(target=solve, args=(threads,)) for threads in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {result.objective for result in results.values()} == {results[1].objective}
    assert all(result.status is ow.Status.OPTIMAL for result in results.values())


def test_no_bound_is_claimed_for_an_objective_that_a_user_put_in_place():
    def other(model, _):
        model.minimise(-model.on("b", "d"))

    result = ow.solve(PROBLEMS["placement"], solver="highs", extend=other, options=PLAIN)
    assert result.status is ow.Status.FEASIBLE
    assert result.bound_source in ("trivial", "bound before the engine")
    assert result.solution.device["b"] == "d"


def test_a_head_start_that_highs_fails_on_is_left_out(monkeypatch, here) -> None:
    """HiGHS 1.15 has answered kError to models of slicing that it solves without a head start."""
    problem, failed = wide_problem(2), []

    def fail_once(solver: highspy.Highs) -> None:
        if failed:
            run_checked(solver)
            return
        failed.append(True)
        raise EngineError("highs answered kError to run")

    monkeypatch.setattr(highs_child, "run_checked", fail_once)
    start = ow.solve(problem, solver="definition").solution
    result = ow.solve(problem, solver="highs", start=start, formulation="time_indexed", options=PLAIN)
    assert (result.status, failed) == (ow.Status.OPTIMAL, [True])
    failed.clear()
    alone = ow.solve(problem, solver="highs", options=PLAIN, formulation="time_indexed")
    assert alone.termination is ow.results.Termination.ENGINE_ERROR
