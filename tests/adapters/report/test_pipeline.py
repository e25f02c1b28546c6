"""What people are shown of a pipeline, and what other tools are given."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.colors import to_hex

import opweave as ow
from opweave.adapters.report.figures import CRITICAL, png
from opweave.adapters.report.views import show
from opweave.problems.pipeline.spec import Pipeline
from tests.problems.pipeline.test_spec import four


@pytest.fixture
def split() -> ow.Result:
    return ow.solve(four(constraints=[ow.Pin(op="Q", device="a"), ow.Pin(op="R", device="b")]))


def view_of(problem: Pipeline):
    return show(problem, ow.solve(problem))


PINNED = [ow.Pin(op=op, device=device) for op, device in zip("PQRS", "aabb", strict=True)]


def test_the_words() -> None:
    problem = four(constraints=PINNED)
    assert view_of(problem).explain() == (
        "The pipeline has 2 stages on 2 of 3 devices and gives a result every 5 s, 0.2 inputs per second. "
        "No single device may run the whole model, so it has to be split. "
        "The bottleneck is the transfer of 10 B from 'a' to 'b' (after stage 1). "
        "A single input takes 11 s from end to end. "
        "It is proved that no pipeline is better."
    )


def test_plan_steps_and_table() -> None:
    view = view_of(four(constraints=PINNED))
    plan = view.plan()
    assert json.loads(json.dumps(plan)) == plan
    first, second = plan["stages"]
    assert (first["device"], first["operators"], first["sent_tensors"], first["send_seconds"]) == (
        "a",
        ["P", "Q"],
        ["p", "q"],
        5.0,
    )
    assert (second["compute_seconds"], second["sent_bytes"]) == (4.0, 0)
    assert plan["bottleneck_seconds"] == 5.0
    stages, devices = view.sections()
    assert [row[0] for row in stages.rows] == ["1*", "2"]
    assert [row[0] for row in devices.rows] == ["a", "b", "c"]
    assert ("stages", "2 on 2 of 3 devices") in view.rows()


def test_the_picture_marks_the_bottleneck() -> None:
    figure = view_of(four(constraints=PINNED)).figure()
    (chart,) = figure.axes
    assert "2 stages, a result every 5 s" in chart.get_title(loc="left")
    assert "100 %" in [text.get_text() for text in chart.texts]
    marked = [
        path.vertices[:, 0]
        for drawn in chart.collections
        for path, colour in zip(drawn.get_paths(), drawn.get_facecolors(), strict=False)
        if to_hex(colour) == CRITICAL.lower()
    ]
    assert len(marked) == 2 * 6  # sent and received
    assert {round(float(np.ptp(ends)), 6) for ends in marked} == {5.0}
    assert png(figure).startswith(b"\x89PNG")


def layered() -> Pipeline:
    """Three layers of two operators each; every device holds three operators at most."""
    names = [(f"{part}{layer}", f"model.layers.{layer}.{part}") for layer in range(3) for part in ("attn", "mlp")]
    operators = [
        ow.Operator(id=name, inputs=[f"t{i}"], outputs=[f"t{i + 1}"], module=module, parameters=[name])
        for i, (name, module) in enumerate(names)
    ]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=1 + i % 2) for i in range(7)],
        operators=operators,
        parameters=[ow.Parameter(id=name, bytes=10) for name, _ in names],
        outputs=["t6"],
    )
    devices = [ow.Device(name="a", memory_bytes=40), ow.Device(name="b", memory_bytes=20)]
    return Pipeline(
        graph=graph,
        cluster=ow.Cluster(devices=devices, bandwidth=[[0, 1], [0, 0]]),
        include_compute=False,
        memory="parameters",
    )


def test_exports_for_runtimes() -> None:
    exports = view_of(layered()).exports()
    assert json.loads(json.dumps(exports)) == exports
    runtimes = exports["runtimes.json"]
    assert runtimes["VLLM_PP_LAYER_PARTITION"] == "2,1"
    assert runtimes["--tensor-split"] == "2,1"
    assert runtimes["split_points"] == ["model.layers.2"]
    assert runtimes["devices"] == ["a", "b"]


def test_exports_that_cannot_be_say_why() -> None:
    runtimes = view_of(four(constraints=PINNED)).exports()["runtimes.json"]
    assert "no numbered layers" in runtimes["VLLM_PP_LAYER_PARTITION"]["not possible"]
    assert "not possible" in runtimes["split_points"]


def test_piece_boundaries_name_what_is_passed_on() -> None:
    problem = four(constraints=[ow.Pin(op=op, device=device) for op, device in zip("PQRS", "aabc", strict=True)])
    pieces = view_of(problem).exports()["onnx_pieces.json"]
    assert pieces == [
        {"device": "a", "inputs": ["x"], "outputs": ["p", "q"], "passed_on": []},
        {"device": "b", "inputs": ["q"], "outputs": ["r"], "passed_on": ["p"]},
        {"device": "c", "inputs": ["r", "p"], "outputs": ["s"], "passed_on": []},
    ]
