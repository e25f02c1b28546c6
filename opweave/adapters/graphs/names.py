"""Ids that are unique and the same in every run."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Gives out every name once; a name that is already taken gets a number.

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
        """Return ``wanted`` itself, or ``wanted`` with the first free number appended."""
        name = wanted
        count = self._next.get(wanted, 2)
        while name in self._taken:
            name = f"{wanted}_{count}"
            count += 1
        self._next[wanted] = count
        self._taken.add(name)
        return name
