"""Reading PyTorch models: every node of an exported program, with the storages that it would make and share.

The program is run once on fake tensors, which have shapes and storages but no memory. PyTorch itself therefore decides
what is a view and what is a copy, operator by operator, as in a run on the CPU without gradients. A model of 13 billion
parameters loads in the memory of its graph.

Nodes become operators under their own names. A tensor has the name of its node, or of the ``getitem`` node that takes
it out of a list (``NODE.3`` if there is none). Three kinds of nodes do not become operators: ``getitem``, views of
parameters (another name for the parameter), and calls that return no tensor. In-place nodes stay in place, see
:mod:`opweave.adapters.torch.ledger`.

Branches, loops and attention with a function of the user's (``torch.cond``, ``while_loop``, ``scan``, ``map``,
``flex_attention``) are single operators with their outer tensors. What they need inside is not counted.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.graphs.kinds import INPLACE_KINDS
from opweave.adapters.torch.ledger import Call, Ledger
from opweave.adapters.torch.program import advice, module_path, prepare, read_program, reason, title
from opweave.adapters.torch.twin import fake_mode, tensors_in
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

_CHECKS = ("aten._assert", "aten.sym_constrain", "aten._check")
"""Calls that compute nothing; the device that they request may differ from the pretended one."""


def from_torch(
    model: torch.nn.Module | ExportedProgram | PathLike,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from a PyTorch module, an exported program, or a ``.pt2`` file.

    * Parameters, buffers and constants become parameters; those that share a storage become one.
    * FLOPs are those of :class:`~opweave.adapters.torch.kinds.FlopCount`.
    * A new value of a buffer (batch normalisation in training) is a graph output if the program says so.

    Parameters
    ----------
    model
        A module needs ``args`` or ``kwargs``; see :func:`~opweave.adapters.torch.program.prepare`.
    args, kwargs
        Example inputs of a module; tensors on the meta device are enough.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on file and graph size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the node and says what to do, for example about open dimensions, control flow that depends on
        values, and operators without a shape rule.
    """
    if isinstance(model, str | os.PathLike):
        program, name = prepare(read_program(model, limits), args, kwargs), Path(model).stem
    else:
        program, name = prepare(model, args, kwargs), _name(model)
    ledger = Ledger(name, inplace_kinds, limits)
    return ledger.graph(_Replay(program, ledger, name).outputs())


def _name(model: object) -> str:
    from torch.export import ExportedProgram

    return "exported program" if isinstance(model, ExportedProgram) else type(model).__name__


class _Replay:
    """Runs a program on fake tensors, node by node, and records the calls."""

    def __init__(self, program: ExportedProgram, ledger: Ledger, where: str) -> None:
        self._program = program
        self._ledger = ledger
        self._where = where
        self._values: dict[Node, Any] = {}
        self._behind: dict[Node, dict[Node, None]] = {}  # the makers of numbers that a number depends on
        self._tokens: dict[Node, torch.Tensor] = {}  # of 0 bytes, one for each number that is read from a tensor
        self._checked = _only_checked(program)

    def outputs(self) -> list[torch.Tensor]:
        """Run the whole program and return its output tensors."""
        import torch

        found: list[torch.Tensor] = []
        with torch.no_grad(), fake_mode():
            self._enter()
            for node in self._program.graph.nodes:
                if node.op == "call_function":
                    self._step(node)
                elif node.op == "get_attr":
                    self._constant(node)
                elif node.op == "output":
                    found = tensors_in([self._values[leaf] for leaf in node.all_input_nodes]) + self._numbers(node)
        return found

    def _enter(self) -> None:
        """Create placeholders: fake tensors of the same shapes, one for every storage among the parameters."""
        import torch

        held = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        first: dict[int, torch.Tensor] = {}
        for node in self._program.graph.nodes:
            if node.op != "placeholder":
                continue
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                self._values[node] = value
                continue
            target = held[node.name].target
            if target is None:
                fake = self._values[node] = _fake(value)
                self._ledger.add_input(node.name, fake)
                continue
            real = self._held(target)
            key = None if real is None else int(real.untyped_storage()._cdata)
            if key is not None and key in first:
                fake = torch.as_strided(first[key], value.shape, value.stride(), 0).view(value.dtype)
            else:
                fake = _fake(value)
            if key is not None:
                first.setdefault(key, fake)
            self._values[node] = fake
            self._ledger.add_parameter(str(target), fake)

    def _held(self, target: str) -> torch.Tensor | None:
        import torch

        value = self._program.state_dict.get(target, self._program.constants.get(target))
        return value if isinstance(value, torch.Tensor) else None

    def _constant(self, node: Node) -> None:
        import torch

        value = operator.attrgetter(str(node.target))(self._program.graph_module)
        if not isinstance(value, torch.Tensor):  # the body of a branch or a loop
            self._values[node] = value
            return
        self._values[node] = fake = _fake(value)
        self._ledger.add_parameter(str(node.target), fake)

    def _step(self, node: Node) -> None:
        import torch

        if node.target is operator.getitem:
            source, position = node.args
            self._values[node] = self._values[source][position]
            return
        if node in self._checked:
            self._values[node] = None
            return
        args, kwargs = self._given(node.args), self._given(node.kwargs)
        assert isinstance(args, tuple) and isinstance(kwargs, dict) and callable(node.target)
        try:
            result = self._values[node] = node.target(*args, **kwargs)
        except Exception as error:  # torch raises errors from many exception trees here
            raise InvalidInputError(f"{self._where}: {title(node)}: {reason(error)}; {advice(error)}") from error
        numbers = self._numbers(node)
        if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
            if not tensors_in((args, kwargs)):  # arithmetic with numbers
                self._behind[node] = self._makers(node)
                return
            self._behind[node] = {node: None}
            result = self._tokens[node] = torch.empty(0)
        names = self._names(node, result)
        self._ledger.record(Call(node.name, node.target, args, kwargs, result, names, numbers, module_path(node)))

    def _makers(self, node: Node) -> dict[Node, None]:
        """The nodes that read from tensors the numbers behind a node's arguments."""
        return {maker: None for leaf in node.all_input_nodes for maker in self._behind.get(leaf, ())}

    def _numbers(self, node: Node) -> list[torch.Tensor]:
        """The tensors of 0 bytes that stand for these numbers."""
        return [self._tokens[maker] for maker in self._makers(node)]

    def _names(self, node: Node, result: object) -> dict[int, str]:
        if not isinstance(result, list | tuple):
            return {0: node.name}
        taken: dict[int, str] = {}
        for user in node.users:
            if user.target is operator.getitem:
                taken.setdefault(user.args[1] % len(result), user.name)
        return taken

    def _given(self, arguments: object) -> object:
        """Arguments with nodes replaced by values; tensors for the meta device are treated as if in main memory."""
        import torch
        from torch.fx.node import map_aggregate

        def value(leaf: object) -> object:
            if isinstance(leaf, torch.fx.Node):
                return self._values[leaf]
            return torch.device("cpu") if isinstance(leaf, torch.device) and leaf.type == "meta" else leaf

        mapped = map_aggregate(arguments, value)
        return dict(mapped) if isinstance(mapped, dict) else tuple(mapped) if isinstance(mapped, tuple) else mapped


def _only_checked(program: ExportedProgram) -> set[Node]:
    """Calls that check something, and those that make numbers for such calls alone."""
    found: set[Node] = set()
    for node in reversed(program.graph.nodes):
        made = tensors_in(node.meta.get("val"))
        if node.op == "call_function" and (
            str(node.target).startswith(_CHECKS) or (not made and node.users and found.issuperset(node.users))
        ):
            found.add(node)
    return found


def _fake(like: torch.Tensor) -> torch.Tensor:
    import torch

    device = "cpu" if like.device.type == "meta" else like.device
    return torch.empty_strided(tuple(like.shape), like.stride(), dtype=like.dtype, device=device)
