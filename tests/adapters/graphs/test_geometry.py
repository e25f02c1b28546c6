"""Geometry out of ONNX models made here, compared with hand-written ones and with what the operators really read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import NodeProto, TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import opweave as ow  # noqa: E402
from tests.adapters.conftest import Run, write  # noqa: E402
from tests.adapters.onnx.test_read import model, save, value, weight  # noqa: E402

Geometry = ow.Geometry

POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}


def node(kind: str, inputs: Sequence[str], output: str, **attributes: object) -> NodeProto:
    return helper.make_node(kind, list(inputs), [output], name=output, **attributes)


def net(side: int = 16) -> onnx.ModelProto:
    """A stem, a depthwise and a grouped branch that are joined, and a classifier."""
    nodes = [
        node("Conv", ["x", "w3"], "stem", pads=[2, 1, 1, 1], strides=[2, 1], dilations=[2, 1]),
        node("Relu", ["stem"], "act"),
        node("Conv", ["act", "deep"], "depthwise", pads=[1, 0, 1, 0], group=8),
        node("Conv", ["act", "grouped"], "groups", auto_pad="SAME_UPPER", group=2, kernel_shape=[3, 3]),
        node("MaxPool", ["groups"], "most", **POOL, pads=[1, 1, 1, 1]),
        node("AveragePool", ["groups"], "mean", **POOL, auto_pad="SAME_LOWER"),
        node("Add", ["most", "mean"], "sum"),
        node("Concat", ["most", "sum"], "join", axis=-3),
        node("ConvTranspose", ["join", "up"], "wide", strides=[2, 2]),
        node("GlobalAveragePool", ["wide"], "pooled"),
        node("ReduceMean", ["wide", "axes"], "reduced", keepdims=0),
        node("Flatten", ["pooled"], "flat"),
        node("Gemm", ["flat", "dense"], "top"),
        node("MatMul", ["reduced", "dense"], "side"),
        node("Concat", ["top", "side"], "y", axis=1),
    ]
    weights = [
        weight("w3", 8, 3, 3, 3),
        weight("deep", 8, 1, 3, 1),
        weight("grouped", 8, 4, 3, 3),
        weight("up", 16, 4, 2, 2),
        weight("dense", 4, 10),
        onnx.numpy_helper.from_array(np.array([2, 3]), "axes"),
    ]
    return model(
        nodes,
        [value("x", [1, 3, side, side])],
        [value("y", None)],
        weights,
        opset_imports=[helper.make_opsetid("", 18)],
    )


BY_HAND = {
    "stem": Geometry(kernel=3, stride=2, padding=2, dilation=2),
    "depthwise": Geometry(kernel=3, padding=1, groups=8),
    "groups": Geometry(kernel=3, padding=1, groups=2),
    "most": Geometry(kernel=3, stride=2, padding=1, channels="own"),
    "mean": Geometry(kernel=3, stride=2, padding=1, channels="own"),
    "join": Geometry(channels="joined"),
    "pooled": Geometry(channels="own", rows="all"),
    "reduced": Geometry(channels="own", rows="all"),
    "top": Geometry(rows="all"),
    "side": Geometry(rows="all"),
    "y": Geometry(channels="joined"),
}


def machines() -> ow.Cluster:
    devices = [ow.Device(name=name, flops_per_second=1e6, memory_bandwidth=1e7) for name in ("a", "b")]
    return ow.Cluster(devices=devices, shared=1e7)


def test_a_net_by_hand(tmp_path: Path) -> None:
    assert ow.geometry(net()) == BY_HAND
    path = save(net(), tmp_path)
    graph = ow.load(path)
    assert ow.geometry(path, graph=graph) == BY_HAND
    assert list(ow.geometry(path, graph=graph)) == [op.id for op in graph.operators if op.id in BY_HAND]


def test_channels_that_are_split_are_cut_into_rows() -> None:
    split = helper.make_node("Split", ["x"], ["left", "right"], name="split", axis=1, num_outputs=2)
    graph = model(
        [split, node("Conv", ["left", "w"], "conv"), node("Concat", ["conv", "right"], "y", axis=1)],
        [value("x", [1, 4, 8, 8])],
        [value("y", None)],
        [weight("w", 2, 2, 1, 1)],
        opset_imports=[helper.make_opsetid("", 18)],
    )
    loaded, found = ow.load(graph), ow.geometry(graph)
    assert found["split"] == Geometry()
    costs = ow.Costs.roofline(loaded, machines())
    problem = ow.Slicing(graph=loaded, cluster=machines(), costs=costs, geometry=found)
    assert problem.cuttings["split"].lengths == {"rows": 8}
    rows = {op.id: ow.Slice(dimension="rows", cuts=[0, 3, 8]) for op in loaded.operators}
    judged = problem.evaluate(ow.Slices(devices=("a", "b"), slices=rows, order=list(rows)))
    assert judged.feasible
    assert sum(sum(step.bytes_in.values()) for step in judged.details.steps) == 0  # each row stays where it is


WINDOWS = [
    ("Conv", {}),
    ("Conv", {"pads": [1, 1, 1, 1]}),
    ("Conv", {"pads": [3, 0, 0, 0], "strides": [2, 1]}),
    ("Conv", {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("Conv", {"auto_pad": "SAME_UPPER", "strides": [3, 1]}),
    ("Conv", {"auto_pad": "VALID", "strides": [2, 2]}),
    ("Conv", {"group": 2, "pads": [1, 1, 1, 1]}),
    ("Conv", {"group": 4, "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", {"kernel_shape": [2, 3], "strides": [2, 2], "dilations": [2, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("GlobalAveragePool", {}),
    ("ReduceMax", {"axes": [2, 3]}),
]


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize(("kind", "attributes"), WINDOWS, ids=[f"{kind} {given}" for kind, given in WINDOWS])
def test_operators_read_what_their_geometry_says(kind: str, attributes: dict[str, object], side: int) -> None:
    """Change one cell of the input: exactly the output cells whose window has it may change, and all rows' do."""
    groups = attributes.get("group", 1)
    assert isinstance(groups, int)
    inputs = ["x", "w"] if kind == "Conv" else ["x"]
    held = [onnx.numpy_helper.from_array(np.ones((4, 4 // groups, 3, 3), np.float32), "w")] if kind == "Conv" else []
    proto = model(
        [node(kind, inputs, "y", **attributes)],
        [value("x", [1, 4, side, side])],
        [value("y", None)],
        held,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    geometry = ow.geometry(proto)["y"]
    run = ReferenceEvaluator(proto)
    made = run.run(None, {"x": np.zeros((1, 4, side, side), np.float32)})[0]
    reads = np.zeros((made.shape[2], side), bool)
    mixes = np.zeros((4, 4), bool)
    for channel in range(4):
        for row in range(side):
            x = np.zeros((1, 4, side, side), np.float32)
            x[0, channel, row] = 1.0
            changed = (run.run(None, {"x": x})[0] != made)[0]
            reads[:, row] |= changed.any(axis=(0, 2))
            mixes[:, channel] |= changed.any(axis=(1, 2))
    for row in range(made.shape[2]):
        first, end = geometry.window(row, row + 1, rows=side) if geometry.rows == "window" else (0, side)
        seen = np.flatnonzero(reads[row])
        if not seen.size:
            assert first == end
            continue
        assert (seen[0], seen[-1] + 1) == (first, end) or (geometry.dilation > 1 and first <= seen[0] <= seen[-1] < end)
    own = np.eye(4, dtype=bool)
    grouped = np.kron(np.eye(groups), np.ones((4 // groups, 4 // groups))).astype(bool)
    assert (mixes == (own if geometry.channels == "own" else grouped)).all()


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("Conv", ["x", "v"], "y")], id="computed weights"),
        pytest.param([node("Concat", ["x", "x"], "y", axis=1)], id="joined with itself"),
        pytest.param([node("Concat", ["x", "x"], "y", axis=2)], id="joined along the rows"),
        pytest.param([node("Concat", ["x", "c"], "y", axis=1)], id="joined with a constant"),
        pytest.param([node("ReduceMean", ["x"], "y", axes=[1])], id="mean over channels"),
        pytest.param([node("ReduceMean", ["x"], "y")], id="mean over everything"),
        pytest.param([node("ConvTranspose", ["x", "w"], "y")], id="transposed"),
        pytest.param([node("MatMul", ["x", "m"], "y")], id="dense on four dimensions"),
        pytest.param([node("Pad", ["x", "p"], "y")], id="padding on its own"),
    ],
)
def test_what_cannot_be_read_is_left_out(nodes: list[NodeProto]) -> None:
    held = [
        weight("w", 4, 4, 3, 3),
        weight("c", 1, 4, 8, 8),
        weight("m", 8, 2),
        onnx.numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "p"),
    ]
    inputs = [value("x", [1, 4, 8, 8]), value("v", [4, 4, 3, 3])]
    proto = model(nodes, inputs, [value("y", None)], held, opset_imports=[helper.make_opsetid("", 13)])
    graph = ow.load(proto)
    found = ow.geometry(proto, graph=graph)
    assert found == {}
    cluster = machines()
    ow.Slicing(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), geometry=found)


@pytest.mark.parametrize(("batch", "expected"), [(1, {"y": Geometry(channels="own")}), (2, {})])
def test_dense_layers_on_sequences_are_cut_into_positions(batch: int, expected: dict[str, Geometry]) -> None:
    proto = model(
        [node("MatMul", ["x", "w"], "y")], [value("x", [batch, 6, 4])], [value("y", None)], [weight("w", 4, 8)]
    )
    assert ow.geometry(proto) == expected


def test_pooling_with_two_results_and_one_dimension_stays_whole() -> None:
    both = helper.make_node("MaxPool", ["x"], ["y", "where"], name="y", kernel_shape=[2, 2])
    found = ow.geometry(
        model([both], [value("x", [1, 2, 4, 4])], [value("y", None), value("where", None, TensorProto.INT64)])
    )
    assert found == {}
    line = node("Conv", ["x", "w"], "y")
    assert ow.geometry(model([line], [value("x", [1, 2, 9])], [value("y", None)], [weight("w", 2, 2, 3)])) == {}


def test_a_graph_of_another_model_gets_nothing_wrong() -> None:
    other = model([node("Relu", ["x"], "stem")], [value("x", [1, 3, 4, 4])], [value("stem", None)])
    assert ow.geometry(net(), graph=ow.load(other)) == {}


def test_json_has_no_attributes(tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", ow.load(net()).model_dump_json())
    assert ow.geometry(path) == {}


def test_the_command_line_reads_it_unless_it_is_given(opweave: Run, tmp_path: Path) -> None:
    path, report = save(net(), tmp_path), tmp_path / "report"
    cluster = write(tmp_path / "cluster.json", machines().model_dump_json())
    flags = ("plan", path, "--problem", "slicing", "--cluster", cluster, "--report", report, "--time-limit", 0.5)
    ended = opweave(*flags)
    assert (ended.status, ended.err) == (0, "")
    assert json.loads((report / "problem.json").read_text())["geometry"].keys() == BY_HAND.keys()
    told = write(tmp_path / "geometry.json", {"depthwise": {"kernel": 3, "padding": 1, "groups": 8}})
    assert opweave(*flags, "--geometry", told).status == 0
    assert json.loads((report / "problem.json").read_text())["geometry"].keys() == {"depthwise"}


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ow.InvalidInputError, match="is not a model"):
        ow.geometry(3)
