"""A program with names that every file format and solver accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.errors import InvalidInputError

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
                raise InvalidInputError(f"row {name} has two different sides")
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
