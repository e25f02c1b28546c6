"""The array types that all layers share.

A type checker sees each of them as its ``NDArray``. The annotation states the number of dimensions, which is one if no
number is given. It informs readers and the compiler of the loops, which takes argument types from annotations.
"""

from __future__ import annotations

from typing import Annotated

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

NO_LIMIT = np.iinfo(np.int64).max
"""Capacity of a device whose memory is unlimited."""
