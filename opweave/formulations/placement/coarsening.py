"""GCOF, graph coarsening by operator fusion: chains that the runtime fuses become one operator (Algorithm 1).

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices". The
printed pseudo-code is read for its intent: chains grow from the first operators, the longest rule wins, and operators
that only began a rule are released again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from opweave.formulations.placement.coarsening_rules import BACKENDS, Rule, longest_chain, short_kind
from opweave.formulations.placement.instance import lower
from opweave.formulations.placement.messages import messages_of
from opweave.formulations.placement.retime import retimed
from opweave.formulations.reduction import Reduction
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.problems.spec import FrozenDict

Chain = tuple[int, ...]
Intermediates = Literal["kept", "dropped"]
FusedCost = Callable[[Sequence[str], str], float | None]
"""``(operator ids in order, device name) -> seconds`` of the fused operator; None if it cannot run there."""

KNOWN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, Separate, Precede, MaxDevices, MemoryCap)
"""Side constraints that hold for a lifted schedule if they hold for the smaller one and name only unfused operators."""


@dataclass(frozen=True, slots=True)
class Coarsening:
    """The reduction, and what it fused.

    Attributes
    ----------
    reduction
        The smaller problem, and the conversion of its schedules back. It is exact only if nothing was fused, because
        splitting a chain over devices may pay.
    before, after
        Number of operators in the original and in the smaller problem.
    members
        The original operators, in order, of every operator of the smaller problem.
    """

    reduction: Reduction[Placement, Schedule]
    before: int
    after: int
    members: FrozenDict[str, tuple[str, ...]]


def coarsen(
    problem: Placement,
    *,
    rules: Sequence[Rule] = BACKENDS["default"],
    fused_cost: FusedCost | None = None,
    intermediates: Intermediates = "kept",
) -> Coarsening:
    """Fuse chains of operators according to rules.

    An operator is fused with its successor only if it has no other successor. Then every path that leaves it passes
    through that successor, so no cycle can arise. Not fused: operators that make graph outputs before the end of a
    chain, operators that side constraints name, and chains that no device can run as a whole. If a side constraint is
    not one of opweave's own, nothing is fused, because its meaning is unknown.

    Parameters
    ----------
    problem
        The problem to coarsen.
    rules
        See :mod:`~opweave.formulations.placement.coarsening_rules`.
    fused_cost
        Seconds of a fused operator; by default, the sum of its members' times. A lifted schedule always takes the
        members' own times, so it has the same length only with the default.
    intermediates
        ``"kept"``: a fused operator needs as much memory as its members, so a lifted schedule fits. ``"dropped"``:
        results inside it take no memory (the paper); a lifted schedule may then be too large for a runtime without
        fusion.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import Operator, OpGraph, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=4) for name in "xyz"],
    ...     operators=[
    ...         Operator(id="c", kind="Conv", inputs=["x"], outputs=["y"]),
    ...         Operator(id="r", kind="Relu", inputs=["y"], outputs=["z"]),
    ...     ],
    ... )
    >>> cluster = Cluster(devices=[Device(name="a")])
    >>> problem = Placement(graph=graph, cluster=cluster, costs=Costs.from_table({"c": {"a": 2.0}, "r": {"a": 1.0}}))
    >>> coarsening = coarsen(problem)
    >>> coarsening.before, coarsening.after, coarsening.members["c..r"]
    (2, 1, ('c', 'r'))
    >>> small = Schedule(device={"c..r": "a"}, start={"c..r": 0.0})
    >>> dict(coarsening.reduction.lift(small).start)
    {'c': 0.0, 'r': 2.0}
    """
    cost = fused_cost or partial(_summed, problem)
    chains = list(_chains(problem, rules, cost))
    coarse = CoarseGraph(problem.graph, chains, intermediates)
    ids = problem.graph.operator_ids
    members = {name: tuple(ids[v] for v in chain) for name, chain in zip(coarse.names, chains, strict=True)}
    smaller = Placement(
        graph=coarse.build(),
        cluster=problem.cluster,
        costs=_costs(problem, members, cost),
        constraints=problem.constraints,
        transfers=problem.transfers,
        memory=problem.memory,
    )
    lift = partial(_expanded, problem, members)
    if fused_cost is not None:
        lift = partial(_replanned, problem, members, fused_cost)
    return Coarsening(
        Reduction(smaller, lift, exact=len(chains) == len(ids)), len(ids), len(chains), FrozenDict(members)
    )


def _chains(problem: Placement, rules: Sequence[Rule], cost: FusedCost) -> Iterator[Chain]:
    """Chains in a topological order of the original's operators; most consist of one operator."""
    following = _following(problem)
    kinds = [short_kind(op.kind) for op in problem.graph.operators]
    ids = problem.graph.operator_ids
    devices = [device.name for device in problem.cluster.devices]
    joined = np.full(len(ids), -1, dtype=np.int64)
    grown: list[list[int]] = []
    for v in problem.graph.listed_order.tolist():
        if joined[v] >= 0:
            continue
        chain, whole = [v], 1
        more = longest_chain(rules, [kinds[v]])[1]
        while more:
            w = following[chain[-1]]
            if w < 0 or joined[w] >= 0 or _reads_again(problem, chain, w):
                break
            chain.append(w)
            complete, more = longest_chain(rules, [kinds[u] for u in chain])
            if complete == len(chain) and any(cost([ids[u] for u in chain], name) is not None for name in devices):
                whole = complete
        grown.append(chain[:whole])
        joined[chain[:whole]] = len(grown) - 1
    yield from _in_order(problem, grown, joined.tolist())


def _in_order(problem: Placement, grown: list[list[int]], joined: list[int]) -> Iterator[Chain]:
    """Sort chains after those whose results they read. A cycle would be an error of :func:`_chains`, and is refused."""
    import networkx as nx

    arrays = problem.graph.arrays.successors
    between: nx.DiGraph[int] = nx.DiGraph()
    between.add_nodes_from(range(len(grown)))
    ends = zip(arrays.heads().tolist(), arrays.items.tolist(), strict=True)
    between.add_edges_from((joined[u], joined[v]) for u, v in ends if joined[u] != joined[v])
    for number in nx.lexicographical_topological_sort(between):
        yield tuple(grown[number])


def _following(problem: Placement) -> list[int]:
    """The operator with which each may be fused: its only successor; -1 if there is none or it must stay alone."""
    graph, arrays = problem.graph, problem.graph.arrays
    alone = _unfusable(problem)
    outputs = set(graph.outputs)
    following = [-1] * len(graph.operators)
    for v, op in enumerate(graph.operators):
        after = arrays.successors[v]
        if len(after) != 1 or v in alone or int(after[0]) in alone or not outputs.isdisjoint(op.outputs):
            continue
        following[v] = int(after[0])
    return following


def _reads_again(problem: Placement, chain: Sequence[int], w: int) -> bool:
    """Whether a tensor sent once to the fused operator would have to be sent to its members one by one."""
    if problem.transfers != "one_port_edge":
        return False
    operators = problem.graph.operators
    read = {name for v in chain for name in operators[v].inputs}
    return any(name in read and name in problem.graph.producer for name in operators[w].inputs)


def _unfusable(problem: Placement) -> set[int]:
    """Operators that side constraints name; all operators if a constraint is of an unknown kind."""
    index = problem.graph.operator_index
    if any(type(constraint) not in KNOWN for constraint in problem.constraints):
        return set(index.values())
    named: set[object] = set()
    for constraint in problem.constraints:
        for value in constraint.model_dump().values():
            named.update(value if isinstance(value, tuple | list) else [value])
    return {index[name] for name in named if isinstance(name, str) and name in index}


def _summed(problem: Placement, members: Sequence[str], device: str) -> float | None:
    seconds = [problem.known_seconds[name].get(device) for name in members]
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _costs(problem: Placement, members: dict[str, tuple[str, ...]], cost: FusedCost) -> Costs:
    devices = [device.name for device in problem.cluster.devices]
    known = problem.known_seconds
    rows = [
        tuple(known[inner[0]].get(name) if len(inner) == 1 else cost(inner, name) for name in devices)
        for inner in members.values()
    ]
    return Costs(operators=tuple(members), devices=tuple(devices), table=tuple(rows))


def _expanded(problem: Placement, members: dict[str, tuple[str, ...]], schedule: Schedule) -> Schedule:
    """The members run back to back within the time of their fused operator."""
    device: dict[str, str] = {}
    start: dict[str, float] = {}
    reader = _readers(problem, members)
    for name, inner in members.items():
        where, begin = schedule.device[name], schedule.start[name]
        for op in inner:
            device[op], start[op] = where, begin
            begin += problem.known_seconds[op][where]
    sent = (
        each if each.consumer is None else each.model_copy(update={"consumer": reader[each.consumer, each.tensor]})
        for each in schedule.transfers
    )
    return Schedule(device=FrozenDict(device), start=FrozenDict(start), transfers=tuple(sent))


def _readers(problem: Placement, members: dict[str, tuple[str, ...]]) -> dict[tuple[str, str], str]:
    """The member that reads a tensor first, for every fused operator and tensor."""
    operators, index = problem.graph.operators, problem.graph.operator_index
    found: dict[tuple[str, str], str] = {}
    for name, inner in members.items():
        for op in inner:
            for tensor in operators[index[op]].inputs:
                found.setdefault((name, tensor), op)
    return found


def _replanned(
    problem: Placement, members: dict[str, tuple[str, ...]], cost: FusedCost, schedule: Schedule
) -> Schedule:
    """The same devices and order, with the members' own times."""
    rough = _expanded(problem, members, schedule)
    instance = lower(problem)
    position = problem.graph.operator_index
    start = np.asarray([rough.start[name] for name in instance.names])
    for name, inner in members.items():  # only the middles count, and they lie within the fused operator's time
        lasts = (cost(inner, schedule.device[name]) or 0.0) if len(inner) > 1 else None
        for place, op in enumerate(inner):
            own = problem.known_seconds[op][schedule.device[name]]
            if lasts is not None:
                start[position[op]] = schedule.start[name] + lasts * (place + 0.5) / len(inner) - own / 2
    index = {name: k for k, name in enumerate(instance.devices)}
    messages = messages_of(instance, problem.transfers)
    when = {_address(each): each.start for each in rough.transfers}
    sent = np.zeros(len(messages))
    device = [index[rough.device[name]] for name in instance.names]
    for m, message in enumerate(messages):
        way = message.route(device)
        if way is not None:
            reader = instance.names[message.readers[0]] if problem.transfers == "one_port_edge" else None
            sent[m] = when.get((instance.tensors[message.tensor], reader, instance.devices[way.target]), 0.0)
    return retimed(problem.transfers, instance, messages, device, start, sent)


def _address(sent: Transfer) -> tuple[str, str | None, str]:
    return sent.tensor, sent.consumer, sent.target


class CoarseGraph:
    """Names and writes the operators of the smaller graph.

    Parameters
    ----------
    graph, chains
        The original graph, and for every operator of the smaller graph the positions of its members, in order. Chains
        are in a topological order.
    intermediates
        ``"dropped"``: results inside a chain take no memory (the paper). ``"kept"``: they count as workspace, so that a
        device that holds a fused operator can also hold its members.
    """

    def __init__(self, graph: OpGraph, chains: Sequence[Chain], intermediates: Intermediates) -> None:
        self._graph, self._chains, self._intermediates = graph, chains, intermediates
        self.names = self._named()
        self._made = {tensor.id: tensor for tensor in graph.tensors}
        self._inner = {name for chain in chains for v in chain[:-1] for name in graph.operators[v].outputs}
        self._storage: dict[str, str] = {}
        self._kept: dict[str, Tensor] = {}

    def build(self) -> OpGraph:
        """The smaller graph; tensors, parameters and unfused operators keep their ids."""
        for name in self._graph.inputs:
            self._keep(name, self._graph.storage[name])
        operators = [self._operator(chain, name) for chain, name in zip(self._chains, self.names, strict=True)]
        return OpGraph(
            name=self._graph.name,
            operators=tuple(operators),
            tensors=tuple(self._kept[tensor.id] for tensor in self._graph.tensors if tensor.id in self._kept),
            parameters=self._graph.parameters,
            outputs=self._graph.outputs,
        )

    def _keep(self, name: str, storage: str) -> None:
        self._storage[name] = storage
        alias = None if storage == name else storage
        self._kept[name] = self._made[name].model_copy(update={"alias_of": alias})

    def _operator(self, chain: Chain, name: str) -> Operator:
        members = [self._graph.operators[v] for v in chain]
        inside = {tensor for op in members[:-1] for tensor in op.outputs}
        inputs = tuple(dict.fromkeys(tensor for op in members for tensor in op.inputs if tensor not in inside))
        read = {self._storage[tensor] for tensor in inputs}
        for tensor in members[-1].outputs:
            self._keep(tensor, self._storage_of(tensor, read))
        if len(members) == 1:
            return members[0]
        return Operator(
            id=name,
            kind="+".join(op.kind for op in members),
            inputs=inputs,
            outputs=members[-1].outputs,
            workspace_bytes=self._workspace(members),
            parameters=tuple(dict.fromkeys(parameter for op in members for parameter in op.parameters)),
            flops=sum(op.flops for op in members),
        )

    def _storage_of(self, tensor: str, read: set[str]) -> str:
        """The tensor whose storage a result shares; a view of a result inside a chain owns its bytes now."""
        above = self._made[tensor].alias_of
        while above is not None and above in self._inner:
            above = self._made[above].alias_of
        storage = tensor if above is None else self._storage.get(above, tensor)
        return storage if storage in read else tensor

    def _workspace(self, members: Sequence[Operator]) -> int:
        if self._intermediates == "dropped":
            return max(op.workspace_bytes for op in members)
        owned = [self._made[name].bytes for op in members for name in op.outputs if self._made[name].alias_of is None]
        written = [self._kept[name] for name in members[-1].outputs]
        own_now = sum(tensor.bytes for tensor in written if tensor.alias_of is None)
        return max(0, sum(owned) + sum(op.workspace_bytes for op in members) - own_now)

    def _named(self) -> list[str]:
        taken = {op.id for op in self._graph.operators}
        names = []
        for number, chain in enumerate(self._chains):
            first, last = (self._graph.operators[v].id for v in (chain[0], chain[-1]))
            name = first
            if len(chain) > 1:
                name = f"{first}..{last}"
                if len(name) > DEFAULT_LIMITS.id_characters - 8:
                    name = f"fused {number}"
                while name in taken:
                    name = f"{name}'"
                taken.add(name)
            names.append(name)
        return names
