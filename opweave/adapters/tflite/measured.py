"""Sizes that a ``.tflite`` file does not state: the interpreter takes the sizes of the inputs and runs once, on zeros.

The run happens in a process of its own, with limits on its time and memory. It needs the package ``ai-edge-litert``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opweave.adapters.dims import filled
from opweave.adapters.files import PathLike
from opweave.adapters.tflite.model import Subgraph
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import Limits
from opweave.solvers.engines.child import ChildLimits, run_in_child

INSTALL = "pip install 'opweave[tflite]'"

Shapes = dict[tuple[int, int], tuple[int, ...]]
"""Shapes by positions of subgraph and tensor."""


@dataclass(frozen=True, slots=True)
class _Task:
    path: str
    inputs: Mapping[int, tuple[int, ...]]
    subgraphs: int


def input_shapes(model: Subgraph, dims: Mapping[str, int], where: str) -> dict[int, tuple[int, ...]]:
    """Shapes of the inputs that get other sizes than those in the file, by the positions of their tensors.

    Parameters
    ----------
    model
        The file's first subgraph.
    dims
        Sizes of open dimensions; the batch is as the file states it if it gets no size.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        As for :func:`~opweave.adapters.dims.filled`.
    """
    inputs = {place: model.tensors[place] for place in model.inputs}
    opened = {each.name: each.signature for each in inputs.values() if len(each.signature) == len(each.shape)}
    batches = {f"{each.name}:0": each.shape[0] for each in inputs.values() if each.shape}
    found = filled(opened, dims, batches, where)
    return {
        place: found[each.name]
        for place, each in inputs.items()
        if each.name in found and len(found[each.name]) == len(each.shape) and found[each.name] != each.shape
    }


def measured(
    path: PathLike, inputs: Mapping[int, tuple[int, ...]], subgraphs: int, where: str, limits: Limits
) -> Shapes:
    """Run a model once, and return the shapes of its tensors.

    Parameters
    ----------
    path
        The file.
    inputs
        Shapes of inputs that differ from those in the file, by the positions of their tensors.
    subgraphs
        Number of subgraphs in the file.
    where
        Name of the file in errors.
    limits
        Caps on the run.

    Raises
    ------
    InvalidInputError
        When the interpreter is not installed, refuses the model or fails, or its time or memory is up.
    """
    if not limits.run_seconds or find_spec("ai_edge_litert") is None:
        why = "the limits forbid it" if not limits.run_seconds else f"it needs a package; to get it: {INSTALL}"
        raise InvalidInputError(
            f"{where}: the file does not state the sizes of all tensors, so one run would have to find them out, but "
            f"{why}; a model that was converted with fixed sizes needs no run"
        )
    caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
    task = _Task(str(Path(path).resolve()), dict(inputs), subgraphs)
    try:
        found = run_in_child("the interpreter", "opweave.adapters.tflite.measured:record", task, caps)
    except EngineError as error:
        found = str(error)
    if found is None:
        found = f"the run took more than {limits.run_seconds:g} s"
    if isinstance(found, str):
        raise InvalidInputError(
            f"{where}: the sizes of its tensors could not be found out by a run ({' '.join(found.split())[:200]}); "
            "convert the model with fixed sizes"
        )
    return dict(found)


def record(task: _Task, _: Callable[[object], None]) -> Shapes | str:
    """In the child: run the model on zeros, and return the shapes of its tensors, or say why that failed."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        interpreter = Interpreter(
            task.path,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        for place, shape in task.inputs.items():
            interpreter.resize_tensor_input(place, list(shape))
        interpreter.allocate_tensors()
        for about in interpreter.get_input_details():
            interpreter.set_tensor(about["index"], np.zeros(about["shape"], about["dtype"]))
        interpreter.invoke()
        return {
            (number, about["index"]): tuple(int(size) for size in about["shape"])
            for number in range(task.subgraphs)
            for about in interpreter.get_tensor_details(subgraph_index=number)
        }
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)
