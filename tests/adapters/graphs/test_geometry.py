"""Geometry out of ONNX models made here, compared with hand-written ones and with what the operators really read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

import opweave as ow  # noqa: E402
from tests.adapters.conftest import Run, write  # noqa: E402
from tests.adapters.onnx.nets import net as net_of  # noqa: E402
from tests.adapters.onnx.nets import saved  # noqa: E402

Geometry = ow.Geometry


def net() -> onnx.ModelProto:
    """A stem, a depthwise and a grouped branch that are joined, and a classifier; nodes are named as their outputs."""
    text = """(float[1, 3, 16, 16] x) => (float[] y) {
        stem = Conv <pads = [2, 1, 1, 1], strides = [2, 1], dilations = [2, 1]> (x, w3)
        act = Relu(stem)
        depthwise = Conv <pads = [1, 0, 1, 0], group = 8> (act, deep)
        groups = Conv <auto_pad = "SAME_UPPER", group = 2, kernel_shape = [3, 3]> (act, grouped)
        most = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (groups)
        mean = AveragePool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_LOWER"> (groups)
        sum = Add(most, mean)
        join = Concat <axis = -3> (most, sum)
        wide = ConvTranspose <strides = [2, 2]> (join, up)
        pooled = GlobalAveragePool(wide)
        reduced = ReduceMean <keepdims = 0> (wide, axes)
        flat = Flatten(pooled)
        top = Gemm(flat, dense)
        side = MatMul(reduced, dense)
        y = Concat <axis = 1> (top, side)
    }"""
    weights = {"w3": (8, 3, 3, 3), "deep": (8, 1, 3, 1), "grouped": (8, 4, 3, 3), "up": (16, 4, 2, 2), "dense": (4, 10)}
    return named(net_of(text, opset=18, axes=[2, 3], **weights))


def named(model: onnx.ModelProto) -> onnx.ModelProto:
    for node in model.graph.node:
        node.name = node.output[0]
    return model


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
    path = saved(net(), tmp_path / "net.onnx")
    graph = ow.load(path)
    assert ow.geometry(path, graph=graph) == BY_HAND
    assert list(ow.geometry(path, graph=graph)) == [op.id for op in graph.operators if op.id in BY_HAND]


def test_channels_that_are_split_are_cut_into_rows() -> None:
    text = """(float[1, 4, 8, 8] x) => (float[] y) {
        split, right = Split <axis = 1, num_outputs = 2> (x)  conv = Conv(split, w)  y = Concat <axis = 1> (conv, right)
    }"""
    graph = named(net_of(text, opset=18, w=(2, 2, 1, 1)))
    loaded, found = ow.load(graph), ow.geometry(graph)
    assert found["split"] == Geometry()
    costs = ow.Costs.roofline(loaded, machines())
    problem = ow.Slicing(graph=loaded, cluster=machines(), costs=costs, geometry=found)
    assert problem.cuttings["split"].lengths == {"rows": 8}
    rows = {op.id: ow.Slice(dimension="rows", cuts=[0, 3, 8]) for op in loaded.operators}
    judged = problem.evaluate(ow.Slices(devices=("a", "b"), slices=rows, order=list(rows)))
    assert judged.feasible
    assert sum(sum(step.bytes_in.values()) for step in judged.details.steps) == 0  # each row stays where it is


WINDOWS = """
Conv
Conv pads=[1,1,1,1]
Conv pads=[3,0,0,0], strides=[2,1]
Conv pads=[2,2,2,2], dilations=[2,2]
Conv auto_pad="SAME_UPPER", strides=[2,2]
Conv auto_pad="SAME_LOWER", strides=[2,2]
Conv auto_pad="SAME_UPPER", strides=[3,1]
Conv auto_pad="VALID", strides=[2,2]
Conv pads=[1,1,1,1], group=2
Conv strides=[2,2], group=4
MaxPool kernel_shape=[3,3], strides=[2,2], ceil_mode=1
MaxPool kernel_shape=[2,3], strides=[2,2], dilations=[2,1]
AveragePool kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]
AveragePool kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER"
GlobalAveragePool
ReduceMax axes=[2,3]
"""


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("operator", WINDOWS.strip().splitlines())
def test_operators_read_what_their_geometry_says(operator: str, side: int) -> None:
    """Change one cell of the input: exactly the output cells whose window has it may change, and all rows' do."""
    kind, _, given = operator.partition(" ")
    groups = int(given.partition("group=")[2] or 1)
    held = {"w": np.ones((4, 4 // groups, 3, 3), np.float32)} if kind == "Conv" else {}
    call = f"y = {kind} <{given}> (x{', w' * len(held)})".replace("<>", "")
    proto = named(net_of(f"(float[1, 4, {side}, {side}] x) => (float[] y) {{ {call} }}", **held))
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


LEFT_OUT = """
computed weights: y = Conv(x, v)
joined with itself: y = Concat <axis = 1> (x, x)
joined along the rows: y = Concat <axis = 2> (x, x)
joined with a constant: y = Concat <axis = 1> (x, c)
mean over channels: y = ReduceMean <axes = [1]> (x)
mean over everything: y = ReduceMean(x)
transposed: y = ConvTranspose(x, w)
dense on four dimensions: y = MatMul(x, m)
padding on its own: y = Pad(x, p)
pooling with two results: y, where = MaxPool <kernel_shape = [2, 2]> (x)
one dimension: a = Squeeze(x, p0)  y = Conv(a, line)
"""


@pytest.mark.parametrize("line", LEFT_OUT.strip().splitlines())
def test_what_cannot_be_read_is_left_out(line: str) -> None:
    text = f"(float[1, 4, 8, 8] x, float[4, 4, 3, 3] v) => (float[] y) {{ {line.partition(': ')[2]} }}"
    held = {"w": (4, 4, 3, 3), "c": (1, 4, 8, 8), "m": (8, 2), "p": [0, 0, 1, 1, 0, 0, 1, 1], "p0": [0]}
    proto = net_of(text, opset=13, **held, line=(2, 8, 3))
    graph = ow.load(proto)
    found = ow.geometry(proto, graph=graph)
    assert found == {}
    cluster = machines()
    ow.Slicing(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), geometry=found)


@pytest.mark.parametrize(("batch", "expected"), [(1, {"y": Geometry(channels="own")}), (2, {})])
def test_dense_layers_on_sequences_are_cut_into_positions(batch: int, expected: dict[str, Geometry]) -> None:
    proto = named(net_of(f"(float[{batch}, 6, 4] x) => (float[] y) {{ y = MatMul(x, w) }}", w=(4, 8)))
    assert ow.geometry(proto) == expected


def test_a_graph_of_another_model_gets_nothing_wrong() -> None:
    other = named(net_of("(float[1, 3, 4, 4] x) => (float[] stem) { stem = Relu(x) }"))
    assert ow.geometry(net(), graph=ow.load(other)) == {}


def test_json_has_no_attributes(tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", ow.load(net()).model_dump_json())
    assert ow.geometry(path) == {}


def test_the_command_line_reads_it_unless_it_is_given(opweave: Run, tmp_path: Path) -> None:
    path, report = saved(net(), tmp_path / "net.onnx"), tmp_path / "report"
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
