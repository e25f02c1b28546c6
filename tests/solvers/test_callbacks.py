"""Callbacks that raise: every solver ends politely with what it has found, and the exception is there to be read."""

from __future__ import annotations

import logging
import pickle

import pytest

import opweave as ow
from opweave.results import SolverInfo
from tests.tiny import PROBLEMS, named

ROWS = [row for row in ow.list_solvers() if row.available and row.problem in PROBLEMS]


class MistakeError(Exception):
    """What a user's callback raises."""


def raise_at_a_plan(progress: ow.results.Progress) -> None:
    if progress.objective is not None:
        raise MistakeError("no such column")


def raise_at_once(_progress: ow.results.Progress) -> bool:
    raise MistakeError("no such file")


def solve_or_skip(row: SolverInfo, **arguments: object) -> ow.Result:
    try:
        return ow.solve(PROBLEMS[row.problem], solver=row.name, **arguments)
    except ow.UnsupportedFeatureError as refusal:
        pytest.skip(str(refusal))


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_incumbent_is_kept_when_progress_raises(row: SolverInfo, capfd: pytest.CaptureFixture[str]) -> None:
    result = solve_or_skip(row, progress=raise_at_a_plan)
    if result.objective is None:
        assert solve_or_skip(row).objective is None, "a plan was lost"
        return
    assert result.termination is ow.results.Termination.CALLBACK_ERROR
    assert result.verified
    assert "a callback raised MistakeError: no such column" in result.reason
    assert isinstance(result.callback_error, MistakeError)
    assert result.callback_error.__traceback__ is not None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("row", [row for row in ROWS if "callback" in row.features], ids=named)
def test_a_callback_that_raises_ends_the_run_before_it_has_found_anything(row: SolverInfo) -> None:
    result = solve_or_skip(row, callback=raise_at_once)
    assert result.termination is ow.results.Termination.CALLBACK_ERROR
    assert "MistakeError: no such file" in result.reason
    assert result.status is not ow.Status.INFEASIBLE


def test_results_that_ended_so_travel_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="opweave"):
        result = ow.solve(PROBLEMS["placement"], solver="heft", progress=raise_at_a_plan)
    assert any(record.exc_info is not None for record in caplog.records)
    back = type(result).model_validate_json(result.model_dump_json())
    assert (back, back.termination, back.reason) == (result, result.termination, result.reason)
    assert back.callback_error is None
    copied = pickle.loads(pickle.dumps(result))
    assert (copied, copied.callback_error) == (result, None)
    assert ow.solve(PROBLEMS["placement"], solver="heft").callback_error is None


def test_a_callback_that_raises_is_not_called_again() -> None:
    calls = []

    def watch(progress: ow.results.Progress) -> None:
        calls.append(progress)
        raise MistakeError

    ow.solve(PROBLEMS["slicing"], progress=watch)
    assert len(calls) == 1
