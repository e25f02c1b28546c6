"""Bytes of ONNX tensors and constants, from dims and element types alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.assemble import packed_bytes
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    from onnx import NodeProto, SparseTensorProto, TensorProto

_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

SEQUENCE = "sequence"
"""Type of what is no tensor, such as a list of tensors."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Shape, element type and bytes of a tensor or constant."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int


def element_type(number: int) -> str:
    """Name of an ONNX element type; "type 99" for a type that this version of onnx does not have."""
    from onnx import TensorProto

    try:
        return str(TensorProto.DataType.Name(number))
    except ValueError:
        return f"type {number}"


def sized(shape: Sequence[int], dtype: str, what: str) -> Sized:
    """Count the bytes of a tensor.

    Parameters
    ----------
    shape
        The dimensions, all known; 0 is legal.
    dtype
        ONNX's name of the element type.
    what
        Name of the tensor in errors, file first.

    Raises
    ------
    InvalidInputError
        For a negative dimension, an element type without a fixed size, or more than 2**53 bytes.

    Examples
    --------
    >>> sized([3, 5], "INT4", "example").bytes
    8
    """
    return Sized(tuple(shape), _DTYPES.get(dtype, dtype.lower()), packed_bytes(shape, dtype, what))


def element_name(dtype: str) -> str:
    """ONNX's name of an element type.

    Examples
    --------
    >>> element_name("float32")
    'FLOAT'
    """
    return _NAMES.get(dtype, dtype.upper())


def initializer_size(tensor: TensorProto, what: str) -> Sized:
    """Size of a constant, from its dims and type; its data, inside or outside the file, is not read.

    Raises
    ------
    InvalidInputError
        As for :func:`sized`.
    """
    dtype = element_type(tensor.data_type)
    if dtype == "STRING":
        return Sized(tuple(tensor.dims), "string", sum(len(text) for text in tensor.string_data))
    return sized(list(tensor.dims), dtype, what)


def sparse_size(tensor: SparseTensorProto, what: str) -> Sized:
    """Size of a sparse constant, the sum of its values and indices.

    Raises
    ------
    InvalidInputError
        As for :func:`sized`.
    """
    values = initializer_size(tensor.values, what)
    indices = initializer_size(tensor.indices, what)
    return Sized(tuple(tensor.dims), values.dtype, values.bytes + indices.bytes)


def constant_size(node: NodeProto, what: str) -> Sized:
    """Size of the value of a Constant node.

    Raises
    ------
    InvalidInputError
        When the node has no known value, or as for :func:`sized`.
    """
    for given in node.attribute:
        if given.name == "value":
            return initializer_size(given.t, what)
        if given.name == "sparse_value":
            return sparse_size(given.sparse_tensor, what)
        kind = given.name.removeprefix("value_")
        texts = list(given.strings) or [given.s]
        if kind in ("string", "strings"):
            return Sized((len(texts),) * (kind == "strings"), "string", sum(map(len, texts)))
        if kind in ("float", "floats", "int", "ints"):
            dtype = "FLOAT" if kind.startswith("float") else "INT64"
            return sized([len(given.floats) + len(given.ints)] * kind.endswith("s"), dtype, what)
    raise InvalidInputError(f"{what} is a Constant node without a value; export the model again")
