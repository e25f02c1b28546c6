"""Sizes for the dimensions that a Keras model's inputs leave open.

A size belongs to a key, as for ONNX: ``"image:1"``, position 1 of input ``image``; the name of the axis: ``"batch"``,
and ``"length"``, ``"height"``, ``"width"``, ``"depth"`` by the rank of the input and Keras's image format; ``"*:1"``,
position 1 of every input; ``"*"``, every other open dimension. The first of these that fits counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES

if TYPE_CHECKING:
    import keras

_AXES = {2: ("length",), 3: ("length",), 4: ("height", "width"), 5: ("depth", "height", "width")}
_USUAL = {"batch": 1, "length": 128, "depth": 16}


def closed_shapes(inputs: Sequence[keras.KerasTensor], dims: Mapping[str, int], where: str) -> list[tuple[int, ...]]:
    """Shapes of a model's inputs, with given sizes for open dimensions.

    Raises
    ------
    InvalidInputError
        For a size that is none, a key that fits no dimension, and dimensions that stay open, with an example of all.
    """
    for key, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_BYTES:
            raise InvalidInputError(f"dims[{key!r}] is {size!r}; it must be a whole number from 1")
    used: set[str] = set()
    left: dict[str, int] = {}
    names: dict[str, None] = {}
    shapes = []
    for tensor in inputs:
        shape = list(tensor.shape)
        for position, size in enumerate(shape):
            if size is not None:
                continue
            axis = _axis(position, len(shape)) or f"{tensor.name}:{position}"
            fitting = [key for key in (f"{tensor.name}:{position}", axis, f"*:{position}", "*") if key in dims]
            used |= {f"{tensor.name}:{position}", axis, f"*:{position}", "*"}
            names[axis] = None
            if fitting:
                shape[position] = dims[fitting[0]]
            else:
                left[axis] = _USUAL.get(axis, 224)
        shapes.append(tuple(shape))
    for key in dims:
        if key not in used:
            has = f"its open dimensions: {', '.join(names)}" if names else "it has no open dimension"
            raise InvalidInputError(f"{where}: there is no dimension {key!r}; {has}")
    if left:
        example = ", ".join(f'"{key}": {size}' for key, size in left.items())
        raise InvalidInputError(
            f"{where}: the inputs have open dimensions; give their sizes, for example dims={{{example}}}"
        )
    return shapes


def _axis(position: int, rank: int) -> str:
    """Name of an axis; empty for channels and for axes without a usual name."""
    import keras

    if position == 0:
        return "batch"
    start = 2 if keras.config.image_data_format() == "channels_first" and rank > 3 else 1
    axes = _AXES.get(rank, ())
    return axes[position - start] if 0 <= position - start < len(axes) else ""
