"""Solvers and formulations of users: registered by hand, under one line, or found in a package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from itertools import permutations
from pathlib import Path

import pytest

import opweave as ow
from opweave.formulations.formulation import _FORMULATIONS, formulation_names
from opweave.solvers import registry
from tests.tiny import PROBLEMS

PACKAGE = Path(__file__).parents[1] / "data/own_package"
ORDERING = PROBLEMS["memory_ordering"]
PIPELINE = PROBLEMS["pipeline"].model_copy(update={"cuts": "dominators"})  # as the package expects


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    ow.list_solvers()  # what opweave has, before it is copied
    ow.list_formulations()
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))
    known = dict(_FORMULATIONS)
    yield
    _FORMULATIONS.clear()
    _FORMULATIONS.update(known)


def test_a_function_is_a_solver_in_five_lines():
    @ow.solver_for(ow.MemoryOrdering)
    def as_listed(problem, run):
        """The order of the graph."""
        return ow.Ordering(order=[op.id for op in problem.graph.operators])

    result = ow.solve(ORDERING, solver="as_listed")
    assert (result.status, result.solution.order) == (ow.Status.FEASIBLE, ("a", "b", "c"))
    assert result.objective == ORDERING.evaluate(result.solution).objective
    (row,) = (row for row in ow.list_solvers(ORDERING) if row.name == "as_listed")
    assert (row.about, row.proves, row.available) == ("The order of the graph.", "nothing", True)
    with pytest.raises(ow.UnsupportedFeatureError, match="cannot honour 'gap'"):
        ow.solve(ORDERING, solver="as_listed", gap=0.1)
    rule = ow.MemoryOrdering(graph=ORDERING.graph, constraints=[ow.Precede(before="b", after="a")])
    with pytest.raises(ow.UnsupportedConstraintError, match="Precede"):
        ow.solve(rule, solver="as_listed")


def test_what_it_reports_in_between_is_kept_and_its_bound_counts():
    @ow.solver_for(ow.MemoryOrdering, name="mine", about="finds, proves", proves="optimum", baseline=True)
    def improve(problem, run):
        for order in (["a", "b", "c"], ["b", "a", "c"]):
            run.found(ow.Ordering(order=order), problem.evaluate(ow.Ordering(order=order)).objective)
        run.proved(33, "by hand")
        return ow.extend.Outcome()

    result = ow.solve(ORDERING, solver="mine")
    assert (result.status, result.objective, result.bound_source) == (ow.Status.OPTIMAL, 33, "by hand")


def test_a_plan_that_is_not_valid_is_said_to_be_none():
    @ow.solver_for(ow.MemoryOrdering)
    def backwards(problem, run):
        return ow.Ordering(order=["c", "b", "a"])

    @ow.solver_for(ow.MemoryOrdering)
    def silent(problem, run):
        pass

    @ow.solver_for(ow.MemoryOrdering)
    def names_alone(problem, run):
        return ["b", "a", "c"]

    assert "of type list; it should return Ordering(...)" in ow.solve(ORDERING, solver="names_alone").reason
    result = ow.solve(ORDERING, solver="backwards")
    assert result.solution is None or result.verified
    assert "not valid" in result.reason
    assert ow.solve(ORDERING, solver="silent").status is not ow.Status.OPTIMAL


def test_an_exception_in_a_solver_names_it():
    @ow.solver_for(ow.MemoryOrdering)
    def lonely(problem):
        """It should take a run, too."""

    with pytest.raises(ow.RuleError, match=r"the solver \('lonely'\) raised TypeError: .* takes 1 positional argument"):
        ow.solve(ORDERING, solver="lonely")


def test_one_that_asks_the_referee_takes_every_rule():
    @ow.solver_for(ow.MemoryOrdering, supports=["violations"])
    def all_orders(problem, run):
        for order in permutations(["a", "b", "c"]):
            judged = problem.evaluate(ow.Ordering(order=order))
            if judged.feasible:
                run.found(ow.Ordering(order=order), judged.objective)

    rule = ow.MemoryOrdering(graph=ORDERING.graph, constraints=[ow.Precede(before="b", after="a")])
    assert ow.solve(rule, solver="all_orders").solution.order == ("b", "a", "c")


def test_a_solver_that_returns_nonsense_ends_as_a_failed_engine():
    ow.register_solver(ow.Solver("nonsense", "memory_ordering", "algorithm", lambda problem, run: 7, about="-"))
    result = ow.solve(ORDERING, solver="nonsense")
    assert result.termination is ow.results.Termination.ENGINE_ERROR
    assert "'nonsense' returned 7; it must return an Outcome" in result.reason


def test_names_of_opweave_are_taken():
    with pytest.raises(ow.InvalidInputError, match="opweave has a solver 'auto' for memory_ordering"):

        @ow.solver_for(ow.MemoryOrdering, name="auto")
        def _mine(problem, run):
            return None

    with pytest.raises(ow.InvalidInputError, match="an instance of Solver, not of dict"):
        ow.register_solver({})
    for again in range(2):  # a cell of a notebook that runs twice
        ow.solver_for(ow.MemoryOrdering, name="twice", about=str(again))(lambda problem, run: None)
    assert [row.about for row in ow.list_solvers(ORDERING) if row.name == "twice"] == ["1"]


def test_a_formulation_of_one_s_own_does_not_become_the_default():
    sys.path.insert(0, str(PACKAGE))
    try:
        from opweave_own import Assignment, Unfinished
    finally:
        sys.path.remove(str(PACKAGE))
    ow.extend.register_formulation(Assignment)
    assert formulation_names("pipeline") == ("flow", "assignment")
    result = ow.solve(PIPELINE, solver="highs", formulation="assignment")
    assert result.objective == 4.0
    assert ow.solve(PIPELINE, solver="highs", formulation="assignment", extend=_not_on_e).objective == 5.0
    assert PIPELINE.evaluate(ow.read_solution(PIPELINE, {"x(e)": 1}, "assignment")).objective == 4.0
    with pytest.raises(ow.InvalidInputError, match="Unfinished lacks build, extract, objective_bound, start, problem"):
        ow.extend.register_formulation(Unfinished)
    with pytest.raises(ow.InvalidInputError, match="derived from Formulation, not 3"):
        ow.extend.register_formulation(3)
    with pytest.raises(ow.InvalidInputError, match="opweave has a formulation 'flow' for pipeline"):
        ow.extend.register_formulation(type("Flow", (Assignment,), {"name": "flow"}))


def _not_on_e(model, problem):
    model.add(model.x["e"] == 0)


USE = """
import json, logging, sys
import opweave as ow
logging.basicConfig(stream=sys.stderr, format="%(message)s")
problem = ow.load_problem(sys.argv[1])
solved = ow.solve(problem, solver="heaviest_first")
written = ow.solve(problem, solver="highs", formulation="assignment")
said = []
for use in (
    lambda: ow.solve(problem, solver="not_a_solver"),
    lambda: ow.solve(problem, solver="no_such_module"),
    lambda: ow.build_model(problem, "unfinished"),
):
    try:
        use()
    except ow.InvalidInputError as error:
        said.append(str(error))
print(json.dumps({
    "objectives": [solved.objective, written.objective, ow.solve(problem).objective],
    "solvers": [row.name for row in ow.list_solvers("pipeline")],
    "formulations": [[row.name, row.source, row.default] for row in ow.list_formulations("pipeline")],
    "said": said,
}))
"""


def test_a_package_is_found_listed_and_used_and_what_is_broken_is_left_out_politely(tmp_path):
    """Its entry points are those of its pyproject.toml, as an installer would write them."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "opweave_own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    spec = tmp_path / "spec.json"
    spec.write_text(PIPELINE.model_dump_json())
    path = os.pathsep.join([str(tmp_path), str(PACKAGE), str(PACKAGE.parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", USE, str(spec)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["objectives"] == [4.0, 4.0, 4.0]
    assert "heaviest_first" in told["solvers"]
    assert "not_a_solver" not in told["solvers"]
    assert ["assignment", "The package's manual, section 1", False] in told["formulations"]
    assert told["formulations"][0][0] == "flow"
    wrong, missing, unfinished = told["said"]
    origin = "of package 'opweave-own' was left out"
    assert "has no solver 'not_a_solver'; it has: " in wrong
    assert f"entry point not_a_solver = opweave_own:SHARE {origin} (InvalidInputError: a solver is an" in wrong
    assert f"entry point no_such_module = opweave_own_missing:SOLVER {origin} (ModuleNotFoundError" in missing
    assert f"entry point unfinished = opweave_own:Unfinished {origin}" in unfinished
    assert "Unfinished lacks build, extract" in unfinished
    assert "opweave has a solver 'auto' for pipeline; choose another name" in done.stderr
