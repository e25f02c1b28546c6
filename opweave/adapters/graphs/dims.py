"""Sizes that users give to the open dimensions of a model's inputs, in every format.

A size belongs to a key: the place, ``"x:2"`` for position 2 of input ``x``; the dimension's name, such as ``"batch"``,
where it has one; ``"*:0"``, position 0 of every input, the batch in most models; ``"*"``, every other open dimension.
The first of these that fits an open dimension counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES
from opweave.problems.words import did_you_mean

USUAL: Mapping[str, int] = {
    "batch bs": 1,
    "channel channels": 3,
    "height width h w row col": 224,
    "depth": 16,
    "wav wave waveform audio sample sound pcm speech signal": 16_000,
    "seq sequence length len token time frame step t": 128,
}
"""Sizes by the words in the name of a dimension; the first row that has one of them counts."""

SEQUENCE, IMAGE, AUDIO = 128, 224, 16_000
"""Sizes of dimensions without such a name."""

MOST_SHOWN = 3
"""Most inputs whose shapes are shown."""

STATES = frozenset({"h", "c", "hn", "cn", "hidden", "cell", "state", "states"})
"""Words in the names of a recurrent layer's states."""


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of an input without a size.

    Attributes
    ----------
    input, shape, position
        The input, its shape with -1 for open dimensions, and where this one is.
    symbol
        Its name, or empty.
    whole
        Whether the input has whole numbers, such as the words of a text.
    """

    input: str
    shape: tuple[int, ...]
    position: int
    symbol: str = ""
    whole: bool = False

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

    @property
    def usual(self) -> int:
        """A size that makes sense for it: one input, an image, a second of sound or a text.

        Examples
        --------
        >>> [OpenDimension("image", (-1, 3, -1, 96), place).usual for place in (0, 2)]
        [1, 96]
        >>> OpenDimension("x", (1, -1), 1).usual, OpenDimension("input_ids", (1, -1), 1, whole=True).usual
        (16000, 128)
        """
        rank, named = len(self.shape), _named(self.symbol)
        if named is not None:
            return named
        if self.position == 0 < rank - 1 or (self.position == 1 and rank == 3 and self._is_state):
            return 1
        if rank == 4:
            channels, sides = (3, self.shape[1:3]) if self.shape[3] in (1, 3, 4) else (1, self.shape[2:])
            if self.position == channels:
                return 3
            return max((size for size in sides if size > 4), default=IMAGE)
        sound = _named(self.input) == AUDIO or (rank == 2 and not self.whole)
        return AUDIO if sound and self.position == rank - 1 else SEQUENCE

    @property
    def _is_state(self) -> bool:
        """Whether it is the batch of a recurrent layer's state."""
        return self.shape[0] > 1 or not STATES.isdisjoint(_words(self.input))


def _words(name: str) -> set[str]:
    """The words of a name, each also without a plural's s."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    return {*words, *(word.removesuffix("s") for word in words)}


def _named(name: str) -> int | None:
    """The size for a name that has one of the words."""
    words = _words(name)
    return next((size for row, size in USUAL.items() if not words.isdisjoint(row.split())), None)


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
    >>> given_sizes([OpenDimension("x", (-1, 3, -1), place) for place in (0, 2)], {"x:2": 8, "*": 1}, "example")
    {'x:0': 1, 'x:2': 8}
    """
    known = {*names, "*", *(key for dim in found for key in dim.keys)}
    for key, size in dims.items():
        if key not in known:
            keys = ", ".join(dict.fromkeys([*(dim.key for dim in found), *names]))
            has = f"its open dimensions: {keys}" if keys else "it has no open dimension"
            near = did_you_mean(key, known)
            raise InvalidInputError(f"{where}: there is no dimension {key!r:.80}{near}; {has:.400}")
        if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= MAX_BYTES:
            raise InvalidInputError(
                f"dims[{key!r:.80}] is {size!r:.40}; it must be a whole number from {least} to 2**53"
            )
    fitting = {dim.place: [dims[key] for key in dim.keys if key in dims] for dim in found}
    return {place: sizes[0] for place, sizes in fitting.items() if sizes}


def advice(left: Sequence[OpenDimension], where: str, example: Mapping[str, int] | None = None) -> InvalidInputError:
    """The refusal of a model with open dimensions; the example has sizes by key with which the model runs.

    Examples
    --------
    >>> print(advice([OpenDimension("image", (-1, 96), 0)], "m"))  # doctest: +ELLIPSIS
    m: input 'image' (? x 96) has open dimensions; give their sizes, for example dims={"image:0": 1}, ...
    """
    names = {dim.place: dim.symbol or "?" for dim in left}
    said = []
    for name, shape in {dim.input: dim.shape for dim in left}.items():
        sides = ["?" if size < 0 else str(size) for size in shape]
        sides = [names.get(f"{name}:{at}", side) for at, side in enumerate(sides)]
        said.append(f"{name!r:.60} ({' x '.join(sides)})")
    more = f" and {len(said) - MOST_SHOWN:,} more" if len(said) > MOST_SHOWN else ""
    inputs = f"inputs {', '.join(said[:MOST_SHOWN])}{more} have" if len(said) > 1 else f"input {said[0]} has"
    sizes = {dim.key: dim.usual for dim in reversed(left)} if example is None else example
    keys = list(dict.fromkeys(dim.key for dim in left))
    python = ", ".join(f'"{key}": {sizes[key]}' for key in keys)
    words = " ".join(f"--dim {quote(key)}={sizes[key]}" for key in keys)
    return InvalidInputError(
        f"{where}: {inputs} open dimensions; give their sizes, for example dims={{{python}}}, or on the command line "
        f"{words}"
    )


def filled(
    opened: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    usual: Mapping[str, int],
    where: str,
    *,
    symbol: Callable[[int, int], str] | None = None,
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
        OpenDimension(name, tuple(shape), position, symbol(position, len(shape)) if symbol else "")
        for name, shape in opened.items()
        for position, size in enumerate(shape)
        if size < 0
    ]
    sizes = {**usual, **given_sizes(found, dims, where)}
    left = [dim for dim in found if dim.place not in sizes]
    if left:
        raise advice(left, where)
    return {
        name: tuple(size if size >= 0 else sizes[f"{name}:{position}"] for position, size in enumerate(shape))
        for name, shape in opened.items()
    }
