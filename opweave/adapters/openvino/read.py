"""Reading OpenVINO IR: layers, tensor sizes and constants; the weights' file is not opened.

Of XML, nothing is read that a hostile file could use: no document types, so no entities.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from opweave.adapters.assemble import Node, Parts, Value, assemble, packed_bytes
from opweave.adapters.files import PathLike, place, read_bytes
from opweave.adapters.graphs.dims import filled
from opweave.adapters.graphs.kinds import INPLACE_KINDS, FrameworkKinds
from opweave.adapters.runtime_answers import ask
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits

KINDS = FrameworkKinds(__file__)
VIEWS, NOT_FOLDED = map(KINDS.names, ("views", "not_folded"))

_BODIES = ("body", "then_body", "else_body")


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
    root = _parsed(read_bytes(path, limits=limits), where, limits)
    if root.tag != "net" or not 10 <= _whole(root.get("version"), where, "version") <= 11:
        raise InvalidInputError(
            f"{where}: this XML is not an OpenVINO model of version 10 or 11; convert the model with 'ovc MODEL'"
        )
    shapes = {
        _name(layer): _shape(port, where, _name(layer))
        for layer in root.iterfind("layers/layer[@type='Parameter']")
        for port in layer.iterfind("output/port")
    }
    if dims or any(-1 in shape for shape in shapes.values()):
        root = _reshaped(path, filled(shapes, dims or {}, {}, where), where, limits)
    return _Builder(where, inplace_kinds, limits).graph(root, root.get("name") or Path(where).stem)


def _parsed(content: bytes, where: str, limits: Limits) -> Element:
    """The elements of a file, at most as many as a graph may have edges."""

    class LimitedBuilder(TreeBuilder):
        count = 0

        def start(self, tag: str, attrs: dict[str, str], /) -> Element:
            self.count += 1
            if self.count > limits.edges:
                raise LimitExceededError(f"{where}: more than {limits.edges:,} elements")
            return super().start(tag, attrs)

        def doctype(self, *_: object) -> None:
            raise InvalidInputError(f"{where}: it declares a document type, which OpenVINO never writes")

    parser = XMLParser(target=LimitedBuilder())
    try:
        parser.feed(content)
        return parser.close()
    except (ParseError, LookupError) as error:
        raise InvalidInputError(f"{where}: not XML, or cut off ({error}); convert or download it again") from None


def _reshaped(path: PathLike, shapes: Mapping[str, tuple[int, ...]], where: str, limits: Limits) -> Element:
    """A model whose inputs have other shapes."""
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        target = Path(folder) / "model.xml"
        ask(KINDS.table["runtime"], (str(Path(path).resolve()), str(target), shapes), where, limits)
        return _parsed(read_bytes(target, limits=limits), where, limits)


def reshape(task: tuple[str, str, Mapping[str, Sequence[int]]], _: Callable[[object], None]) -> str | bool:
    """In the child: write the model with other input shapes, or say what went wrong.

    The task is the path of the file, that of the one to write, and the shapes by the names of inputs.
    """
    import openvino

    source, target, shapes = task
    try:
        model = openvino.Core().read_model(source)
        inputs = {each.get_friendly_name(): each.output(0) for each in model.get_parameters()}
        model.reshape({inputs[name]: list(shape) for name, shape in shapes.items()})
        openvino.serialize(model, target)
    except RuntimeError as error:
        return str(error) or "no reason given"
    return True


class _Builder:
    def __init__(self, where: str, inplace_kinds: Set[str], limits: Limits) -> None:
        self._where, self._inplace_kinds, self._limits = where, inplace_kinds, limits
        self._deep = 0

    def graph(self, net: Element, name: str) -> OpGraph:
        layers = net.findall("layers/layer")
        if len(layers) > self._limits.operators:
            raise LimitExceededError(f"{self._where}: {len(layers):,} layers, over the limit")
        if not layers:
            raise InvalidInputError(f"{self._where}: a model without layers; convert or download it again")
        values: dict[Hashable, Value] = {}
        for layer in layers:
            for key, port in _ports(layer, "output").items():
                values[key] = self._value(layer, port)
        source = self._sources(net, values)
        nodes, constants, outputs = [], set[Hashable](), list[Hashable]()
        for layer in layers:
            kind, made = layer.get("type") or "", list(_ports(layer, "output"))
            read = [source[key] for key in _ports(layer, "input") if key in source]
            if kind == "Const":
                constants.update(made)
            elif kind == "Result":
                outputs += read
            elif kind != "Parameter":
                nodes.append(self._node(layer, kind, read, made, values))
        return assemble(Parts(name, nodes, values, constants, outputs), self._where, self._inplace_kinds)

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

    def _value(self, layer: Element, port: Element) -> Value:
        single = layer.find("output/port[2]") is None
        unnamed = _name(layer) if single else f"{_name(layer)}.{port.get('id')}"
        name = (port.get("names") or "").split(",")[0] or unnamed
        shape, precision = _shape(port, self._where, name), (port.get("precision") or "").lower()
        stored = layer.find("data[@size]")
        if layer.get("type") == "Const" and stored is not None:
            return Value(name, _whole(stored.get("size"), self._where, "size"), shape, precision)
        what = f"{self._where}: what {layer.get('type')} {_name(layer)!r:.200} makes"
        return Value(name, packed_bytes(shape, precision or "no type", what), shape, precision)

    def _node(
        self,
        layer: Element,
        kind: str,
        read: Sequence[Hashable],
        made: Sequence[Hashable],
        values: Mapping[Hashable, Value],
    ) -> Node:
        self._deep += 1
        if self._deep > self._limits.nesting:
            raise InvalidInputError(f"{self._where}: graphs are nested deeper than {self._limits.nesting}")
        bodies = [self.graph(body, _name(layer)) for word in _BODIES for body in layer.iterfind(word)]
        self._deep -= 1
        shapes = [values[key].shape or () for key in read]
        variable = [each.get("variable_id", "") for each in layer.iterfind("data")]
        return Node(
            name=_name(layer),
            kind=kind,
            inputs=read,
            outputs=made,
            view=kind in VIEWS,
            folds=kind not in NOT_FOLDED and not bodies,
            flops=KINDS.flops(kind, shapes, (values[made[0]].shape or ()) if made else ()),
            bodies=bodies,
            word=KINDS.common.get(kind, ""),
            module=_name(layer).rpartition("/")[0],
            looks=variable * (kind == "ReadValue"),
            changes=variable * (kind == "Assign"),
        )


def _name(layer: Element) -> str:
    return layer.get("name") or f"{layer.get('type')}_{layer.get('id')}"


def _ports(layer: Element, word: str) -> dict[Hashable, Element]:
    """The inputs or outputs of a layer."""
    return {(layer.get("id"), port.get("id")): port for port in layer.iterfind(f"{word}/port")}


def _shape(port: Element, where: str, name: str) -> tuple[int, ...]:
    """The sizes of a port's dimensions; -1 for an open one."""
    texts = [(dim.text or "").strip() for dim in port.iterfind("dim")]
    return tuple(-1 if text == "-1" else _whole(text, where, f"a dimension of {name!r:.80}") for text in texts)


def _whole(text: str | None, where: str, what: str) -> int:
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidInputError(f"{where}: {what} is {text!r:.40}, not a whole number; download the model again")
    return int(digits)
