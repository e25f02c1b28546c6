"""Nodes and edges become operators and tensors, by the rules that the docstring gives."""

from __future__ import annotations

import copy

import pytest

from opweave.adapters.graphs.node_edge import from_node_edge
from opweave.adapters.load import load
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering
from tests.adapters.conftest import DATA


def node(name: str, op: str = "Conv", size: object = 4, **more: object) -> dict[str, object]:
    return {"id": name, "op": op, "out_bytes": size, **more}


def test_a_residual_block_by_hand() -> None:
    graph = from_node_edge(
        {
            "name": "block",
            "nodes": [
                node("x", "input"),
                node("conv", param_bytes=9, flops=100, kernel=[3, 3], out_shape=[1, 1], dtype="int16", module="m"),
                node("relu", "aten.relu_.default"),
                node("sum", "Add"),
            ],
            "edges": [["x", "conv"], ["conv", "relu"], ["relu", "sum"], ["x", "sum"], ["x", "sum"]],
            "outputs": [],
        }
    )
    assert graph.inputs == ("x",)
    assert graph.outputs == ("sum",)
    assert [op.id for op in graph.operators] == ["conv", "relu", "sum"]
    assert graph.operators[2].inputs == ("relu", "x", "x")
    assert [op.inplace_ok for op in graph.operators] == [False, True, True]
    assert [(p.id, p.bytes) for p in graph.parameters] == [("conv.parameters", 9)]
    conv, tensor = graph.operators[0], graph.tensors[1]
    assert (conv.kind, conv.flops, conv.module, conv.parameters) == ("Conv", 100.0, "m", ("conv.parameters",))
    assert (tensor.shape, tensor.dtype, tensor.bytes) == ((1, 1), "int16", 4)


def test_sources_that_are_no_inputs_stay_operators() -> None:
    graph = from_node_edge({"nodes": [node("mask", "aten.arange.default"), node("y", "Add")], "edges": [["mask", "y"]]})
    assert graph.inputs == ()
    assert [op.id for op in graph.operators] == ["mask", "y"]


def test_views_share_storage() -> None:
    graph = from_node_edge(
        {
            "nodes": [
                node("x", "input", 8),
                node("named", "aten.view.default", 0, alias_of="x", view=True, nominal_bytes=8),
                node("first", "aten.select.int", 0, view=True),
            ],
            "edges": [["x", "named"], ["named", "first"]],
        }
    )
    assert graph.storage == {"x": "x", "named": "x", "first": "x"}
    assert [tensor.bytes for tensor in graph.tensors] == [8, 8, 0]


def test_a_copy_into_a_buffer_shares_the_buffer() -> None:
    graph = from_node_edge(
        {
            "nodes": [
                node("grad", "aten.mm.default", 8),
                node("buffer", "aten.new_empty_strided.default", 8),
                node("copy", "aten.copy_.default", 0, view=True),
            ],
            "edges": [["grad", "copy"], ["buffer", "copy"]],
        }
    )
    assert graph.storage["copy"] == "buffer"


def test_shared_parameters_are_counted_once() -> None:
    graph = from_node_edge(
        {
            "nodes": [node("embed", param_bytes=110), node("head", param_bytes=0)],
            "edges": [["embed", "head"]],
            "shared_params": [["table", 100, ["embed", "head"]]],
        }
    )
    assert {p.id: p.bytes for p in graph.parameters} == {"table": 100, "embed.parameters": 10}
    assert [op.parameters for op in graph.operators] == [("table", "embed.parameters"), ("table",)]


def test_which_kinds_work_in_place_can_be_said() -> None:
    data: dict[str, object] = {"nodes": [node("a", "Relu"), node("b", "Magic")], "edges": [["a", "b"]]}
    assert [op.inplace_ok for op in from_node_edge(data).operators] == [True, False]
    assert [op.inplace_ok for op in from_node_edge(data, inplace_kinds={"Magic"}).operators] == [False, True]
    assert [op.inplace_ok for op in from_node_edge(data, inplace_kinds=frozenset()).operators] == [False, False]


GOOD: dict[str, object] = {"nodes": [node("a", "input"), node("b")], "edges": [["a", "b"]], "outputs": ["b"]}


def _with(path: list[str | int], value: object) -> dict[str, object]:
    data = copy.deepcopy(GOOD)
    place = data
    for key in path[:-1]:
        place = place[key]  # type: ignore[index,assignment]
    place[path[-1]] = value  # type: ignore[index]
    return data


BAD = [
    (_with(["nodes"], None), "nodes should be a list, but is null"),
    (_with(["nodes"], []), "nodes is empty"),
    (_with(["nodes", 1], "b"), "nodes[1] should be an object"),
    (_with(["nodes", 1, "id"], "a"), "nodes[1] 'a' is used more than once"),
    (_with(["nodes", 1, "id"], None), "nodes[1].id should be a text in quotes, but is null"),
    ({"nodes": [node("a")]}, "edges is missing; add it"),
    (_with(["nodes", 1], {"id": "b"}), "nodes[1].out_bytes is missing"),
    (_with(["nodes", 1, "out_bytes"], -4), "nodes[1].out_bytes should be greater than or equal to 0, but is -4"),
    (_with(["nodes", 1, "out_bytes"], 2**53 + 1), f"nodes[1].out_bytes should be less than or equal to {2**53}"),
    (_with(["nodes", 1, "out_bytes"], True), "should be a whole number, but is true"),
    (_with(["nodes", 1, "out_bytes"], 4.0), "should be a whole number, but is 4.0"),
    (_with(["nodes", 1, "flops"], float("nan")), "nodes[1].flops should be a finite number"),
    (_with(["nodes", 1, "view"], "yes"), "nodes[1].view should be true or false"),
    (_with(["nodes", 1, "alias_of"], "z"), "'b' is an alias of tensor 'z', which the graph does not have"),
    (_with(["nodes", 1, "out_shape"], [-1]), "nodes[1].out_shape[0] should be greater than or equal to 0, but is -1"),
    (_with(["edges", 0], ["a"]), "edges[0]: it should be [producer id, consumer id]"),
    (_with(["edges", 0], ["a", "z"]), "edges[0] names node 'z', which 'nodes' does not list"),
    (_with(["edges", 0], ["b", "b"]), "the graph has a cycle: b -> b"),
    (_with(["outputs"], ["z"]), "outputs[0] names node 'z'"),
    (_with(["outputs"], ["b", "b"]), "graph output id 'b' is used more than once"),
    (_with(["shared_params"], [["w", 1]]), "shared_params[0]: it should be [name, bytes, [node ids]]"),
    (
        _with(["shared_params"], [["w", -1, ["b"]]]),
        "shared_params[0][1] should be greater than or equal to 0, but is -1",
    ),
    (_with(["name"], 3), "name should be a text"),
]


@pytest.mark.parametrize(("data", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_bad_nodes_and_edges_are_refused(data: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        from_node_edge(data, where="net.json")
    assert str(caught.value).startswith("net.json: ")
    assert sentence in str(caught.value)


def test_a_cycle_is_named() -> None:
    data = {"nodes": [node(name) for name in "abc"], "edges": [["a", "b"], ["b", "c"], ["c", "a"]]}
    with pytest.raises(InvalidInputError, match=r"a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c"):
        from_node_edge(data)


def test_limits_hold_before_anything_is_built() -> None:
    with pytest.raises(LimitExceededError, match="nodes has 2 entries, over the limit of 1"):
        from_node_edge(GOOD, limits=Limits(operators=1))
    with pytest.raises(LimitExceededError, match="shorten it"):
        from_node_edge(_with(["nodes", 0, "id"], "a" * 2000))


def test_a_long_chain_is_no_problem() -> None:
    size = 20_000
    data = {
        "nodes": [node(str(index)) for index in range(size)],
        "edges": [[str(index), str(index + 1)] for index in range(size - 1)],
    }
    assert len(from_node_edge(data).operators) == size


@pytest.mark.parametrize(
    ("name", "operators", "inputs", "outputs", "parameter_bytes"),
    [
        ("paper_hrnet_w18_small_v1_256_cut", 143, 1, 1, 0),
        ("gpt2_small.export", 505, 1, 1, 497759232),
        ("randwire_ws32_c78.dispatch", 1020, 1, 99, None),
        ("MobileNetV2", 155, 1, 1, None),
    ],
)
def test_real_graphs(name: str, operators: int, inputs: int, outputs: int, parameter_bytes: int | None) -> None:
    graph = load(DATA / f"{name}.json.gz")
    assert (len(graph.operators), len(graph.inputs), len(graph.outputs)) == (operators, inputs, outputs)
    if parameter_bytes is not None:
        assert sum(parameter.bytes for parameter in graph.parameters) == parameter_bytes


def test_the_papers_net_has_the_papers_peak() -> None:
    """6368 KB, reached by the order in which the model is written."""
    graph = load(DATA / "paper_hrnet_w18_small_v1_256_cut.json.gz")
    problem = MemoryOrdering(graph=graph)
    order = problem.solution_type(order=[op.id for op in graph.operators])
    assert problem.evaluate(order).objective == 6368 * 1024
