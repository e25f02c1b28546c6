"""What a result may claim, its gap, and its way through JSON."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.result import Incumbent, Result, Status, Termination, Timings
from opweave.problems.solution import Solution, Violation


def result(**changes):
    """A feasible result with a gap of one fifth, with some fields changed."""
    fields = {
        "problem": "memory_ordering",
        "status": Status.FEASIBLE,
        "termination": Termination.TIME_LIMIT,
        "objective": 10,
        "bound": 8,
        "bound_source": "L2",
        "solution": Ordering(order=["a", "b"]),
        "verified": True,
        "solver": "auto",
    }
    return Result[Ordering](**fields | changes)


NOTHING = {"solution": None, "objective": None, "verified": False}


def test_by_hand():
    assert result().gap == 0.2
    assert result().solution.order == ("a", "b")


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (10, 8, 0.2),
        (10, 10, 0.0),
        (10, 0, 1.0),
        (10, -5, 1.0),
        (0, 0, 0.0),
        (0, -1e-9, 0.0),
        (1.0, 1.0 + 1e-12, 0.0),
        (10, None, None),
        (2**53, 2**53 - 1, 2**-53),
    ],
)
def test_gap(objective, bound, gap):
    assert result(objective=objective, bound=bound).gap == gap


def test_without_a_solution_there_is_no_gap():
    assert result(**NOTHING, status="unknown").gap is None


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_legal_result(status):
    changes = {} if status in (Status.OPTIMAL, Status.FEASIBLE) else NOTHING
    bound = 10 if status is Status.OPTIMAL else 8
    assert result(**changes, status=status, bound=bound).status is status


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": "infeasible"}, "status 'infeasible' does not fit: a verified solution is there"),
        ({"status": "unknown"}, "status 'unknown' does not fit: a verified solution is there"),
        ({"verified": False}, "status 'feasible' does not fit: a verified solution is not there"),
        ({**NOTHING, "status": "optimal"}, "status 'optimal' does not fit: a verified solution is not there"),
        ({"solution": None}, "'verified' needs a solution"),
        ({"objective": None}, "'verified' needs a solution and its objective"),
        ({"violations": [Violation(rule="limit", message="over")]}, "and no violations"),
        ({"status": "optimal"}, "status 'optimal' needs an objective and a bound that meet"),
        ({"status": "optimal", "bound": None}, "status 'optimal' needs an objective and a bound that meet"),
        ({"status": "splendid"}, "status"),
        ({"termination": "bored"}, "termination"),
        ({"objective": float("nan")}, "objective"),
        ({"objective": True}, "objective"),
        ({"bound": float("inf")}, "bound"),
        ({"options": {"width": [1]}}, "options"),
    ],
)
def test_contradictions_are_refused(changes, sentence):
    with pytest.raises(ValidationError, match=sentence):
        result(**changes)


def test_a_rejected_solution_may_be_shown():
    shown = result(status="unknown", verified=False, violations=[Violation(rule="limit", message="over")])
    assert shown.solution is not None


def test_an_engines_tolerance_is_no_contradiction():
    assert result(status="optimal", objective=0.003, bound=0.003 * (1 - 1e-7)).gap < 1e-6


@pytest.mark.parametrize("family", [Result[Ordering], Result[Solution], Result])
def test_json_names_the_solution(family):
    given = result(timings=Timings(solve=1.5), incumbents=[Incumbent(seconds=0.5, objective=12)], options={"a": None})
    text = given.model_dump_json()
    assert '"solution":{"kind":"ordering","order":["a","b"]}' in text
    assert '"status":"feasible","termination":"time_limit"' in text
    again = family.model_validate_json(text)
    assert again == given
    assert isinstance(again.solution, Ordering)
    assert again.gap == given.gap


def test_a_solution_of_unknown_kind_is_refused():
    text = result().model_dump_json().replace('"kind":"ordering"', '"kind":"guess"')
    with pytest.raises(ValidationError, match=r"unknown solution kind 'guess'; known: .*ordering"):
        Result[Solution].model_validate_json(text)


def test_timings_add_up():
    assert Timings(reduce=1, build=2, solve=3, verify=4).total == 10.0


def test_files_of_the_version_before_are_read():
    old = json.loads(result(assumptions="peak").model_dump_json())
    old["model"] = old.pop("assumptions")
    assert Result[Ordering].model_validate_json(json.dumps(old)) == result(assumptions="peak")
