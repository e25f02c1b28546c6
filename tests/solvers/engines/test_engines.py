"""Engines in child processes: the real ones on a few instances, and fakes that lie, crash and overrun."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from pyomo.environ import Constraint as Row

import opweave as ow
from opweave.formulations.formulation import OutOfTimeError, find_formulation
from opweave.solvers.engines.answers import Verdict
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.known import CpSat, Engine, Highs
from opweave.solvers.engines.task import Task
from opweave.solvers.placement.engines import KNOWN_BEFORE
from opweave.solvers.run import Run
from tests.formulations.memory_ordering.programs import agrees, two_branches
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.solvers.engines import fakes
from tests.solvers.engines.fakes import FakeChild, FakeCpSat
from tests.solvers.placement.examples import layered
from tests.strategies.specs import memory_orderings
from tests.tiny import PROBLEMS

CHILDREN = [
    row.name
    for row in ow.list_solvers("memory_ordering")
    if row.kind == "engine" and row.available and row.name != "highs"
]
PLAIN = {"head_start": False}

START = ow.Ordering(order=["big1", "big2", "small1", "small2", "join"])


@pytest.mark.parametrize("name", CHILDREN)
@settings(max_examples=3, phases=[Phase.generate])
@given(problem=memory_orderings(6))
def test_agrees_with_brute_force(name, problem):
    assert agrees(ow.solve(problem, solver=name, options=PLAIN), best_ordering_by_states(problem)[0])


@pytest.mark.parametrize("name", CHILDREN)
def test_time_limit_gap_seed_and_threads_reach_the_engine(name):
    able = next(row.features for row in ow.list_solvers("memory_ordering") if row.name == name)
    more = {"threads": 2} if "threads" in {feature.value for feature in able} else {}
    if "start" in {feature.value for feature in able}:
        more["start"] = START
    result = ow.solve(two_branches(), solver=name, options=PLAIN, time_limit=30, gap=0.1, seed=5, **more)
    assert result.gap is not None
    assert result.gap <= 0.1


@pytest.fixture(params=["integer program", "constraint program"])
def misled(request: pytest.FixtureRequest, selectable, problem) -> Callable[..., ow.Result]:
    """Solves through a function that misbehaves in the place of either kind of engine."""

    def solve(function: object, **arguments: object) -> ow.Result:
        if request.param == "integer program":
            return ow.solve(problem, solver=selectable(FakeChild(function)), **arguments)
        start = HeadStart(initial=KNOWN_BEFORE.initial)
        name = selectable(FakeCpSat(function), start, "placement")
        return ow.solve(layered(8, 2, seed=1), solver=name, **arguments)

    return solve


def test_a_crash_keeps_the_best_so_far(misled) -> None:
    result = misled(fakes.start_then_crash)
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.results.Termination.ENGINE_ERROR)
    assert "fake died: killed by signal SIGSEGV" in result.reason


@pytest.mark.parametrize(
    ("arguments", "termination"),
    [
        ({"time_limit": 1.0}, ow.results.Termination.TIME_LIMIT),
        ({"callback": lambda now: now.stage.startswith("fake")}, ow.results.Termination.INTERRUPTED),
    ],
)
def test_an_engine_that_overruns_its_time_or_is_asked_to_stop_is_killed(misled, arguments, termination) -> None:
    began = time.monotonic()
    result = misled(fakes.start_then_hang, **arguments)
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, termination)
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fakes.refuse, "no licence"),
        (fakes.wrong_values, "returned"),
        (fakes.fractions, "returned"),
        (fakes.nan_values, "returned"),
        (fakes.too_few, "returned"),
        (fakes.no_values, "has no solution"),
        (fakes.high_bound, "lies above a verified objective"),
        (fakes.infeasible, "although a verified solution exists"),
    ],
)
def test_lies_are_found_out_and_the_best_so_far_stays(misled, function, words) -> None:
    result = misled(function)
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.results.Termination.ENGINE_ERROR)
    assert result.bound_source == "trivial"
    assert words in result.reason


class _Claims(Engine):
    """Reports the start, but claims one byte less for it: its matrix says so."""

    name = "claims"

    function = "tests.solvers.engines.fakes:refuse"

    def missing(self) -> None:
        return None

    def version(self) -> None:
        return None

    def work(self, task: Task) -> None:
        raise AssertionError

    def solve(self, task: Task) -> Verdict:
        values = task.start.copy()
        peak = [str(name) for name in task.matrix.names].index("peak")
        task.program = replace(task.program, matrix=_Lenient(task.matrix))
        values[peak] -= 1.0
        task.incumbent(values)
        task.bound(float(values[peak]))
        return "solved"


class _Lenient:
    """A matrix that finds nothing broken."""

    def __init__(self, matrix: object) -> None:
        self._matrix = matrix

    def __getattr__(self, name: str) -> object:
        return (lambda values: None) if name == "broken" else getattr(self._matrix, name)


def test_an_objective_claimed_too_low_costs_the_engine_its_bound(selectable, problem):
    result = ow.solve(problem, solver=selectable(_Claims(), HeadStart()), start=START)
    assert result.status is ow.Status.FEASIBLE
    assert (result.objective, result.bound_source) == (17, "trivial")
    assert "claimed 16" in result.reason


def test_a_formulation_that_leaves_solutions_out_proves_nothing(problem, selectable, monkeypatch):
    monkeypatch.setattr(find_formulation(type(problem), None), "restricts", True)
    name = selectable(FakeChild(fakes.infeasible), HeadStart())
    result = ow.solve(problem, solver=name)
    assert (result.status, result.bound_source) == (ow.Status.UNKNOWN, "trivial")
    assert "leaves solutions out" in result.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_pyomo_prints_nothing_when_the_writing_of_a_model_ends_early(problem, error, capfd):
    """Whatever is raised while Pyomo constructs a component, it logs on standard output as well."""

    def extend(model, _problem) -> None:
        def row(_model, _number):
            raise error("enough")

        model.mine = Row(range(3), rule=row)

    def solve() -> ow.Result:
        return ow.solve(problem, solver="highs", formulation="time_indexed", extend=extend)

    if error is KeyboardInterrupt:
        assert solve().termination is ow.results.Termination.INTERRUPTED
    else:
        with pytest.raises(ow.RuleError, match="enough") as caught:
            solve()
        assert isinstance(caught.value.__cause__, error)
    assert capfd.readouterr() == ("", "")


def test_constraint_programs_are_named_where_an_integer_program_is_asked_for() -> None:
    with pytest.raises(ow.InvalidInputError, match=r"'moirai' is an integer program, .*these would do: 'intervals'"):
        run_engine(PROBLEMS["placement"], Run(formulation="moirai"), CpSat(), KNOWN_BEFORE)


def test_components_of_pyomo_are_refused_where_they_would_be_ignored() -> None:
    def extend(model, _problem) -> None:
        model.mine = Row(range(3), rule=lambda _model, _number: True)

    with pytest.raises(ow.InvalidInputError, match=r"model\.mine.*write model\.add\(row\)"):
        ow.solve(PROBLEMS["placement"], solver="highs", extend=extend)


@pytest.mark.parametrize("kind", ["slicing", "pipeline", "batched_mapping", "memory_layout"])
def test_a_model_that_cannot_be_written_in_time_is_not_asked_for_its_resolution(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        raise OutOfTimeError

    problem = PROBLEMS[kind]
    known = ow.solve(problem)
    assert known.solution is not None
    assert known.objective is not None
    run = Run(time_limit=60.0)
    run.found(known.solution, known.objective)
    monkeypatch.setattr(find_formulation(type(problem), None), "build", late)
    outcome = run_engine(problem, run, Highs())
    assert outcome.termination is ow.results.Termination.TIME_LIMIT
    assert outcome.reason == "there was not enough time to write the model"
