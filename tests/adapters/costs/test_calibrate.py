"""Profiles in, and rooflines fitted to them: rates that are known are found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opweave as ow
from opweave.adapters.costs.calibrate import Sample, fit
from opweave.problems.graph import OpGraph
from opweave.problems.roofline import variants
from tests.adapters.conftest import write


def event(name: str, micros: float, **more: object) -> dict[str, object]:
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": micros, "ph": "X", "args": more}


PROFILE = [
    {"cat": "Session", "name": "session_initialization", "dur": 5},
    *(event(f"{name} {index}", took) for took in (900, 20, 30, 40) for name, index in (("grow", "a"), ("grow", "b"))),
    *(event(f"shrink {side}", 7) for side in "ab"),
    event("join", 1),
    event("", 3, op_name="Relu", node_index="4"),
]


def test_a_profile_gives_medians_without_the_first_run(tmp_path: Path, graph: OpGraph) -> None:
    costs = ow.load_costs(write(tmp_path / "profile.json", PROFILE), graph=graph, device="a")
    assert costs.operators == tuple(op.id for op in graph.operators)
    assert [costs.seconds(op, "a") for op in costs.operators] == pytest.approx([3e-5, 3e-5, 7e-6, 7e-6, 1e-6])
    everything = ow.load_costs(tmp_path / "profile.json")
    assert everything.seconds("Relu_4", "cpu") == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ([], "not a profile of ONNX Runtime, or one without nodes"),
        ([1, "x", None], "not a profile of ONNX Runtime"),
        ([event("join", -1)], "event 'join_kernel_time' has no duration of 0 or more"),
        (PROFILE[:-2], "has no time for operator 'join'; profile the same model that is planned"),
        ([event("join", 1)], "has no time for operator 'grow a' and 3 more; profile"),
    ],
)
def test_what_is_no_profile_of_the_model_is_refused(
    tmp_path: Path, graph: OpGraph, profile: object, sentence: str
) -> None:
    path = write(tmp_path / "profile.json", profile)
    with pytest.raises(ow.InvalidInputError, match=sentence) as caught:
        ow.load_costs(path, graph=graph)
    assert str(caught.value).startswith(f"{path}: ")


def test_known_rates_are_found_again() -> None:
    draw = np.random.default_rng(0)
    rates = {"MatMul": (100e9, 20e9, 3e-6), "Add": (8e9, 40e9, 1e-6)}
    rows = [
        Sample(kind, flops, moved, max(flops / speed, moved / bandwidth) + launch)
        for kind, (speed, bandwidth, launch) in rates.items()
        for flops, moved in zip(10 ** draw.uniform(3, 9, 60), 10 ** draw.uniform(3, 7.5, 60), strict=True)
    ]
    found = fit(rows, "here")
    assert found.device.name == "here"
    assert found.device.flops_per_second == pytest.approx(100e9, rel=0.1)
    assert found.device.memory_bandwidth == pytest.approx(40e9, rel=0.1)
    for kind, (speed, bandwidth, launch) in rates.items():
        share = found.efficiency[kind]
        assert share.arithmetic * found.device.flops_per_second == pytest.approx(speed, rel=0.1)
        assert share.traffic * found.device.memory_bandwidth == pytest.approx(bandwidth, rel=0.1)
        assert share.launch_seconds == pytest.approx(launch, rel=0.2)


@pytest.mark.parametrize("overlap", [1.0, 0.5, 0.0])
def test_arithmetic_and_traffic_may_follow_each_other(overlap: float) -> None:
    draw = np.random.default_rng(2)
    work = list(zip(10 ** draw.uniform(5, 8, 80), 10 ** draw.uniform(4, 7, 80), strict=True))
    seconds = [(flops / 50e9, moved / 10e9) for flops, moved in work]
    rows = [
        Sample("Conv", *each, max(both) + (1 - overlap) * min(both) + 1e-6)
        for each, both in zip(work, seconds, strict=True)
    ]
    found = fit(rows)
    assert found.efficiency["Conv"].overlap == overlap
    assert found.errors["Conv"] < 0.03


def convolution(depth: int, dtype: str = "float32", *, last: bool = False) -> OpGraph:
    """A 3 x 3 convolution of 32 channels, ``depth`` of which each of 48 results depends on."""
    x, y = (1, 32, 7, 7), (1, 48, 7, 7)
    if last:
        x, y = (1, 7, 7, 32), (1, 7, 7, 48)
    size = 4 if dtype == "float32" else 1
    weights = ow.Parameter(id="w", bytes=48 * depth * 9 * size + 48 * 4)
    image = ow.Tensor(id="x", bytes=32 * 49 * size, shape=x, dtype=dtype)
    made = ow.Tensor(id="y", bytes=48 * 49 * size, shape=y, dtype=dtype)
    ends = {"inputs": ["x"], "outputs": ["y"], "parameters": ["w"]}
    conv = ow.Operator(id="conv", kind="Conv", flops=2.0 * 48 * 49 * depth * 9, **ends)
    return OpGraph(tensors=[image, made], parameters=[weights], operators=[conv])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("depth", "dtype", "names"),
    [
        (32, "float32", ("Conv",)),
        (1, "float32", ("Conv depthwise", "Conv")),
        (8, "float32", ("Conv grouped", "Conv")),
        (32, "int8", ("Conv signed", "Conv")),
        (32, "uint8", ("Conv unsigned", "Conv")),
        (1, "int8", ("Conv signed depthwise", "Conv depthwise", "Conv signed", "Conv")),
    ],
)
def test_variants_of_a_kind(depth: int, dtype: str, names: tuple[str, ...], last: bool) -> None:
    assert variants(convolution(depth, dtype, last=last)) == (names,)


def test_what_a_fused_convolution_adds_is_not_its_image() -> None:
    graph = convolution(32)
    added = ow.Tensor(id="z", bytes=48 * 49 * 4, shape=(1, 48, 7, 7), dtype="float32")
    conv = graph.operators[0].model_copy(update={"inputs": ("z", "x")})
    fused = OpGraph(tensors=(*graph.tensors, added), operators=(conv,), parameters=graph.parameters)
    assert variants(fused) == (("Conv",),)


def test_the_most_specific_efficiency_counts() -> None:
    graph = convolution(1)
    device = ow.Device(name="cpu", flops_per_second=1e9, memory_bandwidth=1e30)
    whole = graph.operators[0].flops / 1e9
    for given, share in (({}, 1.0), ({"Conv": 0.5}, 0.5), ({"Conv": 0.5, "Conv depthwise": 0.25}, 0.25)):
        costs = ow.Costs.roofline(graph, ow.Cluster(devices=[device]), efficiency=given)
        assert costs.seconds("conv", "cpu") == pytest.approx(whole / share)


@pytest.mark.frameworks
def test_this_machine_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from opweave.adapters.costs.calibration_cases import LIKE, case_models, cases
    from opweave.adapters.onnx.read import from_onnx

    calibration = ow.calibrate(each=1, repeats=1)
    kinds, measured = {case.kind for case in cases(each=1)}, set(calibration.errors)
    found = {name.partition(" ")[0] for name in measured}
    drawn = {each for each in kinds if each[1:4] != "hwc"} | {"Relu", "QuantizeLinear", "ReduceMax"}
    assert drawn == {each for each in found if each[1:4] not in ("chw", "hwc")} - REORDERED
    assert {other for other, kind in LIKE.items() if kind in measured} <= set(calibration.efficiency)
    assert calibration.efficiency["FusedMatMul"] == calibration.efficiency["MatMul"]
    graph = from_onnx(next(case_models(cases(each=1)[:5])))
    costs = calibration.costs(graph)
    assert np.isfinite(costs.array([op.id for op in graph.operators], ["cpu"])).all()
    assert all(0 < costs.seconds(op.id, "cpu") < 1 for op in graph.operators)


REORDERED = {"ReorderInput", "ReorderOutput"}


def test_calibrating_without_onnx_runtime_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    pytest.importorskip("onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ow.SolverNotAvailableError, match=r"pip install 'opweave\[onnx,ort\]'"):
        ow.calibrate(each=1)
