"""A record of PyTorch operator calls as a graph, with the maker and the readers of every storage.

A storage is the memory that PyTorch allocates and frees: ``tensor.untyped_storage()``. A tensor that a call makes in a
new storage has the storage's bytes. A tensor in a storage that existed before (a view, the result of an in-place call,
an input that is returned) is an alias of it. Values are never read, so meta and fake tensors are enough.

In-place calls constrain other calls: earlier readers of the storage must stay before it, and later readers after it.
Thus any order that respects the graph computes the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from opweave.adapters.assemble import Node, Parts, Value, assemble
from opweave.adapters.torch.kinds import FlopCount
from opweave.adapters.torch.twin import tensors_in
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator.

    Attributes
    ----------
    id
        Id of the operator in the graph.
    func, args, kwargs, result
        The function that was called, its arguments and its result.
    names
        Tensor ids by position in the result (0 if it is a single tensor); other tensors get generated ids.
    behind
        Further tensors that the call reads: of 0 bytes, for numbers among its arguments that calls read from tensors.
    module
        Path of the module.
    """

    id: str
    func: Callable[..., object]
    args: Sequence[object]
    kwargs: Mapping[str, object]
    result: object
    names: Mapping[int, str] = field(default_factory=dict)
    behind: Sequence[torch.Tensor] = ()
    module: str = ""


class _Storage(NamedTuple):
    """One storage; ``root`` is the tensor that owns it, None for a parameter's."""

    pin: object  # keeps the address from being reused
    root: str | None


class Ledger:
    """Records calls and makes the graph.

    Parameters
    ----------
    name
        Name of the model, also in errors.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``.
    limits
        Caps on the graph's size.
    """

    def __init__(self, name: str, inplace_kinds: Set[str], limits: Limits) -> None:
        self._name = name
        self._inplace_kinds = inplace_kinds
        self._limits = limits
        self._flops = FlopCount()
        self._nodes: list[Node] = []
        self._values: dict[Hashable, Value] = {}  # tensors by their ids, parameters by their storages
        self._inputs: list[str] = []
        self._parameters: set[Hashable] = set()
        self._storages: dict[int, _Storage] = {}
        self._seen: dict[object, str] = {}  # the latest tensor id of a storage, offset, shape and stride

    def __len__(self) -> int:
        """Number of operators recorded so far."""
        return len(self._nodes)

    def add_input(self, name: str, tensor: torch.Tensor) -> None:
        """Record a tensor that the caller provides."""
        if self._key(tensor) not in self._parameters:
            self._add(name, tensor)
            self._inputs.append(name)

    def add_parameter(self, name: str, tensor: torch.Tensor) -> None:
        """Record weights, a buffer or a constant; a storage that is already known keeps its first name."""
        key = self._key(tensor)
        if key not in self._storages:
            storage = tensor.untyped_storage()
            self._storages[key] = _Storage(storage, None)
            self._values[key] = Value(name, int(storage.nbytes()), None, "")
            self._parameters.add(key)

    def record(self, call: Call) -> None:
        """Record one call; a call that neither returns nor changes tensors leaves no trace."""
        results, written = _results(call.result), list(map(self._key, _written(call)))
        read = [*tensors_in((call.args, dict(call.kwargs))), *call.behind]
        inputs = list(dict.fromkeys(map(self._read, read)))
        fresh = any(self._key(tensor) not in self._storages for _, tensor in results)
        if not written and all(self._key(tensor) in self._parameters for _, tensor in results):
            return  # nothing at all, or another name for a parameter
        if len(self._nodes) >= self._limits.operators:
            raise LimitExceededError(f"{self._name}: over the limit of {self._limits.operators:,} operators")
        outputs: list[str] = []
        for position, tensor in results:
            storage = self._storages.get(self._key(tensor))
            if storage is None or storage.root not in (None, *outputs):
                outputs.append(call.names.get(position) or _made_up(call, position))
                self._add(outputs[-1], tensor)
            elif storage.root is not None:  # another tensor in a storage that this call made
                self._seen[self._place(tensor)] = storage.root
        node = Node(
            name=call.id,
            kind=str(call.func),
            inputs=inputs,
            outputs=outputs,
            view=bool(written) or not fresh,
            flops=self._flops.count(call.func, call.args, call.kwargs, call.result),
            module=call.module,
            looks=tuple(map(self._key, read)) if written or fresh else (),
            changes=written,
        )
        self._nodes.append(node)

    def tensor_id(self, tensor: torch.Tensor) -> str | None:
        """Id of the tensor with this storage, offset, shape and stride; None for parameters and unknown tensors."""
        storage = self._storages.get(self._key(tensor))
        if storage is None or storage.root is None:
            return None
        return self._seen.get(self._place(tensor), storage.root)

    def graph(self, outputs: Sequence[torch.Tensor]) -> OpGraph:
        """The graph of all calls recorded so far.

        Raises
        ------
        InvalidInputError
            When there is no operator.
        """
        if not self._nodes:
            raise InvalidInputError(f"{self._name}: the model computes nothing; check the model and its inputs")
        ids = [found for tensor in outputs if (found := self.tensor_id(tensor)) is not None]
        parts = Parts(self._name, self._with_state(), self._values, self._parameters, ids, self._inputs)
        return assemble(parts, self._name, self._inplace_kinds)

    def _with_state(self) -> list[Node]:
        """The calls, with the names of buffers that some call changes; one that changes several may use all devices."""
        single, several = set[Hashable](), set[Hashable]()
        for node in self._nodes:
            changed = self._parameters.intersection(node.changes)
            (several if len(changed) > 1 else single).update(changed)
        found = []
        for node in self._nodes:
            touched = (single - several).intersection((*node.looks, *node.changes))
            found.append(replace(node, names=sorted(self._values[key].name for key in touched)))
        return found

    def _read(self, tensor: torch.Tensor) -> Hashable:
        if self._key(tensor) not in self._storages:
            self.add_parameter(f"constant_{len(self._parameters)}", tensor)
        return self.tensor_id(tensor) or self._key(tensor)

    def _add(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        root = self._storages.setdefault(self._key(tensor), _Storage(storage, name)).root
        owns = root == name
        size = int(storage.nbytes()) if owns else tensor.numel() * tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._values[name] = Value(name, size, tuple(tensor.shape), dtype, None if owns else root)
        self._seen[self._place(tensor)] = name

    def _key(self, tensor: torch.Tensor) -> int:
        import torch

        if tensor.layout != torch.strided:
            raise InvalidInputError(
                f"{self._name}: holds a tensor of layout {tensor.layout}, not one block of memory; use dense ones"
            )
        return int(tensor.untyped_storage()._cdata)

    def _place(self, tensor: torch.Tensor) -> object:
        return self._key(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _results(result: object) -> list[tuple[int, torch.Tensor]]:
    import torch

    rows = result if isinstance(result, list | tuple) else [result]
    return [(position, row) for position, row in enumerate(rows) if isinstance(row, torch.Tensor)]


def _made_up(call: Call, position: int) -> str:
    return f"{call.id}.{position}" if isinstance(call.result, list | tuple) else call.id


def _written(call: Call) -> list[torch.Tensor]:
    """Arguments that the call changes, according to its schema."""
    schema = getattr(call.func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    found: list[torch.Tensor] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
            found.extend(tensors_in(value))
    return found
