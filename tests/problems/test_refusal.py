"""A refusal at construction is opweave's error and pydantic's, in sentences."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import opweave as ow

GRAPH = ow.OpGraph(
    tensors=[ow.Tensor(id="x", bytes=4)],
    operators=[ow.Operator(id="conv1", outputs=["x"]), ow.Operator(id="conv2", inputs=["x"])],
)
TWO = ow.Cluster(devices=[ow.Device(name="gpu"), ow.Device(name="cpu")], shared=1e9)
TIMES = {"conv1": {"gpu": 1.0, "cpu": 2.0}, "conv2": {"gpu": 1.0, "cpu": 2.0}}
COSTS = ow.Costs.from_table(TIMES)


def placed(*constraints, **fields):
    return ow.Placement(graph=GRAPH, cluster=TWO, costs=COSTS, constraints=constraints, **fields)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ow.Tensor(id="x", bytes=-1), "Tensor: bytes should be greater than or equal to 0, but is -1"),
        (lambda: ow.MemoryOrdering(GRAPH, inplace="any"), "inplace is an unknown field; did you mean 'in_place'?"),
        (lambda: ow.MemoryOrdering(GRAPH, in_place="all"), "in_place should be 'none', 'first' or 'any', but is 'all'"),
        (lambda: ow.MemoryOrdering(graph=np.ones(3)), "not ndarray; ow.load(model) makes one of a model"),
        (
            lambda: ow.MemoryOrdering(GRAPH, GRAPH),
            "MemoryOrdering takes graph in this order, and everything else by name",
        ),
        (lambda: ow.MemoryOrdering(GRAPH, graph=GRAPH), "takes graph in this order"),
        (lambda: ow.Placement(GRAPH, TWO, None, 3), "Placement takes graph, cluster, costs in this order"),
        (lambda: ow.Pin("conv1", op="conv1"), "Pin takes op, device in this order"),
        (lambda: ow.Tensor("x", 4), "Tensor takes its fields by name: Tensor(id=..., bytes=..., alias_of=...)"),
        (ow.MemoryOrdering, "MemoryOrdering: graph is missing; write graph=load('model.onnx')"),
        (lambda: ow.Placement(GRAPH, cluster=TWO), "costs is missing; write costs=Costs.roofline("),
        (
            lambda: ow.Cluster.model_validate({"devices": [{"name": "a", "memory": 8}]}),
            "devices[0].memory is an unknown field; did you mean 'memory_bytes'?",
        ),
        (lambda: ow.Cluster(devices=[]), "devices is empty; it needs at least one entry"),
        (lambda: placed(ow.Pin(op="conv3", device="gpu")), "which the graph does not have; did you mean 'conv"),
        (lambda: placed(ow.Pin(op="conv1", device="gpu0")), "the cluster has 'gpu', 'cpu'; did you mean 'gpu'?"),
        (lambda: TWO.transfer_seconds(3, "gpu", "cpus"), "did you mean 'cpu'?"),
        (
            lambda: ow.Placement(graph=GRAPH, cluster=TWO, costs=ow.Costs.from_table({**TIMES, "con1": {"gpu": 1.0}})),
            "the costs name operator 'con1', which the graph does not have; did you mean 'conv1'?",
        ),
        (
            lambda: ow.OpGraph.model_validate({"operators": [{"id": 3}], "tensors": []}),
            "operators[0].id should be a text",
        ),
        (lambda: ow.OpGraph.model_validate_json('{"operators": [], "tensors": 3}'), "OpGraph: tensors should be"),
    ],
)
def test_every_refusal_is_opweaves_and_says_what_to_do(build, sentence) -> None:
    with pytest.raises(ow.InvalidInputError) as refused:
        build()
    assert sentence in str(refused.value)
    assert "errors.pydantic.dev" not in str(refused.value)


def test_it_is_pydantics_error_too() -> None:
    with pytest.raises(ValidationError) as refused:
        ow.Tensor(id="", bytes="many")
    assert isinstance(refused.value, ow.InvalidSpecError)
    assert [each["loc"] for each in refused.value.errors()] == [("id",), ("bytes",)]
    assert str(refused.value).splitlines()[0] == "Tensor:"
    again = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(again, ow.InvalidInputError)
    assert str(again) == str(refused.value)


def test_many_errors_make_a_short_text() -> None:
    with pytest.raises(ow.InvalidInputError) as refused:
        ow.OpGraph.model_validate({"operators": [], "tensors": [{"id": "x"}] * 1000})
    assert str(refused.value).splitlines()[-1] == "  ... and 995 more"


def test_inside_other_models_pydantic_collects_the_errors() -> None:
    class Mine(BaseModel):
        graph: ow.OpGraph
        other: ow.Tensor

    with pytest.raises(ValidationError) as refused:
        Mine.model_validate({"graph": {"operators": 3, "tensors": []}, "other": {"id": "x"}})
    assert {each["loc"][0] for each in refused.value.errors()} == {"graph", "other"}
    with pytest.raises(ValidationError):
        TypeAdapter(ow.Tensor).validate_python({"id": 3})


@pytest.mark.parametrize("written", ["8", "-8 GB", "8 GB/s", "nan GB", "", 8.5, "9 PB PB", "99 PiB", 1e300])
def test_bytes_that_are_refused(written: object) -> None:
    with pytest.raises(ow.InvalidInputError):
        ow.Device(name="a", memory_bytes=written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("8 Gb", "1 GB"), ("8Gbit", "1 GB"), ("12 Mib", "1.5 MiB"), ("1.5 Gb", "0.1875 GB"), ("64 bits", "8 B")],
)
def test_bits_are_no_bytes(written: str, meant: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=f"could mean bits or bytes; write '{meant}' for the bits"):
        ow.Device(name="a", memory_bytes=written)


@pytest.mark.parametrize(
    ("field", "written", "kept"),
    [
        ("flops_per_second", "40 GFLOP/s", 40e9),
        ("flops_per_second", "1.5 TFLOPS", 1.5e12),
        ("memory_bandwidth", "900 GB/s", 900e9),
        ("memory_bandwidth", "10 Gbit/s", 1.25e9),
        ("memory_bandwidth", "1 GiB/s", 2.0**30),
    ],
)
def test_rates(field: str, written: str, kept: float) -> None:
    device = ow.Device(name="a", **{field: written})
    assert getattr(device, field) == kept
    assert ow.Device.model_validate_json(device.model_dump_json()) == device


@pytest.mark.parametrize("written", ["3", "-3 ms", "3 MS", "3 ms/s", "soon", ""])
def test_times_that_are_refused(written: str) -> None:
    with pytest.raises(ow.InvalidInputError, match="write it as '3 ms'"):
        ow.Device(name="a", launch_seconds=written)
    with pytest.raises(ow.InvalidInputError, match="a text such as '3 ms'"):
        ow.Costs.from_table({"p": {"a": written}})


@pytest.mark.parametrize("written", ["5 GB", "10 Gb/s", "fast", "40 GFLOP/s", "5 GB/s/s"])
def test_bandwidths_that_are_refused(written: str) -> None:
    with pytest.raises(ow.InvalidInputError, match="write"):
        ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, written], [written, 0]])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("memory_bytes", 512, "device 'a': memory_bytes is 512 bytes; if you mean more, write '512 MiB' or '512 GB'"),
        ("flops_per_second", 40, "'40 GFLOP/s' or '40 TFLOP/s'"),
        ("memory_bandwidth", 900, "'900 GB/s'"),
        ("launch_seconds", 5, "launch_seconds is 5 seconds; if you mean less, write '5 us' or '5 ms'"),
    ],
)
def test_implausible_numbers_are_told_where_they_are_written(field: str, value: int, words: str) -> None:
    with pytest.warns(ow.ImplausibleWarning) as said:
        ow.Device(name="a", **{field: value})
    assert [words in str(one.message) for one in said] == [True]
    assert said[0].filename == __file__


def test_a_matrix_is_told_once() -> None:
    two = [ow.Device(name="a"), ow.Device(name="b")]
    with pytest.warns(ow.ImplausibleWarning, match="bandwidth is 10 bytes per second.*10 Gbit/s") as said:
        ow.Cluster(devices=two, bandwidth=[[0, 10], [20, 0]])
    assert len(said) == 1


def test_plausible_numbers_and_copies_in_solvers_are_silent() -> None:
    small = ow.Device(name="a", memory_bytes=64)
    graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=4)], operators=[ow.Operator(id="o", outputs=["x"])])
    costs = ow.Costs.from_table({"o": {"a": 1.0}})
    problem = ow.Placement(graph=graph, cluster=ow.Cluster(devices=[small]), costs=costs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ow.ImplausibleWarning)
        ow.Device(name="a", memory_bytes=0, flops_per_second=1e6)
        assert ow.solve(problem).verified
