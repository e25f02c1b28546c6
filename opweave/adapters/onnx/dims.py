"""Open dimensions of an ONNX model's inputs, and the sizes that a user gives them.

See :mod:`opweave.adapters.graphs.dims`.

A name that gets a size has it everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.files import PathLike
from opweave.adapters.formats import family_of
from opweave.adapters.graphs.dims import OpenDimension, given_sizes
from opweave.adapters.onnx.model import inner_graphs, read_model, values_of
from opweave.adapters.onnx.sizes import element_type
from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import GraphProto, TensorShapeProto, TypeProto


def open_dimensions(graph: GraphProto) -> list[OpenDimension]:
    """Dimensions of tensor inputs that have no size; a negative size is none."""
    return [
        OpenDimension(value.name, _sizes(shape), position, dim.dim_param, whole)
        for value in graph.input
        if (shape := _shape(value.type)) is not None
        for whole in ["INT" in element_type(value.type.tensor_type.elem_type)]
        for position, dim in enumerate(shape.dim)
        if _is_open(dim)
    ]


def _shape(kind: TypeProto) -> TensorShapeProto | None:
    return kind.tensor_type.shape if kind.HasField("tensor_type") and kind.tensor_type.HasField("shape") else None


def _sizes(shape: TensorShapeProto) -> tuple[int, ...]:
    return tuple(-1 if _is_open(dim) else dim.dim_value for dim in shape.dim)


def _is_open(dim: TensorShapeProto.Dimension) -> bool:
    return not dim.HasField("dim_value") or dim.dim_value < 0


def fix_dimensions(graph: GraphProto, dims: Mapping[str, int], where: str) -> None:
    """Give open dimensions their sizes, in the inputs and wherever else their names occur.

    Raises
    ------
    InvalidInputError
        For a size that is none, and for a key that fits no dimension.
    """
    _give_ranks(graph, dims)
    found, symbols = open_dimensions(graph), _symbols(graph)
    places = given_sizes(found, dims, where, names=symbols, least=0)
    sizes = {name: dims[name] for name in symbols if name in dims}
    for dim in found:
        if dim.symbol and dim.place in places:
            sizes.setdefault(dim.symbol, places[dim.place])
    for value in graph.input:
        shape = _shape(value.type)
        for position, given in enumerate(shape.dim if shape is not None else ()):
            if f"{value.name}:{position}" in places:
                given.dim_value = places[f"{value.name}:{position}"]
    _replace(graph, sizes)


def _give_ranks(graph: GraphProto, dims: Mapping[str, int]) -> None:
    """An input without a shape gets one from the sizes of its positions: ``{"x:0": 1, "x:1": 3}``."""
    for value in graph.input:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            for position in range(len(dims)):
                if f"{value.name}:{position}" not in dims:
                    break
                value.type.tensor_type.shape.dim.add()


def _symbols(graph: GraphProto) -> dict[str, None]:
    return dict.fromkeys(
        dim.dim_param
        for value in values_of(graph)
        if (shape := _shape(value.type)) is not None
        for dim in shape.dim
        if dim.dim_param
    )


def _replace(graph: GraphProto, sizes: Mapping[str, int]) -> None:
    for value in values_of(graph):
        shape = _shape(value.type)
        for dim in shape.dim if shape is not None else ():
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    for node in graph.node:
        for inner in inner_graphs(node):
            _replace(inner, sizes)


def guesses(found: Sequence[OpenDimension]) -> Iterator[dict[str, int]]:
    """Sizes that may do for a model's open dimensions: those that make sense for their kinds, then others."""
    usual = {dim.key: dim.usual for dim in reversed(found)}
    yield usual
    for size in (128, 512, 64, 48, 32, 640, 8):
        yield {key: size if least > 3 else least for key, least in usual.items()}
    yield dict.fromkeys(usual, 1)


def sizes_of_inputs(graph: GraphProto, inputs: Mapping[str, object], where: str) -> dict[str, int]:
    """The sizes that example inputs give to open dimensions.

    Raises
    ------
    InvalidInputError
        When there is no such input, or its array has another shape.
    """
    kinds = {value.name: value.type for value in graph.input}
    found: dict[str, int] = {}
    for name, array in inputs.items():
        if name not in kinds:
            raise InvalidInputError(f"{where}: there is no input {name!r:.80}; there are: {', '.join(kinds)}")
        if not isinstance(array, np.ndarray) or not kinds[name].HasField("tensor_type"):
            continue
        shape = _shape(kinds[name])
        declared = list(shape.dim) if shape is not None else [None] * array.ndim
        if len(declared) != array.ndim:
            raise InvalidInputError(
                f"{where}: input {name!r:.80} has {len(declared)} dimensions; an array with {array.ndim} was passed"
            )
        for position, (dim, size) in enumerate(zip(declared, array.shape, strict=True)):
            if dim is None or _is_open(dim):
                found[f"{name}:{position}"] = size
            elif dim.dim_value != size:
                raise InvalidInputError(
                    f"{where}: input {name!r:.80} has size {dim.dim_value} at position {position}; an array with "
                    f"{size} was passed"
                )
    return found


def sizes_given(model: PathLike, arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, int]:
    """The sizes that example inputs give to the open dimensions of an ONNX file; empty for other models.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the file cannot be read, or an array does not fit its input.
    """
    if not arrays or family_of(model) != "onnx":
        return {}
    file = read_model(model, DEFAULT_LIMITS)
    return sizes_of_inputs(file.proto.graph, arrays, file.where)
