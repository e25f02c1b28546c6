"""Choosing the branch of an If whose condition is known: the branch's nodes take the If's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.onnx.model import inner_graphs

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto


@dataclass(frozen=True, slots=True)
class Branch:
    """What a branch brings into the graph around it."""

    nodes: list[NodeProto]
    weights: list[TensorProto]
    sparse: list[SparseTensorProto]
    values: list[ValueInfoProto]


def chosen_graph(node: NodeProto, condition: bool) -> GraphProto | None:
    """The branch of an If for a condition; None in a broken file."""
    wanted = "then_branch" if condition else "else_branch"
    return next((each.g for each in node.attribute if each.name == wanted and each.HasField("g")), None)


def unfolded(node: NodeProto, branch: GraphProto, names: UniqueNames) -> Branch:
    """Copy a branch so that its nodes make the outputs of its If; other values get names that are free outside."""
    from onnx import helper

    inner = type(branch)()
    inner.CopyFrom(branch)
    made = {name for each in inner.node for name in each.output if name}
    own = [*made, *(tensor.name for tensor in inner.initializer)]
    own += [sparse.values.name for sparse in inner.sparse_initializer]
    new: dict[str, str] = {}
    for value, name in zip(inner.output, node.output, strict=False):
        if name and value.name in made and value.name not in new:
            new[value.name] = name
    taken = set(new)
    new |= {name: names.take(name) for name in own if name not in taken}
    nodes = list(inner.node)
    for each in nodes:
        rename(each, new)
    for value, name in zip(inner.output, node.output, strict=False):
        if name and new.get(value.name) != name:
            nodes.append(helper.make_node("Identity", [new.get(value.name, value.name)], [name], name=node.name))
    for named in (*inner.initializer, *inner.value_info, *(sparse.values for sparse in inner.sparse_initializer)):
        named.name = new.get(named.name, named.name)
    return Branch(nodes, list(inner.initializer), list(inner.sparse_initializer), list(inner.value_info))


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Give the values that a node reads and makes other names, also inside the graphs that it contains."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in inner_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for each in graph.node for name in each.output}
        outer = {old: new for old, new in names.items() if old not in own}
        for each in graph.node:
            rename(each, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)
