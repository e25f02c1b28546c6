"""The inside is one design: the same files for every problem, few imports, no circles."""

from __future__ import annotations

import importlib
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
