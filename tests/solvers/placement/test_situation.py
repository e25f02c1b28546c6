"""How the default solver shares its time: the table of shares, small modules first, and how searches end."""

from __future__ import annotations

from dataclasses import astuple, fields

import pytest

from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.placement.local import empty_search, list_plans
from opweave.solvers.placement.plans import ended
from opweave.solvers.placement.situation import (
    BEGUN,
    BRIEF,
    DIVIDED,
    EQUAL,
    PROVED,
    SMALL,
    TIGHT,
    UNDIVIDED,
    WHOLE_SHARES,
    WIDE,
    Modules,
    Shares,
    Situation,
    is_close,
    search_small_modules,
    situation_of,
)
from opweave.solvers.run import Run
from tests.solvers.placement.examples import layered, topcuoglu
from tests.solvers.placement.instances import layered_problem

ROWS = (PROVED, WHOLE_SHARES, UNDIVIDED, TIGHT, EQUAL, BEGUN, BRIEF, WIDE, DIVIDED)


@pytest.mark.parametrize("row", ROWS)
def test_shares_are_shares(row: Shares) -> None:
    assert all(0.0 <= share <= 1.0 for share in astuple(row))


@pytest.mark.parametrize(
    ("holds", "row"),
    [
        ((), DIVIDED),
        (("small", "whole"), PROVED),
        (("whole", "undivided", "tight"), WHOLE_SHARES),
        (("undivided", "tight"), UNDIVIDED),
        (("tight", "equal", "begun", "wide"), TIGHT),
        (("equal", "begun"), EQUAL),
        (("begun", "wide"), BEGUN),
        (("begun", "brief"), BEGUN),
        (("brief",), BRIEF),
        (("wide",), WIDE),
    ],
)
def test_the_first_row_that_holds_counts(holds: tuple[str, ...], row: Shares) -> None:
    assert Situation(**{each.name: each.name in holds for each in fields(Situation)}).shares is row


def test_a_layered_network_without_ports_is_undivided_and_little_memory_is_tight() -> None:
    free = _situation(layered(80).model_copy(update={"transfers": "delay"}))
    assert (free.timed, free.whole, free.undivided, free.tight) == (True, False, True, False)
    tight = _situation(layered(80, memory=1_500))
    assert tight.shares is TIGHT


def test_a_wide_network_is_only_cooled_down_where_time_is_short() -> None:
    long, brief = _situation(layered(80)), _situation(layered(80), seconds=2.0)
    assert (long.wide, long.brief, brief.wide, brief.brief) == (True, False, False, True)
    assert brief.shares is BRIEF


def _situation(problem: Placement, seconds: float = 60.0) -> Situation:
    return situation_of(empty_search(problem, Run(time_limit=seconds)), equal=False, begun=False)


def test_only_small_modules_are_decomposed_first() -> None:
    large, small = Run(time_limit=60.0), Run(time_limit=60.0)
    assert not search_small_modules(empty_search(layered(80), large))
    assert "decompose" not in large.kept
    search = empty_search(layered_problem(10, 3), small)
    list_plans(search)
    assert search_small_modules(search)
    assert isinstance(small.kept["decompose"], Modules)
    assert small.objective is not None
    assert search.makespan == pytest.approx(small.objective)


def test_a_small_problem_is_only_searched_briefly_first() -> None:
    run = Run(time_limit=60.0)
    search = empty_search(layered_problem(3, 3), run)
    list_plans(search)
    assert search.instance.operators <= SMALL
    assert not search_small_modules(search)
    assert run.bound is not None
    assert search.makespan == pytest.approx(run.objective)


def test_plan_and_bound_are_close_within_two_per_cent() -> None:
    run = Run()
    assert not is_close(run)
    problem = topcuoglu()
    list_plans(empty_search(problem, run))
    assert run.objective is not None
    run.proved(0.97 * run.objective, "a test")
    assert not is_close(run)
    run.proved(0.99 * run.objective, "a test")
    assert is_close(run)


def test_a_search_ends_because_it_has_to_or_because_nothing_is_left() -> None:
    problem, run = topcuoglu(), Run(time_limit=60.0)
    assert ended(problem, run).termination is Termination.BUDGET
    assert ended(problem, run).reason is not None
    list_plans(empty_search(problem, run))
    assert ended(problem, run).reason is None
    with run.at_most(0.0):
        assert ended(problem, run).termination is Termination.TIME_LIMIT
    run.proved(run.objective, "a test")
    assert ended(problem, run).termination is Termination.COMPLETED
