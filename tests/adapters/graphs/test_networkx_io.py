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


def test_what_is_no_model_is_refused() -> None:
    no_size: nx.DiGraph[object] = nx.DiGraph([("a", "b")])
    cycle: nx.DiGraph[object] = nx.DiGraph([("a", "b"), ("b", "a")])
    nx.set_node_attributes(cycle, 4, "bytes")
    odd_part: nx.DiGraph[object] = nx.DiGraph([("a", "b")])
    nx.set_node_attributes(odd_part, [1], "part")
    broken = to_networkx(from_networkx(_chain()))
    for _, _, edge in broken.edges(data=True):
        edge.clear()
    for graph, sentence in (
        (no_size, "networkx node 'a' has no attribute 'bytes'"),
        (odd_part, "networkx node 'a' has no attribute 'bytes'"),
        (cycle, "the graph has a cycle"),
        (broken, "not in the form that to_networkx writes"),
        (nx.Graph(), "an object of type Graph is not a model"),
        (nx.MultiDiGraph(), "an object of type MultiDiGraph is not a model"),
        (42, "an object of type int is not a model"),
        (nx.DiGraph(), "nodes is empty"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            load(graph)  # type: ignore[arg-type]


def _chain() -> nx.DiGraph[object]:
    net: nx.DiGraph[object] = nx.DiGraph([("a", "b")])
    nx.set_node_attributes(net, 4, "bytes")
    return net
