"""Reading Keras 3 models, on any backend: one operator for each call of a layer, in the order of Keras.

Keras infers every shape for the requested batch size. A layer that is called twice makes two operators with the same
parameters. Nested models are flattened; an operator's module is the path of the model that contains its layer.
Subclassed models are called once on symbols, which makes the weights of layers that have none yet.

Open dimensions get sizes by name (see :mod:`opweave.adapters.graphs.dims`): ``"batch"``, and ``"length"``,
``"height"``, ``"width"``, ``"depth"`` by the rank of the input and Keras's image format.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import keras

from opweave.adapters.assemble import Node, Parts, Value, assemble, packed_bytes
from opweave.adapters.graphs.dims import filled
from opweave.adapters.graphs.geometry import Reading, Shape, channel_axis, fitting, geometry_of, shapes_of
from opweave.adapters.graphs.kinds import INPLACE_KINDS, FrameworkKinds
from opweave.problems.errors import InvalidInputError, LimitExceededError, plain
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.slicing.geometry import Geometry, Layout

_AXES = {2: ("length",), 3: ("length",), 4: ("height", "width"), 5: ("depth", "height", "width")}

KINDS = FrameworkKinds(__file__)
VIEWS, ELEMENTWISE, _OWN_ACTIVATION = map(KINDS.names, ("views", "elementwise", "own_activation"))


def from_keras(
    model: keras.Model,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from a functional, sequential or subclassed Keras model.

    * Operators are named after their layers, ``encoder/dense`` in nested models; repeated calls get a number.
    * Layers among the ``views`` in ``kinds.toml`` make aliases, as backends do in inference.
    * Calls that change the same variable, of a stateful layer, in training or of a layer of one's own, stay in order on
      one device.
    * FLOPs are those of :func:`~opweave.adapters.keras.read.layer_flops`. A custom layer is one operator.

    Parameters
    ----------
    model
        The model; it is not computed. A subclassed one must have been called once, which says what it takes.
    dims
        Sizes for the dimensions that the inputs leave open, for example ``{"batch": 1, "height": 224, "width": 224}``
        (see above).
    inplace_kinds
        Kinds (class names, full or short) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on the graph's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        For models that cannot be followed and dimensions that stay open; one sentence names the layer.
    """
    return _Builder(plain(str(model.name)), dims or {}, limits).graph(model, inplace_kinds)


def keras_geometry(
    model: keras.Model, graph: OpGraph, limits: Limits, dims: Mapping[str, int] | None
) -> dict[str, Geometry]:
    """Read the geometry of every operator that has one; layers with another data format than the first are omitted."""
    builder = _Builder(plain(str(model.name)), dims or {}, limits)
    ids = [op.id for op in builder.graph(model, frozenset()).operators]
    layers = dict(zip(ids, builder.layers, strict=True))
    layout, shapes = _layout(builder.layers), shapes_of(graph)
    found: dict[str, Geometry | None] = {}
    for op in graph.operators:
        layer, sort = layers.get(op.id), KINDS.geometry.get(op.kind)
        if sort is None or type(layer).__name__ != op.kind or not op.inputs:
            continue
        activation = getattr(getattr(layer, "activation", None), "__name__", "linear")
        if activation in ELEMENTWISE and getattr(layer, "data_format", layout) in (layout, None):
            found[op.id] = geometry_of(sort, _reading(layer, shapes[op.inputs[0]], layout), layout)
    return fitting(found, graph, layout)


def _reading(layer: Any, shape: Shape, layout: Layout) -> Reading:
    axis, groups = channel_axis(len(shape), layout), int(getattr(layer, "groups", 1))
    if type(layer).__name__ == "DepthwiseConv2D" and axis is not None:
        groups = shape[axis]
    return Reading(
        shape=shape,
        kernel=getattr(layer, "kernel_size", getattr(layer, "pool_size", (None,)))[0],
        stride=int(getattr(layer, "strides", (1,))[0]),
        dilation=int(getattr(layer, "dilation_rate", (1,))[0]),
        groups=groups,
        padding="same" if getattr(layer, "padding", "") == "same" else 0,
        axes=[int(getattr(layer, "axis", 0))],
    )


def layer_flops(layer: Any, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> float:
    """Count the operations of one call.

    Parameters
    ----------
    layer
        A Keras layer or operation.
    inputs, outputs
        Shapes of the tensors that it reads and of those that it makes.

    Returns
    -------
    float
        Two for a multiply-accumulate, and one more per output element for an activation inside the layer.
    """
    if not outputs:
        return 0.0
    kind = type(layer).__name__
    if kind in ("TimeDistributed", "Bidirectional"):
        parts = [getattr(layer, name, None) for name in ("layer", "forward_layer", "backward_layer")]
        inner = parts[:1] if kind == "TimeDistributed" else parts[1:]
        return sum(layer_flops(part, inputs, outputs) for part in inner if part is not None)
    weights = [(weight.path.split("/"), tuple(weight.shape)) for weight in getattr(layer, "weights", ())]
    about: dict[str, Any] = {path[-2]: shape for path, shape in weights if len(path) > 1 and len(shape) > 2}
    about |= {path[-1]: shape for path, shape in weights}
    about |= {word: getattr(layer, word, 0) for word in ("pool_size", "equation")}
    activation = getattr(getattr(layer, "activation", None), "__name__", "linear")
    about["activation"] = activation != "linear" and kind not in _OWN_ACTIVATION
    about["kernels"] = sum(math.prod(shape) for path, shape in weights if path[-1].endswith("kernel"))
    about["keyed"] = next((shape for shape in inputs[1:2] if len(shape) == len(inputs[0])), (*inputs, ())[0])
    return KINDS.flops(kind, inputs, outputs[0], about)


def _layout(layers: Sequence[Any]) -> Layout:
    said = (getattr(layer, "data_format", None) for layer in layers)
    first = next((word for word in said if word), keras.config.image_data_format())
    return "channels_first" if first == "channels_first" else "channels_last"


class _Builder:
    """Walks through models as Keras runs them, with tensors that have shapes but no data; keys are identities."""

    def __init__(self, where: str, dims: Mapping[str, int], limits: Limits) -> None:
        self._where, self._dims, self._limits = where, dims, limits
        self._nodes: list[Node] = []
        self._values: dict[Hashable, Value] = {}
        self._weights: set[Hashable] = set()
        self._kept: list[Any] = []  # so that no identity is used again
        self.layers: list[Any] = []  # by operator

    def graph(self, model: keras.Model, inplace_kinds: Set[str]) -> OpGraph:
        """Walk through the whole model and make its graph."""
        inner = self.functional(model, model.name)
        opened = {tensor.name: tuple(-1 if size is None else size for size in tensor.shape) for tensor in inner.inputs}
        shapes = filled(opened, self._dims, {}, self._where, symbol=_axis)
        given = [keras.KerasTensor(shapes[each.name], dtype=each.dtype, name=each.name) for each in inner.inputs]
        for tensor in given:
            self._keep(tensor, str(tensor.name))
        outputs = [id(tensor) for tensor in self.walk(inner, given, "")]
        state = {key for node in self._nodes for key in node.changes}
        nodes = [replace(each, looks=[str(key) for key in each.weights if str(key) in state]) for each in self._nodes]
        parts = Parts(self._where, nodes, self._values, self._weights, outputs, [id(tensor) for tensor in given])
        return assemble(parts, self._where, inplace_kinds)

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
        advice = "use keras.ops inside; if it takes several inputs, load keras.Model(inputs, model(*inputs))"
        with self._users_code(
            f"model {path!r} cannot be called on symbols", f", so its layer graph is unknown; {advice}"
        ):
            return _followed(model, args, kwargs)

    @contextmanager
    def _users_code(self, what: str, advice: str) -> Iterator[None]:
        """Code of the user's may raise anything."""
        try:
            yield
        except Exception as error:
            reason = plain(" ".join(str(error).split()))
            raise InvalidInputError(f"{self._where}: {what} ({reason[:160]}){advice}") from error

    def _called_with(self, model: Any, path: str) -> tuple[Any, Any]:
        """Symbols of the shapes that a subclassed model was built or called with."""
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
        return _leaves(model._run_through_graph(inputs, operation_fn=lambda layer: partial(self._call, layer, path)))

    def _call(self, layer: Any, path: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        name = f"{path}/{layer.name}" if path else str(layer.name)
        if isinstance(layer, keras.Model):
            inner = self.functional(layer, name, (args, kwargs))
            return self.walk(inner, _leaves((args, kwargs)), name)
        kind = type(layer).__name__
        what = f"layer {name!r} ({kind}) does not state its output shape"
        with self._users_code(what, "; give it a compute_output_shape"):
            result, changed = _spec(layer, args, kwargs)
        if len(self._nodes) >= self._limits.operators:
            raise LimitExceededError(f"{self._where}: over the limit of {self._limits.operators:,} operators")
        read, given = _leaves((args, kwargs)), _leaves(result)
        made = [keras.KerasTensor(tensor.shape, dtype=tensor.dtype) for tensor in given]
        inputs = list(dict.fromkeys(id(tensor) for tensor in read if id(tensor) in self._values))
        for index, tensor in enumerate(made):
            if None in tensor.shape:
                raise InvalidInputError(
                    f"{self._where}: layer {name!r} ({kind}) leaves dimension {tensor.shape.index(None)} open, though "
                    "the inputs have sizes; give the layer sizes that do not depend on values"
                )
            self._keep(tensor, name if len(made) == 1 else f"{name}.{index}")
        weights = {id(weight): weight for weight in (*getattr(layer, "weights", ()), *changed)}
        for weight in weights.values():
            self._keep(weight, str(weight.path))
        self._weights.update(weights)
        self.layers.append(layer)
        self._nodes.append(
            Node(
                name=name,
                kind=kind,
                inputs=inputs,
                outputs=[id(tensor) for tensor in made],
                view=kind in VIEWS and len(inputs) == 1 and len(made) == 1,
                flops=layer_flops(layer, [tuple(t.shape) for t in read], [tuple(t.shape) for t in made]),
                module=path.replace("/", "."),
                weights=list(weights),
                changes=[str(id(variable)) for variable in changed],
            )
        )
        return made

    def _keep(self, tensor: Any, name: str) -> None:
        shape, dtype = tuple(int(dim) for dim in tensor.shape), str(tensor.dtype)
        size = 0 if dtype == "string" else packed_bytes(shape, dtype, f"{self._where}: {name!r:.80}")
        self._values[id(tensor)] = Value(name, size, shape, dtype)
        self._kept.append(tensor)


def _axis(position: int, rank: int) -> str:
    """Name of an axis; empty for channels and for axes without a usual name."""
    start = 2 if keras.config.image_data_format() == "channels_first" and rank > 3 else 1
    return {0: "batch", **dict(enumerate(_AXES.get(rank, ()), start))}.get(position, "")


def _leaves(values: object) -> list[Any]:
    """Keras tensors in nested arguments, in order."""
    return [leaf for leaf in keras.tree.flatten(values) if isinstance(leaf, keras.KerasTensor)]


def _followed(model: Any, args: Any, kwargs: Any) -> Any:
    """A functional model of the calls that a model makes on symbols."""

    def fresh(leaf: Any) -> Any:
        symbol = isinstance(leaf, keras.KerasTensor)
        return keras.Input(batch_shape=leaf.shape, dtype=leaf.dtype) if symbol else leaf

    args, kwargs = keras.tree.map_structure(fresh, (args, kwargs))
    with _Watched() as scope:
        made = model.call(*args, **kwargs)
    if scope.changed:
        raise ValueError(f"it changes {', '.join(each.path for each in scope.changed)} outside its layers")
    return keras.Model(_leaves((args, kwargs)), made)


class _Watched(keras.StatelessScope):  # type: ignore[misc]  # keras has no types
    """Notes which variables are changed, and leaves them as they are."""

    changed: tuple[Any, ...] = ()

    def add_update(self, update: tuple[Any, Any]) -> None:
        self.changed = (*self.changed, update[0])


def _spec(layer: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """What a call makes, and the variables that it changes: layers of Keras do if they are stateful, or in training."""
    stated, scope = layer.compute_output_spec(*args, **kwargs), _Watched()
    opened = any(None in tensor.shape for tensor in _leaves(stated))
    changes = "training" in kwargs or getattr(layer, "stateful", False)
    if not (opened or changes) and type(layer).__module__.startswith("keras."):
        return stated, []

    class Called(keras.Operation):  # type: ignore[misc]
        def call(self, *args: Any, **kwargs: Any) -> Any:
            with scope:
                return layer.call(*args, **kwargs)

    try:
        made = Called().compute_output_spec(*args, **kwargs)
    except Exception:  # it cannot be called on symbols, and may change all that is not trained
        return stated, getattr(layer, "non_trainable_weights", [])
    return made if opened else stated, list(scope.changed)
