"""One table for several solvers: who was asked, what each found, and why one found nothing."""

from __future__ import annotations

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
    baselines = [each.name for each in registry.registered(kind) if each.baseline and None in each.modes]
    assert [row.solver for row in found.rows] == [*baselines, "auto"]
    assert found["auto"].objective == found.best.objective
    assert found.baseline in baselines
    assert found.relative("auto") <= 1.0
    assert all(row.bound is None or row.bound <= found.best.objective for row in found)
    assert ow.results.Comparison.model_validate_json(found.model_dump_json()) == found


def interrupted(problem, run):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "solver", "words"),
    [
        ("strict", {"run": lambda problem, run: Outcome(), "supports": ()}, "cannot honour Separate"),
        ("absent", {"run": lambda problem, run: Outcome(), "missing": lambda: "pip install absent"}, "pip install"),
        ("stopped", {"run": interrupted}, None),
    ],
)
def test_whoever_has_no_plan_has_a_row_that_says_why(monkeypatch, name, solver, words):
    made = Solver(name=name, problem="placement", kind="algorithm", about="", **solver)
    monkeypatch.setitem(registry._SOLVERS, ("placement", name), made)
    rules = (ow.Separate(ops=("a", "b")),) if name == "strict" else ()
    problem = PLACEMENT.model_copy(update={"constraints": rules})
    found = ow.compare(problem, ["heft", name, "auto"], time_limit=5)
    assert found[name].objective is None
    assert found.relative(name) is None
    assert words is None or words in found[name].refusal
    assert (found["auto"].refusal == "interrupted before its turn") == (name == "stopped")


@pytest.mark.parametrize(
    ("solvers", "options", "words"),
    [
        (["auto", "heftt"], {}, "heftt"),
        ([], {}, "no solver is named"),
        (["heft", "heft"], {}, "twice"),
        (["heft"], {"auto": {}}, "not compared"),
    ],
)
def test_bad_requests(solvers, options, words):
    with pytest.raises(ow.OpweaveError, match=words):
        ow.compare(PLACEMENT, solvers, options=options)
    with pytest.raises(ow.InvalidInputError, match="was not compared"):
        ow.compare(PLACEMENT, ["heft"])["auto"]
