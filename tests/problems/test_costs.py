"""Times of operators on devices: tables, the roofline, and what is not known."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs, Efficiency
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.roofline import bytes_moved

TABLE = Costs.from_table({"conv": {"a": {1: 1.0, 4: 3.0}, "b": 2}, "relu": {"b": None, "c": {4: np.float32(0.5)}}})


def test_by_hand():
    assert TABLE.operators == ("conv", "relu")
    assert TABLE.devices == ("a", "b", "c")
    assert TABLE.batches == (1, 4)
    assert TABLE.table == ((1.0, 3.0, 2.0, None, None, None), (None, None, None, None, None, 0.5))
    assert TABLE.seconds("conv", "a") == 1.0
    assert TABLE.seconds("conv", "a", batch=4) == 3.0
    assert TABLE.seconds("relu", "c", batch=4) == 0.5


@pytest.mark.parametrize(
    ("operator", "device", "batch"),
    [("relu", "b", 1), ("conv", "b", 4), ("conv", "a", 2), ("ghost", "a", 1), ("conv", "ghost", 1)],
)
def test_unknown_times_are_never_free(operator, device, batch):
    sentence = f"the time of operator '{operator}' on device '{device}' for batch {batch} is not known"
    with pytest.raises(InvalidInputError, match=sentence):
        TABLE.seconds(operator, device, batch)
    assert np.isnan(TABLE.array([operator], [device], batch)).all()


def test_array_follows_the_order_asked_for():
    asked = TABLE.array(["relu", "conv", "conv", "ghost"], ["c", "a"], batch=4)
    assert np.array_equal(asked, [[0.5, np.nan], [np.nan, 3.0], [np.nan, 3.0], [np.nan, np.nan]], equal_nan=True)
    assert TABLE.array([], ["a"]).shape == (0, 1)
    with pytest.raises(ValueError, match="read-only"):
        asked[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        TABLE.values[0, 0, 0] = 1


def test_an_empty_table():
    empty = Costs.from_table({})
    assert np.isnan(empty.array(["conv"], ["a"])).all()
    assert Costs.model_validate_json(empty.model_dump_json()) == empty
    assert np.isnan(Costs.from_table({"conv": {}}).array(["conv"], ["a"])).all()


@pytest.mark.parametrize("entry", [True, np.True_, -1e-9, float("nan"), float("inf"), "1", 1e16, [1.0], 1j])
def test_what_is_no_duration(entry):
    sentence = "the time of operator 'conv' on device 'b' for batch 1 is"
    with pytest.raises(ValidationError, match=sentence):
        Costs.from_table({"conv": {"a": 1.0, "b": entry}})
    with pytest.raises(ValidationError, match=sentence):
        Costs(operators=["conv"], devices=["a", "b"], table=[[1.0, entry]])


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "4"])
def test_what_is_no_batch_size(size):
    with pytest.raises(InvalidInputError, match="is not a batch size"):
        Costs.from_table({"conv": {"a": {size: 1.0}}})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"operators": ["conv", "conv"], "table": [[1.0], [1.0]]}, "operator 'conv' is listed more than once"),
        ({"devices": ["a", "a"], "table": [[1.0, 1.0]]}, "device 'a' is listed more than once"),
        ({"batches": [4, 1], "table": [[1.0, 1.0]]}, "batches must ascend"),
        ({"batches": []}, "batches"),
        ({"batches": [0]}, "batches"),
        ({"table": []}, "table has 0 rows for 1 operators"),
        ({"table": [[]]}, "the row of operator 'conv' has 0 entries, not one"),
        ({"table": ["1"]}, r"table\[0\] should be a list"),
        ({"table": 1.0}, "table should be a list"),
        ({"operators": [7]}, "operators"),
    ],
)
def test_refused(fields, sentence):
    with pytest.raises(ValidationError, match=sentence):
        Costs(**{"operators": ["conv"], "devices": ["a"], "table": [[1.0]]} | fields)


def test_a_row_that_is_no_mapping():
    with pytest.raises(InvalidInputError, match="operator 'conv' needs a mapping of devices to seconds"):
        Costs.from_table({"conv": 1.0})


def test_tables_may_come_as_arrays():
    given_table = Costs(operators=["conv", "relu"], devices=["a"], table=np.array([[1.0], [2.0]]))
    assert given_table.seconds("relu", "a") == 2.0


def small_net():
    """A convolution (80 FLOPs, 40 bytes of weights), a view of its result, and a sum that reads it twice."""
    return OpGraph(
        tensors=[
            Tensor(id="x", bytes=10),
            Tensor(id="y", bytes=30),
            Tensor(id="v", bytes=30, alias_of="y"),
            Tensor(id="z", bytes=20),
        ],
        parameters=[Parameter(id="w", bytes=40)],
        operators=[
            Operator(id="conv", kind="Conv", inputs=["x"], outputs=["y"], parameters=["w", "w"], flops=80),
            Operator(id="view", kind="Reshape", inputs=["y"], outputs=["v"]),
            Operator(id="sum", kind="Add", inputs=["v", "v"], outputs=["z"], flops=10),
        ],
        outputs=["z"],
    )


def one(**fields):
    return Cluster(devices=[Device(name="a", **{"flops_per_second": 2, "memory_bandwidth": 10} | fields)])


def test_roofline_by_hand():
    # conv: max(80 / 2, (10 + 30 + 40) / 10) = 40; view: nothing moves; sum: max(10 / 2, (30 + 20) / 10) = 5
    estimate = Costs.roofline(small_net(), one(launch_seconds=1))
    assert estimate.array(["conv", "view", "sum"], ["a"])[:, 0].tolist() == [41, 1, 6]


def test_efficiency_by_kind():
    estimate = Costs.roofline(small_net(), one(launch_seconds=1), efficiency={"Conv": 0.5}, default_efficiency=0.25)
    assert estimate.array(["conv", "view", "sum"], ["a"])[:, 0].tolist() == [81, 1, 21]


def lookup(kind):
    return OpGraph(
        tensors=[Tensor(id="x", bytes=8), Tensor(id="y", bytes=40)],
        parameters=[Parameter(id="table", bytes=10_000)],
        operators=[Operator(id="pick", kind=kind, inputs=["x"], outputs=["y"], parameters=["table"], flops=20)],
    )


def test_arithmetic_traffic_and_launch_by_kind():
    cluster = one(flops_per_second=10.0, memory_bandwidth=100.0, launch_seconds=0.5)
    graph = lookup("Gather")  # 20 FLOPs, 88 bytes

    def seconds(given):
        return Costs.roofline(graph, cluster, efficiency={"Gather": given}).seconds("pick", "a")

    assert seconds(1.0) == 2.5
    assert seconds(Efficiency(arithmetic=0.25)) == 8.5
    assert seconds(Efficiency(traffic=0.1)) == pytest.approx(8.8 + 0.5)
    assert seconds(Efficiency(launch_seconds=0.0)) == 2.0
    assert seconds(0.5) == seconds(Efficiency(arithmetic=0.5, traffic=0.5))


def test_a_lookup_reads_what_it_picks():
    assert sum(bytes_moved(lookup("Gather"), {})) == 8 + 40 + 40
    assert sum(bytes_moved(lookup("MatMul"), {})) == 8 + 40 + 10_000


def test_weights_are_read_once_for_a_batch():
    # memory bound: conv moves 40 bytes of tensors for each input and 40 bytes of weights once
    fast = one(flops_per_second=1e9, batch_sizes=[1, 4])
    estimate = Costs.roofline(small_net(), fast, batches=[4, 1, 2])
    assert estimate.batches == (1, 2, 4)
    assert [estimate.seconds("conv", "a", size) for size in (1, 4)] == [8, 20]
    assert np.isnan(estimate.array(["conv"], ["a"], batch=2)).all()


@pytest.mark.parametrize("field", ["flops_per_second", "memory_bandwidth"])
def test_a_roofline_needs_speeds(field):
    with pytest.raises(InvalidInputError, match=f"device 'a' has no {field}"):
        Costs.roofline(small_net(), one(**{field: None}))
