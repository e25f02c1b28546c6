"""Sizes for the dimensions that a Keras model's inputs leave open.

Axes have names (see :mod:`opweave.adapters.dims`): ``"batch"``, and ``"length"``, ``"height"``, ``"width"``,
``"depth"`` by the rank of the input and Keras's image format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.adapters.dims import OpenDimension, advice, given_sizes

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
    found = [
        OpenDimension(tensor.name, position, len(tensor.shape), _axis(position, len(tensor.shape)))
        for tensor in inputs
        for position, size in enumerate(tensor.shape)
        if size is None
    ]
    sizes = given_sizes(found, dims, where)
    left = [dim for dim in found if dim.place not in sizes]
    if left:
        raise advice(left, {dim.key: _USUAL.get(dim.key, 224) for dim in left}, where)
    return [
        tuple(sizes[f"{tensor.name}:{place}"] if size is None else size for place, size in enumerate(tensor.shape))
        for tensor in inputs
    ]


def _axis(position: int, rank: int) -> str:
    """Name of an axis; empty for channels and for axes without a usual name."""
    import keras

    if position == 0:
        return "batch"
    start = 2 if keras.config.image_data_format() == "channels_first" and rank > 3 else 1
    axes = _AXES.get(rank, ())
    return axes[position - start] if 0 <= position - start < len(axes) else ""
