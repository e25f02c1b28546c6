"""Ids that are unique and stay the same from run to run."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Hands out every name once; a name already taken gets a number.

    Examples
    --------
    >>> names = UniqueNames()
    >>> names.take("conv"), names.take("conv"), names.take("conv")
    ('conv', 'conv_2', 'conv_3')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """``wanted`` itself, or with the first free number behind it."""
        name = wanted
        count = self._next.get(wanted, 2)
        while name in self._taken:
            name = f"{wanted}_{count}"
            count += 1
        self._next[wanted] = count
        self._taken.add(name)
        return name
