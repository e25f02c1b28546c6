"""Rows of a table: a tuple that prints as a table, shows as one in notebooks, and becomes a pandas table."""

from __future__ import annotations

import html
import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from pandas import DataFrame

RowT_co = TypeVar("RowT_co", covariant=True)

WIDE, NARROW = 40, 10
"""Most characters of a printed cell, with and without room on the line. The last column gets the rest."""


def data_frame(rows: Sequence[Mapping[str, object]], columns: list[str] | None = None) -> DataFrame:
    """Make a pandas table; an error says how to install pandas where it is missing."""
    try:
        import pandas
    except ImportError:
        raise InvalidInputError("a table needs a package; to get it: pip install 'opweave[pandas]'") from None
    return pandas.DataFrame(list(rows), columns=columns)


class Rows(tuple[RowT_co, ...]):
    """A tuple of dataclass instances of one class, or of mappings with the same keys.

    A class of rows may name the fields that are printed in ``columns``; ``to_pandas`` has them all.

    Examples
    --------
    >>> Rows([{"name": "a", "seconds": 1.5}, {"name": "longer", "seconds": None}])
    name    seconds
    a       1.5
    longer  -
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know a tuple's

        def __getitem__(self, key: int | slice) -> object:
            """One row, or some rows that print as a table, too."""
            found = super().__getitem__(key)
            return Rows(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        if not self:
            return "(no rows)"
        names, rows = self._cells()
        lines = [names, *rows]
        needed = [max(len(line[column]) for line in lines) for column in range(len(names))]
        room = shutil.get_terminal_size((120, 24)).columns - 2 * (len(names) - 1)
        most = next(
            (most for most in range(WIDE, NARROW, -1) if sum(min(most, each) for each in needed) <= room), NARROW
        )
        widths = [min(most, each) for each in needed]
        widths[-1] = min(needed[-1], max(most, room - sum(widths[:-1])))
        return "\n".join("  ".join(map(_cut, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self:
            return "<p>(no rows)</p>"
        names, rows = self._cells()
        left = ' style="text-align: left"'
        head = "".join(f"<th{left}>{html.escape(name)}</th>" for name in names)
        lines = ("".join(f"<td{left}>{html.escape(cell)}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas table; needs pandas (``pip install pandas``)."""
        return data_frame([_values(row) for row in self])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Names of the columns in which any row has something, and the rows as text."""
        values = [_values(row) for row in self]
        shown = getattr(self[0], "columns", tuple(values[0]))
        names = [name for name in shown if any(_text(row[name]) != "-" for row in values)]
        return names, [[_text(row[name]) for name in names] for row in values]


def _values(row: object) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    return {field.name: getattr(row, field.name) for field in fields(cast("Any", row))}


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Set):
        return ", ".join(sorted(map(_text, value))) or "-"
    if isinstance(value, Mapping | tuple | list):
        return ", ".join(map(_text, value)) or "-"
    return " ".join(str(value).split())


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 3] + "..."
