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

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike
from opweave.adapters.runtimes.groups import Group, check_covered
from opweave.adapters.torch.program import prepare, read_program, title
from opweave.adapters.torch.read import from_torch
from opweave.adapters.torch.twin import has_values
from opweave.problems.errors import InvalidInputError
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
class Stage:
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

    def __init__(self, run: Runnable, stages: Sequence[Stage]) -> None:
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
        call: Callable[[Stage, list[object], list[object]], Sequence[object]] | None = None,
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
    home: dict[Node, int] = {}
    for index, group in enumerate(groups):
        for name in group.operators:
            node = run.planned[name]
            home |= dict.fromkeys((node, *run.parts_of(node)), index)
    return StagedProgram(run, [_Writer(run, home, index, group).stage() for index, group in enumerate(groups)])


class _Writer:
    """Copies the nodes of one group into a graph of their own."""

    def __init__(self, run: Runnable, home: Mapping[Node, int], index: int, group: Group) -> None:
        import torch

        self._run = run
        self._home = home
        self._index = index
        self._group = group
        self._graph: Graph = torch.fx.Graph()
        self._copies: dict[Node, Node] = {}
        self._inputs: list[str] = []

    def stage(self) -> Stage:
        import torch

        body = [self._run.planned[name] for name in self._group.operators]
        for node in body:
            for source in self._run.sources(node):
                if self._home.get(source, self._index) != self._index or source.op == "placeholder":
                    self._enter(source)
        for node in body:
            self._copy(node).meta[PLANNED] = node.name
            for part in self._run.parts_of(node):
                self._copy(part)
        leaving = [node for node, index in self._home.items() if index == self._index and self._leaves(node)]
        self._graph.output(tuple(self._copies[node] for node in leaving))
        module = torch.fx.GraphModule(self._run.module, self._graph)
        return Stage(self._group.device, module, tuple(self._inputs), tuple(node.name for node in leaving))

    def _enter(self, node: Node) -> None:
        if node in self._copies:
            return
        if self._home.get(node, -1) > self._index:
            raise InvalidInputError(
                f"stage {self._index} reads {node.name!r}, which a later stage makes; judge the plan with "
                "'opweave check'"
            )
        self._copies[node] = self._graph.placeholder(node.name)
        self._inputs.append(node.name)

    def _copy(self, node: Node) -> Node:
        """Copy a node after the unplanned nodes that it needs: weights and values that depend only on them."""
        if node not in self._copies:
            for source in node.all_input_nodes:
                if source not in self._copies:
                    if source in self._home:
                        raise InvalidInputError(
                            f"the plan runs {node.name!r} before {source.name!r}, which makes its input; judge it with "
                            "'opweave check'"
                        )
                    self._copy(source)
            self._copies[node] = self._graph.node_copy(node, self._copies.__getitem__)
        return self._copies[node]

    def _leaves(self, node: Node) -> bool:
        if self._run.parts_of(node):
            return False
        return any(
            reader is self._run.output or self._home[reader] != self._index for reader in self._run.readers(node)
        )
