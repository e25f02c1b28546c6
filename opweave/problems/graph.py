"""The model graph: operators that read and write tensors, and the parameters that they use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_validator

from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, GraphArrays, find_cycle, topological_order
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.shown import Bare, ShownInNotebooks, brief
from opweave.problems.spec import Bytes, Extent, Grid, Many, ManyOrNone, Name, Operations, Spec, preset
from opweave.problems.units import readable_bytes
from opweave.problems.words import counted, refuse_unknown, repeated

if TYPE_CHECKING:
    import networkx as nx

MAX_BYTES_TOGETHER = 2**62
"""Most bytes of a graph's tensors and workspaces together; solvers count in 64-bit integers."""


class Tensor(Spec):
    """A piece of memory that operators read and write.

    Attributes
    ----------
    id
        Unique among the graph's tensors.
    bytes
        Size. An alias allocates nothing; its ``bytes`` only say how much is sent when the alias is transferred.
    alias_of
        The tensor whose storage this one shares (a view, an in-place result). The storage lives until none of its
        aliases is needed any more.
    shape, dtype
        Information for people and adapters; no solver reads it.
    """

    id: Name
    bytes: Bytes
    alias_of: Name | None = None
    shape: ManyOrNone[Extent] = preset(None)
    dtype: str | None = None


class Parameter(Spec):
    """Weights or a constant of ``bytes`` bytes; several operators may share one parameter."""

    id: Name
    bytes: Bytes


class Operator(Spec):
    """One step of the model.

    Attributes
    ----------
    id
        Unique among the graph's operators.
    kind
        The operator type as its framework names it ("Conv", "aten.add.Tensor").
    inputs, outputs
        Tensor ids. An operator may have several of each, and may name an input twice (``x * x``).
    workspace_bytes
        Scratch memory needed only while the operator runs.
    parameters
        Ids of the parameters that it reads.
    flops
        Floating-point operations; a multiply-accumulate counts as two.
    inplace_ok
        Whether the operator can write its output over an input of the same size.
    module
        Path of the module that the operator belongs to ("encoder.layer.3"); empty when unknown.
    """

    id: Name
    kind: str = ""
    inputs: Many[Name] = preset(())
    outputs: Many[Name] = preset(())
    workspace_bytes: Bytes = preset(0)
    parameters: Many[Name] = preset(())
    flops: Operations = preset(0.0)
    inplace_ok: bool = False
    module: str = ""


class OpGraph(ShownInNotebooks, Spec):
    """A model as an acyclic graph of operators and tensors.

    A tensor that no operator writes is a graph input; ``outputs`` names the tensors that the caller receives, and
    ``together`` groups of operators that read or change one state (a variable), which keeps them on one device.

    Raises
    ------
    InvalidSpecError
        For duplicate ids, unknown tensors or parameters, two producers of one tensor, an alias that its operator could
        not have made, and cycles (the message names one).

    Examples
    --------
    >>> graph = OpGraph(
    ...     name="two steps",
    ...     tensors=[Tensor(id="x", bytes=4), Tensor(id="y", bytes=8), Tensor(id="z", bytes=4)],
    ...     operators=[
    ...         Operator(id="up", inputs=["x"], outputs=["y"]),
    ...         Operator(id="down", inputs=["y"], outputs=["z"]),
    ...     ],
    ...     outputs=["z"],
    ... )
    >>> graph.inputs, len(graph.operators)
    (('x',), 2)
    """

    schema_version: Literal[1] = 1
    name: str = "graph"
    operators: Many[Operator]
    tensors: Many[Tensor]
    parameters: Many[Parameter] = preset(())
    outputs: Many[Name] = preset(())
    together: Grid[Name] = preset(())

    @model_validator(mode="after")
    def _check(self) -> OpGraph:
        if self.__dict__.get("_checked"):  # pydantic asks again whenever a problem is made of the graph
            return self
        _check_sizes(self)
        _refuse_duplicates("operator", self.operator_ids)
        _refuse_duplicates("tensor", self.tensor_ids)
        _refuse_duplicates("parameter", self.parameter_ids)
        _refuse_duplicates("graph output", self.outputs)
        _check_references(self)
        _ = self.uses  # nearly every solve asks for it, and it would count against its time limit
        _check_aliases(self)
        if len(self.listed_order) < len(self.operators):
            cycle = find_cycle(self.arrays.successors) or []
            names = [self.operators[index].id for index in cycle]
            shown = names if len(names) <= 8 else [*names[:7], "...", names[-1]]
            raise ValueError(f"the graph has a cycle: {' -> '.join([*shown, names[0]])}")
        self.__dict__["_checked"] = True
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        parts = [counted(len(self.operators), "operator"), counted(len(self.tensors), "tensor")]
        if self.parameters:
            parts.append(f"{readable_bytes(sum(self.parameter_bytes.values()))} of parameters")
        return [(None, Bare(part)) for part in (brief(self.name), *parts)]

    @cached_property
    def operator_ids(self) -> tuple[str, ...]:
        """The id of every operator, in the order of ``operators``."""
        return tuple(op.id for op in self.operators)

    @cached_property
    def tensor_ids(self) -> tuple[str, ...]:
        """The id of every tensor, in the order of ``tensors``."""
        return tuple(tensor.id for tensor in self.tensors)

    @cached_property
    def parameter_ids(self) -> tuple[str, ...]:
        """The id of every parameter, in the order of ``parameters``."""
        return tuple(parameter.id for parameter in self.parameters)

    @cached_property
    def operator_index(self) -> dict[str, int]:
        """Position of every operator id in ``operators``."""
        return dict(zip(self.operator_ids, range(len(self.operators)), strict=True))

    @cached_property
    def tensor_index(self) -> dict[str, int]:
        """Position of every tensor id in ``tensors``."""
        return dict(zip(self.tensor_ids, range(len(self.tensors)), strict=True))

    @cached_property
    def producer(self) -> dict[str, str]:
        """Operator id that writes each tensor; graph inputs are absent."""
        return {tensor: op.id for op in self.operators for tensor in op.outputs}

    @cached_property
    def storage(self) -> dict[str, str]:
        """Id of the tensor at the root of each tensor's aliases, which owns the bytes."""
        return _storage_roots(self.tensors)

    @cached_property
    def owned_bytes(self) -> dict[str, int]:
        """Bytes of storage that each tensor owns, by id; 0 for an alias."""
        return {tensor.id: tensor.bytes if tensor.alias_of is None else 0 for tensor in self.tensors}

    @cached_property
    def parameter_bytes(self) -> dict[str, int]:
        """Bytes of every parameter, by id."""
        return {parameter.id: parameter.bytes for parameter in self.parameters}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that no operator writes."""
        made = self.producer
        return tuple(name for name in self.tensor_ids if name not in made)

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph as index arrays, for algorithms."""
        index, tensors, operators = self.tensor_index, self.tensors, len(self.operators)
        reads = Adjacency.from_lists([[index[name] for name in dict.fromkeys(op.inputs)] for op in self.operators])
        writes = Adjacency.from_lists([[index[name] for name in op.outputs] for op in self.operators])
        producer = np.full(len(tensors), -1, dtype=np.int64)
        producer[writes.items] = writes.heads()
        reader, source = reads.heads(), producer[reads.items]
        successors = Adjacency.from_pairs(operators, source[source >= 0], reader[source >= 0])
        return GraphArrays(
            tensor_bytes=np.asarray([tensor.bytes for tensor in tensors], dtype=np.int64),
            storage=np.asarray([index[self.storage[tensor.id]] for tensor in tensors], dtype=np.int64),
            reads=reads,
            writes=writes,
            producer=producer,
            consumers=Adjacency.from_pairs(len(tensors), reads.items, reader),
            predecessors=successors.reversed(operators),
            successors=successors,
        )

    @cached_property
    def listed_order(self) -> IntArray:
        """Positions of the operators, each behind what it reads, otherwise as ``operators`` lists them."""
        return topological_order(self.arrays.successors)

    @cached_property
    def uses(self) -> Adjacency:
        """Parameters of every operator by position in ``parameters``, each once."""
        index = dict(zip(self.parameter_ids, range(len(self.parameters)), strict=True))
        return Adjacency.from_lists([[index[name] for name in dict.fromkeys(op.parameters)] for op in self.operators])

    @cached_property
    def parameter_sizes(self) -> IntArray:
        """Bytes of every parameter. Shape (parameters,)."""
        return np.asarray([parameter.bytes for parameter in self.parameters], dtype=np.int64)

    @cached_property
    def workspace_sizes(self) -> IntArray:
        """Bytes of every operator's workspace. Shape (operators,)."""
        return np.asarray([op.workspace_bytes for op in self.operators], dtype=np.int64)

    @cached_property
    def sizes_made(self) -> IntArray:
        """Bytes of the workspace of every operator and of the storages that it writes. Shape (operators,)."""
        arrays = self.arrays
        own = arrays.storage[arrays.writes.items] == arrays.writes.items
        made = np.array(self.workspace_sizes)
        np.add.at(made, arrays.writes.heads()[own], arrays.tensor_bytes[arrays.writes.items[own]])
        return made

    @cached_property
    def digraph(self) -> nx.DiGraph[str]:
        """Operators as a networkx graph, with an edge from each that makes a tensor to each that reads it."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        graph.add_nodes_from(self.operator_ids)
        made = self.producer
        graph.add_edges_from((made[name], op.id) for op in self.operators for name in op.inputs if name in made)
        return graph

    def positions(self, names: tuple[str, ...]) -> IntArray:
        """Positions of operators in ``operators``, given their ids. Shape (names,)."""
        if names == self.operator_ids:  # soon compared, since most plans have the graph's own strings
            return np.arange(len(names))
        return np.asarray(list(map(self.operator_index.__getitem__, names)), dtype=np.int64)


def _refuse_duplicates(what: str, ids: Iterable[str]) -> None:
    twice = repeated(ids)
    if twice is not None:
        raise ValueError(f"{what} id {twice!r} is used more than once; ids must be unique")


def _check_sizes(graph: OpGraph) -> None:
    edges = sum(len(op.inputs) + len(op.outputs) for op in graph.operators)
    for what, count, cap in (
        ("operators", len(graph.operators), DEFAULT_LIMITS.operators),
        ("tensors", len(graph.tensors), DEFAULT_LIMITS.tensors),
        ("edges", edges, DEFAULT_LIMITS.edges),
    ):
        if count > cap:
            raise ValueError(f"the graph has {count:,} {what}; opweave takes at most {cap:,}")
    owned = sum(tensor.bytes for tensor in graph.tensors if tensor.alias_of is None)
    held = owned + sum(op.workspace_bytes for op in graph.operators)
    if held > MAX_BYTES_TOGETHER:
        raise ValueError(
            f"tensors and workspaces add up to {held:,} bytes; opweave takes at most 2**62 in all, so check the sizes"
        )


def _check_references(graph: OpGraph) -> None:
    tensors, parameters, writer = graph.tensor_index, set(graph.parameter_ids), dict[str, str]()
    for op in graph.operators:
        refuse_unknown(f"operator {op.id!r} reads", "tensor", op.inputs, tensors)
        refuse_unknown(f"operator {op.id!r} writes", "tensor", op.outputs, tensors)
        refuse_unknown(f"operator {op.id!r} uses", "parameter", op.parameters, parameters)
        for name in op.outputs:
            if writer.get(name) == op.id:
                raise ValueError(f"operator {op.id!r} lists {name!r} twice among its outputs")
            if name in writer:
                raise ValueError(f"tensor {name!r} is written by both {writer[name]!r} and {op.id!r}")
            writer[name] = op.id
    refuse_unknown("the outputs name", "tensor", graph.outputs, tensors)
    for tensor in graph.tensors:
        whole = () if tensor.alias_of is None else (tensor.alias_of,)
        refuse_unknown(f"tensor {tensor.id!r} is an alias of", "tensor", whole, tensors)


def _storage_roots(tensors: Sequence[Tensor]) -> dict[str, str]:
    parent = {tensor.id: tensor.alias_of for tensor in tensors}
    root: dict[str, str] = {}
    for tensor in tensors:
        chain = [tensor.id]
        while chain[-1] not in root and (above := parent[chain[-1]]) is not None:
            if above == chain[-1]:
                raise ValueError(f"tensor {above!r} is an alias of itself")
            if len(chain) > len(parent):
                raise ValueError(f"the aliases of tensor {tensor.id!r} run in a circle")
            chain.append(above)
        root |= dict.fromkeys(chain, root.get(chain[-1], chain[-1]))
    return root


def _check_aliases(graph: OpGraph) -> None:
    """The operator that makes an alias must read the storage; otherwise the storage could be freed before."""
    aliases = {tensor.id for tensor in graph.tensors if tensor.alias_of is not None}
    for op in graph.operators if aliases else ():
        read = {graph.storage[name] for name in op.inputs}
        for name in op.outputs:
            if name in aliases and graph.storage[name] not in read:
                raise ValueError(
                    f"operator {op.id!r} writes {name!r}, an alias of storage {graph.storage[name]!r}, without reading "
                    "that storage; add it to the operator's inputs or drop alias_of"
                )
    for name in aliases - graph.producer.keys():
        if graph.storage[name] in graph.producer:
            raise ValueError(f"graph input {name!r} is an alias of {graph.storage[name]!r}, which an operator writes")
