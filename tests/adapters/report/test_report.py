"""The report folder holds the same answer in every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opweave.adapters.report import report
from opweave.adapters.report.report import write_report
from opweave.adapters.report.views import show
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result, Status, Termination
from opweave.solvers.questions.answers import Answer
from opweave.solvers.questions.compare import Comparison


def compared(solver: str, refusal: str) -> Comparison:
    return Comparison(problem="memory_ordering", unit="bytes", rows=[Answer(solver=solver, refusal=refusal)])


def test_the_page_stands_alone_and_escapes_names(
    result: Result[Ordering], problem: MemoryOrdering, tmp_path: Path
) -> None:
    graph = type(problem.graph).model_validate(problem.graph.model_dump() | {"name": "<script>alert(1)</script>"})
    write_report(show(MemoryOrdering(graph=graph), result), tmp_path, comparison=compared("<b>", "<i>"))
    page = (tmp_path / "report.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2  # the data, and the views
    assert "<script>alert" not in page
    assert ">&lt;b&gt;</td>" in page
    assert not re.search(r" src=|srcset|@import|url\(", page.split("<script>")[0])
    assert {link for link in re.findall(r'href="([^"]*)"', page) if ":" in link} == {"https://ui.perfetto.dev"}
    assert "default-src 'none'" in page  # the browser itself refuses every request


def test_without_a_solution_there_is_still_a_page(problem: MemoryOrdering, tmp_path: Path) -> None:
    nothing = Result[Ordering](
        problem="memory_ordering",
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        solver="fake",
        reason="one byte short",
    )
    names = [path.name for path in write_report(show(problem, nothing), tmp_path)]
    assert names == ["problem.json", "result.json", "report.html"]
    assert "one byte short" in (tmp_path / "report.html").read_text()


def test_nothing_is_written_when_a_part_cannot_be_made(
    problem: MemoryOrdering, result: Result[Ordering], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(figure: object, kind: str) -> bytes:
        raise RuntimeError

    monkeypatch.setattr(report, "rendered", broken)
    with pytest.raises(RuntimeError):
        write_report(show(problem, result), tmp_path / "report")
    assert not (tmp_path / "report").exists()
