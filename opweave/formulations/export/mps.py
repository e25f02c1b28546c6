"""A program as a free-format MPS file. Columns keep their order, and numbers all their digits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opweave.formulations.export.named import NamedProgram, chosen, chunks, number_texts, write_chunks


def write_mps(program: NamedProgram, path: Path) -> None:
    """Write the file."""
    write_chunks(path, _parts(program))


def _parts(program: NamedProgram) -> Iterator[str]:
    yield "".join(f"* {line}\n" for line in program.remarks)
    yield f"NAME model\nROWS\n N {program.objective}\n"
    kinds = program.kinds()
    for part in chunks(len(kinds)):
        pairs = zip(kinds[part], program.rows[part], strict=True)
        yield "".join(f" {kind} {row}\n" for kind, row in pairs)
    yield "COLUMNS\n"
    yield from _columns(program)
    yield "RHS\n"
    if program.matrix.offset:
        yield f" rhs {program.objective} {-program.matrix.offset!r}\n"  # readers subtract it
    sides = program.sides()
    for part in chunks(len(sides)):
        pairs = zip(program.rows[part], sides[part].tolist(), strict=True)
        yield "".join(f" rhs {row} {side!r}\n" for row, side in pairs if side)
    yield "BOUNDS\n"
    yield from _bounds(program)
    yield "ENDATA\n"


def _columns(program: NamedProgram) -> Iterator[str]:
    """Entries column by column, the objective's first; runs of integer columns stand between markers."""
    matrix, rows = program.matrix, program.matrix.rows
    count = matrix.columns
    owner = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(rows.start))
    column = np.concatenate([np.arange(count, dtype=np.int32), rows.index])
    order = np.argsort(column, kind="stable")
    column = column[order]
    row = np.concatenate([np.full(count, len(rows), dtype=np.int32), owner])[order]
    value = np.concatenate([matrix.cost, rows.value])[order]
    names = [*program.rows, program.objective]
    turns = np.flatnonzero(np.diff(matrix.whole, prepend=False, append=False))  # where integers begin and end
    places = np.searchsorted(column, turns)
    pieces = np.split(np.arange(len(column)), places)
    for number, piece in enumerate(pieces):
        for part in chunks(len(piece)):
            held = piece[part]
            entries = (chosen(program.columns, column[held]), chosen(names, row[held]), number_texts(value[held]))
            yield "".join([f" {name} {where} {text}\n" for name, where, text in zip(*entries, strict=True)])
        if number < len(turns):
            yield f" m{number} 'MARKER' '{'INTEND' if number % 2 else 'INTORG'}'\n"


def _bounds(program: NamedProgram) -> Iterator[str]:
    lower, upper = program.bounds()
    for part in chunks(len(lower)):
        lines = []
        facts = zip(program.columns[part], lower[part].tolist(), upper[part].tolist(), strict=True)
        for name, low, high in facts:
            if low == -np.inf and high == np.inf:
                lines.append(f" FR bnd {name}\n")
                continue
            lines.append(f" MI bnd {name}\n" if low == -np.inf else f" LO bnd {name} {low!r}\n")
            lines.append(f" PL bnd {name}\n" if high == np.inf else f" UP bnd {name} {high!r}\n")
        yield "".join(lines)
