"""One table for several solvers: who was asked, what each found, and why one found nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import opweave as ow
from opweave.solvers import registry
from opweave.solvers.registry import Solver
from opweave.solvers.run import Outcome
from tests.tiny import PROBLEMS

PLACEMENT = PROBLEMS["placement"]


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_baselines_and_auto_by_default(kind):
    found = ow.compare(PROBLEMS[kind], time_limit=10)
    baselines = [each.name for each in registry.registered(kind) if each.baseline and None in each.readings]
    assert [row.solver for row in found.rows] == [*baselines, "auto"]
    assert found.best is not None
    assert found["auto"].objective == found.best.objective
    assert found.baseline in baselines
    assert found.relative("auto") <= 1.0
    assert len(found) == len(found.rows)
    for row in found:
        assert row.bound is None or row.bound <= found.best.objective


def test_a_solver_that_refuses_has_a_row_that_says_why(monkeypatch):
    strict = Solver("strict", "placement", "algorithm", lambda problem, run: Outcome(), "", supports=())
    monkeypatch.setitem(registry._SOLVERS, ("placement", "strict"), strict)
    problem = PLACEMENT.model_copy(update={"constraints": (ow.Separate(ops=("a", "b")),)})
    found = ow.compare(problem, ["strict", "auto"], time_limit=5)
    assert "cannot honour Separate" in found["strict"].refusal
    assert found["strict"].objective is None
    assert found.relative("strict") is None
    assert found["auto"].objective is not None


def test_a_solver_that_is_not_installed_has_a_row(monkeypatch):
    monkeypatch.setitem(
        registry._SOLVERS,
        ("placement", "absent"),
        Solver(
            "absent", "placement", "algorithm", lambda problem, run: Outcome(), "", missing=lambda: "pip install absent"
        ),
    )
    assert "pip install absent" in ow.compare(PLACEMENT, ["absent", "heft"])["absent"].refusal


def test_arguments_reach_those_that_honour_them():
    start = ow.solve(PLACEMENT, solver="one_device").solution
    found = ow.compare(
        PLACEMENT, ["heft", "local"], time_limit=1, start=start, gap=0.9, threads=2, options={"local": {}}
    )
    assert all(row.objective is not None for row in found.rows)
    assert found["local"].objective <= PLACEMENT.evaluate(start).objective


def test_on_an_executor_the_rows_are_the_same():
    ticks = []
    names = ["one_device", "heft", "auto"]
    with ThreadPoolExecutor(2) as pool:
        found = ow.compare(
            PLACEMENT, names, time_limit=20, executor=pool, progress=lambda done, of: ticks.append((done, of))
        )
    alone = ow.compare(PLACEMENT, names, time_limit=20)
    assert [row.objective for row in found.rows] == [row.objective for row in alone.rows]
    assert all(row.timeline is not None for row in found.rows)
    assert ticks == [(1, 3), (2, 3), (3, 3)]


def test_ctrl_c_ends_the_rest(monkeypatch):
    def interrupted(problem, run):
        raise KeyboardInterrupt

    monkeypatch.setitem(
        registry._SOLVERS, ("placement", "stopped"), Solver("stopped", "placement", "algorithm", interrupted, "")
    )
    found = ow.compare(PLACEMENT, ["heft", "stopped", "auto"])
    assert found["heft"].objective is not None
    assert found["auto"].refusal == "interrupted before its turn"


def test_bad_requests():
    with pytest.raises(ow.UnknownSolverError, match="heftt"):
        ow.compare(PLACEMENT, ["auto", "heftt"])
    for solvers, words in (([], "no solver is named"), (["heft", "heft"], "twice")):
        with pytest.raises(ow.InvalidInputError, match=words):
            ow.compare(PLACEMENT, solvers)
    with pytest.raises(ow.InvalidInputError, match="not compared"):
        ow.compare(PLACEMENT, ["heft"], options={"auto": {}})
    with pytest.raises(ow.InvalidInputError, match="was not compared"):
        ow.compare(PLACEMENT, ["heft"])["auto"]


def test_it_goes_to_json_and_back():
    found = ow.compare(PLACEMENT, ["heft", "cplex"])
    assert ow.Comparison.model_validate_json(found.model_dump_json()) == found
