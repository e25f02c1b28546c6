"""Writing ONNX models: the weights go from file to file, and never through this process's memory as a whole."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike, Segment, Span, make_folder, size_of, write_segments
from opweave.adapters.onnx.model import OnnxFile
from opweave.adapters.onnx.wire import Cut, segments, with_data
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

LARGEST_PROTOBUF = 2**31 - 1
"""Largest model in bytes that fits into one file; a larger one keeps its weights beside it."""

_PAGE = 4096
_RAW = 9
_SAME_AS_RAW = frozenset({4, 9, 10})
"""Data fields of a tensor whose content is that of raw data: floats, raw data, doubles."""


def save_model(file: OnnxFile, model: ModelProto, out: PathLike) -> Path:
    """Write a model atomically; over 2 GiB, its weights go into ``OUT.data`` beside it.

    Parameters
    ----------
    file
        The file that the model was read from, which still holds the weights. Its permissions are kept.
    model
        The model, or any other with weights of that file.
    out
        Path of the new file.

    Raises
    ------
    InvalidInputError
        When the path cannot be written to, or external data cannot be read.
    """
    path = Path(out)
    make_folder(path.parent)
    mode = permissions(file)
    data = model.SerializeToString()
    marks = [file.token.encode(), b"location"]
    inside = segments(data, marks, lambda tensor: _filled(file, tensor))
    if size_of(inside) <= LARGEST_PROTOBUF:
        write_segments(path, inside, mode=mode)
        return path
    beside = _Beside(file, f"{path.name}.data")
    parts = segments(data, marks, beside.tensor)
    write_segments(path.with_name(beside.name), beside.parts, mode=mode)
    write_segments(path, parts, mode=mode)
    return path


def permissions(file: OnnxFile) -> int | None:
    """The permissions of the file that a model was read from; None for a model in memory."""
    return stat.S_IMODE(file.path.stat().st_mode) if file.path is not None and file.path.is_file() else None


def _filled(file: OnnxFile, content: bytes) -> list[Segment] | None:
    tensor, cuts = _taken(file, content)
    return None if cuts is None else with_data(tensor.SerializeToString(), cuts)


class _Beside:
    """Collects the weights of a model for the file beside it."""

    def __init__(self, file: OnnxFile, name: str) -> None:
        self._file = file
        self.name = name
        self.parts: list[Segment] = []
        self._size = 0

    def tensor(self, content: bytes) -> list[Segment] | None:
        tensor, cuts = _taken(self._file, content)
        if cuts is None:
            return None
        if len(cuts) != 1 or cuts[0].field not in _SAME_AS_RAW:
            return with_data(tensor.SerializeToString(), cuts)
        padding = -self._size % _PAGE  # so that a runtime can map the weights
        size = size_of([cuts[0].content])
        for key, value in (("location", self.name), ("offset", self._size + padding), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = type(tensor).EXTERNAL
        self.parts += [bytes(padding), cuts[0].content]
        self._size += padding + size
        return [tensor.SerializeToString()]


def _taken(file: OnnxFile, content: bytes) -> tuple[TensorProto, list[Cut] | None]:
    """A tensor without its marks, and its data; None if it has its data already."""
    from onnx import TensorProto

    tensor = TensorProto.FromString(content)
    entries = [(entry.key, entry.value) for entry in tensor.external_data]
    cuts = [file.cuts[int(value)] for key, value in entries if key == file.token]
    if not cuts:
        if tensor.data_location != TensorProto.EXTERNAL or file.path is None:
            return tensor, None
        cuts = [Cut(_RAW, external_span(tensor.name, dict(entries), file.path, file.where))]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    return tensor, cuts


def external_span(name: str, entries: dict[str, str], path: Path, where: str) -> Span:
    """Find a tensor's external data, which must lie in a file in or below the model's folder.

    Raises
    ------
    InvalidInputError
        When there is no such data; the message names the file.
    """
    location = entries.get("location", "")
    place = (path.parent / location).resolve()
    what = f"{where}: the external data of {name!r}, {location!r:.80},"
    if not location or not place.is_relative_to(path.parent.resolve()):
        raise InvalidInputError(f"{what} lies outside the model's folder; export the model again")
    if not place.is_file():
        raise InvalidInputError(f"{what} cannot be read; put the data file beside the model")
    size = place.stat().st_size
    try:
        begin = int(entries.get("offset", 0))
        length = int(entries.get("length", size - begin))
    except ValueError:
        raise InvalidInputError(f"{what} has no readable offset and length; export the model again") from None
    if begin < 0 or length < 0 or begin + length > size:
        raise InvalidInputError(f"{what} ends before its weights do; download the data file again")
    return Span(place, begin, length)
