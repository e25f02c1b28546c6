"""A program as an LP file, in the part of CPLEX's format that all solvers read. Numbers keep all their digits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opweave.formulations.export.named import NamedProgram, chosen, chunks, number_texts, write_chunks
from opweave.problems.arrays import BoolArray, FloatArray, IntArray

TERMS_ON_A_LINE = 4
"""Some readers take lines of at most 560 characters."""

ONE = "constant.one"
"""A column that is always 1 and carries the objective's constant, which not all readers take as a number."""

SIGNS = {"E": "=", "L": "<=", "G": ">="}


def write_lp(program: NamedProgram, path: Path) -> None:
    """Write the file."""
    write_chunks(path, _parts(program))


def _parts(program: NamedProgram) -> Iterator[str]:
    matrix = program.matrix
    yield "".join(f"\\ {line}\n" for line in program.remarks)
    yield f"Minimize\n {program.objective}:"
    costly = np.flatnonzero(matrix.cost)
    for part in chunks(len(costly)):
        yield "".join(_terms(program, costly[part], matrix.cost[costly[part]], np.arange(len(costly[part]))))
    yield f" {matrix.offset:+} {ONE}\n" if matrix.offset else "\n"
    yield "Subject To\n"
    yield from _rows(program)
    yield f"Bounds\n {ONE} = 1\n" if matrix.offset else "Bounds\n"
    yield from _bounds(program)
    binary = matrix.whole & (matrix.lower == 0.0) & (matrix.upper == 1.0)
    yield from _listed(program, "Binary", binary)
    yield from _listed(program, "General", matrix.whole & ~binary)
    yield "End\n"


def _terms(program: NamedProgram, columns: IntArray, values: FloatArray, places: IntArray) -> list[str]:
    """Terms with signs; ``places`` counts the terms of each row, for line breaks."""
    ends = ["\n" if place % TERMS_ON_A_LINE == TERMS_ON_A_LINE - 1 else "" for place in places.tolist()]
    signed = zip(number_texts(values), chosen(program.columns, columns), ends, strict=True)
    return [f" {'' if text[0] == '-' else '+'}{text} {name}{end}" for text, name, end in signed]


def _rows(program: NamedProgram) -> Iterator[str]:
    rows, kinds, sides = program.matrix.rows, program.kinds(), program.sides().tolist()
    for part in chunks(len(rows)):
        starts = rows.start[part.start : part.stop + 1]
        held = slice(int(starts[0]), int(starts[-1]))
        places = np.arange(held.start, held.stop) - np.repeat(starts[:-1], np.diff(starts))
        terms = _terms(program, rows.index[held].astype(np.int64), rows.value[held], places)
        begins = (starts - starts[0]).tolist()
        lines = []
        for place, row in enumerate(range(part.start, part.stop)):
            sums = "".join(terms[begins[place] : begins[place + 1]])
            lines.append(f" {program.rows[row]}:{sums} {SIGNS[kinds[row]]} {sides[row]!r}\n")
        yield "".join(lines)


def _bounds(program: NamedProgram) -> Iterator[str]:
    """Both bounds of every column; so columns without rows are in the file, too."""
    lower, upper = program.bounds()
    for part in chunks(len(lower)):
        facts = zip(program.columns[part], lower[part].tolist(), upper[part].tolist(), strict=True)
        yield "".join(
            f" {name} free\n" if low == -np.inf and high == np.inf else f" {_text(low)} <= {name} <= {_text(high)}\n"
            for name, low, high in facts
        )


def _text(side: float) -> str:
    return repr(side) if np.isfinite(side) else f"{'+' if side > 0 else '-'}infinity"


def _listed(program: NamedProgram, section: str, members: BoolArray) -> Iterator[str]:
    columns = np.flatnonzero(members)
    if len(columns):
        yield f"{section}\n"
    for part in chunks(len(columns)):
        yield "".join(f" {name}\n" for name in chosen(program.columns, columns[part]))
