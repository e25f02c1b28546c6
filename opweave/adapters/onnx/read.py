"""Reading ONNX models: operators, tensor sizes and constants, but never a weight's value or external data."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from opweave.adapters.assemble import Node, Parts, Value, assemble
from opweave.adapters.files import PathLike
from opweave.adapters.graphs.kinds import INPLACE_KINDS
from opweave.adapters.graphs.names import UniqueNames
from opweave.adapters.onnx.kinds import RUNTIME_INPLACE_KINDS, VIEWS, node_flops
from opweave.adapters.onnx.model import KINDS, complete, inner_graphs, operator_nodes, reads_of, title
from opweave.adapters.onnx.prepare import Inputs, Prepared, constants_of, prepare
from opweave.adapters.onnx.scratch import kernel_scratch
from opweave.adapters.onnx.sizes import SEQUENCE, Sized
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_NOT_FOLDED, _HOLDERS = map(KINDS.names, ("not_folded", "holders"))


def from_onnx(
    model: PathLike | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Inputs | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from an ONNX model.

    * Shapes follow from the operators' rules; those of operators that only ONNX Runtime has, such as fused ones, are
      known if it is installed. Weights are sized from their dims and type. External data is never opened.
    * Shapes that depend on values are measured: ONNX Runtime (without it, ONNX's slow reference implementation) runs
      the model once, on ``inputs`` or on zeros, in a process of its own whose time and memory are limited by
      ``limits``. This is the only case in which a model is run; ``Limits(run_seconds=0)`` forbids it.
    * Initialisers (also sparse ones), Constant nodes, and values that depend only on them become parameters, because
      ONNX Runtime computes all of these before it runs. Constants that no operator reads are omitted, and so are graph
      outputs that are constants, because they take no planned memory.
    * :data:`~opweave.adapters.onnx.kinds.VIEWS` make aliases; a view of a constant is not an operator, only
      another name for the constant.
    * An output that no operator reads and whose shape is unknown (the mask of an old Dropout) is omitted.
    * Model-local functions are inlined, and so is the branch of an If whose condition is known. Every other If, every
      Loop and every Scan is one operator, which also reads what its inner graphs take from outside. What these hold
      while they run is measured by one run, if ONNX Runtime is installed, and is the operator's workspace.
    * An operator's id is its node's name, or its kind and position; repeated names get a number.

    Parameters
    ----------
    model
        A file, or a model in memory (which is not changed).
    dims
        Sizes for open dimensions: by name (``{"batch": 1}``), by input and position (``{"x:2": 224}``), for one
        position of all inputs (``{"*:0": 1}``, all batch sizes) and for all others (``{"*": 1}``).
    inputs
        Example inputs by name. They give sizes to open dimensions, and values to measured shapes.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on file and graph size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence names the node and says how to fix the file.
    """
    return graph_of(prepare(model, dims or {}, inputs, limits), inplace_kinds)


def graph_of(prepared: Prepared, inplace_kinds: Set[str]) -> OpGraph:
    """Build the graph of a prepared model; see :func:`from_onnx`."""
    return assemble(_Reader(prepared).parts(), prepared.file.where, inplace_kinds)


def follows(node: NodeProto, fixed: Container[str]) -> bool:
    """Whether a node is no operator because it depends only on constants, whose names are ``fixed``."""
    reads = [name for name in node.input if name]
    view = node.op_type in VIEWS and bool(reads) and reads[0] in fixed
    return view or (_folds(node) and all(name in fixed for name in reads))


def _folds(node: NodeProto) -> bool:
    return not node.domain and node.op_type not in _NOT_FOLDED and not inner_graphs(node)


def _kind(node: NodeProto) -> str:
    """The node's type; one that works on images in another layout than the standard one says so."""
    if node.domain == "com.microsoft.nchwc" and not node.op_type.startswith("Reorder"):
        return f"Nchwc{node.op_type}"
    last = any(each.name == "channels_last" and each.i for each in node.attribute)
    return f"Nhwc{node.op_type}" if last and node.op_type == "QLinearConv" else node.op_type


def _adds_to_input(node: NodeProto) -> bool:
    """Whether a fused convolution adds its result to its fourth input, over which the runtime writes it.

    Not if it convolves the same input.
    """
    fused = node.domain.startswith("com.microsoft") and node.op_type in ("Conv", "FusedConv", "NhwcFusedConv")
    return fused and len(node.input) > 3 and bool(node.input[3]) and list(node.input).count(node.input[3]) == 1


class _Reader:
    """Lists the nodes and values of a prepared model, perhaps with what the kernels of ONNX Runtime need."""

    def __init__(self, prepared: Prepared, *, counts_as_runtime: bool = False) -> None:
        self._prepared, self._graph, self._runtime = prepared, prepared.graph, counts_as_runtime
        self._results = {value.name for value in prepared.graph.output}
        self._values: dict[Hashable, Value] = {name: _value(name, size) for name, size in prepared.constants.items()}
        self._inner_names, self._inside = UniqueNames(prepared.constants), set[Hashable]()
        casts = [node for node in self._graph.node if node.op_type == "Cast" and node.input and node.output]
        self._converted = {node.output[0] for node in casts}
        self._to_convert = {node.input[0] for node in casts}
        self._wanted = {name for node in self._graph.node for name in reads_of(node)}
        self._wanted |= self._results
        self._inside_of: dict[str, list[str]] = {}  # sequences whose tensors others have, too
        self._held: Mapping[str, int] = {}
        if any(map(inner_graphs, self._graph.node)):
            from opweave.adapters.onnx.measured import held_inside

            self._held = held_inside(prepared.file, prepared.shaped.model, prepared.inputs, prepared.limits)

    def parts(self) -> Parts:
        given = [value.name for value in self._graph.input if value.name not in self._prepared.constants]
        self._values |= {name: self._value(name, "the caller") for name in given}
        nodes = [self._node(name, node) for name, node in operator_nodes(self._graph).items()]
        outputs = [value.name for value in self._graph.output]
        read = [(f"operator {node.name!r:.80} reads", name) for node in nodes for name in node.inputs]
        for what, name in [*read, *(("it returns", name) for name in outputs)]:
            if name not in self._values:
                raise InvalidInputError(
                    f"{self._prepared.file.where}: {what} {name!r:.80}, which the graph does not have; export the "
                    "model again"
                )
        constants = self._inside | set(self._prepared.constants)
        return Parts(self._graph.name or "graph", nodes, self._values, constants, outputs, given)

    def _node(self, name: str, node: NodeProto) -> Node:
        reads, title_ = reads_of(node), title(node)
        writes = [made for made in node.output if made and (made in self._wanted or self._is_sized(made))]
        self._values |= {made: self._value(made, title_) for made in writes}
        if self._runtime and node.op_type == "ZipMap":  # maps are not in the arena
            self._values |= {made: replace(self._values[made], bytes=0) for made in writes}
        if self._runtime and node.op_type in _HOLDERS:
            self._inside_of |= {made: self._with_kept(reads[:1]) for made in writes}
            new = self._values[reads[1]].bytes if node.op_type == "SequenceInsert" else 0
            self._values |= {made: replace(self._values[made], bytes=new) for made in writes}
        shapes = [self._shape(read) for read in node.input]
        copied = self._runtime and not self._results.isdisjoint(writes)  # a result is never a view
        return Node(
            name=name,
            kind=_kind(node),
            inputs=self._with_kept(reads),
            outputs=writes,
            view=bool(reads) and not copied and (node.op_type in VIEWS or self._keeps_type(node)),
            folds=_folds(node),
            flops=node_flops(node, shapes, self._shape(writes[0]) if writes else ()),
            workspace_bytes=self._held.get(name, 0) + (self._scratch(node) if self._runtime else 0),
            word=node.op_type,
            over=node.input[3] if _adds_to_input(node) else None,
            weights=self._inner_weights(name, node),
        )

    def _with_kept(self, reads: Sequence[str]) -> list[str]:
        """What a node reads, with the sequences whose tensors are inside of these."""
        found = dict[str, None]()
        for read in reads:
            found |= dict.fromkeys((read, *self._inside_of.get(read, ())))
        return list(found)

    def _keeps_type(self, node: NodeProto) -> bool:
        """Whether a node converts to the type that its input has, next to another conversion; runtimes skip these."""
        if node.op_type != "Cast" or not (node.input[0] in self._converted or node.output[0] in self._to_convert):
            return False
        kind = self._prepared.shaped.types.get(node.input[0])
        wanted = next((given.i for given in node.attribute if given.name == "to"), 0)
        return kind is not None and kind.tensor_type.elem_type == wanted

    def _is_sized(self, name: str) -> bool:
        return name in self._prepared.measured or complete(self._prepared.shaped.types.get(name))

    def _inner_weights(self, name: str, node: NodeProto) -> list[Hashable]:
        """The weights that graphs inside the node hold; their ids begin with the operator's."""
        found: list[Hashable] = []
        for graph in inner_graphs(node):
            for weight, size in constants_of(graph, self._prepared.file.where).items():
                key = self._inner_names.take(f"{name}/{weight}")
                self._values[key] = _value(key, size)
                self._inside.add(key)
                found.append(key)
            for inner in graph.node:
                found += self._inner_weights(name, inner)
        return found

    def _value(self, name: str, maker: str) -> Value:
        return _value(name, self._prepared.size(name, maker))

    def _scratch(self, node: NodeProto) -> int:
        made = self._size(node.output[0]) if node.output else None
        if made is None:
            return 0
        return kernel_scratch(node, [self._size(name) for name in node.input], made)

    def _size(self, name: str) -> Sized | None:
        known = self._prepared.constants.get(name)
        if known is None and self._is_sized(name):
            return self._prepared.size(name, "a node")
        return known

    def _shape(self, name: str) -> tuple[int, ...]:
        value = self._values.get(name)
        return () if value is None else value.shape or ()


def _value(name: str, size: Sized) -> Value:
    return Value(name, size.bytes, None if size.dtype == SEQUENCE else size.shape, size.dtype)


def onnx_runtime_problem(
    model: PathLike | ModelProto, dims: Mapping[str, int] | None = None, *, inputs: Inputs | None = None
) -> MemoryOrdering:
    """Read a model as a memory-ordering problem that counts what ONNX Runtime's CPU provider uses.

    It holds for :func:`~opweave.adapters.onnx.session.onnx_session_options`: tensors byte for byte at every step. Plain
    ``in_place="any"`` predicts less memory than the runtime needs, because it lets sums and products overwrite an
    input, which the runtime does not do; ``in_place="none"`` predicts more.

    * Inputs are the caller's arrays and are not copied: ``inputs="excluded"``.
    * Outputs come from the runtime's arena and live to the end: ``outputs="kept"``.
    * :data:`~opweave.adapters.onnx.kinds.RUNTIME_INPLACE_KINDS` overwrite a dying first input, but never with a graph
      output, and never a graph input. A view that is a graph output is a copy.
    * What no operator reads is never freed before the end.
    * Kernels of convolutions and recurrent layers take scratch memory while they run, as with one thread (see
      :mod:`opweave.adapters.onnx.scratch`).
    * A sequence gets copies of the tensors that are put into it, and has those of another sequence without a copy.
    * The maps that a classifier returns (``ZipMap``) are not in the arena.

    Parameters
    ----------
    model
        A file, or a model in memory.
    dims, inputs
        As for :func:`~opweave.adapters.onnx.read.from_onnx`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As for :func:`~opweave.adapters.onnx.read.from_onnx`.
    """
    return runtime_problem(prepare(model, dims or {}, inputs, DEFAULT_LIMITS))


def runtime_problem(prepared: Prepared) -> MemoryOrdering:
    """The problem of a prepared model; see :func:`onnx_runtime_problem`."""
    parts = _Reader(prepared, counts_as_runtime=True).parts()
    graph = assemble(parts, prepared.file.where, RUNTIME_INPLACE_KINDS)
    read = {name for op in graph.operators for name in op.inputs}
    unread = [name for op in graph.operators for name in op.outputs if name not in read]
    # The runtime overwrites a tensor only if it knows the shapes before it runs.
    fresh = {*graph.outputs, *prepared.measured}
    operators = tuple(
        op.model_copy(update={"inplace_ok": op.inplace_ok and fresh.isdisjoint((*op.inputs[:1], *op.outputs))})
        for op in graph.operators
    )
    counted = OpGraph(
        name=graph.name,
        operators=operators,
        tensors=graph.tensors,
        parameters=graph.parameters,
        outputs=tuple(dict.fromkeys((*graph.outputs, *unread))),
    )
    return MemoryOrdering(graph=counted, in_place="first", inputs="excluded", outputs="kept")
