"""The command line: what it prints, what it writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from opweave.adapters.cli import main as cli
from opweave.adapters.load import load_result
from opweave.problems.graph import OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result
from tests.adapters.conftest import BEST, DATA, Run, assert_polite, write
from tests.adapters.test_files import BAD_JSON
from tests.adapters.test_load import BAD_MODELS, BAD_SPECS

pytestmark = pytest.mark.usefixtures("fake_solvers")


def test_solve_prints_a_table_and_writes_the_result(opweave: Run, spec: Path, tmp_path: Path) -> None:
    ended = opweave("solve", spec, "-o", tmp_path / "result.json")
    assert (ended.status, ended.err) == (0, "")
    for text in ("optimal", "14 B", "by hand", "39.1 % below the given order", "grow b", "result.json"):
        assert text in ended.out
    result = load_result(tmp_path / "result.json")
    assert isinstance(result.solution, Ordering)
    assert (result.solution.order, result.objective) == (BEST, 14)
    assert "\x1b" not in ended.out


def test_json_goes_to_standard_output(opweave: Run, spec: Path) -> None:
    ended = opweave("solve", spec, "--json", "--seed", 3)
    data = json.loads(ended.out)
    assert (ended.status, data["objective"], data["seed"], data["solution"]["kind"]) == (0, 14, 3, "ordering")


@pytest.mark.filterwarnings("always::opweave.problems.errors.ImplausibleWarning")
def test_a_warning_is_a_line_without_code(opweave: Run, tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.json", '{"devices": [{"name": "a"}, {"name": "b"}], "shared": 2.5}')
    ended = opweave("placement", DATA / "MobileNetV2.json.gz", "--cluster", cluster)
    first, *others = ended.err.splitlines()
    assert first.startswith("opweave: warning: the cluster: shared is 2.5 bytes per second; if you mean more, write")
    assert ended.status == 2
    assert [line.startswith("opweave: ") for line in others] == [True]


def test_an_infeasible_problem_is_exit_1_with_the_reason(opweave: Run, graph: OpGraph, tmp_path: Path) -> None:
    model = write(tmp_path / "model.json", graph.model_dump_json())
    ended = opweave("plan", model, "--limit", 13, "--solver", "definition", "-o", tmp_path / "r.json")
    assert ended.status == 1
    assert "infeasible" in ended.out
    assert "14 bytes are needed, 1 more than the limit" in ended.out
    assert load_result(tmp_path / "r.json").solution is None


def test_ctrl_c_returns_the_best_so_far(opweave: Run, spec: Path) -> None:
    ended = opweave("solve", spec, "--solver", "ctrl-c")
    assert ended.status == 0
    assert "feasible (interrupted)" in ended.out
    assert "23 B" in ended.out


def test_ctrl_c_elsewhere_is_exit_130(opweave: Run, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("opweave.solvers.solve.solve", interrupt)
    ended = opweave("solve", spec)
    assert (ended.status, ended.err) == (130, "opweave: interrupted\n")


INTERRUPTED_IMPORT = """
import os, signal, sys
sys.orig_argv = {arguments}
class Interrupts:
    def find_spec(self, name, *rest):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
import opweave
"""


@pytest.mark.parametrize("arguments", [["python", "-m", "opweave"], ["python", "/usr/bin/opweave", "demo"]])
def test_ctrl_c_while_the_command_line_imports_the_package_is_one_line(arguments: list[str]) -> None:
    ended = python(INTERRUPTED_IMPORT.format(arguments=arguments))
    assert (ended.returncode, ended.stderr) == (130, "opweave: interrupted\n")


def test_programs_that_import_the_package_have_their_own_way_with_ctrl_c() -> None:
    assert "KeyboardInterrupt" in python(INTERRUPTED_IMPORT.format(arguments=["python", "own.py", "opweave"])).stderr


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)


def test_check_judges_anew(
    opweave: Run, spec: Path, tmp_path: Path, problem: MemoryOrdering, result: Result[Ordering]
) -> None:
    path = write(tmp_path / "result.json", result.model_dump_json())
    ended = opweave("check", spec, path)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("valid: 14 B, as claimed")
    good = json.loads(result.model_dump_json())
    for changes, sentence in (
        ({"objective": 13, "bound": 13}, "the result claims 13 bytes, the referee counts 14"),
        ({"solution": {"kind": "ordering", "order": BEST[::-1]}}, "runs before"),
        ({"solution": {"kind": "ordering", "order": BEST[1:]}}, "'grow a' never runs"),
        ({"bound": 15}, "the claimed bound of 15 bytes lies above"),
        ({"problem": "placement"}, "the result is for a placement problem"),
        ({"solution": None, "verified": False, "status": "unknown", "objective": None}, "has no solution"),
    ):
        ended = opweave("check", spec, write(path, good | changes))
        assert ended.status == 1, sentence
        assert sentence in ended.out


def test_solvers_are_listed_with_what_is_missing(opweave: Run) -> None:
    ended = opweave("solvers", "--problem", "ordering")
    assert ended.status == 0
    assert "definition" in ended.out
    assert "pip install 'opweave[away]'" in ended.out


BAD_ARGUMENTS = [
    (["--solver", "magic"], "has no solver 'magic'; it has: auto"),
    (["--solver", "away"], "to get it: pip install 'opweave[away]'"),
    (["--solver", "definition", "--threads", "4"], "cannot honour 'threads'"),
    (["--solver", "definition", "--option", "width=3"], "has no option 'width'; did you mean 'depth'?"),
    (["--option", "width"], "--option 'width': write it as name=value"),
    (["--option", "a=1", "--option", "a=2"], "each name once"),
    (["--time-limit", "0"], "time_limit is 0.0; it must be a number of seconds above 0"),
    (["--time-limit", "nan"], "time_limit is nan"),
    (["-o", "missing/result.json"], "its folder does not exist"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_ARGUMENTS, ids=[sentence for _, sentence in BAD_ARGUMENTS])
def test_bad_arguments_are_one_sentence(opweave: Run, spec: Path, arguments: list[str], sentence: str) -> None:
    assert_polite(opweave("solve", spec, *arguments), sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--limit", "lots"], "'lots' is not a size"),
        (["--problem", "cooking"], "no problem is called 'cooking'; there are: ordering"),
        (["--objective", "least"], "objective should be 'peak' or 'total', but is 'least'"),
        (["--dim", "batch=-1"], "a dimension is a whole number"),
        (["--dim", "batch=1"], "dims are for .onnx, .tflite and .xml files"),
    ],
)
def test_bad_plan_arguments_are_one_sentence(
    opweave: Run, graph: OpGraph, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    model = write(tmp_path / "model.json", graph.model_dump_json())
    assert_polite(opweave("plan", model, *arguments), sentence)


def test_bad_files_are_one_sentence_and_leave_nothing(opweave: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    for command, table in (("plan", BAD_JSON), ("plan", BAD_MODELS), ("solve", BAD_SPECS)):
        for content, sentence in table:
            path.write_bytes(content if isinstance(content, bytes) else write(path, content).read_bytes())
            ended = opweave(command, path, "-o", tmp_path / "result.json", "--report", tmp_path / "report")
            no_json = any(mark in path.read_bytes() for mark in (b"NaN", b"Infinity"))
            assert_polite(ended, "which is not a JSON number" if no_json else sentence)
            assert [file.name for file in tmp_path.iterdir()] == ["bad.json"]


def test_bad_onnx_files_are_one_sentence(opweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from tests.adapters.onnx.test_read import BAD, conv_net, save

    for proto, sentence in BAD[:1]:
        assert_polite(opweave("plan", save(proto, tmp_path), "--as-is"), sentence)
    dynamic = save(conv_net("batch"), tmp_path)
    assert_polite(opweave("plan", dynamic), "--dim batch=1")
    assert opweave("plan", dynamic, "--dim", "batch=2", "--solver", "definition").status == 0


@pytest.mark.frameworks
def test_a_plan_says_whose_operators_it_orders(opweave: Run, tmp_path: Path) -> None:
    """With ONNX Runtime installed, they are fewer than those of the file."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tests.adapters.onnx.nets import net

    onnx.save(net("(float[8] x) => (float[8] y) { a = Identity(x)  b = Neg(a)  y = Relu(b) }"), tmp_path / "net.onnx")
    said = "what ONNX Runtime makes of the file"
    fused, file = (opweave("ordering", tmp_path / "net.onnx", *more).out for more in ((), ("--as-is",)))
    assert (said in fused, said in file) == (True, False)
    assert ("2 operators" in fused, "3 operators" in file) == (True, True)


def test_files_that_are_none(opweave: Run, spec: Path, tmp_path: Path) -> None:
    assert_polite(opweave("solve", tmp_path / "missing.json"), "there is no such file")
    assert_polite(opweave("solve", tmp_path), "this is a folder")
    assert_polite(opweave("check", spec, spec), "this is not a result; this is a problem")
    assert_polite(opweave("solve", spec, "--report", spec), "not a folder")


def test_places_are_tried_before_the_solver_runs(opweave: Run, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opweave.solvers.solve.solve", lambda *_, **__: pytest.fail("solved in vain"))
    assert_polite(opweave("solve", spec, "-o", spec.parent), "it is a folder")


def test_names_from_files_cannot_steer_the_terminal(opweave: Run, graph: OpGraph, tmp_path: Path) -> None:
    data = graph.model_dump() | {"name": "\x1b[31m[bold]evil[/bold]\n"}
    model = write(tmp_path / "model.json", data)
    ended = opweave("plan", model)
    assert ended.status == 0
    assert "\x1b" not in ended.out
    assert r"\x1b[31m[bold]evil[/bold]\n" in ended.out


def test_python_m_opweave_is_the_command_line() -> None:
    """Run as people do who have no ``opweave`` on their path."""
    command = [sys.executable, "-m", "opweave", "solve", "no.json"]
    bad = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


COMMANDS = sorted(typer.main.get_command(cli.app).commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_examples(opweave: Run, name: str) -> None:
    shown = opweave(name, "--help").out
    assert "--json" in shown or name in ("demo", "warm")  # these answer no question
    assert "Examples:" in shown
    assert f"opweave {name}" in shown.partition("Examples:")[2]
