"""Exported programs that run node by node: split into stages for devices, or in an order of their own.

A stage is a module with the nodes of one group of operators, which can be sent to a device; stages run in sequence. An
order is a program of one stage.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.runtimes.groups import Group, check_covered
from opweave.adapters.torch.program import prepare, read_program, title
from opweave.adapters.torch.read import from_torch
from opweave.adapters.torch.twin import has_values
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.graph import OpGraph

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Graph, GraphModule, Node

PLANNED = "opweave operator"
"""Under this key, a node of a stage says in its ``meta`` which operator it is."""


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

    def sources(self, node: Node) -> list[Node]:
        """Nodes whose values a planned node reads, directly or through unplanned nodes."""
        found: dict[Node, None] = {}
        waiting = [node]
        while waiting:
            for source in waiting.pop().all_input_nodes:
                unplanned = source.op == "call_function" and source.name not in self.planned
                if source not in found and unplanned and source.target is not operator.getitem:
                    waiting.append(source)
                found[source] = None
        return list(found)

    def outputs(self, values: Mapping[str, object]) -> list[object]:
        """The flat outputs, given the values of planned nodes; what depends only on weights is computed here."""
        from torch.fx.node import map_arg
        from torch.utils._pytree import tree_leaves

        def value(node: Node) -> object:
            if node.name in values:
                return values[node.name]
            if node.op == "get_attr":
                return operator.attrgetter(str(node.target))(self.module)
            assert callable(node.target), f"{node.name} is no call"
            return node.target(*map_arg(node.args, value), **map_arg(node.kwargs, value))

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


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of a split program.

    Attributes
    ----------
    device
        The device on which it was planned to run.
    module
        Takes the inputs in order and returns a tuple of the outputs; it holds the weights that it reads.
    inputs, outputs
        Node names: the program's own inputs, and values that cross a cut.
    """

    device: str
    module: GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class StagedProgram:
    """All stages of a program; calling it runs them one after the other.

    Attributes
    ----------
    stages
        The stages in order.
    """

    def __init__(self, run: Runnable, stages: Sequence[SplitPart]) -> None:
        self._run = run
        self.stages = tuple(stages)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run every stage on the inputs of a call.

        Raises
        ------
        InvalidInputError
            When the number of inputs is not the number that the program takes.
        """
        return self._run.shaped_outputs(self.run_flat(self._run.flat_inputs(args, kwargs)))

    def run_flat(
        self,
        inputs: list[object],
        call: Callable[[SplitPart, list[object], list[object]], Sequence[object]] | None = None,
    ) -> list[object]:
        """Run every stage on flat inputs, which are freed after the last stage that reads them, like all values.

        Parameters
        ----------
        inputs
            The inputs; the list is emptied.
        call
            Runs a stage on its inputs in place of its module; it also gets the values that stay.
        """
        import torch

        last = {name: index for index, stage in enumerate(self.stages) for name in stage.inputs}
        last |= {node.name: len(self.stages) for node in self._run.sources(self._run.output)}
        values = {node.name: value for node, value in zip(self._run.inputs, inputs, strict=True) if node.name in last}
        inputs.clear()
        with torch.no_grad():
            for index, stage in enumerate(self.stages):
                given = [values[name] if last[name] > index else values.pop(name) for name in stage.inputs]
                made = call(stage, given, [*values.values()]) if call else stage.module(*given)
                values |= dict(zip(stage.outputs, made, strict=True))
            return self._run.outputs(values)


def split_torch(
    model: torch.nn.Module | ExportedProgram | PathLike,
    groups: Sequence[Group],
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> StagedProgram:
    """Split a program into one module for each group of operators.

    Parameters
    ----------
    model
        A module (with ``args`` or ``kwargs``), an exported program or a ``.pt2`` file.
    groups
        The groups in the order in which they run; see :func:`~opweave.adapters.runtimes.groups.schedule_groups`.
    args, kwargs
        Example inputs of a module.

    Returns
    -------
    StagedProgram
        The stages; they share the weights with the model, without copies.

    Raises
    ------
    InvalidInputError
        When the groups do not fit the program; the message names the node.
    """
    held = read_program(model) if isinstance(model, str | os.PathLike) else model
    program = prepare(held, args, kwargs)
    return staged(runnable(program, from_torch(program)), groups)


def staged(run: Runnable, groups: Sequence[Group]) -> StagedProgram:
    """Split a program that is already runnable.

    Raises
    ------
    InvalidInputError
        When the groups do not fit the program; the message names the node.
    """
    run.check_covered([name for group in groups for name in group.operators], "the plan")
    made = {part for node in run.planned.values() for part in (node, *run.parts_of(node))}
    home: dict[Node, int] = {}
    for index, group in enumerate(groups):
        for name in group.operators:
            node = run.planned[name]
            late = next((source for source in run.sources(node) if source in made and source not in home), None)
            if late is not None:
                raise InvalidInputError(
                    f"the plan runs {name!r} before {late.name!r}, which makes its input; judge it with 'opweave check'"
                )
            home |= dict.fromkeys((node, *run.parts_of(node)), index)
    return StagedProgram(run, [_stage(run, home, index, group) for index, group in enumerate(groups)])


def _stage(run: Runnable, home: Mapping[Node, int], index: int, group: Group) -> SplitPart:
    """Copy the nodes of one group into a graph of their own, with the weights and the values of these alone."""
    import torch

    graph: Graph = torch.fx.Graph()
    body = [run.planned[name] for name in group.operators]
    read = dict.fromkeys(source for node in body for source in run.sources(node))
    entering = [node for node in read if node.op == "placeholder" or home.get(node, index) != index]
    copies = {node: graph.placeholder(node.name) for node in entering}

    def copy(node: Node) -> Node:
        if node not in copies:
            for source in node.all_input_nodes:
                copy(source)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        return copies[node]

    def leaves(node: Node) -> bool:
        outside = (reader is run.output or home[reader] != index for reader in run.readers(node))
        return home[node] == index and not run.parts_of(node) and any(outside)

    for node in body:
        copy(node).meta[PLANNED] = node.name
        for part in run.parts_of(node):
            copy(part)
    leaving = list(filter(leaves, home))
    graph.output(tuple(copies[node] for node in leaving))
    names = tuple(node.name for node in entering), tuple(node.name for node in leaving)
    return SplitPart(group.device, torch.fx.GraphModule(run.module, graph), *names)
