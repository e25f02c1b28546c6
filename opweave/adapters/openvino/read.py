"""Reading OpenVINO IR: layers, tensor sizes and constants; the weights' file is not opened."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from opweave.adapters.assemble import Node, Parts, Value, assemble, packed_bytes
from opweave.adapters.dims import filled
from opweave.adapters.files import PathLike, place, read_bytes
from opweave.adapters.graphs.kinds import INPLACE_KINDS, FrameworkKinds
from opweave.adapters.openvino.document import read_document
from opweave.adapters.runtime_answers import Question
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits

KINDS = FrameworkKinds(__file__)
VIEWS, NOT_FOLDED = map(KINDS.names, ("views", "not_folded"))

_BODIES = ("body", "then_body", "else_body")

_SHAPES = Question(
    "OpenVINO",
    "openvino",
    "openvino",
    "opweave.adapters.openvino.read:reshape",
    "OpenVINO infers the shapes of a model with open dimensions, but {}",
    "OpenVINO refuses these sizes ({}); give others, or convert the model again",
)


@dataclass(frozen=True, slots=True)
class _Task:
    source: str
    target: str
    shapes: Mapping[str, tuple[int, ...]]


def from_openvino(
    path: PathLike,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from the ``.xml`` file of an OpenVINO IR, version 10 or newer.

    * Sizes are those in the file. Open dimensions get theirs by OpenVINO itself, in a process of its own: it infers the
      other shapes and runs nothing.
    * Constants become parameters, with the bytes that they have in the ``.bin`` file, and so do values that follow from
      constants alone, because OpenVINO computes these when it compiles the model.
    * Layers among the ``views`` in ``kinds.toml`` make aliases. What reads and assigns a variable stays in order.
    * A Loop, a TensorIterator and an If are single operators: they read the constants inside them, their workspace is
      what their largest inner graph needs in the order of the file, and the operations of each inner graph count once.

    Parameters
    ----------
    path
        The ``.xml`` file.
    dims
        Sizes of open dimensions: ``{"x:2": 224}``, ``{"*:0": 1}`` (one position of all inputs) or ``{"*": 1}``.
    inplace_kinds
        Kinds whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on file and graph size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong and where.
    """
    where = place(path)
    root = read_document(read_bytes(path, limits=limits), where, limits)
    if root.tag != "net" or not 10 <= _whole(root.get("version"), where, "version") <= 11:
        raise InvalidInputError(
            f"{where}: this XML is no OpenVINO model of version 10 or 11; convert the model with 'ovc MODEL'"
        )
    builder = _Builder(where, inplace_kinds, limits)
    opened = builder.open_dimensions(root)
    if dims or opened:
        root = read_document(_reshaped(path, filled(opened, dims or {}, {}, where), where, limits), where, limits)
    return builder.graph(root, root.get("name") or Path(where).stem)


def _reshaped(path: PathLike, shapes: Mapping[str, tuple[int, ...]], where: str, limits: Limits) -> bytes:
    """The XML of a model whose inputs have other shapes."""
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        target = Path(folder) / "model.xml"
        _SHAPES.answer(_Task(str(Path(path).resolve()), str(target), shapes), where, limits)
        return read_bytes(target, limits=limits)


def reshape(task: _Task, _: Callable[[object], None]) -> str | bool:
    """In the child: write the model with other input shapes, or say what went wrong."""
    import openvino

    try:
        model = openvino.Core().read_model(task.source)
        wanted = {
            each.output(0): list(task.shapes[each.get_friendly_name()])
            for each in model.get_parameters()
            if each.get_friendly_name() in task.shapes
        }
        model.reshape(wanted)
        openvino.serialize(model, task.target)
    except RuntimeError as error:
        return str(error) or "no reason given"
    return True


class _Builder:
    def __init__(self, where: str, inplace_kinds: Set[str], limits: Limits) -> None:
        self._where, self._inplace_kinds, self._limits = where, inplace_kinds, limits

    def open_dimensions(self, root: Element) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs that have an open dimension, -1 for those."""
        found = {}
        for layer in _layers(root):
            if layer.get("type") == "Parameter":
                name = _name(layer)
                shape = tuple(_size(dim, self._where, name) for port in layer.iterfind("output/port") for dim in port)
                if -1 in shape:
                    found[name] = shape
        return found

    def graph(self, net: Element, name: str) -> OpGraph:
        layers = {self._id(layer): layer for layer in _layers(net)}
        if len(layers) > self._limits.operators:
            raise LimitExceededError(f"{self._where}: {len(layers):,} layers, over the limit")
        if not layers:
            raise InvalidInputError(f"{self._where}: a model without layers; convert or download it again")
        values: dict[Hashable, Value] = {}
        for number, layer in layers.items():
            ports = layer.findall("output/port")
            for port in ports:
                values[(number, port.get("id"))] = self._value(layer, port, len(ports) > 1)
        source = self._sources(net, values)
        nodes, constants, outputs, caller = [], set[Hashable](), list[Hashable](), set[Hashable]()
        for number, layer in layers.items():
            made: list[Hashable] = [(number, port.get("id")) for port in layer.iterfind("output/port")]
            read = [
                source[(number, port.get("id"))]
                for port in layer.iterfind("input/port")
                if (number, port.get("id")) in source
            ]
            kind = layer.get("type") or ""
            if kind == "Const":
                constants.update(made)
            elif kind == "Parameter":
                caller.update(made)
            elif kind == "Result":
                outputs += read
            else:
                nodes.append(self._node(layer, kind, read, made, values))
        parts = Parts(name, nodes, values, constants, outputs)
        return assemble(parts, self._where, self._inplace_kinds)

    def _id(self, layer: Element) -> str:
        number = layer.get("id")
        if number is None:
            raise InvalidInputError(f"{self._where}: a layer has no id; convert or download the model again")
        return number

    def _sources(self, net: Element, values: Mapping[Hashable, Value]) -> dict[Hashable, Hashable]:
        """The value that each input port gets."""
        found: dict[Hashable, Hashable] = {}
        for edge in net.iterfind("edges/edge"):
            begin = (edge.get("from-layer"), edge.get("from-port"))
            if begin not in values:
                raise InvalidInputError(
                    f"{self._where}: an edge begins at port {begin[1]!r:.20} of layer {begin[0]!r:.20}, which is "
                    "missing; convert or download the model again"
                )
            found[(edge.get("to-layer"), edge.get("to-port"))] = begin
        return found

    def _value(self, layer: Element, port: Element, several: bool) -> Value:
        name = (port.get("names") or "").split(",")[0] or _name(layer)
        if several and not port.get("names"):
            name = f"{name}.{port.get('id')}"
        precision = (port.get("precision") or "").lower()
        shape = tuple(_size(dim, self._where, name) for dim in port)
        about = layer.find("data")
        if layer.get("type") == "Const" and about is not None and about.get("size") is not None:
            return Value(name, _whole(about.get("size"), self._where, "size"), shape, precision)
        what = f"{self._where}: what {layer.get('type')} {_name(layer)!r:.200} makes"
        size = packed_bytes(shape, precision or "no type", what)
        return Value(name, size, shape, precision)

    def _node(
        self,
        layer: Element,
        kind: str,
        read: Sequence[Hashable],
        made: Sequence[Hashable],
        values: dict[Hashable, Value],
    ) -> Node:
        inner = [body for word in _BODIES if (body := layer.find(word)) is not None]
        graphs = [self.graph(body, _name(layer)) for body in inner]
        weights: list[Hashable] = []
        for each in (each for graph in graphs for each in graph.parameters):
            weights.append((layer.get("id"), "inner", len(weights)))
            values[weights[-1]] = Value(f"{_name(layer)}/{each.id}", each.bytes, None, "")
        shapes = [values[key].shape or () for key in read]
        return Node(
            name=_name(layer),
            kind=kind,
            inputs=read,
            outputs=made,
            view=kind in VIEWS,
            folds=kind not in NOT_FOLDED and not inner,
            flops=KINDS.flops(kind, shapes, (values[made[0]].shape or ()) if made else ()),
            bodies=graphs,
            word=KINDS.common.get(kind, ""),
            module=_name(layer).rpartition("/")[0],
            weights=weights,
            looks=[_variable(layer)] * (kind == "ReadValue"),
            changes=[_variable(layer)] * (kind == "Assign"),
        )


def _variable(layer: Element) -> str:
    about = layer.find("data")
    return "" if about is None else about.get("variable_id", "")


def _layers(net: Element) -> Iterator[Element]:
    return net.iterfind("layers/layer")


def _name(layer: Element) -> str:
    return layer.get("name") or f"{layer.get('type')}_{layer.get('id')}"


def _size(dim: Element, where: str, name: str) -> int:
    text = (dim.text or "").strip()
    return -1 if text == "-1" else _whole(text, where, f"a dimension of {name!r:.80}")


def _whole(text: str | None, where: str, what: str) -> int:
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidInputError(f"{where}: {what} is {text!r:.40}, which is no whole number; download the model again")
    return int(digits)
