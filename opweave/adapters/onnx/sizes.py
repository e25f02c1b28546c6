"""Bytes of ONNX tensors and constants, from dims and element types alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES

if TYPE_CHECKING:
    from onnx import NodeProto, SparseTensorProto, TensorProto

_NAMES_BY_BITS = {
    2: "INT2 UINT2",
    4: "FLOAT4E2M1 INT4 UINT4",
    6: "FLOAT6E2M3 FLOAT6E3M2",
    8: "BOOL FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0 INT8 UINT8",
    16: "BFLOAT16 FLOAT16 INT16 UINT16",
    32: "FLOAT INT32 UINT32",
    64: "COMPLEX64 DOUBLE INT64 UINT64",
    128: "COMPLEX128",
    256: "STRING",
}
ELEMENT_BITS = {name: bits for bits, names in _NAMES_BY_BITS.items() for name in names.split()}
"""Bits of one element. Elements smaller than a byte are packed, and the last byte is padded. Of a text, only the object
that holds it is counted, as ONNX Runtime's allocator does."""


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
        A key of :data:`ELEMENT_BITS`.
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
    for position, dim in enumerate(shape):
        if dim < 0:
            raise InvalidInputError(
                f"{what} has dimension {dim} at position {position}; a size is 0 or more, so fix it with "
                "'python -m onnxruntime.tools.make_dynamic_shape_fixed' or export the model again"
            )
    bits = ELEMENT_BITS.get(dtype)
    if bits is None:
        raise InvalidInputError(f"{what} holds elements of {dtype}, which have no fixed size; remove that part")
    size = (math.prod(shape) * bits + 7) // 8
    if size > MAX_BYTES:
        raise InvalidInputError(f"{what} has dimensions {list(shape)}, more than 2**53 bytes; check the model's shapes")
    return Sized(tuple(shape), _dtype(dtype), size)


def _dtype(name: str) -> str:
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


_NAMES = {_dtype(name): name for name in ELEMENT_BITS}
DTYPES = frozenset(_NAMES)
"""Element types of tensors, as :class:`Sized` names them; a sequence has another."""


def element_name(dtype: str) -> str:
    """ONNX's name of an element type.

    Examples
    --------
    >>> element_name("float32")
    'FLOAT'
    """
    return _NAMES[dtype]


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
