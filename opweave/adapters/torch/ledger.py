"""A record of PyTorch operator calls as a graph, with the maker and the readers of every storage.

A storage is the memory that PyTorch allocates and frees: ``tensor.untyped_storage()``. A tensor that a call makes in a
new storage has the storage's bytes. A tensor in a storage that existed before (a view, the result of an in-place call,
an input that is returned) is an alias of it. Values are never read, so meta and fake tensors are enough.

In-place calls constrain other calls: earlier readers of the storage must stay before it, and later readers after it.
Later readers read the tensor that the in-place call wrote. Earlier readers get an output of 0 bytes, ``NAME.read``,
which the in-place call reads. Thus any order that respects the graph computes the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import validated
from opweave.adapters.graphs.kinds import runs_in_place
from opweave.adapters.torch.kinds import FlopCount
from opweave.adapters.torch.twin import tensors_in
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph, Parameter, Tensor
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
    read_ids
        Ids of the tensor arguments, and of those behind, in order, if the caller knows them; otherwise None.
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
    read_ids: Sequence[str | None] | None = None
    module: str = ""


@dataclass(slots=True)
class _Storage:
    """One storage; it is owned by the tensor ``root``, or otherwise by ``parameter``."""

    pin: object  # keeps the address from being reused
    root: str | None
    parameter: str | None
    writer: str | None = None
    version: int = 0
    readers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """An operator that is not final yet, because readers get further outputs after they are recorded."""

    id: str
    kind: str
    inputs: list[str]
    outputs: list[str]
    parameters: list[str]
    flops: float
    inplace_ok: bool
    module: str


class Ledger:
    """Records calls and makes the graph.

    Parameters
    ----------
    where
        Name of the model in errors.
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
        """Number of operators recorded so far."""
        return len(self._rows)

    def add_input(self, name: str, tensor: torch.Tensor) -> None:
        """Record a tensor that the caller provides."""
        storage = self._storages.get(self._key(tensor))
        if storage is None:
            self._own(name, tensor)
        elif storage.root is not None:
            self._alias(name, tensor, storage.root)

    def add_parameter(self, name: str, tensor: torch.Tensor) -> None:
        """Record weights, a buffer or a constant; a storage that is already known keeps its first name."""
        key = self._key(tensor)
        if key not in self._storages:
            storage = tensor.untyped_storage()
            self._storages[key] = _Storage(storage, None, name)
            self._parameters[name] = Parameter(id=name, bytes=int(storage.nbytes()))

    def record(self, call: Call) -> dict[int, str]:
        """Record one call; a call that neither returns nor changes tensors leaves no trace.

        Returns
        -------
        dict
            Tensor ids by position in the result, without those of parameters.
        """
        results = _results(call.result)
        read = [*tensors_in((call.args, dict(call.kwargs))), *call.behind]
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
            if touched[self._key(tensor)] is None:  # no returned tensor represents the changed storage
                self._write(row, f"{call.id}.write" + (f".{position}" if position else ""), tensor, touched)
        return ids

    def tensor_id(self, tensor: torch.Tensor) -> str | None:
        """Id of the tensor with this storage, offset, shape and stride; None for parameters and unknown tensors."""
        storage = self._storages.get(self._key(tensor))
        if storage is None or storage.root is None:
            return None
        return self._seen.get(self._place(tensor), storage.root)

    def graph(self, name: str, outputs: Sequence[str]) -> OpGraph:
        """The graph of all calls recorded so far.

        Raises
        ------
        InvalidInputError
            When there is no operator.
        """
        if not self._rows:
            raise InvalidInputError(f"{self._where}: the model computes nothing; check the model and its inputs")
        used = {parameter for row in self._rows for parameter in row.parameters}
        content: dict[str, object] = {
            "name": name,
            "operators": [asdict(row) for row in self._rows],
            "tensors": tuple(self._tensors.values()),
            "parameters": tuple(parameter for key, parameter in self._parameters.items() if key in used),
            "outputs": tuple(dict.fromkeys(outputs)),
        }
        return validated(OpGraph, content, self._where)

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
        """Make an in-place call wait for the earlier readers of its storage."""
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
        """Add a tensor that a call returns or changes; return its id, or None for a parameter."""
        key = self._key(tensor)
        storage = self._storages.get(key)
        if storage is None:
            self._own(name, tensor)
        elif key in touched and touched[key] is None:
            storage.version += 1
            storage.writer = touched[key] = name
            if storage.root is None:  # parameters are not tensors, so writing to them takes no new bytes
                self._tensors[name] = Tensor(id=name, bytes=0)
                self._version[name] = 0
            else:
                self._alias(name, tensor, storage.root)
        elif storage.root is None:
            return None
        elif storage.root in row.outputs:  # another tensor in a storage that this call made
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
