"""A small problem, and a fake solver, so that these tests look at the adapters alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from opweave.adapters.cli import main as cli
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering, given_order
from opweave.problems.result import Result, Status, Termination
from opweave.solvers import registry
from opweave.solvers.registry import Feature, Solver
from opweave.solvers.run import Outcome
from opweave.solvers.run import Run as SolverRun

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def graph() -> OpGraph:
    """Two branches behind one input: the wide one first keeps 9 bytes less alive than the listed order."""
    sizes = {"x": 1, "a": 10, "b": 12, "a1": 1, "b1": 1, "y": 2}
    steps = [("grow a", "x", "a"), ("grow b", "x", "b"), ("shrink a", "a", "a1"), ("shrink b", "b", "b1")]
    operators = [Operator(id=name, kind="Conv", inputs=[read], outputs=[made]) for name, read, made in steps]
    join = Operator(id="join", kind="Concat", inputs=["a1", "b1"], outputs=["y"])
    tensors = [Tensor(id=name, bytes=size) for name, size in sizes.items()]
    return OpGraph(name="two branches", tensors=tensors, operators=[*operators, join], outputs=["y"])


@pytest.fixture
def problem(graph: OpGraph) -> MemoryOrdering:
    return MemoryOrdering(graph=graph)


BEST = ("grow a", "shrink a", "grow b", "shrink b", "join")


@pytest.fixture
def result(problem: MemoryOrdering) -> Result[Ordering]:
    return Result[Ordering](
        problem="memory_ordering",
        status=Status.OPTIMAL,
        termination=Termination.COMPLETED,
        objective=14,
        bound=14,
        bound_source="by hand",
        solution=Ordering(order=BEST),
        verified=True,
        solver="fake",
        model=problem.assumptions(),
    )


@pytest.fixture
def spec(problem: MemoryOrdering, tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(problem.model_dump_json())
    return path


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def _solve_definition(problem: MemoryOrdering, run: SolverRun) -> Outcome:
    ordering = given_order(problem)
    evaluation = problem.evaluate(ordering)
    assert evaluation.objective is not None
    if evaluation.feasible:
        run.found(ordering, evaluation.objective)
        return Outcome()
    return Outcome(infeasible=True, reason="14 bytes are needed, 1 more than the limit")


def _solve_auto(problem: MemoryOrdering, run: SolverRun) -> Outcome:
    outcome = _solve_definition(problem, run)
    better = Ordering(order=BEST)
    if sorted(BEST) == sorted(problem.graph.operator_index) and problem.evaluate(better).feasible:
        run.found(better, problem.evaluate(better).objective or 0)
        run.proved(run.objective or 0, "by hand")
    return outcome


def _interrupted(problem: MemoryOrdering, run: SolverRun) -> Outcome:
    _solve_definition(problem, run)
    raise KeyboardInterrupt


@pytest.fixture
def fake_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only these solvers: quick, known, and none of the real ones."""
    kind = "memory_ordering"
    gap, away, options = frozenset({Feature.GAP}), "pip install 'opweave[away]'", {"depth": "how deep"}
    fakes = [
        Solver("auto", kind, "plan", _solve_auto, "the best by hand", "optimum", gap, ("violations",)),
        Solver("definition", kind, "algorithm", _solve_definition, "as listed", options=options, baseline=True),
        Solver("ctrl-c", kind, "algorithm", _interrupted, "interrupted after its first order"),
        Solver("away", kind, "engine", _solve_auto, "not here", missing=lambda: away),
    ]
    monkeypatch.setattr(registry, "KINDS", ())
    monkeypatch.setattr(registry, "_SOLVERS", {(kind, fake.name): fake for fake in fakes})


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def opweave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["opweave", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        out, err = capsys.readouterr()
        return Ended(code if isinstance(code, int) else 0, out, err)

    return run


def assert_polite(ended: Ended, sentence: str) -> None:
    """Exit 2, one line on standard error, nothing on standard output."""
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.startswith("opweave: ")
    assert ended.err.count("\n") == 1
    assert sentence in ended.err
    assert "Traceback" not in ended.err
