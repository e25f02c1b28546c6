"""Making an exported program runnable node by node: its planned nodes, and other nodes that must be computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.runtimes.groups import check_covered
from opweave.adapters.torch.program import title
from opweave.adapters.torch.twin import has_values
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node


@dataclass(frozen=True, slots=True)
class Runnable:
    """A program with its weights, ready to run.

    Attributes
    ----------
    program
        The program as :func:`~opweave.adapters.torch.program.prepare` made it.
    module
        The same program as a module that holds the weights; its nodes have the same names.
    planned
        Nodes by operator id, in the program's order.
    inputs
        Placeholders in the order of the flat inputs.
    output
        The node that names the flat outputs.
    """

    program: ExportedProgram
    module: GraphModule
    planned: Mapping[str, Node]
    inputs: Sequence[Node]
    output: Node

    def flat_inputs(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """Put a call's inputs into the order of the placeholders.

        Raises
        ------
        InvalidInputError
            When their number is not the number that the program takes.
        """
        from torch.utils._pytree import tree_leaves

        order = self.program.call_spec.in_spec.child(1).context
        missing = [name for name in order if name not in kwargs]
        flat = tree_leaves((tuple(args), {name: kwargs[name] for name in order if name in kwargs}))
        if missing or len(flat) != len(self.inputs):
            raise InvalidInputError(
                f"the program takes {len(self.inputs)} inputs ({', '.join(node.name for node in self.inputs[:8])}), "
                f"{len(flat)} were given; pass those that it was exported with"
            )
        return list(flat)

    def shaped_outputs(self, flat: Sequence[object]) -> object:
        """Give flat outputs the structure that the module's caller sees."""
        from torch.utils._pytree import tree_unflatten

        return tree_unflatten(list(flat), self.program.call_spec.out_spec)

    def parts_of(self, node: Node) -> list[Node]:
        """The ``getitem`` nodes that take parts of a node's result, and those that take parts of these."""
        found: list[Node] = []
        waiting = [node]
        while waiting:
            parts = [user for user in waiting.pop().users if user.target is operator.getitem]
            found += parts
            waiting += parts
        return found

    def readers(self, node: Node) -> Iterator[Node]:
        """Planned nodes, and the output, that need a value directly or through unplanned nodes."""
        waiting, seen = [node], {node}
        while waiting:
            for user in waiting.pop().users:
                if user in seen or user.target is operator.getitem:
                    continue
                seen.add(user)
                if user is self.output or user.name in self.planned:
                    yield user
                else:
                    waiting.append(user)

    def unplanned(self, node: Node) -> bool:
        """Whether a node is a call that is computed when its first reader needs it."""
        return node.op == "call_function" and node.name not in self.planned and node.target is not operator.getitem

    def sources(self, node: Node) -> list[Node]:
        """Nodes whose values a planned node reads, directly or through unplanned nodes."""
        found: dict[Node, None] = {}
        waiting = [node]
        while waiting:
            for source in waiting.pop().all_input_nodes:
                if source not in found:
                    found[source] = None
                    if self.unplanned(source):
                        waiting.append(source)
        return list(found)

    def held(self, node: Node) -> object:
        """The weight or constant that a ``get_attr`` node names."""
        return operator.attrgetter(str(node.target))(self.module)

    def outputs(self, value: Callable[[Node], object]) -> list[object]:
        """The flat outputs, given the values of the nodes."""
        from torch.fx.node import map_arg
        from torch.utils._pytree import tree_leaves

        return list(tree_leaves(map_arg(self.output.args[0], value)))

    def check_covered(self, order: Sequence[str], what: str) -> None:
        """Check that a plan, named ``what`` in errors, lists every planned node once.

        Raises
        ------
        InvalidInputError
            Names the first node that does not fit.
        """
        check_covered(order, self.planned, what, title)


def runnable(program: ExportedProgram, graph: OpGraph) -> Runnable:
    """Make a program runnable.

    Parameters
    ----------
    program
        The program as :func:`~opweave.adapters.torch.program.prepare` made it, with real weights.
    graph
        The graph that :func:`~opweave.adapters.torch.read.from_torch` made of it.

    Raises
    ------
    InvalidInputError
        When weights are on the meta device, or an unplanned node changes memory.
    """
    for name, weight in program.state_dict.items():
        if not has_values(weight):
            raise InvalidInputError(
                f"{plain(graph.name)}: parameter {name!r} is on the meta device and has no values; to run the model, "
                "build it on the CPU"
            )
    module = program.module(check_guards=False)
    nodes = list(module.graph.nodes)
    planned = {node.name: node for node in nodes if node.op == "call_function" and node.name in graph.operator_index}
    for node in nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and node.name not in planned and schema is not None and schema.is_mutable:
            raise InvalidInputError(
                f"{plain(graph.name)}: {title(node)} updates a buffer after the run, which no order covers; export the "
                "model in evaluation mode, model.eval()"
            )
    inputs = [node for node in nodes if node.op == "placeholder"]
    return Runnable(program, module, planned, inputs, nodes[-1])
