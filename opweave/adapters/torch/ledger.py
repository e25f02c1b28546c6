"""Calls of PyTorch operators, written down one after the other, as a graph: who made which storage, and who sees it.

A storage is what PyTorch allocates and frees: ``tensor.untyped_storage()``. A tensor that a call makes in a storage of
its own has the storage's bytes; one that looks into a storage that was there before (a view, the result of an in-place
call, an input that is handed back) is an alias of it. Values are never read, so meta and fake tensors do.

In-place calls bind their neighbours: who read the storage before must come before, who reads it after must come after.
The second kind reads what the in-place call wrote. The first kind gets an output of 0 bytes, ``NAME.read``, which the
in-place call reads; so any order that respects the graph computes the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint
from opweave.adapters.graphs.in_place import runs_in_place
from opweave.adapters.torch.flops import FlopCount
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator.

    Attributes
    ----------
    id
        Name of the operator in the graph.
    func, args, kwargs, result
        What was called, with what, and what it gave.
    names
        Tensor ids by position in the result (0 where it is a single tensor); others get made-up ones.
    read_ids
        Tensor ids of the arguments that are tensors, in order, where the caller knows them; else None.
    module
        Path of the module.
    """

    id: str
    func: Callable[..., object]
    args: Sequence[object]
    kwargs: Mapping[str, object]
    result: object
    names: Mapping[int, str] = field(default_factory=dict)
    read_ids: Sequence[str | None] | None = None
    module: str = ""


@dataclass(slots=True)
class _Storage:
    """What is known about one storage; ``root`` is the tensor that owns it, or else ``parameter`` does."""

    pin: object  # keeps the address from being used again
    root: str | None
    parameter: str | None
    writer: str | None = None
    version: int = 0
    readers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """An operator under way: readers get further outputs after they are written down."""

    id: str
    kind: str
    inputs: list[str]
    outputs: list[str]
    parameters: list[str]
    flops: float
    inplace_ok: bool
    module: str


def tensors_in(value: object) -> list[torch.Tensor]:
    """All tensors in nested arguments, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Ledger:
    """Writes calls down and makes the graph.

    Parameters
    ----------
    where
        Names the model in errors.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``.
    limits
        Caps on the graph's size.
    """

    def __init__(self, where: str, inplace_kinds: Set[str], limits: Limits) -> None:
        self._where = where
        self._inplace_kinds = inplace_kinds
        self._limits = limits
        self._flops = FlopCount()
        self._rows: list[_Row] = []
        self._tensors: dict[str, Tensor] = {}
        self._parameters: dict[str, Parameter] = {}
        self._storages: dict[int, _Storage] = {}
        self._seen: dict[object, str] = {}  # the latest tensor id of a storage, offset, shape and stride
        self._version: dict[str, int] = {}

    def __len__(self) -> int:
        """Operators written down so far."""
        return len(self._rows)

    def add_input(self, name: str, tensor: torch.Tensor) -> None:
        """A tensor that the caller gives."""
        storage = self._storages.get(self._key(tensor))
        if storage is None:
            self._own(name, tensor)
        elif storage.root is not None:
            self._alias(name, tensor, storage.root)

    def add_parameter(self, name: str, tensor: torch.Tensor) -> None:
        """Weights, a buffer or a constant; a storage that is known already keeps its first name."""
        key = self._key(tensor)
        if key not in self._storages:
            storage = tensor.untyped_storage()
            self._storages[key] = _Storage(storage, None, name)
            self._parameters[name] = Parameter(id=name, bytes=int(storage.nbytes()))

    def record(self, call: Call) -> dict[int, str]:
        """Write one call down; calls without tensors in what they give or change leave no trace.

        Returns
        -------
        dict
            Tensor ids by position in the result, without those of parameters.
        """
        results = _results(call.result)
        read = tensors_in((call.args, dict(call.kwargs)))
        written = _written(call)
        known = [self._storages.get(self._key(tensor)) for _, tensor in results]
        if not written and all(storage is not None and storage.root is None for storage in known):
            return {}  # nothing at all, or another name for a parameter
        if len(self._rows) >= self._limits.operators:
            raise LimitExceededError(f"{self._where}: over the limit of {self._limits.operators:,} operators")
        inputs, parameters = self._read(read, call.read_ids)
        kind = str(call.func)
        flops = self._flops.count(call.func, call.args, call.kwargs, call.result)
        in_place = runs_in_place(kind, self._inplace_kinds) and not written and None in known
        row = _Row(call.id, kind, inputs, [], parameters, flops, in_place, call.module)
        looks_only = not written and None not in known
        touched: dict[int, str | None] = {self._key(tensor): None for tensor in written}
        for key in touched:
            self._wait_for_readers(self._storages[key], row)
        self._rows.append(row)
        if not looks_only:
            for tensor in read:
                readers = self._storages[self._key(tensor)].readers
                if not readers or readers[-1] != len(self._rows) - 1:
                    readers.append(len(self._rows) - 1)
        ids: dict[int, str] = {}
        for position, tensor in results:
            name = self._write(row, call.names.get(position) or _made_up(call, position), tensor, touched)
            if name is not None:
                ids[position] = name
        for position, tensor in enumerate(written):
            if touched[self._key(tensor)] is None:  # nothing that it gives stands for what it changed
                self._write(row, f"{call.id}.write" + (f".{position}" if position else ""), tensor, touched)
        return ids

    def tensor_id(self, tensor: torch.Tensor) -> str | None:
        """Id of a tensor that is known by where it lies; None for parameters and strangers."""
        storage = self._storages.get(self._key(tensor))
        if storage is None or storage.root is None:
            return None
        return self._seen.get(self._place(tensor), storage.root)

    def graph(self, name: str, outputs: Sequence[str]) -> OpGraph:
        """The graph of everything written down so far.

        Raises
        ------
        InvalidInputError
            When there is no operator at all.
        """
        if not self._rows:
            raise InvalidInputError(f"{self._where}: it computes nothing; check the model and its inputs")
        used = {parameter for row in self._rows for parameter in row.parameters}
        content: dict[str, object] = {
            "name": name,
            "operators": [
                Operator(
                    id=row.id,
                    kind=row.kind,
                    inputs=tuple(row.inputs),
                    outputs=tuple(row.outputs),
                    parameters=tuple(row.parameters),
                    flops=row.flops,
                    inplace_ok=row.inplace_ok,
                    module=row.module,
                )
                for row in self._rows
            ],
            "tensors": tuple(self._tensors.values()),
            "parameters": tuple(parameter for key, parameter in self._parameters.items() if key in used),
            "outputs": tuple(dict.fromkeys(outputs)),
        }
        try:
            return OpGraph.model_validate(content)
        except ValidationError as error:
            raise complaint(error, self._where, content) from None

    def _read(self, read: Sequence[torch.Tensor], ids: Sequence[str | None] | None) -> tuple[list[str], list[str]]:
        inputs: dict[str, None] = {}
        parameters: dict[str, None] = {}
        for position, tensor in enumerate(read):
            key = self._key(tensor)
            if key not in self._storages:
                self.add_parameter(f"constant_{len(self._parameters)}", tensor)
            storage = self._storages[key]
            version = 0
            if storage.parameter is not None:
                parameters[storage.parameter] = None
            else:
                name = (ids[position] if ids is not None else None) or self.tensor_id(tensor) or str(storage.root)
                inputs[name] = None
                version = self._version[name]
            if storage.writer is not None and version < storage.version:
                inputs[storage.writer] = None
        return list(inputs), list(parameters)

    def _wait_for_readers(self, storage: _Storage, row: _Row) -> None:
        """Let an in-place call come after whoever read the storage before."""
        for index in storage.readers:
            reader = self._rows[index]
            if not any(name in row.inputs for name in reader.outputs):
                token = f"{reader.id}.read"
                if token not in self._tensors:
                    self._tensors[token] = Tensor(id=token, bytes=0)
                    self._version[token] = 0
                    reader.outputs.append(token)
                row.inputs.append(token)
        storage.readers.clear()

    def _write(self, row: _Row, name: str, tensor: torch.Tensor, touched: dict[int, str | None]) -> str | None:
        """Add a tensor that a call gives or changes; its id, or None for a parameter."""
        key = self._key(tensor)
        storage = self._storages.get(key)
        if storage is None:
            self._own(name, tensor)
        elif key in touched and touched[key] is None:
            storage.version += 1
            storage.writer = touched[key] = name
            if storage.root is None:  # parameters are no tensors: what is written there takes no new bytes
                self._tensors[name] = Tensor(id=name, bytes=0)
                self._version[name] = 0
            else:
                self._alias(name, tensor, storage.root)
        elif storage.root is None:
            return None
        elif storage.root in row.outputs:  # a second look into a storage that this call made
            self._seen[self._place(tensor)] = storage.root
            return storage.root
        else:
            self._alias(name, tensor, storage.root)
        row.outputs.append(name)
        return name if self._tensors[name].dtype else None

    def _own(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._storages[self._key(tensor)] = _Storage(storage, name, None)
        self._add(name, tensor, int(storage.nbytes()), None)

    def _alias(self, name: str, tensor: torch.Tensor, root: str) -> None:
        self._add(name, tensor, tensor.numel() * tensor.element_size(), root)

    def _add(self, name: str, tensor: torch.Tensor, size: int, root: str | None) -> None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._tensors[name] = Tensor(id=name, bytes=size, alias_of=root, shape=tuple(tensor.shape), dtype=dtype)
        self._version[name] = self._storages[self._key(tensor)].version
        self._seen[self._place(tensor)] = name

    def _key(self, tensor: torch.Tensor) -> int:
        import torch

        if tensor.layout != torch.strided:
            raise InvalidInputError(
                f"{self._where}: holds a tensor of layout {tensor.layout}, not one block of memory; use dense ones"
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
    """Arguments that the call changes, by its schema."""
    schema = getattr(call.func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    found: list[torch.Tensor] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
            found.extend(tensors_in(value))
    return found
