"""What users can look at: objects that plot, tabulate and explain themselves, through adapters they do not import."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

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

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What notebooks show."""
        html: str = self._show("html")
        return html

    def _show(self, verb: str, *arguments: object) -> Any:
        for base in type(self).__mro__:
            found = find_view(base.__name__, verb)
            if found is not None:
                return found(self, *arguments)
        raise InvalidInputError(f"{type(self).__name__} has nothing to show for {verb!r}")


class ShownInNotebooks(HasHtml):
    """A mixin: notebooks show the object as HTML, and it writes itself to a file."""

    __slots__ = ()

    def save(self, path: str | Path) -> Path:
        """Write it to a JSON file; return its path."""
        written: Path = self._show("save", path)
        return written


class Shown(ShownInNotebooks):
    """A mixin: the verbs with which users look at an object.

    What a verb does is looked up by the names of the object's class and its bases, so this layer knows no adapter.
    """

    __slots__ = ()

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw a picture; ``path`` also writes it to a file (.png, .svg, .pdf)."""
        figure: Figure = self._show("plot", path)
        return figure

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas table; needs pandas (``pip install pandas``)."""
        table: DataFrame = self._show("to_pandas")
        return table

    def report(self, folder: str | Path) -> Path:
        """Write a page with tables and pictures into a folder; return its path."""
        page: Path = self._show("report", folder)
        return page

    def explain(self) -> str:
        """Say in a few sentences what this means."""
        words: str = self._show("explain")
        return words
