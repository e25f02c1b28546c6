"""Packages that offer functions of their modules, which are imported when one of them is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Write ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package
        Its name.
    homes
        The module of each name that it offers: one of the package, or one of another by its full name.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return getattr(importlib.import_module(home if "." in home else f"{package}.{home}"), name)

    return find, lambda: sorted(homes)
