"""Programs as LP files, in the part of CPLEX's format that all solvers read, and as MPS files in free format.

Columns keep their order, and numbers all their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opweave.formulations.export.named import NamedProgram
from opweave.problems.arrays import BoolArray

ONE = "constant.one"
"""A column that is always 1 and carries the objective's constant, which not all readers of LP files take."""

SIGNS = {"E": "=", "L": "<=", "G": ">="}


def write_lp(program: NamedProgram, path: Path) -> None:
    """Write an LP file."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(_lp(program))


def write_mps(program: NamedProgram, path: Path) -> None:
    """Write an MPS file."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(_mps(program))


def _lp(program: NamedProgram) -> Iterator[str]:
    """Each term on a line of its own, because some readers take lines of at most 560 characters."""
    matrix, rows = program.matrix, program.matrix.rows
    yield from (f"\\ {line}\n" for line in program.remarks)
    yield f"Minimize\n {program.objective}:\n"
    yield from (f" {cost:+} {name}\n" for cost, name in zip(matrix.cost.tolist(), program.columns, strict=True) if cost)
    yield f" {matrix.offset:+} {ONE}\nSubject To\n" if matrix.offset else "Subject To\n"
    start, index, value = rows.start.tolist(), rows.index.tolist(), rows.value.tolist()
    for row, (name, kind, side) in enumerate(program.sides()):
        yield f" {name}:\n"
        yield from (f" {value[k]:+} {program.columns[index[k]]}\n" for k in range(start[row], start[row + 1]))
        yield f" {SIGNS[kind]} {side!r}\n"
    yield f"Bounds\n {ONE} = 1\n" if matrix.offset else "Bounds\n"
    for name, low, high in program.bounds():
        free = low == -np.inf and high == np.inf
        yield f" {name} free\n" if free else f" {_side(low)} <= {name} <= {_side(high)}\n"
    binary = matrix.whole & (matrix.lower == 0.0) & (matrix.upper == 1.0)
    yield from _listed(program, "Binary", binary)
    yield from _listed(program, "General", matrix.whole & ~binary)
    yield "End\n"


def _side(side: float) -> str:
    return repr(side) if np.isfinite(side) else f"{'+' if side > 0 else '-'}infinity"


def _listed(program: NamedProgram, section: str, members: BoolArray) -> Iterator[str]:
    yield f"{section}\n" if members.any() else ""
    yield from (f" {program.columns[column]}\n" for column in np.flatnonzero(members).tolist())


def _mps(program: NamedProgram) -> Iterator[str]:
    matrix, sides = program.matrix, list(program.sides())
    yield from (f"* {line}\n" for line in program.remarks)
    yield f"NAME model\nROWS\n N {program.objective}\n"
    yield from (f" {kind} {name}\n" for name, kind, _ in sides)
    yield "COLUMNS\n"
    yield from _mps_columns(program)
    yield "RHS\n"
    if matrix.offset:
        yield f" rhs {program.objective} {-matrix.offset!r}\n"  # readers subtract it
    yield from (f" rhs {name} {side!r}\n" for name, _, side in sides if side)
    yield "BOUNDS\n"
    for name, low, high in program.bounds():
        if low == -np.inf and high == np.inf:
            yield f" FR bnd {name}\n"
            continue
        yield f" MI bnd {name}\n" if low == -np.inf else f" LO bnd {name} {low!r}\n"
        yield f" PL bnd {name}\n" if high == np.inf else f" UP bnd {name} {high!r}\n"
    yield "ENDATA\n"


def _mps_columns(program: NamedProgram) -> Iterator[str]:
    """Entries column by column, the objective's first; runs of integer columns stand between markers."""
    matrix, rows = program.matrix, program.matrix.rows
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.start))
    order = np.argsort(rows.index, kind="stable")
    begins = np.searchsorted(rows.index[order], np.arange(matrix.columns + 1)).tolist()
    row, value, whole = owner[order].tolist(), rows.value[order].tolist(), [False, *matrix.whole.tolist(), False]
    for column, (name, cost) in enumerate(zip(program.columns, matrix.cost.tolist(), strict=True)):
        if whole[column + 1] != whole[column]:
            yield f" m{column} 'MARKER' '{'INTEND' if whole[column] else 'INTORG'}'\n"
        yield f" {name} {program.objective} {cost!r}\n"
        yield from (f" {name} {program.rows[row[k]]} {value[k]!r}\n" for k in range(begins[column], begins[column + 1]))
    if whole[-2]:
        yield " last 'MARKER' 'INTEND'\n"
