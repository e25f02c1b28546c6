"""A program split into stages: one module for each stage, which can be sent to a device; they run in sequence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.runtimes.groups import Group
from opweave.adapters.torch.program import prepare, read_program
from opweave.adapters.torch.program_out import Runnable, runnable
from opweave.adapters.torch.read import from_torch
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Graph, GraphModule, Node


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

    def run_flat(self, inputs: list[object]) -> list[object]:
        """Run every stage on flat inputs; a value is freed after the last stage that reads it."""
        import torch

        values: dict[str, object] = {node.name: value for node, value in zip(self._run.inputs, inputs, strict=True)}
        inputs.clear()
        wanted = {node.name for node in self._run.output.all_input_nodes}
        last = {name: index for index, stage in enumerate(self.stages) for name in stage.inputs}
        with torch.no_grad():
            for index, stage in enumerate(self.stages):
                made = stage.module(*(values[name] for name in stage.inputs))
                values |= dict(zip(stage.outputs, made, strict=True))
                for name in stage.inputs:
                    if last[name] == index and name not in wanted:
                        values.pop(name, None)
        run = self._run  # an output may be a weight
        return run.outputs(lambda node: values[node.name] if node.name in values else run.held(node))


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
            self._copy(node)
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
