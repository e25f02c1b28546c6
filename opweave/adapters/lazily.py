"""Packages that offer functions of their modules, which are imported when one of them is used."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path

from opweave.problems.errors import InvalidInputError


def lazily(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Write ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from what it imports for type checkers alone.

    Parameters
    ----------
    package, file
        Its name, and the file in which it says ``if TYPE_CHECKING: from MODULE import NAME as NAME``.
    """
    rows = [node for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    homes = {each.name: row.module or "" for row in rows for each in row.names if each.name == each.asname}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(homes[name]), name)
        except ModuleNotFoundError as error:  # a framework, which only its own users have
            raise InvalidInputError(f"{name} needs a package; to get it: pip install {error.name}") from error

    return find, lambda: sorted(homes), sorted(homes)
