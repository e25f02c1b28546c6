"""Reading Keras 3 models, on any backend: one operator for each call of a layer, in the order of Keras.

Keras infers every shape for the requested batch size. A layer that is called twice makes two operators with the same
parameters. Nested models are flattened; an operator's module is the path of the model that contains its layer.
Subclassed models are called once on symbols, which makes the weights of layers that have none yet.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from opweave.adapters.error_messages import plain, validated
from opweave.adapters.graphs.in_place import INPLACE_KINDS, runs_in_place
from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.keras.dims import closed_shapes
from opweave.adapters.keras.flops import layer_flops
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import keras

_VIEW_KINDS = """
    ActivityRegularization AlphaDropout Dropout ExpandDims Flatten GaussianDropout GaussianNoise Identity Reshape
    SpatialDropout1D SpatialDropout2D SpatialDropout3D Squeeze
"""
VIEW_KINDS = frozenset(_VIEW_KINDS.split())
"""Layers and operations that pass on the storage of their input in inference."""

_BYTES = {"bfloat16": 2, "bool": 1, "string": 0, "complex64": 8, "complex128": 16}


def from_keras(
    model: keras.Model,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from a functional, sequential or subclassed Keras model.

    * Operators are named after their layers, ``encoder/dense`` in nested models; repeated calls get a number.
    * :data:`VIEW_KINDS` make aliases, as backends do in inference.
    * FLOPs are those of :func:`~opweave.adapters.keras.flops.layer_flops`. A custom layer is one operator.

    Parameters
    ----------
    model
        The model; it is not computed. A subclassed one must have been called once, which says what it takes.
    dims
        Sizes for the dimensions that the inputs leave open, for example ``{"batch": 1, "height": 224, "width": 224}``
        (see :mod:`opweave.adapters.keras.dims`).
    inplace_kinds
        Kinds (class names, full or short) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on the graph's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        For models that cannot be followed and dimensions that stay open; one sentence names the layer.
    """
    builder = _Builder(plain(str(model.name)), dims or {}, inplace_kinds, limits)
    return builder.graph(builder.read(model))


def called_layers(
    model: keras.Model, *, dims: Mapping[str, int] | None = None, limits: Limits = DEFAULT_LIMITS
) -> dict[str, keras.layers.Layer]:
    """List the layer that every operator of :func:`from_keras` calls, by the operator's id.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`from_keras`.
    """
    builder = _Builder(plain(str(model.name)), dims or {}, frozenset(), limits)
    builder.read(model)
    return builder.layers


class _Builder:
    """Walks through models as Keras runs them, with tensors that have shapes but no data."""

    def __init__(self, where: str, dims: Mapping[str, int], inplace_kinds: Set[str], limits: Limits) -> None:
        self._where = where
        self._dims = dims
        self._inplace_kinds = inplace_kinds
        self._limits = limits
        self._operator_names = UniqueNames()
        self._operators: list[Operator] = []
        self._tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}  # of Keras tensors, by identity
        self._kept: list[Any] = []  # so that no identity is used again
        self._parameters: dict[int, Parameter] = {}
        self._parameter_names = UniqueNames()
        self.layers: dict[str, Any] = {}  # by operator

    def read(self, model: keras.Model) -> list[Any]:
        """Walk through the whole model and return its outputs."""
        inner = self.functional(model, model.name)
        shapes = closed_shapes(inner.inputs, self._dims, self._where)
        given = [self.input(tensor, shape) for tensor, shape in zip(inner.inputs, shapes, strict=True)]
        return self.walk(inner, given, "")

    def input(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """Return an input of a closed shape."""
        import keras

        made = keras.KerasTensor(shape, dtype=tensor.dtype, name=tensor.name)
        self._add(made, self._tensor_name(str(tensor.name)), f"input {tensor.name!r}", None)
        return made

    def functional(self, model: Any, path: str, given: tuple[Any, Any] | None = None) -> Any:
        """Return the layer graph of a model; that of a subclassed model is found by calling it on symbols."""
        inner = getattr(model, "_functional", model)
        if inner is None:
            raise InvalidInputError(f"{self._where}: model {path!r} is not built; start it with keras.Input(shape)")
        if hasattr(inner, "_nodes_by_depth"):
            return inner
        args, kwargs = given or self._called_with(model, path)
        if "training" in inspect.signature(model.call).parameters:
            kwargs = {"training": False} | kwargs
        try:
            return _followed(model, args, kwargs)
        except Exception as error:  # the user's code may raise anything
            reason = " ".join(str(error).split())[:160]
            raise InvalidInputError(
                f"{self._where}: model {path!r} cannot be called on symbols ({plain(reason)}), so its layer graph is "
                "unknown; use keras.ops inside; if it takes several inputs, load keras.Model(inputs, model(*inputs))"
            ) from error

    def _called_with(self, model: Any, path: str) -> tuple[Any, Any]:
        """Symbols of the shapes that a subclassed model was built or called with."""
        import keras

        shapes = model.get_build_config() if isinstance(model, keras.Layer) else None
        if not shapes:
            raise InvalidInputError(
                f"{self._where}: model {path!r} was not called yet, so the sizes of its inputs are unknown; call it "
                "once on example inputs, or load keras.Model(inputs, model(*inputs))"
            )
        words = {name.removesuffix("_shape"): shape for name, shape in shapes.get("shapes_dict", {}).items()}
        places = [shapes["input_shape"]] if "input_shape" in shapes else []
        return tuple(keras.tree.map_shape_structure(keras.KerasTensor, (places, words)))

    def walk(self, model: Any, inputs: list[Any], path: str) -> list[Any]:
        """Call every layer of a model once for each of its nodes, and return the model's outputs."""
        values = {id(there): here for there, here in zip(model.inputs, inputs, strict=True)}
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                if node.is_input or any(id(tensor) not in values for tensor in node.input_tensors):
                    continue
                args, kwargs = node.arguments.fill_in(values)
                made = self._call(node.operation, args, kwargs, path)
                values.update((id(there), here) for there, here in zip(node.outputs, made, strict=True))
        return [values[id(tensor)] for tensor in model.outputs]

    def graph(self, outputs: list[Any]) -> OpGraph:
        content: dict[str, object] = {
            "name": self._where,
            "operators": self._operators,
            "tensors": list(self._tensors.values()),
            "parameters": list(self._parameters.values()),
            "outputs": list(dict.fromkeys(self._names[id(tensor)] for tensor in outputs)),
        }
        return validated(OpGraph, content, self._where)

    def _call(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: str) -> list[Any]:
        import keras

        name = f"{path}/{layer.name}" if path else str(layer.name)
        if isinstance(layer, keras.Model):
            inner = self.functional(layer, name, (args, kwargs))
            return self.walk(inner, _leaves((args, kwargs)), name)
        kind = type(layer).__name__
        try:
            result = layer.compute_output_spec(*args, **kwargs)
        except Exception as error:  # a layer of the user's may raise anything
            reason = " ".join(str(error).split())[:160]
            raise InvalidInputError(
                f"{self._where}: layer {name!r} ({kind}) does not state its output shape ({plain(reason)}); give it a "
                "compute_output_shape"
            ) from error
        if len(self._operators) >= self._limits.operators:
            raise LimitExceededError(f"{self._where}: over the limit of {self._limits.operators:,} operators")
        read, given = _leaves((args, kwargs)), _leaves(result)
        made = [keras.KerasTensor(_closed(layer, read, tensor.shape), dtype=tensor.dtype) for tensor in given]
        inputs = list(dict.fromkeys(self._names[id(tensor)] for tensor in read if id(tensor) in self._names))
        op = self._operator_names.take(name)
        self.layers[op] = layer
        view = kind in VIEW_KINDS and len(inputs) == 1 and len(made) == 1
        ids = [self._tensor_name(op if len(made) == 1 else f"{op}.{index}") for index in range(len(made))]
        for tensor, tensor_id in zip(made, ids, strict=True):
            self._add(tensor, tensor_id, f"layer {name!r} ({kind})", inputs[0] if view else None)
        self._operators.append(
            Operator(
                id=op,
                kind=kind,
                inputs=tuple(inputs),
                outputs=tuple(ids),
                parameters=tuple(self._parameter(weight) for weight in getattr(layer, "weights", ())),
                flops=layer_flops(layer, [tuple(t.shape) for t in read], [tuple(t.shape) for t in made]),
                inplace_ok=not view and runs_in_place(kind, self._inplace_kinds),
                module=path.replace("/", "."),
            )
        )
        return made

    def _parameter(self, weight: Any) -> str:
        if id(weight) not in self._parameters:
            size = math.prod(weight.shape) * _bytes(weight.dtype)
            self._parameters[id(weight)] = Parameter(id=self._parameter_names.take(str(weight.path)), bytes=size)
            self._kept.append(weight)
        return self._parameters[id(weight)].id

    def _add(self, tensor: Any, name: str, what: str, alias_of: str | None) -> None:
        for position, dim in enumerate(tensor.shape):
            if dim is None:
                raise InvalidInputError(
                    f"{self._where}: {what} leaves dimension {position} open, although the inputs have sizes; give the "
                    "layer sizes that do not depend on values"
                )
        shape = tuple(int(dim) for dim in tensor.shape)
        size = math.prod(shape) * _bytes(tensor.dtype)
        self._tensors[name] = Tensor(id=name, bytes=size, alias_of=alias_of, shape=shape, dtype=str(tensor.dtype))
        self._names[id(tensor)] = name
        self._kept.append(tensor)

    def _tensor_name(self, wanted: str) -> str:
        return UniqueNames(self._tensors).take(wanted) if wanted in self._tensors else wanted


def _leaves(values: object) -> list[Any]:
    """Keras tensors in nested arguments, in order."""
    import keras

    return [leaf for leaf in keras.tree.flatten(values) if isinstance(leaf, keras.KerasTensor)]


def _followed(model: Any, args: Any, kwargs: Any) -> Any:
    """A functional model of the calls that a model makes on symbols."""
    import keras

    def fresh(leaf: Any) -> Any:
        symbol = isinstance(leaf, keras.KerasTensor)
        return keras.Input(batch_shape=leaf.shape, dtype=leaf.dtype) if symbol else leaf

    args, kwargs = keras.tree.map_structure(fresh, (args, kwargs))
    return keras.Model(_leaves((args, kwargs)), model.call(*args, **kwargs))


def _closed(layer: Any, read: list[Any], shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Fill in the dimensions that an EinsumDense leaves open although they follow from its equation and inputs."""
    equation = str(getattr(layer, "equation", "")).replace(" ", "")
    if None not in shape or "->" not in equation or "..." in equation:
        return shape
    given, kept = equation.split("->")
    known = dict(zip(given.split(",")[0], read[0].shape, strict=False))
    return tuple(known.get(label) if dim is None else dim for label, dim in zip(kept, shape, strict=True))


def _bytes(dtype: object) -> int:
    """Bytes of one element."""
    name = str(dtype)
    digits = "".join(sign for sign in name.removesuffix("_e4m3fn") if sign.isdigit())
    if name in _BYTES:
        return _BYTES[name]
    return 1 if name.startswith("float8") else max(int(digits) // 8, 1)
