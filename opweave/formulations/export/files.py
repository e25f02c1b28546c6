"""Programs as LP and MPS files, with names that every solver accepts, and values by name read back.

LP files are in the part of CPLEX's format that all solvers read, MPS files in free format. Columns keep their order,
and numbers all their digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import DEFAULT_LIMITS

LONGEST_NAME = 90
"""Characters of a name in a file; CBC's reader of LP files takes 100, and a number may follow."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_.,()\n]")
_BRACKETS = str.maketrans("[]", "()")
_MISREAD = re.compile(
    r"^(?:|[^A-Za-z_\n].*|e\d.*|(?:st|s\.t\.|subject|such|free|end|bounds?|min|max|minim\w*|maxim\w*|inf|infinity|gen|"
    r"generals?|integers?|int|bin|binary|binaries|semi|sos|range|rhs))$",
    re.IGNORECASE | re.MULTILINE,
)
"""Names that readers of LP files take for nothing, a number or a keyword."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedProgram:
    """A program as it is written to a file.

    Attributes
    ----------
    matrix
        The program; its objective is in the problem's unit.
    columns, rows, objective
        Names for the file; see :func:`file_names`.
    remarks
        Lines of comment for its head.
    """

    matrix: MatrixModel
    columns: Sequence[str]
    rows: Sequence[str]
    objective: str = "objective"
    remarks: Sequence[str] = ()

    def sides(self) -> Iterator[tuple[str, str, float]]:
        """The name of each row, ``"E"``, ``"L"`` or ``"G"``, and its side; no row has two different sides.

        Raises
        ------
        InvalidInputError
            If one has.
        """
        rows = self.matrix.rows
        for name, low, high in zip(self.rows, rows.lower.tolist(), rows.upper.tolist(), strict=True):
            kind = "E" if low == high else "L" if np.isfinite(high) else "G"
            if kind == "L" and np.isfinite(low):
                raise InvalidInputError(f"constraint {name} has two different sides")
            yield name, kind, (low if kind == "G" else high) + 0.0  # no negative zero

    def bounds(self) -> Iterator[tuple[str, float, float]]:
        """The name of each column, and its lower and upper bound."""
        low, high = ((side + 0.0).tolist() for side in (self.matrix.lower, self.matrix.upper))
        return zip(self.columns, low, high, strict=True)


def file_names(names: Iterable[str], taken: dict[str, int]) -> list[str]:
    """Names for a file: letters, digits and ``_.,()``; each is unique, not too long, and no keyword.

    They depend on the names before them alone, so that whoever reads a solution finds the same ones.

    Parameters
    ----------
    names
        The names in the model.
    taken
        The names that the file has already; it is extended.

    Examples
    --------
    >>> file_names(["x[conv/1,gpu 0]", "x[conv:1,gpu 0]", "end", "e4"], {})
    ['x(conv_1,gpu_0)', 'x(conv_1,gpu_0).2', 'n_end', 'n_e4']
    """
    natural = list(names)
    joined = "\n".join(natural)
    if joined.count("\n") >= max(1, len(natural)):
        joined = "\n".join(name.replace("\n", "_") for name in natural)
    joined = _FOREIGN.sub("_", joined.translate(_BRACKETS))
    misread = set(_MISREAD.findall(joined))
    result = joined.split("\n") if natural else []
    for place, name in enumerate(result):
        if name in taken or len(name) > LONGEST_NAME or name in misread:
            result[place] = _free(f"n_{name}" if name in misread else name, taken)
        taken[result[place]] = 1
    return result


def _free(name: str, taken: dict[str, int]) -> str:
    """A name like this one that is not too long and not taken."""
    free = base = name[:LONGEST_NAME]
    while free in taken:
        taken[base] += 1
        free = f"{base}.{taken[base]}"
    return free


ONE = "constant.one"
"""A column that is always 1 and carries the objective's constant, which not all readers of LP files take."""

SIGNS = {"E": "=", "L": "<=", "G": ">="}


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
    yield "General\n" if matrix.whole.any() else ""
    yield from (f" {program.columns[column]}\n" for column in np.flatnonzero(matrix.whole).tolist())
    yield "End\n"


def _side(side: float) -> str:
    return repr(side) if np.isfinite(side) else f"{'+' if side > 0 else '-'}infinity"


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


LINEAR = {".mps": _mps, ".lp": _lp}
"""What writes the lines of a file, by its suffix."""


def write_linear(program: NamedProgram, path: Path) -> None:
    """Write an LP or MPS file; the suffix says which."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(LINEAR[path.suffix](program))


def named_values(names: Sequence[str], values: Mapping[str, float] | str | Path) -> FloatArray:
    """Values by column, NaN for columns without one. Other names are passed over: they may be a user's own.

    Parameters
    ----------
    names
        The columns' names in the model.
    values
        Values by the names in the model or in the files of ``write_model``; or a solution file.

    Raises
    ------
    InvalidInputError
        If no name is a column's, or a value is not a finite number.
    """
    in_files = file_names(names, {})
    known = {name: column for spelt in (names, in_files) for column, name in enumerate(spelt)}
    given = values if isinstance(values, Mapping) else _in_file(Path(values), known)
    result = np.full(len(names), np.nan)
    for name, value in given.items():
        if name not in known:
            continue
        if not np.isfinite(value):
            raise InvalidInputError(f"the value of {name!r} is {value}, which is not a finite number")
        result[known[name]] = value
    if np.isnan(result).all():
        where = "the values hold" if isinstance(values, Mapping) else f"{values} holds"
        example = f", such as {in_files[0]!r}" if in_files else ""
        raise InvalidInputError(f"{where} no value for any variable of this formulation{example}")
    return result


def _in_file(path: Path, known: Mapping[str, int]) -> dict[str, float]:
    """Every line with the name of a column and then a number, as HiGHS, CBC, SCIP and Gurobi write them.

    The first value of a name counts: reduced costs may follow in a section of their own.

    Raises
    ------
    InvalidInputError
        If the file cannot be read.
    """
    try:
        if path.stat().st_size > DEFAULT_LIMITS.file_bytes:
            raise LimitExceededError(f"{path}: larger than {DEFAULT_LIMITS.file_bytes:,} bytes")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: there is no such file; check the name and the folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read as a solution file ({error})") from error
    found: dict[str, float] = {}
    for line in text.splitlines():
        fields = line.split()
        place = next((k for k, field in enumerate(fields[:3]) if field in known), None)
        if place is None or place + 1 == len(fields) or fields[place] in found:
            continue
        try:
            found[fields[place]] = float(fields[place + 1])
        except ValueError:
            continue
    return found
