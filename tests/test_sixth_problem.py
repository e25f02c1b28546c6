"""A problem that a user writes in one file has everything that opweave's own problems have, the package untouched."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from examples.precision import SIZE, MixedPrecision, Precisions
from opweave.adapters.report.report import write_report
from opweave.adapters.report.views import show
from opweave.problems import plugins

FILE = Path(__file__).parents[1] / "examples/precision.py"


def posed(weights: dict[str, int], memory: int, losses: dict[str, dict[str, float]] | None = None) -> MixedPrecision:
    """Operators with a parameter each; the k-th loses k times as much as the first."""
    graph = ow.OpGraph(
        name="three",
        tensors=[],
        operators=[ow.Operator(id=op, parameters=[op]) for op in weights],
        parameters=[ow.Parameter(id=op, bytes=size) for op, size in weights.items()],
    )
    table = losses or {op: {"fp32": 0.0, "fp16": 1.0 * k, "int8": 5.0 * k} for k, op in enumerate(weights, 1)}
    return MixedPrecision(graph=graph, loss=table, memory_bytes=memory)


THREE = posed({"conv": 400, "mix": 800, "head": 1200}, 1000)


@st.composite
def mixed_precisions(draw: st.DrawFn) -> MixedPrecision:
    count = draw(st.integers(0, 4))
    weights = {f"op{k}": draw(st.integers(0, 40)) for k in range(count)}
    losses = {}
    for op in weights:
        known = draw(st.lists(st.sampled_from(sorted(SIZE)), min_size=1, unique=True))
        # in steps of a thousandth: engines take differences below their tolerance of 1e-7 for nothing
        losses[op] = {precision: draw(st.integers(0, 10_000)) / 1000 for precision in known}
    return posed(weights, draw(st.integers(0, 80)), losses)


def best(problem: MixedPrecision) -> float | None:
    """Ask the referee about every choice."""
    ops = list(problem.loss)
    choices = itertools.product(*(problem.loss[op] for op in ops))
    judged = [problem.evaluate(Precisions(precision=dict(zip(ops, choice, strict=True)))) for choice in choices]
    return min((each.objective for each in judged if each.feasible), default=None)


def test_it_is_one_file_of_at_most_150_lines() -> None:
    assert len(FILE.read_text().splitlines()) <= 150


def test_the_referee_by_hand() -> None:
    """400 / 4 + 800 / 4 + 1200 / 2 bytes are 900; losses 5 + 10 + 3."""
    judged = THREE.evaluate(Precisions(precision={"conv": "int8", "mix": "int8", "head": "fp16"}))
    assert (judged.objective, judged.violations) == (18.0, ())
    judged = THREE.evaluate(Precisions(precision={"conv": "int8", "mix": "fp32", "head": "fp16"}))
    assert [each.rule for each in judged.violations] == ["memory"]
    assert judged.violations[0].excess == 500.0
    judged = THREE.evaluate(Precisions(precision={"conv": "fp64", "mix": "int8"}))
    assert judged.objective is None
    assert [each.message for each in judged.violations] == [
        "'conv' cannot compute in 'fp64'",
        "'head' cannot compute in None",
    ]
    with pytest.raises(ow.InvalidInputError, match="of type Precisions, not Ordering"):
        THREE.evaluate(ow.MemoryOrdering.solution_type(order=[]))


@pytest.mark.parametrize("solver", ["auto", "highs", "lower_cheapest"])
@settings(max_examples=20)
@given(problem=mixed_precisions())
def test_solvers_agree_with_brute_force(solver: str, problem: MixedPrecision) -> None:
    optimum, result = best(problem), ow.solve(problem, solver=solver)
    if optimum is None:
        assert result.status is ow.Status.INFEASIBLE or solver == "lower_cheapest"
        assert result.solution is None
        return
    if solver == "lower_cheapest" and result.solution is None:
        return
    assert result.verified
    assert result.bound <= optimum + 1e-9
    assert result.objective >= optimum - 1e-9
    if solver != "lower_cheapest":
        assert result.status is ow.Status.OPTIMAL
        assert result.objective == pytest.approx(optimum, abs=1e-6)


def test_auto_is_not_worse_than_the_baseline_and_says_what_it_proved() -> None:
    result, baseline = ow.solve(THREE), ow.solve(THREE, solver="lower_cheapest")
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 14.0)
    assert result.bound_source == "highs (choice)"
    assert (baseline.status, baseline.objective) == (ow.Status.FEASIBLE, 22.0)
    assert (baseline.bound, baseline.bound_source) == (0.0, "trivial")


def test_a_conflict_says_how_many_bytes_are_missing() -> None:
    """In a quarter of their bytes, the parameters take 600."""
    found = ow.conflict(THREE.model_copy(update={"memory_bytes": 590}))
    assert [item.name for item in found.items] == ["memory_bytes=590 bytes"]
    assert [(repair.words, repair.least) for repair in found.repairs] == [("10 bytes more in memory_bytes", True)]
    assert ow.conflict(THREE).status == "feasible"


def test_engines_are_listed_and_take_what_they_always_take() -> None:
    rows = {row.name: row for row in ow.list_solvers(THREE)}
    assert {"auto", "highs", "cbc", "lower_cheapest"} <= rows.keys()
    assert rows["lower_cheapest"].baseline

    result = ow.solve(THREE, solver="highs", extend=lambda model, _: model.add(model.x["mix", "int8"] == 0))
    assert (result.status, result.solution.precision["mix"]) == (ow.Status.OPTIMAL, "fp16")
    start = Precisions(precision=dict.fromkeys(THREE.loss, "int8"))
    assert ow.solve(THREE, start=start).objective == 14.0
    with pytest.raises(ow.UnsupportedConstraintError, match="Precede"):
        ow.solve(THREE.model_copy(update={"constraints": (ow.Precede(before="conv", after="mix"),)}))


def test_a_time_limit_that_is_up_at_once_leaves_a_baseline_and_a_bound() -> None:
    result = ow.solve(THREE, time_limit=1e-6)
    assert result.solution is not None
    assert result.bound is not None


def test_problem_and_result_go_to_json_and_back(tmp_path: Path) -> None:
    result = ow.solve(THREE)
    (tmp_path / "spec.json").write_text(THREE.model_dump_json())
    (tmp_path / "result.json").write_text(result.model_dump_json())
    assert ow.load_problem(tmp_path / "spec.json") == THREE
    assert ow.load_result(tmp_path / "result.json") == result


def test_it_is_shown_like_any_other(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    view = show(THREE, ow.solve(THREE))
    assert "14 loss" in view.explain()
    assert ("baseline lower_cheapest", "22 loss") in view.rows()
    assert [event["name"] for event in view.trace()["traceEvents"] if event["ph"] == "X"][:3] == list(THREE.loss)
    files = {path.name for path in write_report(view, tmp_path)}
    assert {"plan.json", "trace.json", "plan.png", "report.html"} <= files


COMMANDS = """
import sys
from opweave.adapters.cli.main import main
imports = sys.argv[1:]
for line in ("solve spec.json", "import solve spec.json -o result.json", "import check spec.json result.json"):
    words = line.split()
    sys.argv = ["opweave", *(imports + words[1:] if words[0] == "import" else words)]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code)
"""


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(THREE.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    call = [sys.executable, "-c", COMMANDS, "--import", str(FILE)]
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "kind 'mixed_precision' is not a problem of opweave" in done.stderr
    refused, solved, checked, after = done.stdout.split("ended with ")
    assert (refused, solved[0], checked[0], after) == ("", "2", "0", "0\n"), done.stderr
    assert "14 loss" in solved
    assert json.loads((tmp_path / "result.json").read_text())["solution"]["kind"] == "precisions"
    assert checked[2:].startswith("valid: 14 loss, as claimed")


def test_packages_name_their_modules_as_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    points = [SimpleNamespace(name="mine", value="mine", load=lambda: loaded.append("mine"))]
    points.append(SimpleNamespace(name="broken", value="broken", load=lambda: 1 / 0))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == "opweave" else [])
    plugins.load_plugins.cache_clear()
    try:
        ow.list_solvers(THREE)
        assert loaded == ["mine"]
    finally:
        plugins.load_plugins.cache_clear()
