"""What the picture shows can be read from its parts."""

from __future__ import annotations

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from opweave.adapters.report.figures import BEST, CRITICAL, SENT, png
from opweave.adapters.report.views import show
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from tests.adapters.report.placement.conftest import NAMES, result_of, schedule_on


def bars(problem: Placement, result: Result[Schedule]) -> dict[str, list[tuple[float, float]]]:
    """Left and right end of every bar, by colour."""
    found: dict[str, list[tuple[float, float]]] = {}
    for collection in show(problem, result).figure().axes[0].collections:
        if isinstance(collection, PolyCollection):
            for path in collection.get_paths():
                ends = path.vertices[:, 0]
                colour = to_hex(collection.get_facecolor()[0]).upper()
                found.setdefault(colour, []).append((round(ends.min(), 6), round(ends.max(), 6)))
    return found


def test_every_operator_and_transfer_is_a_bar(problem: Placement, result: Result[Schedule]) -> None:
    found = bars(problem, result)
    assert sorted(found[BEST]) == [(2, 4), (4, 6), (6, 8), (8, 10), (10, 12)]  # the right branch, in ms
    assert SENT not in found  # both transfers are critical
    assert found[CRITICAL].count((2, 3)) == 2  # sent and received
    assert len(found[CRITICAL]) == 5 + 2 * 2


def test_the_words_are_there(problem: Placement, result: Result[Schedule]) -> None:
    figure = show(problem, result).figure()
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "fork: 15 ms on 2 of 3 devices, 1.33 times as fast as the best single device"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "end: 15 ms" in legend
    assert "lower bound: no plan ends before 12 ms" in legend
    assert {line.get_xdata()[0] for line in axes.lines} == {15.0, 12.0}
    labels = [label.get_text().split("\n")[0] for label in axes.get_yticklabels()]
    assert labels == ["a", "sends", "receives", "b", "sends", "receives", "c"]
    shares = [text.get_text() for text in axes.texts if text.get_text().endswith("%")]
    assert shares == ["93 %", "7 %", "7 %", "60 %", "7 %", "7 %", "0 %"]
    assert {"stem", "right 1", "join"} <= {text.get_text() for text in axes.texts}


def test_many_devices_and_names_with_dollar_signs() -> None:
    devices = [Device(name=f"$gpu{index}_$^") for index in range(40)]
    graph = OpGraph(name=r"$\frac{net$", tensors=[], operators=[Operator(id=f"$op_{index}") for index in range(30)])
    costs = Costs.from_table({op.id: {devices[index].name: 1e-7} for index, op in enumerate(graph.operators)})
    problem = Placement(graph=graph, cluster=Cluster(devices=devices, shared=1e9), costs=costs)
    where = {op.id: devices[index].name for index, op in enumerate(graph.operators)}
    figure = show(problem, result_of(problem, schedule_on(problem, where))).figure()
    assert png(figure)
    assert any("24 devices not shown" in text.get_text() for text in figure.axes[0].texts)


@pytest.mark.parametrize("names", [(), NAMES[:1]])
def test_plans_that_take_no_time(names: tuple[str, ...]) -> None:
    graph = OpGraph(tensors=[], operators=[Operator(id=name) for name in names])
    costs = Costs.from_table({name: {"a": 0.0} for name in names})
    problem = Placement(graph=graph, cluster=Cluster(devices=[Device(name="a")]), costs=costs)
    view = show(problem, result_of(problem, schedule_on(problem, dict.fromkeys(names, "a")), bound=0.0))
    assert png(view.figure())
    assert view.explain()
    assert view.rows()
    assert view.trace()
