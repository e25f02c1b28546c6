"""networkx graphs in both forms: one that holds everything, and the plain one that users have."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from opweave.adapters.graphs.networkx_io import from_networkx, to_networkx
from opweave.adapters.load import load
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from tests.strategies.specs import op_graphs


@given(op_graphs())
def test_a_graph_survives_the_round_trip(graph: OpGraph) -> None:
    assert from_networkx(to_networkx(graph)) == graph
    assert load(to_networkx(graph)) == graph


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


def graph(*edges: tuple[str, str], **attributes: object) -> nx.DiGraph[object]:
    net: nx.DiGraph[object] = nx.DiGraph(edges)
    for name, value in attributes.items():
        nx.set_node_attributes(net, value, name)
    return net


def broken() -> nx.DiGraph[object]:
    net = to_networkx(from_networkx(graph(("a", "b"), bytes=4)))
    for _, _, edge in net.edges(data=True):
        edge.clear()
    return net


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (graph(("a", "b")), "networkx node 'a' has no attribute 'bytes'"),
        (graph(("a", "b"), part=[1]), "networkx node 'a' has no attribute 'bytes'"),
        (graph(("a", "b"), ("b", "a"), bytes=4), "the graph has a cycle"),
        (broken(), "not in the form that to_networkx writes"),
        (nx.Graph(), "an object of type Graph is not a model"),
        (nx.MultiDiGraph(), "an object of type MultiDiGraph is not a model"),
        (42, "an object of type int is not a model"),
        (nx.DiGraph(), "nodes is empty"),
    ],
)
def test_what_is_no_model_is_refused(model: object, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        load(model)
