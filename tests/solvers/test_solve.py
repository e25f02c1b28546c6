"""solve(): arguments, refusals, and what becomes of solvers that lie, crash, overrun or are interrupted."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import opweave as ow
from opweave.problems.errors import EngineError
from opweave.results import Termination
from opweave.solvers import registry
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
from tests.tiny import PROBLEMS, graph_of

GOOD = ow.Ordering(order=["a", "b", "c"])
ALSO_GOOD = ow.Ordering(order=["b", "a", "c"])
WRONG = ow.Ordering(order=["c", "a", "b"])


@pytest.fixture
def problem() -> ow.MemoryOrdering:
    """a makes 8 bytes from x, b makes 2 from x, c joins them into 1; a then b needs 12 (x, a, b), either way."""
    return ow.MemoryOrdering(graph_of({"x": 2, "a": 8, "b": 2, "c": 1}, {"a": "x", "b": "x", "c": "a b"}, "c"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Run], Outcome]], str]]:
    """Registers a solver that does what it is told; returns its name."""
    registry._load()
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))

    def add(act: Callable[[Run], Outcome]) -> str:
        able = frozenset({Feature.GAP, Feature.CALLBACK, Feature.START})
        register(Solver("fake", "memory_ordering", "algorithm", lambda _, run: act(run), "a fake", features=able))
        return "fake"

    return add


OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN = ow.Status
DONE, FAILED = Termination.COMPLETED, Termination.ENGINE_ERROR
REFUTED = Outcome(infeasible=True, reason="because")


@pytest.mark.parametrize(
    ("found", "bound", "outcome", "ended", "objective", "source", "words"),
    [
        ([(GOOD, 12)], 12, Outcome(), (OPTIMAL, DONE), 12, "act", ""),
        ([(GOOD, 11)], 11, Outcome(), (FEASIBLE, FAILED), 12, "trivial", "claimed 11"),
        ([(GOOD, 12), (WRONG, 3)], 3, Outcome(), (FEASIBLE, FAILED), 12, "trivial", "not valid"),
        ([(WRONG, 3)], None, Outcome(), (UNKNOWN, DONE), None, "trivial", "precedence"),
        ([(GOOD, 12)], 13, Outcome(), (FEASIBLE, FAILED), 12, "trivial", "above a verified"),
        ([(GOOD, 12)], None, REFUTED, (FEASIBLE, FAILED), 12, "trivial", "although a verified"),
        ([], 3, REFUTED, (INFEASIBLE, DONE), None, None, "because"),
        ([(GOOD, 12)], 3, Outcome(Termination.GAP_REACHED), (FEASIBLE, DONE), 12, "trivial", ""),
    ],
    ids=["honest", "too low", "invalid", "no plan", "bound", "infeasible", "refuted", "no gap"],
)
def test_solvers_are_believed_as_far_as_the_referee_confirms(
    problem, fake, found, bound, outcome, ended, objective, source, words
) -> None:
    def act(run: Run) -> Outcome:
        for plan, claimed in found:
            run.found(plan, claimed)
        if bound is not None:
            run.proved(bound, "act")
        return outcome

    result = ow.solve(problem, solver=fake(act), gap=0.01)
    assert (result.status, result.termination) == ended
    assert (result.objective, result.bound_source, result.verified) == (objective, source, objective is not None)
    assert words in f"{result.reason} {[each.rule for each in result.violations]}"


@pytest.mark.parametrize(
    ("error", "termination"),
    [(EngineError("the engine died"), Termination.ENGINE_ERROR), (KeyboardInterrupt(), Termination.INTERRUPTED)],
)
def test_what_was_found_before_the_end_is_kept(problem, fake, error, termination) -> None:
    def act(run: Run) -> Outcome:
        run.found(GOOD, 12)
        raise error

    result = ow.solve(problem, solver=fake(act))
    assert (result.status, result.solution, result.termination) == (ow.Status.FEASIBLE, GOOD, termination)


@pytest.mark.parametrize(
    ("arguments", "termination"),
    [
        ({"callback": lambda progress: progress.objective == 12}, Termination.INTERRUPTED),
        ({"time_limit": 0.05}, Termination.TIME_LIMIT),
    ],
)
def test_a_callback_or_a_time_limit_ends_the_run(problem, fake, arguments, termination) -> None:
    def act(run: Run) -> Outcome:
        run.found(GOOD, 12)
        while not run.should_stop():
            time.sleep(0.001)
        return Outcome(run.termination())

    result = ow.solve(problem, solver=fake(act), **arguments)
    assert (result.status, result.termination) == (FEASIBLE, termination)


def test_a_gap_that_is_reached_ends_the_run(problem, fake) -> None:
    def act(run: Run) -> Outcome:
        run.found(GOOD, 12)
        run.proved(11, "counting")
        return Outcome(run.termination())

    result = ow.solve(problem, solver=fake(act), gap=0.2)
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, Termination.GAP_REACHED)
    assert result.gap == pytest.approx(1 / 12)


def test_a_start_is_never_lost(problem, fake) -> None:
    result = ow.solve(problem, solver=fake(lambda run: Outcome()), start=ALSO_GOOD)
    assert (result.solution, result.objective) == (ALSO_GOOD, 12)


def test_a_start_that_is_no_solution_is_refused(problem) -> None:
    with pytest.raises(ow.InvalidInputError, match="the start is not a solution"):
        ow.solve(problem, start=WRONG)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"time_limit": 0}, "time_limit is 0"),
        ({"time_limit": math.nan}, "time_limit is nan"),
        ({"time_limit": math.inf}, "time_limit is inf"),
        ({"gap": 1.0}, "gap is 1.0"),
        ({"gap": -0.1}, "gap is -0.1"),
        ({"time_limit": "soon"}, "time_limit is 'soon'; it must be a number of seconds above 0, or None for no limit"),
        ({"time_limit": True}, "time_limit is True"),
        ({"time_limit": 10**400}, "time_limit is 1000"),
        ({"gap": "small"}, "gap is 'small'; it must be a fraction"),
        ({"gap": None}, "gap is None"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": 100_000}, "threads is 100000; it must be a whole number from 1 to"),
        ({"threads": 1.5}, "threads is 1.5; it must be a whole number from 1"),
        ({"seed": None}, "seed is None; it must be a whole number from 0"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"seed": True}, "seed is True"),
        ({"seed": -1}, "seed is -1"),
        ({"executor": 3}, "executor is 3; it must be a concurrent.futures.Executor, or None"),
        ({"extend": 3}, "extend is 3; it must be a function of a model and a problem, or None"),
        ({"callback": 3}, "callback is 3; it must be a function of a Progress, or None"),
        ({"progress": 3}, "progress is 3; it must be a function of a Progress, or None"),
        ({"options": 3}, "options is 3; it must be a mapping from option names to values, or None"),
        ({"options": {3: 3}}, "options is {3: 3}"),
        ({"options": {"max_states": [3]}}, r"option 'max_states' is \[3\]; it must be a finite number"),
        ({"options": {"max_states": math.nan}}, "option 'max_states' is nan"),
        ({"solver": ["exact"]}, "it must be the name of a solver"),
        ({"formulation": 3}, "formulation is 3; it must be the name of a formulation, or None"),
        ({"start": "abc"}, "start is of type str; it must be of type Ordering, such as result.plan, or None"),
        ({"solver": "magic"}, "no solver 'magic'"),
        ({"solver": "rpo", "gap": 0.1}, "cannot honour 'gap'"),
        ({"solver": "rpo", "threads": 2}, "cannot honour 'threads'"),
        ({"solver": "exact", "formulation": "time_indexed"}, "cannot honour 'formulation'"),
        ({"solver": "exact", "extend": lambda model, problem: None}, "cannot honour 'extend'"),
        ({"solver": "exact", "options": {"speed": 9}}, "no option 'speed'"),
        (
            {"solver": "exact", "options": {"max_states": "many"}},
            "option 'max_states' is 'many'; it must be a whole number",
        ),
        ({"solver": "highs", "formulation": "sonnet"}, "no formulation 'sonnet'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(problem, arguments, sentence) -> None:
    with pytest.raises(ow.OpweaveError, match=sentence):
        ow.solve(problem, **arguments)


def test_what_is_refused_is_refused_before_anything_runs(problem, fake) -> None:
    def act(run: Run) -> Outcome:
        raise AssertionError("it ran")

    name = fake(act)
    for arguments in ({"seed": None}, {"progress": 3}, {"options": {"speed": []}}):
        with pytest.raises(ow.InvalidInputError):
            ow.solve(problem, solver=name, **arguments)
    with pytest.raises(ow.InvalidInputError, match="problem is a graph; say what is to be decided"):
        ow.solve(problem.graph, solver=name)


def test_numbers_may_be_numpys(problem) -> None:
    options = {"max_states": np.int64(1000)}
    result = ow.solve(problem, solver="exact", seed=np.int64(3), time_limit=np.float64(9), options=options)
    assert (result.status, result.seed, result.options) == (ow.Status.OPTIMAL, 3, {"max_states": 1000})


def test_options_take_whole_numbers_for_numbers_and_say_what_they_take() -> None:
    run = Run(options={"number": 1, "none": True, "text": 3, "truth": 1})
    assert run.option("number", 2.5) == 1.0
    assert isinstance(run.option("number", 2.5), float)
    assert run.option("number", 2) == 1
    refused = [
        ("none", 2.5, "a number"),
        ("none", 2, "a whole number"),
        ("text", "a", "a string"),
        ("truth", True, "true or"),
    ]
    for name, default, words in refused:
        with pytest.raises(ow.InvalidInputError, match=f"it must be {words}"):
            run.option(name, default)


class Sooner(ow.Precede):
    """A rule that is told to searches over states alone."""

    def violations(self, problem, solution):
        return ()


@ow.express(Sooner, "step_rule")
def _sooner(_problem, rule):
    return lambda done, op: op != rule.after or rule.before in done


@pytest.mark.parametrize("solver", ["definition", "rpo", "lpmf", "bfs", "dfs"])
def test_solvers_that_cannot_honour_a_constraint_name_those_that_can(problem, solver) -> None:
    bound = problem.model_copy(update={"constraints": (Sooner(before="b", after="a"),)})
    with pytest.raises(ow.UnsupportedConstraintError, match=r"these can: .*exact"):
        ow.solve(bound, solver=solver)


def test_progress_is_observed(problem) -> None:
    seen: list[ow.results.Progress] = []
    ow.solve(problem, progress=seen.append)
    assert any(step.new_best for step in seen)
    assert seen[-1].objective == 12


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_default_solver_needs_no_optional_package(problem, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ow.list_solvers(problem):
        if row.kind == "engine" and row.name != "highs":
            key = (problem.kind, row.name)
            absent = dataclasses.replace(registry._SOLVERS[key], missing=lambda: "pip install it")
            monkeypatch.setitem(registry._SOLVERS, key, absent)
    result = ow.solve(problem, time_limit=5)
    assert result.verified
    assert result.objective == ow.solve(problem, solver="highs").objective
