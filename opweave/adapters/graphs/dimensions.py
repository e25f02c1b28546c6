"""Sizes for open dimensions of a model's inputs, in formats whose dimensions have no names."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES

Shape = tuple[int, ...]


def filled(
    opened: Mapping[str, Shape], dims: Mapping[str, int], usual: Mapping[str, int], where: str
) -> dict[str, Shape]:
    """The shapes of inputs with the sizes that their open dimensions get.

    Parameters
    ----------
    opened
        Shapes by input, -1 for open dimensions.
    dims
        Sizes of one dimension (``{"x:2": 224}``), of one position of all inputs (``{"*:0": 1}``, the batch), and of all
        others (``{"*": 1}``).
    usual
        Sizes by ``input:position`` of dimensions that ``dims`` leaves open.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        When a dimension has no size, or a size belongs to none.

    Examples
    --------
    >>> filled({"x": (-1, 3, -1)}, {"x:2": 8}, {"x:0": 1}, "example")
    {'x': (1, 3, 8)}
    """
    keys = {
        f"{name}:{position}": (f"*:{position}", "*")
        for name, shape in opened.items()
        for position, size in enumerate(shape)
        if size < 0
    }
    for key, size in dims.items():
        if key not in keys and not any(key in others for others in keys.values()):
            has = f"its open dimensions: {', '.join(keys)}" if keys else "it has no open dimension"
            raise InvalidInputError(f"{where}: there is no dimension {key!r:.80}; {has:.400}")
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_BYTES:
            raise InvalidInputError(f"dims[{key!r:.80}] is {size!r:.40}; it must be a whole number from 1")
    sizes = dict(usual)
    for key, others in keys.items():
        fitting = [dims[word] for word in (key, *others) if word in dims]
        if fitting:
            sizes[key] = fitting[0]
    lacking = [key for key in keys if key not in sizes]
    if lacking:
        raise InvalidInputError(
            f"{where}: the inputs have open dimensions: {', '.join(lacking):.400}; give their sizes as dims, or on the "
            "command line with --dim NAME=SIZE for each"
        )
    return {
        name: tuple(size if size >= 0 else sizes[f"{name}:{position}"] for position, size in enumerate(shape))
        for name, shape in opened.items()
    }
