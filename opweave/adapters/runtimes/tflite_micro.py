"""TensorFlow Lite Micro: what its planner needs, and a layout written into a ``.tflite`` file.

The interpreter takes offsets from the metadata ``OfflineMemoryAllocation`` instead of planning them itself. Writing
needs the schema that the package ``tflite-micro`` brings (``pip install 'opweave[tflm]'``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opweave.adapters.files import PathLike, place, read_bytes, write_bytes
from opweave.adapters.tflite.layout import problem_of, tensor_id, tflite_problem
from opweave.adapters.tflite.model import read_subgraphs
from opweave.problems.errors import InvalidInputError, SolverNotAvailableError
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_layout.spec import Layout, Pool
from opweave.problems.solution import HasSolution, solution_of
from opweave.solvers.solve import solve

METADATA = "OfflineMemoryAllocation"
"""Name of the metadata that the interpreter looks for."""

LITE = 64
"""Bytes of which TensorFlow Lite makes every offset a multiple."""

VERSION, UNPLANNED = 0, -1
"""First number of the metadata, and the offset of a tensor that the interpreter has to plan itself."""


def planned_by_runtimes(path: PathLike, limits: Limits = DEFAULT_LIMITS) -> dict[str, int]:
    """Bytes of the arena by who plans it, all in the order of the file: the runtimes themselves, and the best layout.

    TensorFlow Lite keeps the model's inputs to the end.
    """
    micro = tflite_problem(path, limits=limits)
    lite = problem_of(path, (Pool(name="arena", alignment=LITE),), 1, limits, keeps_inputs=True)
    answers = {
        "TensorFlow Lite Micro's planner": solve(micro, solver="tflm"),
        "TensorFlow Lite's": solve(lite, solver="by_size"),
        "the best layout for TensorFlow Lite Micro": solve(micro, time_limit=5.0),
    }
    return {name: int(found.objective) for name, found in answers.items() if found.objective is not None}


def write_tflite(
    path: PathLike, layout: Layout | HasSolution[Layout], target: PathLike, *, limits: Limits = DEFAULT_LIMITS
) -> None:
    """Write a ``.tflite`` file with a layout, which the interpreter follows.

    Parameters
    ----------
    path
        The model.
    layout
        A layout in one pool of :func:`~opweave.adapters.tflite.layout.tflite_problem`, or the result of solving it.
    target
        The file to write. It is the same model; metadata of an earlier layout are replaced.
    limits
        Caps on the file's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        If the file is no such model, the layout names other tensors or several pools, or the target cannot be written
        to.
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
    name, plan = place(path), solution_of(layout, Layout)
    pools = sorted(set(plan.pool.values()))
    if len(pools) > 1:
        raise InvalidInputError(
            f"the layout has the pools {' and '.join(pools)}, and the interpreter has one arena; write a C header"
        )
    offsets = _offsets(path, plan.offset, limits)
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(read_bytes(path, limits=limits), 0))
    except Exception as error:  # the generated code checks nothing
        raise InvalidInputError(f"{name}: the model is damaged ({type(error).__name__})") from None
    numbers = [VERSION, 0, len(offsets), *offsets]
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


def _offsets(path: PathLike, offsets: Mapping[str, int], limits: Limits) -> list[int]:
    """The offset of every tensor of a file with one subgraph."""
    name, left = place(path), dict(offsets)
    subgraphs = read_subgraphs(read_bytes(path, limits=limits), name, limits)
    if len(subgraphs) != 1:
        raise InvalidInputError(
            f"{name}: the model has {len(subgraphs)} subgraphs, and the interpreter takes offsets for models with one; "
            "write a C header"
        )
    found = [left.pop(tensor_id(tensor, at), UNPLANNED) for at, tensor in enumerate(subgraphs[0].tensors)]
    if left:
        raise InvalidInputError(
            f"{name}: the layout has an offset for {next(iter(left))!r}, which is not a tensor of it"
        )
    return found
