"""What notebooks and shells show."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

import opweave as ow

EVIL = "<script>alert(1)</script>"


def net(count: int = 3) -> ow.OpGraph:
    return ow.OpGraph(
        name=EVIL,
        tensors=[ow.Tensor(id=f"t{k}", bytes=4 * k) for k in range(count)],
        operators=[
            ow.Operator(id=f"{EVIL}{k}", kind="Conv", inputs=[f"t{k - 1}"] if k else [], outputs=[f"t{k}"])
            for k in range(count)
        ],
        parameters=[ow.Parameter(id="w", bytes=3 * 2**20)],
    )


@pytest.fixture(scope="module")
def problem() -> ow.Placement:
    graph = net()
    cluster = ow.Cluster(devices=[ow.Device(name=EVIL, memory_bytes="8 GiB"), ow.Device(name="b")], shared="1 GB/s")
    times = {op.id: {EVIL: 1.0, "b": 2.0} for op in graph.operators}
    rule = ow.Pin(op=f"{EVIL}0", device="b")
    return ow.Placement(graph, cluster=cluster, costs=ow.Costs.from_table(times), constraints=[rule])


@pytest.fixture(scope="module")
def result(problem: ow.Placement) -> ow.Result[ow.Schedule]:
    return ow.solve(problem, solver="heft")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_closed_and_runs_no_names(problem: ow.Placement, result: ow.Result[ow.Schedule]) -> None:
    read = ow.Result.model_validate_json(result.model_dump_json())
    parts = (problem.graph, problem.cluster, problem.cluster.devices[0], problem.costs)
    judged = problem.evaluate(result)
    wrong = problem.evaluate(ow.Schedule(device={}, start={}))
    shown = (problem, *parts, result, result.solution, result.timeline, judged, wrong, read)
    for each in (*shown, ow.list_solvers("pipeline")):
        tags = Tags()
        tags.feed(each._repr_html_())
        assert tags.open == []
        assert "table" in tags.seen
        assert "script" not in tags.seen


def test_reprs_are_short(problem: ow.Placement, result: ow.Result[ow.Schedule]) -> None:
    large = net(5000)
    order = ow.Ordering(order=[op.id for op in large.operators])
    judged = ow.MemoryOrdering(large).evaluate(order)
    for each in (large, order, judged, judged.timeline, judged.timeline.activities, problem, problem.cluster):
        assert len(repr(each)) < 1500, type(each)
        assert len(repr(each).splitlines()) <= 5
    assert repr(large).endswith("5,000 operators, 5,000 tensors, 3 MiB of parameters)")
    assert "feasible" in repr(result)
    assert "2 devices" in repr(problem.cluster)
    assert repr(problem.costs).startswith("Costs(3 operators on 2 devices")
    assert repr(problem.cluster.devices[1]) == "Device(name='b')"
    assert repr(judged) == "Evaluation(objective=39988, feasible, details=MemoryProfile(...))"
    assert str(large) == repr(large)


def test_a_result_shows_itself(result: ow.Result[ow.Schedule], tmp_path: Path) -> None:
    assert result.explain() == ow.explain(result) == ow.explain(result.answers, result)
    assert result.plot(tmp_path / "plan.svg").axes
    assert "<svg" in (tmp_path / "plan.svg").read_text()
    assert result.plot(tmp_path / "plan.png")._repr_png_()[:8] == (tmp_path / "plan.png").read_bytes()[:8]
    with pytest.raises(ow.InvalidInputError, match=r"use \.png, \.svg or \.pdf"):
        result.plot(tmp_path / "plan.xls")
    page = result.report(tmp_path / "report")
    assert page.name == "report.html"
    assert page.exists()
    assert ow.progress_figure(result).axes
    pytest.importorskip("pandas")
    rows = result.to_pandas()
    assert set(rows["operator"]) == set(result.solution.device)
    assert list(rows["start"]) == sorted(rows["start"])


def test_a_result_from_a_file_asks_for_its_problem(
    problem: ow.Placement, result: ow.Result[ow.Schedule], tmp_path: Path
) -> None:
    read = ow.load_result(result.save(tmp_path / "result.json"))
    assert read == result
    for verb in (read.explain, read.plot, read.to_pandas, lambda: read.report(tmp_path), lambda: ow.explain(read)):
        with pytest.raises(ow.InvalidInputError, match=r"result\.of_problem\(problem\)"):
            verb()
    assert read.of_problem(problem).explain() == result.explain()


def test_progress_is_a_line_at_the_end(problem: ow.Placement, capsys: pytest.CaptureFixture[str]) -> None:
    result = ow.solve(problem, solver="heft", progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.replace("\n", " ").strip() == result.headline
    assert ow.solve(problem, solver="heft", progress=False).verified
    assert capsys.readouterr().err == ""
