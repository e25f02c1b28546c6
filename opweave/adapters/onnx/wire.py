"""ONNX files as bytes: large data is left in the file when a model is read, and copied from there when one is written.

A model is a protobuf message. Reading cuts the data of every large tensor out of it, at any depth, and notes the place
in the file instead, so that the parsed model has everything but the weights. Writing puts the data back, file to file.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opweave.adapters.files import Segment, Span, size_of

LARGE_BYTES = 8192
"""Data of more bytes is cut. Shape inference needs only small constants, such as the shape of a Reshape."""

Buffer = bytes | mmap.mmap

_INNER: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""The messages that can contain tensors: field numbers of ``onnx.proto``."""

_DATA_FIELDS = frozenset({4, 5, 7, 9, 10, 11})
"""Fields of a tensor with packed numbers or raw bytes."""

_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Cut:
    """A field of a tensor that was cut out: its number, and its content."""

    field: int
    content: Segment


def varint(number: int) -> bytes:
    """Encode a number.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("a number does not end")


def _fields(data: Buffer, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Field number (0 if it has no length), begin of the field, begin and end of its content."""
    at = begin
    while at < end:
        start = at
        tag, at = _read_varint(data, at, end)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = _read_varint(data, at, end)
            if size > end - at:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, start, at, at + size
            at += size
        elif kind == _VARINT:
            at = _read_varint(data, at, end)[1]
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError("a field of no known type")
    if at != end:
        raise ValueError("a message is cut off")


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _LENGTH) + varint(len(content)) + content


def hollow(data: Buffer, path: Path, token: str) -> tuple[bytes, list[Cut]]:
    """Cut all large data out of a serialised model.

    Parameters
    ----------
    data
        The whole file.
    path
        The file.
    token
        A random word. It marks the tensors that were cut, so that no file can pretend to be one.

    Returns
    -------
    tuple
        The serialised model without that data, and what was cut; a tensor's mark is a number in this list.

    Raises
    ------
    ValueError
        When the file is no message.
    """
    cuts: list[Cut] = []

    def copied(begin: int, end: int, kind: str, depth: int) -> bytes:
        if depth > _DEEPEST:
            raise ValueError("messages are nested too deeply")
        inner, parts, done = _INNER[kind], [], begin
        for number, start, content, stop in _fields(data, begin, end):
            if stop - content <= LARGE_BYTES:
                continue
            if kind == "tensor" and number in _DATA_FIELDS:
                parts += [data[done:start], marked(token, len(cuts))]
                cuts.append(Cut(number, Span(path, content, stop - content)))
            elif number in inner:
                parts += [data[done:start], _field(number, copied(content, stop, inner[number], depth + 1))]
            else:
                continue
            done = stop
        parts.append(data[done:end])
        return b"".join(parts)

    return copied(0, len(data), "model", 0), cuts


def marked(token: str, number: int) -> bytes:
    """The fields of a tensor whose data was cut: an entry of its external data, and its data location."""
    entry = _field(1, token.encode()) + _field(2, str(number).encode())
    return _field(13, entry) + varint(14 << 3) + varint(1)


Refill = Callable[[bytes], Sequence[Segment] | None]
"""Gives the new content of a serialised tensor, or None if it stays as it is."""


def segments(data: bytes, marks: Sequence[bytes], refill: Refill) -> list[Segment]:
    """A serialised model as segments, with new content for the tensors that contain one of the marks."""

    def filled(begin: int, end: int, kind: str) -> list[Segment] | None:
        if all(data.find(mark, begin, end) < 0 for mark in marks):
            return None
        if kind == "tensor":
            changed = refill(data[begin:end])
            return None if changed is None else list(changed)
        inner, done = _INNER[kind], begin
        parts: list[Segment] = []
        for number, start, content, stop in _fields(data, begin, end):
            new = filled(content, stop, inner[number]) if number in inner else None
            if new is not None:
                parts += [data[done:start], varint(number << 3 | _LENGTH) + varint(size_of(new)), *new]
                done = stop
        return [*parts, data[done:end]] if parts else None

    return filled(0, len(data), "model") or [data]


def with_data(content: bytes, cuts: Sequence[Cut]) -> list[Segment]:
    """A serialised tensor with its data."""
    parts: list[Segment] = [content]
    for cut in cuts:
        parts += [varint(cut.field << 3 | _LENGTH) + varint(size_of([cut.content])), cut.content]
    return parts
