"""Graphs of what readers list: state is a dependency, and another name of a constant is that constant."""

from __future__ import annotations

from opweave.adapters.assemble import Node, Parts, Value, assemble


def test_a_variable_is_initialised_read_and_assigned_in_order() -> None:
    values = {name: Value(name, 4, (1,), "float32") for name in ("x", "old", "y", "other")}
    nodes = [
        Node("start", "CALL_ONCE", (), (), changes=("v", "w")),
        Node("read", "READ_VARIABLE", (), ("old",), looks=("v",)),
        Node("read too", "READ_VARIABLE", (), ("other",), looks=("w",)),
        Node("add", "ADD", ("x", "old"), ("y",)),
        Node("assign", "ASSIGN_VARIABLE", ("y",), (), looks=("v",), changes=("v",)),
    ]
    graph = assemble(Parts("net", nodes, values, set(), ("y",)), "net", frozenset())
    follows = {
        op.id: {graph.operators[index].id for index in graph.arrays.predecessors[place].tolist()}
        for place, op in enumerate(graph.operators)
    }
    assert follows == {
        "start": set(),
        "read": {"start"},
        "read too": {"start"},
        "add": {"read"},
        "assign": {"start", "read", "add"},
    }
    assert sum(tensor.bytes for tensor in graph.tensors) == 16


def test_a_view_of_a_constant_is_another_name_for_it() -> None:
    values = {name: Value(name, 4, (1,), "float32") for name in ("x", "w", "view", "y")}
    nodes = [Node("flat", "Reshape", ("w",), ("view",), view=True), Node("add", "Add", ("x", "view"), ("y",))]
    graph = assemble(Parts("net", nodes, values, {"w"}, ("y",)), "net", frozenset())
    assert [(op.id, op.inputs, op.parameters) for op in graph.operators] == [("add", ("x",), ("w",))]
