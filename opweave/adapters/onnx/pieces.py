"""Splitting a model into files, and running these in turn.

A tensor that crosses a cut is an output of one piece and an input of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike, make_folder
from opweave.adapters.onnx.model import reads_of, save_model
from opweave.adapters.onnx.nodes import NamedModel, named
from opweave.adapters.onnx.prepare import Prepared, prepare
from opweave.adapters.onnx.session import Arrays, onnx_session_options, open_session, run_session
from opweave.adapters.onnx.sizes import SEQUENCE, element_name
from opweave.adapters.runtimes.groups import Group
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TypeProto


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a split model.

    Attributes
    ----------
    path
        The file.
    device
        The device on which it was planned to run.
    operators
        Operator ids, in the order of the file.
    inputs, outputs
        Names of tensors: the model's own, and those that cross a cut.
    """

    path: Path
    device: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def split_onnx(
    model: PathLike | ModelProto,
    groups: Sequence[Group],
    folder: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Piece, ...]:
    """Write one ONNX file for each group of operators. Run one after the other, they compute the whole model.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    groups
        The groups in the order in which they run. :func:`~opweave.adapters.runtimes.groups.schedule_groups` makes them
        from a placement.
    folder
        Receives ``piece_000.onnx``, ``piece_001.onnx``, ...
    dims
        Sizes for symbolic dimensions; the pieces have fixed shapes.
    limits
        Caps on file size.

    Returns
    -------
    tuple of Piece
        The pieces in order. Weights and constants are part of every piece that reads them.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the groups do not fit the model (the message names the node), or a file cannot be read or written.
    """
    return write_pieces(prepare(model, dims or {}, None, limits), groups, folder)


def write_pieces(prepared: Prepared, groups: Sequence[Group], folder: PathLike) -> tuple[Piece, ...]:
    """Write the pieces of a prepared model; see :func:`split_onnx`."""
    model = named(prepared.file, prepared.shaped)
    model.check_covered([name for group in groups for name in group.operators], "the plan")
    place = make_folder(folder)
    cutter = _Cutter(model, prepared, groups)
    return tuple(cutter.write(index, place / f"piece_{index:03}.onnx") for index in range(len(groups)))


class _Cutter:
    """Records the maker and the readers of every tensor."""

    def __init__(self, model: NamedModel, prepared: Prepared, groups: Sequence[Group]) -> None:
        self._model = model
        self._prepared = prepared
        self._groups = groups
        graph = model.proto.graph
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self._constant = {name: node for node in model.constant for name in node.output if name}
        self._given = {value.name for value in graph.input} - self._weights.keys()
        self._home = {
            made: index
            for index, group in enumerate(groups)
            for name in group.operators
            for made in model.nodes[name].output
            if made
        }
        self._wanted = [value.name for value in graph.output]

    def _nodes(self, index: int) -> list[NodeProto]:
        return [self._model.nodes[name] for name in self._groups[index].operators]

    def write(self, index: int, path: Path) -> Piece:
        """Write one piece."""
        from onnx import GraphProto, ModelProto, ValueInfoProto

        nodes = self._nodes(index)
        made = dict.fromkeys(name for node in nodes for name in node.output if name)
        reads = dict.fromkeys(name for node in nodes for name in reads_of(node))
        fixed = [name for name in reads if name not in self._home and name not in self._given]
        inputs = tuple(name for name in reads if name not in made and (name in self._home or name in self._given))
        outputs = tuple(name for name in self._leaving(index) if name in made)
        if index == 0:  # outputs that no operator makes
            loose = [name for name in self._wanted if name not in self._home and name not in self._given]
            fixed += loose
            outputs += tuple(loose)
        outputs = outputs or tuple(made)  # what only dead operators make; a model needs an output
        before, weights = self._closure(fixed)
        graph = GraphProto(name=f"{self._model.proto.graph.name}_{index}", node=[*before, *nodes])
        graph.initializer.extend(self._weights[name] for name in weights if name in self._weights)
        graph.sparse_initializer.extend(self._sparse[name] for name in weights if name in self._sparse)
        graph.input.extend(ValueInfoProto(name=name, type=self._type(name)) for name in inputs)
        graph.output.extend(ValueInfoProto(name=name, type=self._type(name)) for name in outputs)
        whole = self._model.proto
        piece = ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import, graph=graph)
        group = self._groups[index]
        return Piece(save_model(self._model.file, piece, path), group.device, group.operators, inputs, outputs)

    def _leaving(self, index: int) -> dict[str, None]:
        """The tensors that other pieces or the caller read."""
        later = {
            name: None
            for other in range(index + 1, len(self._groups))
            for node in self._nodes(other)
            for name in reads_of(node)
            if self._home.get(name) == index
        }
        return later | {name: None for name in self._wanted if self._home.get(name) == index}

    def _closure(self, names: Sequence[str]) -> tuple[list[NodeProto], list[str]]:
        """Constant nodes that the names depend on, in their order, and the weights that all of them read."""
        needed = dict.fromkeys(names)
        waiting = list(needed)
        while waiting:
            node = self._constant.get(waiting.pop())
            for name in (read for read in (reads_of(node) if node is not None else ()) if read not in needed):
                needed[name] = None
                waiting.append(name)
        nodes = [node for node in self._model.constant if any(name in needed for name in node.output)]
        return nodes, list(needed)

    def _type(self, name: str) -> TypeProto:
        """The type as far as it holds for all values of the inputs."""
        from onnx import TensorProto, TypeProto

        kind = self._prepared.shaped.types.get(name)
        size = self._prepared.measured.get(name)
        if kind is not None and (size is None or kind.tensor_type.elem_type or not kind.HasField("tensor_type")):
            return kind
        found = TypeProto()
        if size is not None and size.dtype != SEQUENCE:
            found.tensor_type.elem_type = TensorProto.DataType.Value(element_name(size.dtype))
        return found


class PieceRunner:
    """Runs the pieces that :func:`~opweave.adapters.onnx.pieces.split_onnx` wrote.

    Parameters
    ----------
    pieces
        All pieces, in order.
    outputs
        Names of the model's outputs.
    threads
        Threads within an operator.

    Raises
    ------
    InvalidInputError
        When onnxruntime is not installed.
    EngineError
        When the runtime refuses a piece; with the runtime's message.
    """

    def __init__(self, pieces: Sequence[Piece], outputs: Sequence[str], *, threads: int = 1) -> None:
        self._pieces = tuple(pieces)
        self._outputs = tuple(outputs)
        self._sessions = [open_session(piece.path, onnx_session_options(threads=threads)) for piece in pieces]

    def run(self, feeds: Arrays) -> Arrays:
        """Run every piece once; a tensor is freed after the last piece that reads it.

        Raises
        ------
        InvalidInputError
            When an input is missing.
        EngineError
            When the runtime fails; with the runtime's message.
        """
        known: dict[str, NDArray[np.generic]] = dict(feeds)
        readers = Counter(name for piece in self._pieces for name in piece.inputs)
        for piece, session in zip(self._pieces, self._sessions, strict=True):
            for name in piece.inputs:
                if name not in known:
                    raise InvalidInputError(f"input {name!r} is missing; pass it")
            known |= run_session(session, {name: known[name] for name in piece.inputs}, piece.outputs)
            for name in piece.inputs:
                readers[name] -= 1
                if not readers[name] and name not in self._outputs:
                    del known[name]
        return {name: known[name] for name in self._outputs}
