"""Tables of FlatBuffers, the encoding of ``.tflite`` files, read with every position checked.

The code that the FlatBuffers compiler generates trusts its input: a vector that claims four billion entries is
read until memory ends. Here, a file is trusted in nothing, and only what is asked for is read.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

import numpy as np

_INTEGERS = {"b": 1, "B": 1, "H": 2, "i": 4, "I": 4, "Q": 8}
_SHORTEST_TEXT = 1024


class DamagedError(Exception):
    """A position or a length leads out of the file."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a file; fields have numbers, from 0, in the order in which the schema lists them."""

    data: bytes | mmap.mmap
    at: int

    @classmethod
    def root(cls, data: bytes | mmap.mmap) -> Table:
        """The table with which a file begins."""
        return cls(data, _number(data, 0, "I"))

    def number(self, field: int, kind: str, default: int = 0) -> int:
        """An integer; ``kind`` is its letter for :mod:`struct`."""
        place = self._place(field)
        return default if place is None else _number(self.data, place, kind)

    def text(self, field: int) -> str:
        """A text, of which only the first 1024 bytes are read; empty if there is none."""
        place = self._target(field)
        if place is None:
            return ""
        length = _number(self.data, place, "I")
        return _cut(self.data, place + 4, min(length, _SHORTEST_TEXT)).decode("utf-8", "replace")

    def table(self, field: int) -> Table | None:
        """A table inside this one."""
        place = self._target(field)
        return None if place is None else Table(self.data, place)

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of 32-bit integers."""
        begin, count = self.span(field)
        return tuple(np.frombuffer(_cut(self.data, begin, 4 * count), "<i4").tolist())

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        begin, count = self.span(field)
        steps = np.frombuffer(_cut(self.data, begin, 4 * count), "<u4").tolist()
        return [Table(self.data, begin + 4 * index + step) for index, step in enumerate(steps)]

    def span(self, field: int) -> tuple[int, int]:
        """Where the entries of a vector begin, and how many there are."""
        place = self._target(field)
        return (0, 0) if place is None else (place + 4, _number(self.data, place, "I"))

    def _place(self, field: int) -> int | None:
        """Where a field is; the table begins with the distance to the list of these."""
        listed = self.at - _number(self.data, self.at, "i")
        entry = 4 + 2 * field
        if entry + 2 > _number(self.data, listed, "H"):
            return None
        distance = _number(self.data, listed + entry, "H")
        return self.at + distance if distance else None

    def _target(self, field: int) -> int | None:
        place = self._place(field)
        return None if place is None else place + _number(self.data, place, "I")


def _number(data: bytes | mmap.mmap, place: int, kind: str) -> int:
    if not 0 <= place <= len(data) - _INTEGERS[kind]:
        raise DamagedError
    return int(struct.unpack_from(f"<{kind}", data, place)[0])


def _cut(data: bytes | mmap.mmap, begin: int, size: int) -> bytes:
    if not 0 <= begin <= len(data) - size:
        raise DamagedError
    return data[begin : begin + size]
