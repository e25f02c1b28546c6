"""The array types that all layers name.

For a type checker each is what ``NDArray`` says. The number of dimensions, one where none is given, is there for
readers, and for the compiler of loops, which reads the types of a loop's arguments from its annotations.
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
