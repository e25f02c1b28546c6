"""The inside is one design: the same files for every problem, few imports, no circles, folders within their budgets."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

from benchmarks.import_closure import AT_MOST, ROOT, counted, imported_by, modules

PROBLEMS = ("memory_ordering", "placement", "batched_mapping", "pipeline", "slicing", "memory_layout", "serving_flow")
FILES = {
    "problems": ("referee.py", "spec.py"),
    "formulations": ("instance.py", "milp.py", "cp.py"),
    "solvers": ("arrays.py", "baselines.py", "exact.py", "plans.py", "registered.py", "workers.py"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_default_plan_imports_few_files(problem: str) -> None:
    assert len(counted(problem)) <= AT_MOST[problem]


@pytest.mark.parametrize("layer", FILES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_same_files_or_a_reason(problem: str, layer: str) -> None:
    reasons = importlib.import_module(f"opweave.{layer}.{problem}").__doc__ or ""
    folder = ROOT / "opweave" / layer / problem
    missing = [name for name in FILES[layer] if not (folder / name).exists()]
    assert [name for name in missing if f"``{name}``" not in reasons] == []


def test_no_layer_imports_in_a_circle() -> None:
    known = modules()
    graph = nx.DiGraph((name, other) for name, path in known.items() for other in imported_by(path, known))
    circles = [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
    assert [circle for circle in circles if not _is_report(circle)] == []


def _is_report(circle: set[str]) -> bool:
    """Whether it is the one of the views, which the report picks by problem."""
    return all(name.startswith("opweave.adapters.report.") for name in circle)


def test_imports_count_wherever_they_stand(tmp_path: Path) -> None:
    written = tmp_path / "module.py"
    written.write_text(
        "from typing import TYPE_CHECKING\n"
        "from opweave.a import b\n"
        "if TYPE_CHECKING:\n    import opweave.c\nelse:\n    import opweave.d\n"
        "def f():\n    from opweave.e import g\n"
    )
    names = ("opweave.a", "opweave.a.b", "opweave.c", "opweave.d", "opweave.e")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    assert imported_by(written, dict.fromkeys(names, empty)) == ["opweave.a.b", "opweave.d", "opweave.e"]


def code_lines(source: str) -> int:
    """Lines with code: no comments, blanks or docstrings."""
    written = (line.strip() for line in source.splitlines())
    lines = {number for number, line in enumerate(written, 1) if line and not line.startswith("#")}
    docs = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docs.update(range(first.lineno, first.end_lineno + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno > node.lineno:
            lines.update(range(node.lineno, node.end_lineno + 1))  # a text of several lines, of which some look empty
    return len(lines - docs)


def test_code_lines_are_counted_without_comments_and_docstrings() -> None:
    assert (
        code_lines(
            '"""One."""\n\n# two\nx = (\n    1,  # three\n)\n\n\ndef f():\n    """Four."""\n    return """\na"""\n'
        )
        == 6
    )


def test_every_folder_keeps_its_budget_of_lines() -> None:
    """What stands in pyproject.toml: a full folder loses something before something comes in."""
    house = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["house"]
    used, files = Counter[str](), 0
    for path in (each for top in ("opweave", "tests", "benchmarks") for each in (ROOT / top).rglob("*.py")):
        name = path.relative_to(ROOT).parent.as_posix() + "/"
        budget = max((each for each in house["lines"] if name.startswith(each + "/")), key=len)
        lines = code_lines(path.read_text(encoding="utf-8"))
        used[budget] += lines
        used["all of opweave"] += lines if name.startswith("opweave/") else 0
        files += name.startswith("opweave/")
    most = house["lines"] | {"all of opweave": house["all"]} | house["still"]
    assert {name: (lines, most[name]) for name, lines in used.items() if lines > most[name]} == {}
    assert files <= house["files"]
    assert {name for name, lines in house["still"].items() if lines <= house["lines"].get(name, house["all"])} == set()
