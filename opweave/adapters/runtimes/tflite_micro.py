"""TensorFlow Lite Micro: the layout problem of a ``.tflite`` file, and its layout written into the file.

The interpreter takes offsets from the metadata ``OfflineMemoryAllocation`` instead of planning them itself. Reading and
writing need the schema that the package ``tflite-micro`` brings (``pip install 'opweave[tflm]'``).
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from opweave.adapters.files import PathLike, place, read_bytes, write_bytes
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

_SIZES = {"FLOAT32": 4, "FLOAT16": 2, "FLOAT64": 8, "BOOL": 1, "COMPLEX64": 8, "COMPLEX128": 16, "BFLOAT16": 2}
_SIZES |= {f"{sign}INT{bits}": bits // 8 for sign in ("", "U") for bits in (8, 16, 32, 64)}


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
    SolverNotAvailableError
        If the package ``tflite-micro`` is not installed.
    """
    name, model, schema = _read(path, limits)
    subgraph = _only_subgraph(name, model)
    begin: dict[int, int] = dict.fromkeys(_numbers(subgraph.inputs), 0)
    end = dict(begin)
    for step, op in enumerate(subgraph.operators or (), start=1):
        for tensor in _numbers(op.outputs):
            begin.setdefault(tensor, step)
            end[tensor] = max(end.get(tensor, 0), step)
        for tensor in _numbers(op.inputs):
            end[tensor] = step
    last = len(subgraph.operators or ())
    end |= dict.fromkeys(_numbers(subgraph.outputs), last)
    types = {value: word for word, value in vars(schema.TensorType).items() if isinstance(value, int)}
    lifetimes = []
    for number, tensor in enumerate(subgraph.tensors):
        if number in begin and not _is_constant(model, tensor) and not tensor.isVariable:
            size = _rounded(_bytes(name, tensor, types))
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
    import flatbuffers

    name, model, schema = _read(path, limits)
    subgraph, offsets = _only_subgraph(name, model), dict(solution_of(layout, Layout).offset)
    numbers = [VERSION, 0, len(subgraph.tensors)]
    numbers += [offsets.pop(_id(tensor, number), UNPLANNED) for number, tensor in enumerate(subgraph.tensors)]
    if offsets:
        raise InvalidInputError(
            f"{name}: the layout has an offset for {next(iter(offsets))!r}, which is no tensor of it"
        )
    if max(numbers) >= 2**31:
        raise InvalidInputError(f"{name}: an offset of {max(numbers):,} does not fit into the 32 bits of the metadata")
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.asarray(numbers, dtype="<i4").tobytes(), dtype=np.uint8)
    entry = schema.MetadataT()
    entry.name, entry.buffer = METADATA, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [each for each in model.metadata or () if _text(each.name) != METADATA] + [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    write_bytes(target, bytes(builder.Output()))


def _read(path: PathLike, limits: Limits) -> tuple[str, Any, ModuleType]:
    """The file's name, its model as an object, and the schema."""
    name, data = place(path), read_bytes(path, limits=limits)
    try:
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema
    except ImportError as error:
        raise SolverNotAvailableError(
            "TensorFlow Lite files need the package tflite-micro; to get it: pip install 'opweave[tflm]'"
        ) from error
    if data[4:8] != b"TFL3":
        raise InvalidInputError(f"{name}: this is no TensorFlow Lite model; its name should end in .tflite")
    try:
        return name, schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0)), schema
    except Exception as error:  # the generated code checks nothing
        raise InvalidInputError(f"{name}: the model is damaged ({type(error).__name__})") from None


def _only_subgraph(name: str, model: Any) -> Any:
    if len(model.subgraphs or ()) != 1:
        count = len(model.subgraphs or ())
        raise InvalidInputError(f"{name}: the model has {count} subgraphs; layouts are written for models with one")
    return model.subgraphs[0]


def _numbers(tensors: Any) -> list[int]:
    """Positions of tensors, without those of optional inputs that are left out."""
    return [] if tensors is None else [int(number) for number in tensors if number >= 0]


def _is_constant(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0


def _bytes(name: str, tensor: Any, types: dict[int, str]) -> int:
    shape = [] if tensor.shape is None else [int(length) for length in tensor.shape]
    size = _SIZES.get(types.get(tensor.type, ""))
    if size is None:
        raise InvalidInputError(f"{name}: tensor {_text(tensor.name)!r} has a type whose size is not known")
    if any(length < 0 for length in shape):
        raise InvalidInputError(f"{name}: tensor {_text(tensor.name)!r} has an open shape; convert with fixed shapes")
    return math.prod(shape) * size


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _id(tensor: Any, number: int) -> str:
    """The tensor's name and position; names may repeat, or be missing."""
    return f"{number}:{_text(tensor.name)}"[:1024]


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "")
