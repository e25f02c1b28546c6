"""What a ``.tflite`` file says: its subgraphs with tensors and operators. Weights are never read.

The code that the FlatBuffers compiler generates trusts its input: a vector that claims four billion entries is
read until memory ends. Here, a file is trusted in nothing, and only what is asked for is read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

DEEPEST_CALLS = 32
"""Most subgraphs that call one another, each inside the other."""

_LONGEST_TEXT = 1024


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
        ``tensors`` caps what the file lists, operators included, and ``edges`` the numbers in all shapes and lists.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When it is no such file, or damaged or too large.
    """
    if data[4:8] != IDENTIFIER:
        raise InvalidInputError(f"{where}: this is not a TensorFlow Lite model, or it is cut off; download it again")
    file = _File(data, where, {"tensors": limits.tensors, "edges": limits.edges})
    try:
        root = _Table(file, file.number(0, "I"))
        kinds = [_kind(code) for code in root.tables(1)]
        buffers = root.tables(4)
        return [_subgraph(table, kinds, buffers) for table in root.tables(2)]
    except (struct.error, IndexError):
        raise InvalidInputError(
            f"{where}: the model is damaged or cut off, as a position in it leads out of the file; download it again"
        ) from None


def _subgraph(table: _Table, kinds: Sequence[str], buffers: Sequence[_Table]) -> Subgraph:
    tensors = [_tensor(each, buffers) for each in table.tables(0)]
    return Subgraph(
        tensors=tensors,
        operators=[_operator(each, kinds, len(tensors)) for each in table.tables(3)],
        inputs=_present(_positions(table, 1, len(tensors))),
        outputs=_present(_positions(table, 2, len(tensors))),
    )


def _tensor(table: _Table, buffers: Sequence[_Table]) -> TfliteTensor:
    kind, buffer = table.number(1, "b"), table.number(2, "I")
    held = buffers[buffer] if buffer else None
    return TfliteTensor(
        name=table.text(3),
        shape=table.numbers(0),
        dtype=TYPES[kind] if 0 <= kind < len(TYPES) else f"type {kind}",
        # In files over 2 GiB, the data lie behind the tables.
        stored=0 if held is None else held.vector(0)[1] or held.number(2, "Q"),
        signature=table.numbers(7),
        variable=bool(table.number(5, "b")),
    )


def _operator(table: _Table, kinds: Sequence[str], tensors: int) -> TfliteOperator:
    kind, places = kinds[table.number(0, "I")], _positions(table, 1, tensors)
    options = table.table(12 if kind.startswith("STABLEHLO") else 4)
    return TfliteOperator(
        kind=kind,
        inputs=_present(places),
        outputs=_present(_positions(table, 2, tensors)),
        places=places,
        calls=tuple(options.number(field, "i") for field in CALLS.get(kind, ())) if options is not None else (),
        variable=options.text(1) if options is not None and kind == "VAR_HANDLE" else "",
    )


def _kind(code: _Table) -> str:
    """An operator's kind; the first version of the format had one byte for it."""
    number = max(code.number(0, "b"), code.number(3, "i"))
    name = NAMES[number] if 0 <= number < len(NAMES) else f"BUILTIN_{number}"  # newer than the list
    return code.text(1) or name if name == "CUSTOM" else name


def _positions(table: _Table, field: int, tensors: int) -> tuple[int, ...]:
    """Positions of tensors; an optional one that is left out is -1."""
    found = table.numbers(field)
    if not all(-1 <= number < tensors for number in found):
        raise IndexError
    return found


def _present(places: Sequence[int]) -> tuple[int, ...]:
    return tuple(place for place in places if place >= 0)


@dataclass(frozen=True, slots=True)
class _File:
    """The bytes of a file, and how many more entries of vectors may be read from it."""

    data: bytes | mmap.mmap
    where: str
    left: dict[str, int]

    def number(self, place: int, kind: str) -> int:
        """An integer; ``kind`` is its letter for :mod:`struct`."""
        return int(struct.unpack_from(f"<{kind}", self.data, place)[0])

    def numbers(self, place: int, count: int, kind: str, what: str) -> tuple[int, ...]:
        """Consecutive integers of four bytes."""
        self.left[what] -= count
        if self.left[what] < 0:
            raise LimitExceededError(f"{self.where}: over the limit of {what}; raise Limits({what}=...)")
        return struct.unpack_from(f"<{count}{kind}", self.data, place)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of FlatBuffers; fields have numbers, from 0, in the order in which the schema lists them."""

    file: _File
    at: int

    def number(self, field: int, kind: str) -> int:
        """An integer; 0 if there is none."""
        place = self._place(field)
        return self.file.number(place, kind) if place else 0

    def text(self, field: int) -> str:
        """A text, of which only the beginning is read; empty if there is none."""
        begin, size = self.vector(field)
        return self.file.data[begin : begin + min(size, _LONGEST_TEXT)].decode("utf-8", "replace")

    def table(self, field: int) -> _Table | None:
        """A table inside this one."""
        place = self._target(field)
        return _Table(self.file, place) if place else None

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of 32-bit integers."""
        return self.file.numbers(*self.vector(field), "i", "edges")

    def tables(self, field: int) -> list[_Table]:
        """A vector of tables."""
        begin, count = self.vector(field)
        steps = self.file.numbers(begin, count, "I", "tensors")
        return [_Table(self.file, begin + 4 * index + step) for index, step in enumerate(steps)]

    def vector(self, field: int) -> tuple[int, int]:
        """Where the entries of a vector begin, and how many there are."""
        place = self._target(field)
        return (place + 4, self.file.number(place, "I")) if place else (0, 0)

    def _place(self, field: int) -> int:
        """Where a field is, or 0; the table begins with the distance to the list of these."""
        listed, entry = self.at - self.file.number(self.at, "i"), 4 + 2 * field
        known = entry + 2 <= self.file.number(listed, "H")
        distance = self.file.number(listed + entry, "H") if known else 0
        return self.at + distance if distance else 0

    def _target(self, field: int) -> int:
        place = self._place(field)
        return place + self.file.number(place, "I") if place else 0
