"""The signature of a loop: the compiler's types of its arguments, read from the annotations.

``IntArray`` and similar types have one dimension; the matrix and cube types of :mod:`opweave.problems.arrays` have
more. Arrays are contiguous and writable. ``int``, ``float`` and ``bool`` are scalars. A ``NamedTuple`` of all these is
a record.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import numba
import numpy as np
from numba.core import types

from opweave.problems.errors import InvalidInputError

SCALARS = {int: types.int64, float: types.float64, bool: types.boolean}


def signature_of(function: Callable[..., object]) -> tuple[Any, ...]:
    """The types of a function's arguments.

    Raises
    ------
    InvalidInputError
        When an argument has no annotation, or one that compiled loops do not support.

    Examples
    --------
    >>> from opweave.problems.arrays import FloatMatrix
    >>> def scaled(matrix: FloatMatrix, factor: float) -> None: ...
    >>> signature_of(scaled)
    (Array(float64, 2, 'C', False, aligned=True), float64)
    """
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name in inspect.signature(function).parameters:
        try:
            found.append(_type_of(hints[name]))
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"argument {name} of {function.__qualname__}: no type for {error}") from None
    return tuple(found)


def _type_of(hint: Any) -> Any:
    dimensions = 1
    if typing.get_origin(hint) is Annotated:
        hint, dimensions = typing.get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        scalar = typing.get_args(arguments[1])[0]
        return types.Array(numba.from_dtype(np.dtype(scalar)), dimensions, "C")
    if origin is tuple:
        return types.BaseTuple.from_types([_type_of(each) for each in arguments])
    if hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True)
        return types.BaseTuple.from_types([_type_of(fields[name]) for name in hint._fields], hint)
    raise TypeError(hint)
