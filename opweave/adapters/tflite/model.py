"""What a ``.tflite`` file says: its subgraphs with tensors and operators. Weights are never read.

The code that the FlatBuffers compiler generates trusts its input: a vector that claims four billion entries is
read until memory ends. Here, a file is trusted in nothing, and only what is asked for is read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.adapters.graphs.kinds import FrameworkKinds
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

KINDS = FrameworkKinds(__file__)

NAMES, TYPES = (tuple(KINDS.table[word].split()) for word in ("kinds", "types"))
"""Builtin operators, and element types, by number."""

CALLS: Mapping[str, Sequence[int]] = KINDS.table["calls"]
"""Operators that run other subgraphs, and the fields of their options that name these."""

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of every file."""

_INTEGERS = {"b": 1, "B": 1, "H": 2, "i": 4, "I": 4, "Q": 8}
_SHORTEST_TEXT = 1024


@dataclass(frozen=True, slots=True)
class TfliteTensor:
    """A tensor.

    Attributes
    ----------
    name, shape, dtype
        As the file states them. For an open dimension, that is the size for which the model was converted, mostly 1.
    stored
        Bytes of its value in the file; 0 for a tensor that is no constant.
    signature
        The shape with -1 for open dimensions; empty if there are none.
    variable
        Whether it keeps its value between runs.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    stored: int
    signature: tuple[int, ...]
    variable: bool


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """An operator; ``inputs`` and ``outputs`` are positions of tensors, without optional ones that are left out.

    ``places`` are the inputs with -1 for those; ``calls`` are the subgraphs that it runs; ``variable`` names what it
    makes a handle of.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    places: tuple[int, ...]
    calls: tuple[int, ...]
    variable: str


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph; the first of a file is the model, others are branches, bodies of loops, or further entry points."""

    name: str
    tensors: Sequence[TfliteTensor]
    operators: Sequence[TfliteOperator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_subgraphs(data: bytes | mmap.mmap, where: str, limits: Limits) -> list[Subgraph]:
    """Read the subgraphs of a file.

    Parameters
    ----------
    data
        The file.
    where
        Its name in errors.
    limits
        ``operators``, ``tensors`` and ``edges`` cap all subgraphs together.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When it is no such file, or damaged or too large.
    """
    if data[4:8] != IDENTIFIER:
        raise InvalidInputError(f"{where}: this is no TensorFlow Lite model, or it is cut off; download it again")
    try:
        return _Reader(data, where, limits).subgraphs()
    except DamagedError:
        raise InvalidInputError(
            f"{where}: the model is damaged or cut off, as a position in it leads out of the file; download it again"
        ) from None


class _Reader:
    def __init__(self, data: bytes | mmap.mmap, where: str, limits: Limits) -> None:
        self._root, self._where = Table.root(data), where
        self._left = {"operators": limits.operators, "tensors": limits.tensors, "edges": limits.edges}
        self._caps = dict(self._left)
        self._known: dict[int, TfliteTensor] = {}

    def subgraphs(self) -> list[Subgraph]:
        self._kinds = [_kind(code) for code in self._tables(self._root, 1, "operators")]
        self._buffers = self._tables(self._root, 4, "tensors")
        return [self._subgraph(table) for table in self._tables(self._root, 2, "operators")]

    def _count(self, what: str, number: int) -> None:
        self._left[what] -= number
        if self._left[what] < 0:
            raise LimitExceededError(f"{self._where}: over the limit of {self._caps[what]:,} {what}")

    def _tables(self, table: Table, field: int, what: str) -> list[Table]:
        self._count(what, table.span(field)[1])
        return table.tables(field)

    def _numbers(self, table: Table, field: int, below: int) -> tuple[int, ...]:
        """Positions of tensors; an optional one that is left out is -1."""
        self._count("edges", table.span(field)[1])
        found = table.numbers(field)
        if any(not -1 <= number < below for number in found):
            raise DamagedError
        return found

    def _subgraph(self, table: Table) -> Subgraph:
        tensors = [self._tensor(each) for each in self._tables(table, 0, "tensors")]
        count = len(tensors)
        return Subgraph(
            name=table.text(4),
            tensors=tensors,
            operators=[self._operator(each, count) for each in self._tables(table, 3, "operators")],
            inputs=_present(self._numbers(table, 1, count)),
            outputs=_present(self._numbers(table, 2, count)),
        )

    def _tensor(self, table: Table) -> TfliteTensor:
        if table.at not in self._known:
            number, buffer = table.number(1, "b"), table.number(2, "I")
            if buffer >= max(len(self._buffers), 1):
                raise DamagedError
            self._count("edges", table.span(0)[1] + table.span(7)[1])
            self._known[table.at] = TfliteTensor(
                name=table.text(3),
                shape=table.numbers(0),
                dtype=TYPES[number] if 0 <= number < len(TYPES) else f"type {number}",
                stored=_stored(self._buffers[buffer]) if buffer else 0,
                signature=table.numbers(7),
                variable=bool(table.number(5, "b")),
            )
        return self._known[table.at]

    def _operator(self, table: Table, count: int) -> TfliteOperator:
        code = table.number(0, "I")
        if code >= len(self._kinds):
            raise DamagedError
        kind = self._kinds[code]
        places = self._numbers(table, 1, count)
        named = kind == "VAR_HANDLE"
        options = table.table(12 if kind.startswith("STABLEHLO") else 4) if kind in CALLS or named else None
        return TfliteOperator(
            kind=kind,
            inputs=_present(places),
            outputs=_present(self._numbers(table, 2, count)),
            places=places,
            calls=tuple(options.number(field, "i") for field in CALLS.get(kind, ())) if options is not None else (),
            variable=options.text(1) if options is not None and named else "",
        )


def _kind(code: Table) -> str:
    """An operator's kind; the first version of the format had one byte for it."""
    number = max(code.number(0, "b"), code.number(3, "i"))
    name = NAMES[number] if 0 <= number < len(NAMES) else f"BUILTIN_{number}"  # newer than the list
    return code.text(1) or name if name == "CUSTOM" else name


def _stored(buffer: Table) -> int:
    """Bytes of a buffer; in files over 2 GiB, the data lie behind the tables."""
    return buffer.span(0)[1] or buffer.number(2, "Q")


def _present(places: Sequence[int]) -> tuple[int, ...]:
    return tuple(place for place in places if place >= 0)


class DamagedError(Exception):
    """A position or a length leads out of the file."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of FlatBuffers; fields have numbers, from 0, in the order in which the schema lists them."""

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
