"""Sizes that users give to the open dimensions of a model's inputs, in every format.

A size belongs to a key: the place, ``"x:2"`` for position 2 of input ``x``; the dimension's name, such as ``"batch"``,
where it has one; ``"*:0"``, position 0 of every input, the batch in most models; ``"*"``, every other open dimension.
The first of these that fits an open dimension counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of an input without a size; ``symbol`` is its name, or empty."""

    input: str
    position: int
    rank: int
    symbol: str = ""

    @property
    def key(self) -> str:
        """The key by which it gets a size."""
        return self.symbol or self.place

    @property
    def place(self) -> str:
        """Its place, which is also a key."""
        return f"{self.input}:{self.position}"

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that fit, the first one first."""
        return self.place, self.symbol, f"*:{self.position}", "*"


def given_sizes(
    found: Sequence[OpenDimension], dims: Mapping[str, int], where: str, *, names: Collection[str] = (), least: int = 1
) -> dict[str, int]:
    """The sizes that open dimensions get, by place.

    Parameters
    ----------
    found
        The open dimensions.
    dims
        Sizes by key.
    where
        Name of the model in errors.
    names
        Further names of dimensions that may have a size.
    least
        Smallest size.

    Raises
    ------
    InvalidInputError
        For a size that is none, and for a key that fits no dimension.

    Examples
    --------
    >>> given_sizes([OpenDimension("x", 0, 3), OpenDimension("x", 2, 3)], {"x:2": 8, "*": 1}, "example")
    {'x:0': 1, 'x:2': 8}
    """
    known = {*names, "*", *(key for dim in found for key in dim.keys)}
    for key, size in dims.items():
        if key not in known:
            keys = ", ".join(dict.fromkeys([*(dim.key for dim in found), *names]))
            has = f"its open dimensions: {keys}" if keys else "it has no open dimension"
            raise InvalidInputError(f"{where}: there is no dimension {key!r:.80}; {has:.400}")
        if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= MAX_BYTES:
            raise InvalidInputError(
                f"dims[{key!r:.80}] is {size!r:.40}; it must be a whole number from {least} to 2**53"
            )
    fitting = {dim.place: [dims[key] for key in dim.keys if key in dims] for dim in found}
    return {place: sizes[0] for place, sizes in fitting.items() if sizes}


def advice(left: Sequence[OpenDimension], example: Mapping[str, int] | None, where: str) -> InvalidInputError:
    """The refusal of a model with open dimensions; the example has sizes by key with which the shapes fit together."""
    keys = dict.fromkeys(dim.key for dim in left)
    if example is None:
        return InvalidInputError(
            f"{where}: the inputs have open dimensions: {', '.join(keys):.400}; give their sizes as dims, or on the "
            "command line with --dim NAME=SIZE for each"
        )
    python = ", ".join(f'"{key}": {example[key]}' for key in keys)
    words = " ".join(f"--dim {quote(key)}={example[key]}" for key in keys)
    return InvalidInputError(
        f"{where}: the inputs have open dimensions; give their sizes, e.g. dims={{{python}}}, or on the command line "
        f"{words}"
    )


def filled(
    opened: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    usual: Mapping[str, int],
    where: str,
    *,
    symbol: Callable[[int, int], str] | None = None,
    example: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs, -1 for open dimensions, with the sizes that these get.

    Parameters
    ----------
    opened, dims
        The shapes by input, and the sizes by key.
    usual
        Sizes by place for dimensions that get none.
    where
        Name of the model in errors.
    symbol
        The name of a dimension, by its position and the number of dimensions.
    example
        Sizes by key for the example in the error; 224 for those that are not there. Without it, there is no example.

    Raises
    ------
    InvalidInputError
        When a dimension has no size, or a size belongs to none.

    Examples
    --------
    >>> filled({"x": (-1, 3, -1)}, {"x:2": 8}, {"x:0": 1}, "example")
    {'x': (1, 3, 8)}
    """
    found = [
        OpenDimension(name, position, len(shape), symbol(position, len(shape)) if symbol else "")
        for name, shape in opened.items()
        for position, size in enumerate(shape)
        if size < 0
    ]
    sizes = {**usual, **given_sizes(found, dims, where)}
    left = [dim for dim in found if dim.place not in sizes]
    if left:
        sizes_by_key = None if example is None else {dim.key: example.get(dim.key, 224) for dim in left}
        raise advice(left, sizes_by_key, where)
    return {
        name: tuple(size if size >= 0 else sizes[f"{name}:{position}"] for position, size in enumerate(shape))
        for name, shape in opened.items()
    }
