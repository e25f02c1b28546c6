"""Model graphs: what is refused and with which sentence, and the views that algorithms use."""

from __future__ import annotations

import time

import networkx as nx
import pytest
from hypothesis import given
from pydantic import ValidationError

from opweave.problems import graph as graph_module
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.graph_arrays import topological_order
from opweave.problems.limits import Limits
from tests.strategies.specs import op_graphs


def graph(operators, tensors, **fields):
    """Operators as ``id: "inputs -> outputs"``, tensors as ``id: bytes`` or ``id: alias``."""
    return OpGraph(
        operators=[
            Operator(id=name, inputs=step.split("->")[0].split(), outputs=step.split("->")[1].split())
            for name, step in operators.items()
        ],
        tensors=[
            Tensor(id=name, bytes=size) if isinstance(size, int) else Tensor(id=name, bytes=0, alias_of=size)
            for name, size in tensors.items()
        ],
        **fields,
    )


def diamond():
    """The two branches of ``split`` meet in ``join``; ``split`` writes one tensor for each."""
    return graph(
        {"split": "x -> a b", "left": "a -> c", "right": "b b -> d", "join": "c d x -> y"},
        {"x": 1, "a": 2, "b": 3, "c": 4, "d": 5, "y": 6, "unread": 7},
        outputs=["y"],
    )


def test_by_hand():
    net = diamond()
    assert net.inputs == ("x", "unread")
    assert net.producer == {"a": "split", "b": "split", "c": "left", "d": "right", "y": "join"}
    assert net.operator_index == {"split": 0, "left": 1, "right": 2, "join": 3}
    assert [net.arrays.predecessors[k].tolist() for k in range(4)] == [[], [0], [0], [1, 2]]
    assert net.arrays.reads[2].tolist() == [net.tensor_index["b"]]
    assert net.arrays.writes[0].tolist() == [1, 2]
    assert net.arrays.consumers[net.tensor_index["x"]].tolist() == [0, 3]
    assert net.arrays.producer.tolist() == [-1, 0, 0, 1, 2, 3, -1]
    assert net.digraph.has_edge("split", "right")


def test_storage_follows_aliases_of_aliases():
    net = graph({"view": "x -> v", "again": "v -> w"}, {"w": "v", "v": "x", "x": 8})
    assert net.storage == {"w": "x", "v": "x", "x": "x"}
    assert net.arrays.storage.tolist() == [2, 2, 2]


REFUSED = {
    "operator id 'a' is used more than once": lambda: OpGraph(
        operators=[Operator(id="a"), Operator(id="a")], tensors=[]
    ),
    "tensor id 'x' is used more than once": lambda: OpGraph(
        operators=[], tensors=[Tensor(id="x", bytes=1), Tensor(id="x", bytes=2)]
    ),
    "parameter id 'w' is used more than once": lambda: OpGraph(
        operators=[], tensors=[], parameters=[Parameter(id="w", bytes=1)] * 2
    ),
    "graph output id 'x' is used more than once": lambda: graph({}, {"x": 1}, outputs=["x", "x"]),
    "operator 'a' reads tensor 'ghost', which the graph does not have": lambda: graph({"a": "ghost ->"}, {}),
    "operator 'a' writes tensor 'ghost', which the graph does not have": lambda: graph({"a": "-> ghost"}, {}),
    "operator 'a' uses parameter 'ghost', which the graph does not have": lambda: OpGraph(
        operators=[Operator(id="a", parameters=["ghost"])], tensors=[]
    ),
    "tensor 'x' is written by both 'a' and 'b'": lambda: graph({"a": "-> x", "b": "-> x"}, {"x": 1}),
    "the outputs name tensor 'ghost', which the graph does not have": lambda: graph({}, {}, outputs=["ghost"]),
    "tensor 'v' is an alias of tensor 'ghost', which the graph does not have": lambda: graph({}, {"v": "ghost"}),
    "operator 'a' lists 'x' twice among its outputs": lambda: graph({"a": "-> x x"}, {"x": 1}),
    "the aliases of tensor 't' run in a circle": lambda: graph({}, {"t": "s", "s": "t"}),
    "tensor 'v' is an alias of itself": lambda: graph({"a": "v ->"}, {"v": "v"}),
    "the aliases of tensor 'u' run in a circle": lambda: graph({}, {"u": "v", "v": "w", "w": "v"}),
    "operator 'a' writes 'v', an alias of storage 'x', without reading that storage": lambda: graph(
        {"a": "-> v"}, {"x": 1, "v": "x"}
    ),
    "graph input 'v' is an alias of 'x', which an operator writes": lambda: graph({"a": "-> x"}, {"x": 1, "v": "x"}),
    "the graph has a cycle: a -> a": lambda: graph({"a": "x -> x"}, {"x": 1}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence):
    with pytest.raises(ValidationError, match=sentence):
        REFUSED[sentence]()


def test_a_cycle_is_named_in_the_direction_of_the_data():
    with pytest.raises(ValidationError, match="cycle: ") as refused:
        graph(
            {"start": "-> s", "p": "s z -> x", "q": "x -> y", "r": "y -> z", "end": "z -> e"},
            {"s": 1, "x": 1, "y": 1, "z": 1, "e": 1},
        )
    named = refused.value.errors()[0]["msg"].split("cycle: ")[1].split(" -> ")
    assert named[0] == named[-1]
    assert named[:-1] in (["p", "q", "r"], ["q", "r", "p"], ["r", "p", "q"])


def test_a_long_cycle_is_shortened():
    count = 2000
    ring = {f"o{k}": f"t{k} -> t{(k + 1) % count}" for k in range(count)}
    with pytest.raises(ValidationError, match=r"cycle: ") as refused:
        graph(ring, {f"t{k}": 1 for k in range(count)})
    assert len(refused.value.errors()[0]["msg"]) < 200


@pytest.mark.parametrize("cap", ["operators", "tensors", "edges"])
def test_too_large(cap, monkeypatch):
    monkeypatch.setattr(graph_module, "DEFAULT_LIMITS", Limits(**{cap: 2}))
    with pytest.raises(ValidationError, match=rf"the graph has \d+ {cap}; opweave takes at most 2"):
        diamond()


def test_a_long_chain():
    began = time.process_time()
    count = 10_000
    net = OpGraph(
        tensors=[Tensor(id=f"t{k}", bytes=1) for k in range(count + 1)],
        operators=[Operator(id=f"o{k}", inputs=(f"t{k}",), outputs=(f"t{k + 1}",)) for k in reversed(range(count))],
        outputs=["t0", f"t{count}"],
    )
    assert topological_order(net.arrays.successors).tolist() == list(range(count - 1, -1, -1))
    assert time.process_time() - began < 2


def test_a_chain_of_aliases_is_followed_without_recursion():
    count = 5_000
    net = graph(
        {f"o{k}": f"t{k} -> t{k + 1}" for k in range(count)},
        {"t0": 8} | {f"t{k + 1}": f"t{k}" for k in range(count)},
    )
    assert set(net.storage.values()) == {"t0"}


@given(net=op_graphs(max_operators=8))
def test_arrays_and_networkx_agree(net):
    names = [op.id for op in net.operators]
    arrays = net.arrays
    assert set(net.digraph.nodes) == set(names)
    assert nx.is_directed_acyclic_graph(net.digraph)
    for index, name in enumerate(names):
        assert {names[k] for k in arrays.successors[index]} == set(net.digraph.successors(name))
        assert {names[k] for k in arrays.predecessors[index]} == set(net.digraph.predecessors(name))
        assert [net.tensors[k].id for k in arrays.writes[index]] == list(net.operators[index].outputs)
        assert {net.tensors[k].id for k in arrays.reads[index]} == set(net.operators[index].inputs)
    for k, tensor in enumerate(net.tensors):
        assert net.tensors[arrays.storage[k]].alias_of is None
        maker = int(arrays.producer[k])
        assert (names[maker] if maker >= 0 else None) == net.producer.get(tensor.id)
        assert {names[reader] for reader in arrays.consumers[k]} == {
            op.id for op in net.operators if tensor.id in op.inputs
        }


def test_the_empty_graph_is_legal():
    net = OpGraph(operators=[], tensors=[])
    assert net.inputs == ()
    assert len(net.arrays.predecessors) == 0


@given(net=op_graphs(max_operators=8))
def test_arrays_of_sizes_say_what_the_operators_say(net):
    owned = {tensor.id: 0 if tensor.alias_of else tensor.bytes for tensor in net.tensors}
    parameters = [parameter.id for parameter in net.parameters]
    for v, op in enumerate(net.operators):
        assert net.sizes_made[v] == op.workspace_bytes + sum(owned[name] for name in op.outputs)
        assert [parameters[p] for p in net.uses[v].tolist()] == list(dict.fromkeys(op.parameters))
    assert [net.operators[v].id for v in net.listed_order.tolist()] == list(
        nx.lexicographical_topological_sort(net.digraph, key=net.operator_index.__getitem__)
    )
