"""TensorFlow Lite files as the converter writes them; their numbers are those of the interpreter."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

import opweave as ow
from opweave.adapters.tflite import layout
from opweave.adapters.tflite import read as reader
from opweave.adapters.tflite.model import KINDS, Subgraph, TfliteOperator, TfliteTensor

FILES = Path(__file__).parents[2] / "data/files"
NO_RUN = ow.Limits(run_seconds=0)


def read(name: str) -> ow.OpGraph:
    return ow.load(FILES / f"{name}.tflite", limits=NO_RUN)


def test_operators_tensors_and_constants() -> None:
    graph = read("small_int8")
    kinds = [op.kind for op in graph.operators]
    assert kinds[:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD"]
    assert kinds[-2:] == ["FULLY_CONNECTED", "SOFTMAX"]
    bytes_of = {tensor.id: tensor.bytes for tensor in graph.tensors}
    assert bytes_of[graph.inputs[0]] == 32 * 32 * 3  # one byte an element
    conv = graph.operators[0]
    assert bytes_of[conv.outputs[0]] == 16 * 16 * 8
    assert conv.flops == 2 * 16 * 16 * 8 * 27
    assert [graph.parameter_bytes[name] for name in conv.parameters] == [216, 32]
    assert graph.outputs == ("StatefulPartitionedCall_1:0",)


def test_weights_that_are_converted_once_are_parameters() -> None:
    graph = read("small_fp16")
    assert "DEQUANTIZE" not in {op.kind for op in graph.operators}
    assert graph.parameter_bytes[graph.operators[0].parameters[0]] == 4 * 216  # as floats, which is what stays


def test_branches_and_loops_are_operators_with_workspace() -> None:
    branch = read("if_cond").operators[-1]
    assert (branch.kind, branch.workspace_bytes) == ("IF", 8 * 8 * 4 * 2)
    loop = read("while_loop").operators[0]
    assert loop.kind == "WHILE"
    assert loop.workspace_bytes >= 2 * 8 * 8 * 4
    assert loop.flops >= 2 * 8**3  # one pass
    assert loop.parameters


def test_open_sizes_are_asked_for() -> None:
    with pytest.raises(
        ow.InvalidInputError, match=r"\(\? x \? x \? x 3\) has open dimensions.* --dim \S+:0:1=224 --dim \S+:0:2=224"
    ):
        read("open_image")
    with pytest.raises(ow.InvalidInputError, match="no dimension 'height'"):
        ow.load(FILES / "open_image.tflite", dims={"height": 8})
    with pytest.raises(ow.InvalidInputError, match="whole number from 1"):
        ow.load(FILES / "open_image.tflite", dims={"*": 0})


def test_sizes_that_operators_compute_need_a_run() -> None:
    for name, dims in (("computed_shape", {}), ("open_image", {"*": 8})):
        with pytest.raises(ow.InvalidInputError, match="the limits forbid it"):
            ow.load(FILES / f"{name}.tflite", dims=dims, limits=NO_RUN)


@pytest.mark.frameworks
def test_a_run_finds_sizes_out() -> None:
    pytest.importorskip("ai_edge_litert")
    graph = ow.load(FILES / "computed_shape.tflite", dims={"*:0": 3})
    assert [tensor.shape for tensor in graph.tensors if tensor.id in graph.outputs] == [(3, 6, 8)]
    graph = ow.load(FILES / "open_image.tflite", dims={"*:0": 2, "*": 16})
    assert graph.tensors[0].shape == (2, 16, 16, 3)


def test_a_subgraph_that_calls_itself_is_refused(tmp_path: Path) -> None:
    data = bytearray((FILES / "if_cond.tflite").read_bytes())
    refused = 0
    for place in range(len(data) - 4):
        if data[place : place + 4] in (b"\1\0\0\0", b"\2\0\0\0"):
            changed = bytearray(data)
            changed[place : place + 4] = bytes(4)  # in some place, this makes a branch the model itself
            refused += _refusal(tmp_path / "m.tflite", changed).count("which is missing or calls it")
    assert refused


def test_products_count_the_summed_dimension() -> None:
    assert KINDS.flops("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)) == 2 * 2 * 3 * 4 * 5
    assert KINDS.flops("TRANSPOSE_CONV", [(4,), (8, 2, 2, 16), (1, 7, 7, 16)], (1, 14, 14, 8)) == 2 * 49 * 16 * 32
    assert KINDS.flops("CONV_3D_TRANSPOSE", [(5,), (2, 3, 3, 8, 4), (1, 2, 5, 5, 4)], (1, 3, 7, 7, 8)) == 400 * 144
    assert KINDS.flops("Convolution2DTransposeBias", [(1, 7, 7, 16), (8, 2, 2, 16)], (1, 14, 14, 8)) == 1568 * 32
    assert KINDS.flops("MAX_POOL_2D", [(1, 8, 8, 3)], (1, 4, 4, 3)) == 48
    assert KINDS.flops("CONV_2D", [(1, 8, 8, 3)], (1, 8, 8, 4)) == 0.0


def _refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    try:
        ow.load(path, limits=NO_RUN)
    except ow.OpweaveError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def test_a_variable_is_initialised_read_and_changed_in_order() -> None:
    """``y = (x + v) + v``, where ``v`` becomes ``x + v`` in between, and is initialised by a subgraph."""
    graph = read("variable")
    index = graph.operator_index
    orders = list(nx.all_topological_sorts(graph.digraph))
    assert len(orders) == 2, "the handle may be made first"
    for order in orders:
        at = {name.rstrip("0123456789"): place for place, name in enumerate(order)}
        assert at["CALL_ONCE_"] < order.index("READ_VARIABLE_2") < at["ASSIGN_VARIABLE_"]
        assert at["ASSIGN_VARIABLE_"] < order.index("READ_VARIABLE_5")
    assert sum(tensor.bytes for tensor in graph.tensors) == 5 * 16 + 4
    assert graph.operators[index["CALL_ONCE_0"]].workspace_bytes == 4
    (state,) = graph.together
    assert {name.rstrip("0123456789") for name in state} == {
        "CALL_ONCE_",
        "VAR_HANDLE_",
        "READ_VARIABLE_",
        "ASSIGN_VARIABLE_",
    }
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], shared=1e9)
    rows = {op.id: {"a": 1.0, "b": 0.1} if k % 2 else {"a": 0.1, "b": 1.0} for k, op in enumerate(graph.operators)}
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(rows))
    device = ow.solve(problem, time_limit=5).plan.device
    assert len({device[name] for name in state}) == 1
    assert len(set(device.values())) == 2, "other operators are free"
    assert ow.Placement.model_validate_json(problem.model_dump_json()) == problem


def test_operators_with_one_state_stay_in_order_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two SVDF that share the tensor in which they keep what they saw, beside one that has its own."""
    tensors = [TfliteTensor(name, (4,), "float32", 0, (), name in "vw") for name in "xvabwc"]
    rows = [((0, 1), (2,)), ((0, 1), (3,)), ((0, 4), (5,))]
    operators = tuple(TfliteOperator("SVDF", reads, makes, reads, (), "") for reads, makes in rows)
    monkeypatch.setattr(reader, "read_subgraphs", lambda *_: [Subgraph(tensors, operators, (0,), (2, 3, 5))])
    graph = read("small_int8")
    orders = list(nx.all_topological_sorts(graph.digraph))
    assert len(orders) == 3
    assert all(order.index("SVDF_0") < order.index("SVDF_1") for order in orders)
    assert graph.together == (("SVDF_0", "SVDF_1"),)


@pytest.mark.parametrize(("name", "head"), [("variable", 48), ("while_loop", 1312), ("if_cond", 1040)])
def test_arenas_with_several_subgraphs_are_those_of_the_micro_interpreter(name: str, head: int) -> None:
    problem = ow.runtimes.tflite_problem(FILES / f"{name}.tflite")
    assert ow.solve(problem, solver="tflm").objective == head


def test_calls_that_multiply_are_refused_before_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty subgraphs, each of which runs the next one twice: a billion operators."""
    twice = [TfliteOperator("IF", (), (), (), (k + 1, k + 1), "") for k in range(30)]
    subgraphs = [Subgraph((), (op, op), (), ()) for op in twice] + [Subgraph((), (), (), ())]
    monkeypatch.setattr(layout, "read_subgraphs", lambda *_: subgraphs)
    with pytest.raises(ow.LimitExceededError, match="call one another too often"):
        ow.runtimes.tflite_problem(FILES / "small_int8.tflite", limits=ow.Limits(operators=1000))
