"""Names for arrays of more than one dimension.

For a type checker each is what ``NDArray`` says. The number of dimensions is there for readers, and for the compiler of
loops, which reads the types of a loop's arguments from its annotations.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

BoolMatrix = Annotated[NDArray[np.bool_], 2]
IntMatrix = Annotated[NDArray[np.int64], 2]
IntCube = Annotated[NDArray[np.int64], 3]
WordMatrix = Annotated[NDArray[np.uint64], 2]
FloatMatrix = Annotated[NDArray[np.float64], 2]
FloatCube = Annotated[NDArray[np.float64], 3]
