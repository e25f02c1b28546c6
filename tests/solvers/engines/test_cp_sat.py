"""CP-SAT through ``solve``, and child processes in its place that lie, crash and hang."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import opweave as ow
from opweave.formulations.placement.cp import Intervals
from opweave.problems.errors import InvalidInputError
from opweave.solvers import registry
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.known import CpSat
from opweave.solvers.placement.engines import KNOWN_BEFORE
from opweave.solvers.registry import Feature, Solver, register
from tests.formulations.placement.instances import (
    PLAIN,
    TRANSFERS,
    EndsBy,
    NotBoth,
    StartsFrom,
    agrees,
    fork,
    random_placement,
)
from tests.solvers.engines import interval_fakes as lies

needs_ortools = pytest.mark.skipif(CpSat().missing() is not None, reason="ortools is not installed")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Registers an engine that runs one of the functions of interval_fakes as solver "fake"."""
    registry._load()
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))

    def add(function: object) -> str:
        engine = CpSat()
        engine.function = f"{function.__module__}:{function.__name__}"
        only_a_start = HeadStart(initial=KNOWN_BEFORE.initial)
        register(
            Solver(
                name="fake",
                problem="placement",
                kind="engine",
                run=lambda problem, run: run_engine(problem, run, engine, only_a_start),
                about="a fake",
                proves="optimum",
                features=frozenset(Feature),
                supports=Intervals.supports,
            )
        )
        return "fake"

    return add


PROBLEM = random_placement(8, 2, 3)


@needs_ortools
@pytest.mark.parametrize("transfers", TRANSFERS)
def test_a_fork_by_hand(transfers):
    assert agrees(ow.solve(fork(transfers=transfers), solver="cp-sat", options=PLAIN), 6.0)


@needs_ortools
def test_agrees_with_highs():
    problem = random_placement(9, 2, 4)
    first, second = ow.solve(problem, solver="highs"), ow.solve(problem, solver="cp-sat", threads=2)
    assert agrees(first, second.objective)
    assert agrees(second, first.objective)


@needs_ortools
@pytest.mark.parametrize(
    ("constraints", "optimum"),
    [
        ([StartsFrom(op="make", seconds=2.5)], 8.5),
        ([EndsBy(op="left", seconds=5.0), ow.Pin(op="left", device="b")], 6.0),
        ([EndsBy(op="left", seconds=4.5)], None),
        ([NotBoth(first="left", second="right", device=name) for name in "ab"] + [ow.MaxDevices(count=1)], None),
        ([ow.Colocate(ops=["left", "right"]), ow.Precede(before="right", after="left")], 9.0),
    ],
)
def test_side_constraints(constraints, optimum):
    assert agrees(ow.solve(fork(constraints=constraints), solver="cp-sat"), optimum)


@needs_ortools
def test_users_own_rows():
    def late(model, problem):
        model.add(model.start("right") >= 7.0)

    assert agrees(ow.solve(fork(), solver="cp-sat", extend=late), 11.0)


@needs_ortools
def test_a_time_limit_keeps_the_start_and_a_bound():
    began = time.monotonic()
    result = ow.solve(random_placement(60, 3, 5), solver="cp-sat", time_limit=2.0)
    assert result.solution is not None
    assert result.bound is not None
    assert time.monotonic() - began < 12


def test_the_name_of_the_formulation():
    with pytest.raises(InvalidInputError, match=r"'moirai' is an integer program, .*these would do: 'intervals'"):
        run_engine(fork(), registry.Run(formulation="moirai"), CpSat(), KNOWN_BEFORE)


def test_a_crash_keeps_the_best_so_far(fake):
    result = ow.solve(PROBLEM, solver=fake(lies.hint_then_crash))
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.Termination.ENGINE_ERROR)
    assert "cp-sat died: killed by signal SIGSEGV" in result.reason


def test_an_engine_that_overruns_its_time_is_killed(fake):
    began = time.monotonic()
    result = ow.solve(PROBLEM, solver=fake(lies.hint_then_hang), time_limit=2.0)
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.Termination.TIME_LIMIT)
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lies.overlapping, "cp-sat returned values that break"),
        (lies.fractions, "not whole"),
        (lies.not_numbers, "not whole"),
        (lies.too_few, "3 values"),
        (lies.nothing, "has no solution"),
        (lies.refused, "MODEL_INVALID"),
        (lies.high_bound, "lies above a verified objective"),
        (lies.infeasible, "although a verified solution exists"),
    ],
)
def test_lies_are_found_out_and_the_best_so_far_stays(fake, function, words):
    result = ow.solve(PROBLEM, solver=fake(function))
    assert (result.status, result.termination) == (ow.Status.FEASIBLE, ow.Termination.ENGINE_ERROR)
    assert result.bound_source == "trivial"
    assert words in result.reason
