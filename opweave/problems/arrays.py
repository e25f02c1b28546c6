"""The array types that all layers share.

A type checker sees each of them as its ``NDArray``. The annotation states the number of dimensions, which is one if no
number is given. It informs readers and the compiler of the loops, which takes argument types from annotations.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolMatrix = Annotated[NDArray[np.bool_], 2]
IntMatrix = Annotated[NDArray[np.int64], 2]
IntCube = Annotated[NDArray[np.int64], 3]
WordMatrix = Annotated[NDArray[np.uint64], 2]
FloatMatrix = Annotated[NDArray[np.float64], 2]
FloatCube = Annotated[NDArray[np.float64], 3]

Number = TypeVar("Number", bound="np.number")

NO_LIMIT = np.iinfo(np.int64).max
"""Capacity of a device whose memory is unlimited."""


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The values without repetitions, ascending; unlike ``np.unique``, it imports nothing when it is used first.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    rising = np.sort(values, axis=None)
    first = np.ones(len(rising), dtype=np.bool_)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]
