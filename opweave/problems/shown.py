"""What users can look at: objects that plot, tabulate and explain themselves, through adapters they do not import."""

from __future__ import annotations

import html
import importlib
import inspect
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

from pydantic import BaseModel, Field, PrivateAttr
from pydantic._internal._model_construction import ModelMetaclass

from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


KEPT = {"model_copy", "model_dump", "model_dump_json", "model_validate", "model_validate_json"}
"""Members of pydantic's base class that users of opweave need."""

_CLUTTER = frozenset(dir(BaseModel)) - KEPT

MOST_ENTRIES, MOST_LETTERS = 4, 60
"""Most entries of a container and most letters of a text that a ``repr`` shows."""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, PrivateAttr))
class LeanMeta(ModelMetaclass):
    """The class of opweave's data classes. It changes only what ``dir``, ``help`` and ``inspect.signature`` show."""

    def __dir__(cls) -> list[str]:  # noqa: N805  (a metaclass)
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _CLUTTER]

    if not TYPE_CHECKING:  # type checkers write the signature by themselves

        @property
        def __signature__(cls) -> inspect.Signature:  # noqa: N805
            """The fields with their types as they are written in the source; those that need no name stand first."""
            written: dict[str, Any] = {}
            for base in reversed(cls.__mro__):
                written |= inspect.get_annotations(base)
            empty = inspect.Parameter.empty
            first = cls.positional() if hasattr(cls, "positional") else ()
            ordered = {name: cls.model_fields[name] for name in (*first, *cls.model_fields)}
            return inspect.Signature(
                inspect.Parameter(
                    name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD if name in first else inspect.Parameter.KEYWORD_ONLY,
                    default=empty if field.is_required() else Bare(brief(field.get_default())),
                    annotation=Bare(_OR_NONE.sub(r"\1\2 | None", str(written[name]))) if name in written else empty,
                )
                for name, field in ordered.items()
                if name != "schema_version"
            )

        @__signature__.setter
        def __signature__(cls, _pydantics: object) -> None:  # noqa: N805
            """Leave out the one that pydantic makes."""


_OR_NONE = re.compile(r"(\w+)OrNone(\[\w+\])?")
"""Types of fields whose names say that None may be given (:mod:`~opweave.problems.spec`)."""


class Bare(str):
    """A text whose ``repr`` is the text itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def brief(value: object) -> str:
    """Write a value with few entries and letters.

    Examples
    --------
    >>> brief(tuple(range(1000))), brief({"a": (1, 2)})
    ('(0, 1, 2, 3, ... 1,000 in all)', "{'a': (1, 2)}")
    """
    if isinstance(value, str):
        return repr(value) if len(value) <= MOST_LETTERS else f"{value[:MOST_LETTERS]!r}..."
    if isinstance(value, tuple | list):
        shown = [brief(each) for each in value[:MOST_ENTRIES]]
        return f"({_listed(shown, len(value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        pairs = zip(value.items(), range(MOST_ENTRIES), strict=False)
        return f"{{{_listed([f'{brief(key)}: {brief(each)}' for (key, each), _ in pairs], len(value))}}}"
    return repr(value)


def _listed(shown: list[str], count: int) -> str:
    more = [f"... {count:,} in all"] if count > len(shown) else []
    return ", ".join([*shown, *more])


def brief_fields(model: BaseModel, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Names and brief values of a model's fields, without the version of the schema."""
    for name, field in type(model).model_fields.items():
        if name != "schema_version" and name not in without and field.repr:
            yield name, brief(getattr(model, name))


def changed_fields(model: BaseModel, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Those of :func:`brief_fields` whose values are not the defaults."""
    for name, text in brief_fields(model, without=without):
        if getattr(model, name) != type(model).model_fields[name].get_default():
            yield name, text


_SHOWERS: list[str] = []


def shown_by(module: str) -> None:
    """Name the module that shows objects; it is imported when one is shown for the first time.

    Its ``VIEWS`` maps (name of a class, verb) to ``"module:function"``; the function receives the object and the verb's
    arguments. Later modules win.
    """
    _SHOWERS.append(module)


def find_view(name: str, verb: str) -> Callable[..., Any] | None:
    """Find the function that shows objects of a class; None without one."""
    for shower in reversed(_SHOWERS):
        found = importlib.import_module(shower).VIEWS.get((name, verb))
        if found is not None:
            view: Callable[..., Any] = resolve_name(found)
            return view
    return None


class HasHtml:
    """A mixin: notebooks show the object as HTML."""

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return cast("str", self._show("html"))

    def _show(self, verb: str, *arguments: object) -> Any:
        for base in type(self).__mro__:
            found = find_view(base.__name__, verb)
            if found is not None:
                return found(self, *arguments)
        raise InvalidInputError(f"{type(self).__name__} has nothing to show for {verb!r}")


class ShownInNotebooks(HasHtml):
    """A mixin: notebooks show the object as HTML, and it writes itself to a file."""

    def save(self, path: str | Path) -> Path:
        """Write it to a JSON file; return its path."""
        return cast("Path", self._show("save", path))


class Shown(ShownInNotebooks):
    """A mixin: the verbs with which users look at an object.

    What a verb does is looked up by the names of the object's class and its bases, so this layer knows no adapter.
    """

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw a picture; ``path`` also writes it to a file (.png, .svg, .pdf)."""
        return cast("Figure", self._show("plot", path))

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas table; needs pandas (``pip install pandas``)."""
        return cast("DataFrame", self._show("to_pandas"))

    def report(self, folder: str | Path) -> Path:
        """Write a page with tables and pictures into a folder; return its path."""
        return cast("Path", self._show("report", folder))

    def explain(self) -> str:
        """Say in a few sentences what this means."""
        return cast("str", self._show("explain"))


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
        lines = self.cells()
        needed = [max(map(len, column)) for column in zip(*lines, strict=True)]
        room = shutil.get_terminal_size((120, 24)).columns - 2 * (len(needed) - 1)
        most = next((most for most in range(WIDE, NARROW, -1) if sum(min(most, n) for n in needed) <= room), NARROW)
        widths = [min(most, each) for each in needed]
        widths[-1] = min(needed[-1], max(most, room - sum(widths[:-1])))
        return "\n".join("  ".join(map(_cut, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self:
            return "<p>(no rows)</p>"
        head, *rows = (
            "".join(f'<{tag} style="text-align: left">{html.escape(cell)}</{tag}>' for cell in line)
            for tag, line in zip(("th", *("td" for _ in self)), self.cells(), strict=True)
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas table; needs pandas (``pip install pandas``)."""
        return data_frame([_values(row) for row in self])

    def cells(self, *columns: str) -> list[list[str]]:
        """Names of the columns (by default those that are printed) in which any row has something; the rows as text."""
        values = [_values(row) for row in self]
        shown = columns or (getattr(self[0], "columns", tuple(values[0])) if self else ())
        names = [name for name in shown if any(_text(row[name]) != "-" for row in values)]
        return [names, *([_text(row[name]) for name in names] for row in values)]


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
