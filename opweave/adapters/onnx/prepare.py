"""An ONNX model with the size of every value: by its operators' rules, and where these do not say, by one run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.files import PathLike
from opweave.adapters.graphs.dims import OpenDimension, advice
from opweave.adapters.onnx.dims import guesses, open_dimensions, sizes_of_inputs
from opweave.adapters.onnx.model import KINDS, OnnxFile, Shaped, complete, read_model, reads_of, title
from opweave.adapters.onnx.sizes import (
    SEQUENCE,
    Sized,
    constant_size,
    element_type,
    initializer_size,
    sized,
    sparse_size,
)
from opweave.problems.errors import EngineError, InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TypeProto

Inputs = Mapping[str, Any]
"""Example inputs by name: arrays, or lists of arrays for sequences."""


TRIED_SECONDS = 2.0
"""Time for reading a model and running it with the sizes that a refusal may advise, all together."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that can be planned.

    Attributes
    ----------
    file
        The file.
    shaped
        The model, flat and sorted, with the types that follow from its operators' rules.
    constants
        Sizes of initialisers and of the values of Constant nodes.
    measured
        Sizes of the values that depend on other values, from a run.
    inputs, limits
        What such a run gets, and its caps.
    """

    file: OnnxFile
    shaped: Shaped
    constants: Mapping[str, Sized]
    measured: Mapping[str, Sized]
    inputs: Inputs
    limits: Limits

    @property
    def graph(self) -> GraphProto:
        """The model's graph."""
        return self.shaped.model.graph

    def size(self, name: str, maker: str) -> Sized:
        """Size of a value.

        Raises
        ------
        InvalidInputError
            When it is unknown, or none.
        """
        if name in self.measured:
            return self.measured[name]
        return tensor_size(name, self.shaped.types.get(name), maker, self.file.where)


def prepare(model: PathLike | ModelProto, dims: Mapping[str, int], inputs: Inputs | None, limits: Limits) -> Prepared:
    """Read a model and find the size of every value.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    dims
        Sizes of open dimensions.
    inputs
        Example inputs, whose values decide where shapes depend on values; zeros for others.
    limits
        Caps on the file, the graph and the run.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, where, and what to do.
    """
    file, found = shape(model, dims, inputs, limits)
    return measure(file, found, inputs, limits)


def shape(
    model: PathLike | ModelProto, dims: Mapping[str, int], inputs: Inputs | None, limits: Limits
) -> tuple[OnnxFile, Shaped]:
    """The first half of :func:`prepare`: everything that holds for all values of the inputs."""
    end, file = time.monotonic() + TRIED_SECONDS, read_model(model, limits)
    from opweave.adapters.onnx.shapes import shaped

    sizes = sizes_of_inputs(file.proto.graph, _arrays(inputs), file.where)
    found = shaped(file, sizes | dict(dims), limits)
    dims_left = open_dimensions(found.model.graph)
    if dims_left:
        raise advice(dims_left, file.where, _tried(dims_left, file, found.model, inputs, limits, end))
    return file, found


def _tried(
    left: Sequence[OpenDimension], file: OnnxFile, model: ModelProto, inputs: Inputs | None, limits: Limits, end: float
) -> dict[str, int] | None:
    """Sizes with which a model loads and runs; None if none is found until ``end``."""
    for sizes in guesses(left):
        seconds = min(limits.run_seconds, end - time.monotonic())
        if seconds < 0.0:
            break
        if _fits(file, model, sizes, inputs, dataclasses.replace(limits, run_seconds=seconds)):
            return sizes if time.monotonic() < end else None
    return None


def _fits(file: OnnxFile, model: ModelProto, dims: Mapping[str, int], inputs: Inputs | None, limits: Limits) -> bool:
    """Whether a model loads and runs with these sizes; it is run only if its shapes fit together."""
    from opweave.adapters.onnx.shapes import shaped

    copy = type(model)()
    copy.CopyFrom(model)
    tried = dataclasses.replace(file, proto=copy)
    try:
        found = shaped(tried, dims, dataclasses.replace(limits, run_seconds=0.0))
    except (InvalidInputError, LimitExceededError):
        return False
    windowed = [
        name for node in found.model.graph.node if node.op_type in KINDS.names("windowed") for name in node.output
    ]
    kinds = [found.types[name] for name in windowed if name in found.types]
    sizes = [dim.dim_value for kind in kinds if complete(kind) for dim in kind.tensor_type.shape.dim]
    if found.conflicts or min(sizes, default=1) < 1:
        return False
    try:
        measure(tried, found, inputs, limits)
    except InvalidInputError:
        return False
    from opweave.adapters.onnx.measured import is_refused

    return not is_refused(tried, found.model, _arrays(inputs), limits)


def measure(file: OnnxFile, found: Shaped, inputs: Inputs | None, limits: Limits) -> Prepared:
    """The second half of :func:`prepare`: the sizes that depend on the inputs' values."""
    from opweave.adapters.onnx.measured import bytes_of
    from opweave.adapters.onnx.shapes import with_values

    given, known = _arrays(inputs), dict[str, Sized]()
    if given:
        types = with_values(found, given).types
        for name, kind in types.items():
            if complete(kind) and not complete(found.types.get(name)):
                known[name] = tensor_size(name, kind, "a node", file.where)
    for value in found.model.graph.input:
        if value.name in given and not value.type.HasField("tensor_type"):
            known[value.name] = Sized((), SEQUENCE, bytes_of(given[value.name]))
    constants = constants_of(found.model.graph, file.where)
    known |= _measured(file, found, known, given, limits)
    return Prepared(file, found, constants, known, given, limits)


def _arrays(inputs: Inputs | None) -> dict[str, Any]:
    """Numbers and arrays as arrays; other values, such as lists of arrays, as they are."""
    found = dict[str, Any](inputs or {})
    for name, value in found.items():
        if isinstance(value, np.ndarray | np.generic | int | float):
            found[name] = np.asarray(value)
    return found


def constants_of(graph: GraphProto, where: str) -> dict[str, Sized]:
    """Size the constants of a graph: initialisers, and the values of Constant nodes."""
    found = {each.name: initializer_size(each, f"{where}: initializer {each.name!r}") for each in graph.initializer}
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        found[name] = sparse_size(sparse, f"{where}: sparse initializer {name!r}")
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            found[node.output[0]] = constant_size(node, f"{where}: {title(node)}")
    return found


def _measured(
    file: OnnxFile, found: Shaped, known: Mapping[str, Sized], given: Inputs, limits: Limits
) -> dict[str, Sized]:
    """Run the model if the size of a value that matters is unknown."""
    graph = found.model.graph
    read = {name for node in graph.node for name in reads_of(node)} | {value.name for value in graph.output}
    lacking = {
        name: title(node)
        for node in graph.node
        for name in node.output
        if name in read and (title(node) in found.conflicts or not (name in known or complete(found.types.get(name))))
    }
    if not lacking:
        return {}
    from opweave.adapters.onnx.measured import measured

    try:
        return measured(file, found.model, list(lacking), given, limits)
    except (EngineError, InvalidInputError) as error:
        raise InvalidInputError(f"{_complaint(file.where, found, lacking)}; {_after(error)}") from None


def _complaint(where: str, found: Shaped, lacking: Mapping[str, str]) -> str:
    if found.conflicts:
        maker, reason = next(iter(found.conflicts.items()))
        return f"{where}: the shapes do not fit together at {maker} ({reason})"
    name, maker = next(iter(lacking.items()))
    return f"{where}: {maker} makes {name!r} {_lack(found.types.get(name))}"


def _lack(kind: TypeProto | None) -> str:
    if kind is None or kind.WhichOneof("value") is None:
        return "of unknown shape"
    if not kind.HasField("tensor_type"):
        return "of unknown size, as it is not a tensor"
    if not kind.tensor_type.elem_type or not kind.tensor_type.HasField("shape"):
        return "of unknown shape or type"
    return "with an open dimension, which depends on the values of the inputs"


def _after(error: Exception) -> str:
    if isinstance(error, InvalidInputError):
        return f"a run would measure it, but {error}"
    return (
        f"a run with zeros could not measure it ({str(error)[:200]}); pass example inputs with inputs={{name: array}}, "
        "or correct the model"
    )


def tensor_size(name: str, kind: TypeProto | None, maker: str, where: str) -> Sized:
    """Size of a value, from its type.

    Raises
    ------
    InvalidInputError
        When the type, the shape or a dimension is unknown.
    """
    if kind is None or not complete(kind):
        raise InvalidInputError(f"{where}: {maker} makes {name!r} {_lack(kind)}; export the model with fixed shapes")
    shape = [int(dim.dim_value) for dim in kind.tensor_type.shape.dim]
    return sized(shape, element_type(kind.tensor_type.elem_type), f"{where}: {maker}, tensor {name!r},")


def with_types(found: Shaped) -> ModelProto:
    """The model with all known types written into it, so that a runtime knows every shape before it runs."""
    from onnx import ValueInfoProto

    copy = type(found.model)()
    copy.CopyFrom(found.model)
    graph = copy.graph
    for value in graph.output:
        if complete(found.types.get(value.name)):
            value.type.CopyFrom(found.types[value.name])
    outside = {value.name for value in (*graph.input, *graph.output)}
    made = dict.fromkeys(name for node in graph.node for name in node.output if name and name not in outside)
    known = {name: found.types[name] for name in made if complete(found.types.get(name))}
    others = [value for value in graph.value_info if value.name not in known]
    values = [*others, *(ValueInfoProto(name=name, type=kind) for name, kind in known.items())]
    replaced = type(graph)(value_info=values).value_info
    del graph.value_info[:]
    graph.value_info.extend(replaced)
    return copy
