"""A matrix model as a free-format MPS file. Columns are x0, x1, ...; rows are r0, r1, ...; the constant is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel


def write_mps(matrix: MatrixModel, path: Path) -> None:
    """Write the file. Numbers keep all their digits."""
    lines = ["NAME model", "ROWS", " N cost"]
    lines += [f" {kind} r{r}" for r, kind in enumerate(_kinds(matrix))]
    lines += ["COLUMNS", *_columns(matrix), "RHS"]
    sides = np.where(np.isfinite(matrix.rows.upper), matrix.rows.upper, matrix.rows.lower)
    lines += [f" rhs r{r} {side!r}" for r, side in enumerate(sides.tolist()) if side]
    lines += ["BOUNDS", *_bounds(matrix), "ENDATA", ""]
    path.write_text("\n".join(lines), encoding="ascii")


def _kinds(matrix: MatrixModel) -> list[str]:
    """E, L or G for each row; compiled models have no rows with two different sides."""
    lower, upper = matrix.rows.lower, matrix.rows.upper
    if (np.isfinite(lower) & np.isfinite(upper) & (lower != upper)).any():
        raise ValueError("a row has two different sides")
    kinds: list[str] = np.where(lower == upper, "E", np.where(np.isfinite(upper), "L", "G")).tolist()
    return kinds


def _columns(matrix: MatrixModel) -> list[str]:
    """Entries column by column, with integer columns between markers."""
    rows = matrix.rows
    order = np.argsort(rows.index, kind="stable")
    row = np.repeat(np.arange(len(rows)), np.diff(rows.start))[order].tolist()
    value = rows.value[order].tolist()
    start = np.concatenate([[0], np.cumsum(np.bincount(rows.index, minlength=matrix.columns))]).tolist()
    cost = matrix.cost.tolist()

    def entries(columns: list[int]) -> list[str]:
        lines: list[str] = []
        for k in columns:
            lines.append(f" x{k} cost {cost[k]!r}")
            lines += [f" x{k} r{row[e]} {value[e]!r}" for e in range(start[k], start[k + 1])]
        return lines

    return [
        *entries(np.flatnonzero(~matrix.whole).tolist()),
        " marker 'MARKER' 'INTORG'",
        *entries(np.flatnonzero(matrix.whole).tolist()),
        " marker 'MARKER' 'INTEND'",
    ]


def _bounds(matrix: MatrixModel) -> list[str]:
    lines = []
    for k, (low, high) in enumerate(zip(matrix.lower.tolist(), matrix.upper.tolist(), strict=True)):
        if low == -np.inf and high == np.inf:
            lines.append(f" FR bnd x{k}")
            continue
        lines.append(f" MI bnd x{k}" if low == -np.inf else f" LO bnd x{k} {low!r}")
        lines.append(f" PL bnd x{k}" if high == np.inf else f" UP bnd x{k} {high!r}")
    return lines
