"""Sizes of open dimensions of an OpenVINO model: OpenVINO infers the shapes, and runs nothing.

It works in a process of its own, with limits on its time and memory. It needs the package ``openvino``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opweave.adapters.dims import filled
from opweave.adapters.files import PathLike, read_bytes
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import Limits
from opweave.solvers.engines.child import ChildLimits, run_in_child

INSTALL = "pip install 'opweave[openvino]'"


@dataclass(frozen=True, slots=True)
class _Task:
    source: str
    target: str
    shapes: Mapping[str, tuple[int, ...]]


def reshaped(
    path: PathLike, opened: Mapping[str, tuple[int, ...]], dims: Mapping[str, int], where: str, limits: Limits
) -> bytes:
    """The XML of a model whose open dimensions have sizes.

    Parameters
    ----------
    path
        The ``.xml`` file.
    opened
        Shapes of the inputs that have open dimensions, -1 for these.
    dims
        Their sizes; see :func:`~opweave.adapters.openvino.read.from_openvino`.
    where
        Name of the file in errors.
    limits
        Caps on the process.

    Raises
    ------
    InvalidInputError
        When a dimension has no size, a size belongs to none, OpenVINO is not installed, or refuses the model.
    """
    shapes = filled(opened, dims, {}, where)
    if not limits.run_seconds or find_spec("openvino") is None:
        why = "the limits forbid it" if not limits.run_seconds else f"it needs a package; to get it: {INSTALL}"
        raise InvalidInputError(f"{where}: OpenVINO infers the shapes of a model with open dimensions, but {why}")
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        target = Path(folder) / "model.xml"
        caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
        task = _Task(str(Path(path).resolve()), str(target), shapes)
        try:
            complaint = run_in_child("OpenVINO", "opweave.adapters.openvino.reshaped:reshape", task, caps)
        except EngineError as error:
            complaint = str(error)
        if complaint is None:
            complaint = f"it took more than {limits.run_seconds:g} s"
        if complaint:
            raise InvalidInputError(
                f"{where}: OpenVINO refuses these sizes ({' '.join(complaint.split())[:200]}); give others, or convert "
                "the model again"
            )
        return read_bytes(target, limits=limits)


def reshape(task: _Task, _: Callable[[object], None]) -> str:
    """In the child: write the model with other input shapes; return what went wrong, if anything."""
    import openvino

    try:
        model = openvino.Core().read_model(task.source)
        wanted = {
            each.output(0): list(task.shapes[each.get_friendly_name()])
            for each in model.get_parameters()
            if each.get_friendly_name() in task.shapes
        }
        model.reshape(wanted)
        openvino.serialize(model, task.target)
    except RuntimeError as error:
        return str(error) or "no reason given"
    return ""
