"""Nodes and edges become operators and tensors, by the rules that the docstring gives."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import opweave as ow
from opweave.adapters.graphs.networkx_io import from_networkx, to_networkx
from opweave.adapters.graphs.node_edge import from_node_edge
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits
from tests.adapters.conftest import DATA
from tests.strategies.specs import op_graphs


def node(name: str, op: str = "Conv", size: object = 4, **more: object) -> dict[str, object]:
    return {"id": name, "op": op, "out_bytes": size, **more}


def graph_of(edges: str, *nodes: dict[str, object], **more: object) -> ow.OpGraph:
    """A graph whose edges are pairs of letters or words: ``a-b b-c``."""
    return from_node_edge({"nodes": nodes, "edges": [edge.split("-") for edge in edges.split()], **more})


def test_a_residual_block_by_hand() -> None:
    graph = graph_of(
        "x-conv conv-relu relu-sum x-sum x-sum",
        node("x", "input"),
        node("conv", param_bytes=9, flops=100, kernel=[3, 3], out_shape=[1, 1], dtype="int16", module="m"),
        node("relu", "aten.relu_.default"),
        node("sum", "Add"),
        outputs=[],
    )
    assert (graph.inputs, graph.outputs) == (("x",), ("sum",))
    assert [op.id for op in graph.operators] == ["conv", "relu", "sum"]
    assert graph.operators[2].inputs == ("relu", "x", "x")
    assert [op.inplace_ok for op in graph.operators] == [False, True, True]
    assert [(p.id, p.bytes) for p in graph.parameters] == [("conv.parameters", 9)]
    conv, tensor = graph.operators[0], graph.tensors[1]
    assert (conv.kind, conv.flops, conv.module, conv.parameters) == ("Conv", 100.0, "m", ("conv.parameters",))
    assert (tensor.shape, tensor.dtype, tensor.bytes) == ((1, 1), "int16", 4)


def test_sources_that_are_no_inputs_stay_operators() -> None:
    graph = graph_of("mask-y", node("mask", "aten.arange.default"), node("y", "Add"))
    assert (graph.inputs, [op.id for op in graph.operators]) == ((), ["mask", "y"])


def test_views_share_storage() -> None:
    named = node("named", "aten.view.default", 0, alias_of="x", view=True, nominal_bytes=8)
    first = node("first", "aten.select.int", 0, view=True)
    graph = graph_of("x-named named-first", node("x", "input", 8), named, first)
    assert graph.storage == {"x": "x", "named": "x", "first": "x"}
    assert [tensor.bytes for tensor in graph.tensors] == [8, 8, 0]
    copy = node("copy", "aten.copy_.default", 0, view=True)
    buffer = node("buffer", "aten.new_empty_strided.default", 8)
    graph = graph_of("grad-copy buffer-copy", node("grad", "aten.mm.default", 8), buffer, copy)
    assert graph.storage["copy"] == "buffer"


def test_shared_parameters_are_counted_once() -> None:
    nodes = node("embed", param_bytes=110), node("head", param_bytes=0)
    graph = graph_of("embed-head", *nodes, shared_params=[["table", 100, ["embed", "head"]]])
    assert {p.id: p.bytes for p in graph.parameters} == {"table": 100, "embed.parameters": 10}
    assert [op.parameters for op in graph.operators] == [("table", "embed.parameters"), ("table",)]


@pytest.mark.parametrize(
    ("given", "inplace"),
    [({}, [True, False]), ({"inplace_kinds": {"Magic"}}, [False, True]), ({"inplace_kinds": set()}, [False, False])],
)
def test_which_kinds_work_in_place_can_be_said(given: dict[str, set[str]], inplace: list[bool]) -> None:
    graph = from_node_edge({"nodes": [node("a", "Relu"), node("b", "Magic")], "edges": [["a", "b"]]}, **given)
    assert [op.inplace_ok for op in graph.operators] == inplace


A, B, EDGE = node("a", "input"), node("b"), ["a", "b"]
GOOD = {"nodes": [A, B], "edges": [EDGE], "outputs": ["b"]}
BAD = json.loads((DATA / "refused.json").read_text())["nodes_and_edges"]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_the_sentence_names_the_place(changes: dict[str, object], sentence: str) -> None:
    data = {name: value for name, value in {**GOOD, **changes}.items() if value != "<missing>"}
    with pytest.raises(InvalidInputError) as caught:
        from_node_edge(data, where="net.json")
    assert str(caught.value).startswith("net.json: ")
    assert sentence in str(caught.value)


def test_limits_hold_before_anything_is_built() -> None:
    with pytest.raises(LimitExceededError, match="nodes has 2 entries, over the limit of 1"):
        from_node_edge(GOOD, limits=Limits(operators=1))
    with pytest.raises(LimitExceededError, match="shorten it"):
        from_node_edge({"nodes": [node("a" * 2000)], "edges": []})


def test_a_long_chain_is_no_problem() -> None:
    edges = [[str(index), str(index + 1)] for index in range(19_999)]
    assert len(from_node_edge({"nodes": [node(str(at)) for at in range(20_000)], "edges": edges}).operators) == 20_000


@pytest.mark.parametrize(
    ("name", "operators", "outputs", "parameter_bytes"),
    [
        ("paper_hrnet_w18_small_v1_256_cut", 143, 1, 0),
        ("gpt2_small.export", 505, 1, 497759232),
        ("randwire_ws32_c78.dispatch", 1020, 99, None),
        ("MobileNetV2", 155, 1, None),
    ],
)
def test_real_graphs(name: str, operators: int, outputs: int, parameter_bytes: int | None) -> None:
    graph = ow.load(DATA / f"{name}.json.gz")
    assert (len(graph.operators), len(graph.inputs), len(graph.outputs)) == (operators, 1, outputs)
    assert parameter_bytes in (None, sum(parameter.bytes for parameter in graph.parameters))
    if name.startswith("paper"):  # 6368 KB, reached by the order in which the model is written
        listed = ow.Ordering(order=[op.id for op in graph.operators])
        assert ow.MemoryOrdering(graph=graph).evaluate(listed).objective == 6368 * 1024


@given(op_graphs())
def test_a_graph_survives_the_round_trip(graph: ow.OpGraph) -> None:
    assert from_networkx(to_networkx(graph)) == graph
    assert ow.load(to_networkx(graph)) == graph


def test_a_plain_digraph_has_one_tensor_for_each_node() -> None:
    net: nx.DiGraph[object] = nx.DiGraph(name="net", outputs=[2])
    net.add_node(0, op="input", bytes=np.int64(4))
    net.add_node(1, op="Conv", out_bytes=8, param_bytes=3)
    net.add_node(2, op="Relu", bytes=8)
    net.add_edges_from([(0, 1), (1, 2)], weight=99.0)
    graph = from_networkx(net)
    assert (graph.name, graph.inputs, graph.outputs) == ("net", ("0",), ("2",))
    assert [(tensor.id, tensor.bytes) for tensor in graph.tensors] == [("0", 4), ("1", 8), ("2", 8)]
    assert [op.inputs for op in graph.operators] == [("0",), ("1",)]


def plain(*edges: tuple[str, str], **attributes: object) -> nx.DiGraph[object]:
    net: nx.DiGraph[object] = nx.DiGraph(edges)
    for name, value in attributes.items():
        nx.set_node_attributes(net, value, name)
    return net


def broken() -> nx.DiGraph[object]:
    net = to_networkx(from_networkx(plain(("a", "b"), bytes=4)))
    for _, _, edge in net.edges(data=True):
        edge.clear()
    return net


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (plain(("a", "b")), "networkx node 'a' has no attribute 'bytes'"),
        (plain(("a", "b"), part=[1]), "networkx node 'a' has no attribute 'bytes'"),
        (plain(("a", "b"), ("b", "a"), bytes=4), "the graph has a cycle"),
        (broken(), "not in the form that to_networkx writes"),
        (nx.Graph(), "an object of type Graph is not a model"),
        (nx.MultiDiGraph(), "an object of type MultiDiGraph is not a model"),
        (42, "an object of type int is not a model"),
        (nx.DiGraph(), "nodes is empty"),
    ],
)
def test_what_is_no_networkx_model_is_refused(model: object, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        ow.load(model)
