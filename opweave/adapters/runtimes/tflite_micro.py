"""TensorFlow Lite Micro: the layout problem of a ``.tflite`` file, and its layout written into the file.

The interpreter takes offsets from the metadata ``OfflineMemoryAllocation`` instead of planning them itself. Writing
needs the schema that the package ``tflite-micro`` brings (``pip install 'opweave[tflm]'``).
"""

from __future__ import annotations

import numpy as np

from opweave.adapters.assemble import packed_bytes
from opweave.adapters.files import PathLike, place, read_bytes, write_bytes
from opweave.adapters.tflite.model import Subgraph, TfliteTensor, read_subgraphs
from opweave.problems.errors import InvalidInputError, SolverNotAvailableError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_layout.spec import Layout, Lifetime, MemoryLayout, Pool
from opweave.problems.solution import Answer, solution_of

METADATA = "OfflineMemoryAllocation"
"""Name of the metadata that the interpreter looks for."""

ALIGNMENT = 16
"""The interpreter aligns every buffer to so many bytes, and rounds its size up to a multiple of them."""

VERSION, UNPLANNED = 0, -1
"""First number of the metadata, and the offset of a tensor that the interpreter has to plan itself."""


def tflite_problem(path: PathLike, *, capacity: int | None = None, limits: Limits = DEFAULT_LIMITS) -> MemoryLayout:
    """The layout problem of a ``.tflite`` file, as the interpreter of TensorFlow Lite Micro counts it.

    A tensor lives from the operator that writes it to the last one that reads it; inputs of the model live from the
    beginning, and outputs to the end. Constants and variables are kept elsewhere. Scratch buffers of operators are not
    in the file: the interpreter plans them itself, around the offsets that it is given.

    Parameters
    ----------
    path
        The file; it has one subgraph.
    capacity
        Bytes of the arena; None for an arena that may grow.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file is no such model, or a shape in it is open.
    """
    name = place(path)
    subgraph = _only_subgraph(name, read_bytes(path, limits=limits), limits)
    begin: dict[int, int] = dict.fromkeys(subgraph.inputs, 0)
    end = dict(begin)
    for step, op in enumerate(subgraph.operators, start=1):
        for made in op.outputs:
            begin.setdefault(made, step)
            end[made] = max(end.get(made, 0), step)
        end |= dict.fromkeys(op.inputs, step)
    end |= dict.fromkeys(subgraph.outputs, len(subgraph.operators))
    lifetimes = []
    for number, tensor in enumerate(subgraph.tensors):
        if number in begin and not tensor.stored and not tensor.variable:
            size = packed_bytes(tensor.shape, tensor.dtype, f"{name}: tensor {tensor.name!r}")
            size = -(-size // ALIGNMENT) * ALIGNMENT
            lifetimes.append(
                Lifetime(id=_id(tensor, number), begin=begin[number], end=end.get(number, 0) + 1, bytes=size)
            )
    arena = Pool(name="arena", bytes=capacity, alignment=ALIGNMENT)
    graph = OpGraph(name=name.rsplit("/", 1)[-1], operators=(), tensors=())
    return MemoryLayout(graph=graph, lifetimes=tuple(lifetimes), pools=(arena,))


def write_tflite(
    path: PathLike, layout: Layout | Answer[Layout], target: PathLike, *, limits: Limits = DEFAULT_LIMITS
) -> None:
    """Write a ``.tflite`` file with a layout, which the interpreter follows.

    Parameters
    ----------
    path
        The model.
    layout
        A layout of :func:`tflite_problem`, or the result of solving it.
    target
        The file to write. It is the same model; metadata of an earlier layout are replaced.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file is no such model, the layout names other tensors, or the target cannot be written to.
    SolverNotAvailableError
        If the package ``tflite-micro`` is not installed.
    """
    try:
        import flatbuffers
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema
    except ImportError as error:
        raise SolverNotAvailableError(
            "writing TensorFlow Lite files needs the package tflite-micro; to get it: pip install 'opweave[tflm]'"
        ) from error
    name, data, offsets = place(path), read_bytes(path, limits=limits), dict(solution_of(layout, Layout).offset)
    subgraph = _only_subgraph(name, data, limits)
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    except Exception as error:  # the generated code checks nothing
        raise InvalidInputError(f"{name}: the model is damaged ({type(error).__name__})") from None
    numbers = [VERSION, 0, len(subgraph.tensors)]
    numbers += [offsets.pop(_id(tensor, number), UNPLANNED) for number, tensor in enumerate(subgraph.tensors)]
    if offsets:
        raise InvalidInputError(
            f"{name}: the layout has an offset for {next(iter(offsets))!r}, which is not a tensor of it"
        )
    if max(numbers) >= 2**31:
        raise InvalidInputError(f"{name}: an offset of {max(numbers):,} does not fit into the 32 bits of the metadata")
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.asarray(numbers, dtype="<i4").tobytes(), dtype=np.uint8)
    entry = schema.MetadataT()
    entry.name, entry.buffer = METADATA, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [each for each in model.metadata or () if each.name not in (METADATA, METADATA.encode())] + [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    write_bytes(target, bytes(builder.Output()))


def _only_subgraph(name: str, data: bytes, limits: Limits) -> Subgraph:
    subgraphs = read_subgraphs(data, name, limits)
    if len(subgraphs) != 1:
        count = len(subgraphs)
        raise InvalidInputError(f"{name}: the model has {count} subgraphs; layouts are written for models with one")
    return subgraphs[0]


def _id(tensor: TfliteTensor, number: int) -> str:
    """The tensor's name and position; names may repeat, or be missing."""
    return f"{number}:{tensor.name}"[:1024]
