"""Making ONNX Runtime obey a plan, and measuring a run: order, memory at every step, seconds of every operator."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.costs.profiles import SUFFIX, kernel_seconds
from opweave.problems.errors import EngineError, InvalidInputError, LimitExceededError
from opweave.problems.units import readable_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto
    from onnxruntime import InferenceSession, SessionOptions

Arrays = Mapping[str, "NDArray[np.generic]"]

LARGEST_BATCH, PER_INPUT = 2**32, 1000
"""Most bytes of random inputs; what an input takes beside its arrays."""

_LIVE = "mem_bytes_requested_in_use"
_MADE = "mem_requested_in_use_delta"
_USED = "mem_bytes_in_use"
_TOOK = "mem_in_use_delta"
_PEAK = "mem_in_use_peak"


def onnx_session_options(*, threads: int = 1) -> SessionOptions:
    """Make options with which ONNX Runtime runs a model in the file's order and frees memory as early as possible.

    * ``execution_order = PRIORITY_BASED``: of all ready nodes, the first in the file runs next, so a sorted file runs
      in its own order (``Shape`` and ``Size`` nodes run early). The default order walks back from the outputs and
      ignores the file.
    * ``execution_mode = ORT_SEQUENTIAL``: one operator at a time.
    * ``graph_optimization_level = ORT_DISABLE_ALL``: fusing creates new nodes, which get the lowest priority. To run an
      optimised model in a planned order, let :func:`~opweave.adapters.onnx.optimizer.optimize` write it
      first, plan that file, and run the reordered file with these options.
    * ``enable_mem_reuse = False``: memory reuse keeps a dead tensor's buffer for a later tensor of the same size, so
      the dead buffer stays live in between. Without reuse, every buffer is freed when its last reader has run.
    * ``enable_mem_pattern = False``: a pattern reserves all activations in one block before the first node runs.

    Parameters
    ----------
    threads
        Threads within an operator.

    Raises
    ------
    InvalidInputError
        When onnxruntime is not installed.
    """
    runtime = import_runtime()
    options = default_options(threads=threads)
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_reuse = False
    options.enable_mem_pattern = False
    return options


def default_options(*, threads: int = 1) -> SessionOptions:
    """Make the runtime's default options, without log output."""
    options = import_runtime().SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised, too
    return options


def part_options(threads: int) -> SessionOptions:
    """Make options for parts of a model on several machines: no optimiser, and no threads that spin while they wait."""
    options = default_options(threads=threads)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = import_runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def open_part(model: bytes, threads: int) -> InferenceSession:
    """Open a part of a model, which came from another machine, on the CPU."""
    return import_runtime().InferenceSession(model, part_options(threads), providers=["CPUExecutionProvider"])


def import_runtime() -> ModuleType:
    """Import onnxruntime, or raise an error that says how to install it.

    Raises
    ------
    InvalidInputError
        When it is not installed.
    """
    import importlib

    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise InvalidInputError("running ONNX models needs a package; to get it: pip install 'opweave[ort]'") from None


@dataclass(frozen=True, slots=True)
class RuntimeRun:
    """Measurements of a run of ONNX Runtime, from its profile.

    Attributes
    ----------
    outputs
        Outputs by name.
    order
        Node names in the order in which they ran.
    seconds
        Median seconds of every node over all runs but the first.
    live
        Bytes that tensors requested, at the end of every node before its inputs are freed, without the bytes that the
        session held before; None if the runtime has no such counters.
    marks
        The most that the arena had handed out at the end of every node, since it was made; None without counters.
    peak_bytes
        Largest use of the arena, including scratch memory of the kernels, with every block rounded up to 256 bytes;
        None if unknown, for example when building the session took more than running it.
    session_bytes
        Bytes of the arena that the session held before the first node, mostly pre-packed weights. None without
        counters.
    """

    outputs: Arrays
    order: tuple[str, ...]
    seconds: Mapping[str, float]
    live: tuple[int, ...] | None
    marks: tuple[int, ...] | None
    peak_bytes: int | None
    session_bytes: int | None


def open_session(path: Path, options: SessionOptions) -> InferenceSession:
    """Open a model on the CPU.

    Raises
    ------
    EngineError
        When the runtime refuses the model; with the runtime's message.
    """
    runtime = import_runtime()
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has its own exception tree
        raise EngineError(f"ONNX Runtime cannot open {path.name}: {short(error)}") from None


def run_session(session: InferenceSession, feeds: Arrays, names: Sequence[str] | None = None) -> Arrays:
    """Run a model once.

    Raises
    ------
    EngineError
        When the runtime fails; with the runtime's message.
    """
    wanted = [value.name for value in session.get_outputs()] if names is None else list(names)
    try:
        return dict(zip(wanted, session.run(wanted, dict(feeds)), strict=True))
    except Exception as error:
        raise EngineError(
            f"ONNX Runtime failed: {short(error)}; other sizes of open dimensions, or example inputs, may do"
        ) from None


def profiled_run(path: Path, options: SessionOptions, feeds: Arrays, *, runs: int = 3) -> RuntimeRun:
    """Run a model several times under the runtime's profiler.

    Parameters
    ----------
    path
        The model file, in a folder that may be written to; nodes need names.
    options
        Options; they are changed to switch profiling on.
    feeds
        Inputs by name.
    runs
        Number of runs; the first is used for memory, the others for times.

    Raises
    ------
    EngineError
        When the runtime refuses the model or fails.
    """
    with tempfile.TemporaryDirectory(prefix="opweave-", dir=path.parent) as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = open_session(path, options)
        for _ in range(max(runs, 1)):
            outputs = run_session(session, feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith(SUFFIX)]
    first = nodes[: len(nodes) // max(runs, 1)]
    order = tuple(event["name"].removesuffix(SUFFIX) for event in first)
    notes = [event["args"].items() for event in first]
    counters = [{key: int(text) for key, text in each if key.startswith("mem_")} for each in notes]
    seconds = kernel_seconds(events, path.name)
    if not counters or not all({_LIVE, _MADE, _USED, _TOOK, _PEAK} <= row.keys() for row in counters):
        return RuntimeRun(outputs, order, seconds, None, None, None, None)
    base = counters[0][_LIVE] - counters[0][_MADE]
    return RuntimeRun(
        outputs=outputs,
        order=order,
        seconds=seconds,
        live=tuple(row[_LIVE] - base for row in counters),
        marks=tuple(row[_PEAK] - base for row in counters),
        peak_bytes=_arena_peak(counters),
        session_bytes=base,
    )


def _arena_peak(counters: Sequence[Mapping[str, int]]) -> int | None:
    """Largest use of the arena during the run; None if the high-water mark may be from before it."""
    base, highest = counters[0][_USED] - counters[0][_TOOK], counters[-1][_PEAK]
    return None if counters[0][_PEAK] == highest > counters[0][_USED] else highest - base


def random_feeds(model: ModelProto, seed: int, given: Container[str] = ()) -> Arrays:
    """Generate inputs: normal numbers for floats, zeros and ones for everything else (indices must be in range).

    Parameters
    ----------
    model
        A model whose inputs have fixed sizes.
    seed
        Seed of the numbers.
    given
        Names of inputs that need none.

    Raises
    ------
    InvalidInputError
        For an input that is no tensor, or an element type that NumPy lacks; the message names the input.
    """
    from onnx import helper

    random = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, NDArray[np.generic]] = {}
    for value in model.graph.input:
        if value.name in weights or value.name in given:
            continue
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        known = value.type.HasField("tensor_type") and value.type.tensor_type.elem_type
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) if known else np.dtype(object)
        if kind.kind == "f":
            feeds[value.name] = random.standard_normal(shape).astype(kind)
        elif kind.kind in "iub":
            feeds[value.name] = random.integers(0, 2, shape).astype(kind)
        else:
            raise InvalidInputError(f"input {value.name!r} holds {kind}; pass inputs={{{value.name!r}: ...}} for it")
    return feeds


def random_batch(model: bytes, count: int) -> list[Arrays]:
    """Generate several inputs for a model; see :func:`random_feeds`.

    Raises
    ------
    LimitExceededError
        When they need more than :data:`LARGEST_BATCH`.
    """
    from onnx import load_model_from_string

    proto, feeds = load_model_from_string(model), list[Arrays]()
    for seed in range(count):
        feeds.append(random_feeds(proto, seed))
        size = count * (PER_INPUT + sum(each.nbytes for each in feeds[0].values()))
        if size > LARGEST_BATCH:
            raise LimitExceededError(f"{count:,} inputs need {readable_bytes(size)} of memory; ask for fewer")
    return feeds


def short(error: BaseException) -> str:
    """An error of the runtime in one line, without the folders of files that only the run had."""
    return re.sub(r"[^\s\"']*opweave-[^/\s]+/", "", " ".join(str(error).split()))[:300]
