"""A problem that no adapter knows is shown all the same: table, pictures, trace, page, command line."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.adapters.report.figures import png
from opweave.adapters.report.tables import result_table, summary_rows
from opweave.adapters.report.views import show
from opweave.problems.problem import Problem
from opweave.problems.solution import Details, Evaluation, Solution
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import NEVER, ActivityKind, Names, Recorder, Timeline, devices_and_ports


class Rows(Solution):
    """A device for every operator; they run one after the other."""

    device: FrozenDict[str, str]


class InARow(Problem[Rows, Details]):
    """Every operator takes a second and leaves its output on its device for good; nothing is sent."""

    solution_type: ClassVar[type[Solution]] = Rows
    unit: ClassVar[str] = "seconds"
    schema_version: Literal[1] = 1
    cluster: ow.Cluster

    def assumptions(self) -> str:
        return "one after the other"

    def play(self, solution: Rows) -> Timeline:
        recorder, index = Recorder(), self.cluster.device_index
        names = Names.of(self.graph)
        for step, op in enumerate(self.graph.operators):
            k = index[solution.device[op.id]]
            recorder.activity(ActivityKind.RUN, k, step, step, step + 1)
            for tensor in op.outputs:
                position = self.graph.tensor_index[tensor]
                size = self.graph.tensors[position].bytes
                recorder.lifetime(names.operators + position, k, float(step), NEVER, size)
        resources = devices_and_ports(self.cluster, ())
        return Timeline("seconds", resources, names, recorder.activities(), recorder.lifetimes())

    def _replay(self, solution: Rows) -> Evaluation[Details]:
        timeline = self.play(solution)
        return Evaluation(objective=timeline.end, details=Details()).with_timeline(timeline)


def problem(operators: int = 3, devices: int = 2) -> InARow:
    tensors = [ow.Tensor(id=f"t{k}", bytes=1000 * (k + 1)) for k in range(operators)]
    ops = [ow.Operator(id=f"o{k}", kind="Conv", outputs=[f"t{k}"]) for k in range(operators)]
    cluster = ow.Cluster(
        devices=[ow.Device(name=f"d{k}", memory_bytes=5000, watts=(1, 3)) for k in range(devices)], shared=1e6
    )
    return InARow(graph=ow.OpGraph(name="toy", tensors=tensors, operators=ops), cluster=cluster)


def result_of(shown: InARow, bound: float | None = None) -> ow.Result:
    count = len(shown.cluster.devices)
    plan = Rows(device={op.id: f"d{k % count}" for k, op in enumerate(shown.graph.operators)})
    judged = shown.evaluate(plan)
    return ow.Result(
        problem=shown.kind, status="feasible", termination="completed", objective=judged.objective, bound=bound,
        solution=plan, verified=True, solver="by hand", assumptions=shown.assumptions(),
    )  # fmt: skip


@pytest.fixture
def shown() -> tuple[InARow, ow.Result]:
    own = problem()
    return own, result_of(own, 2.0)


def test_the_table_has_every_measure_that_the_objective_is_not(shown: tuple[InARow, ow.Result]) -> None:
    rows = dict(summary_rows(show(*shown)))
    assert rows["objective"] == "3 s"
    assert rows["inputs per second"] == "0.3333"
    assert rows["peak memory"] == "3.91 KiB on d0"
    assert rows["energy"] == "12 J"  # two devices for 3 s: 3 s busy at 3 W, 3 s idle at 1 W
    assert rows["devices used"] == "2 of 2"
    assert "makespan" not in rows  # it is the objective
    assert result_table(show(*shown)).row_count == len(rows)
    (devices,) = show(*shown).sections()
    assert devices.headings == ("device", "runs", "busy", "idle", "memory", "limit", "energy")
    assert devices.rows[0] == ("d0", "2", "2 s (66.7 %)", "1 s", "3.91 KiB", "4.88 KiB", "7 J")


def test_the_words_and_the_pictures(shown: tuple[InARow, ow.Result]) -> None:
    assert ow.explain(*shown) == (
        "The plan takes 3 s on 2 of 2 devices. The bottleneck is the critical path: no device is busier than 66.7 % "
        "('d0'). The critical path of 2 steps is 66.7 % computing on 'd0' and 33.3 % idle. "
        "No plan can be more than 33.3 % better."
    )
    figure = show(*shown).figure()
    assert figure.axes[0].get_title(loc="left") == "toy: 3 s on 2 of 2 devices"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "d0\n3.91 KiB / 4.88 KiB",
        "d1\n1.95 KiB / 4.88 KiB",
    ]
    assert png(figure).startswith(b"\x89PNG")


@given(st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=5, deadline=None)
def test_anything_can_be_drawn(operators: int, devices: int) -> None:
    own = problem(operators, devices)
    view = show(own, result_of(own))
    assert view.explain()
    assert png(view.figure())
