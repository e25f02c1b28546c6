"""GCOF, graph coarsening by operator fusion: chains that the runtime fuses become one operator (Algorithm 1).

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices". The
printed pseudo-code is read for its intent: chains grow from the first operators, the longest rule wins, and operators
that only began a rule are released again.

A rule is a tuple of patterns, one for each operator of a chain. A pattern is a short kind (:func:`short_kind`), several
short kinds joined by ``|``, or a shell-style wildcard such as ``"*"``. Rules of your own are tuples like these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from typing import Any

from opweave.formulations.derived import Reduction, fused_names
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict

Rule = tuple[str, ...]
Members = Mapping[str, tuple[str, ...]]
Tensors = Mapping[str, Tensor]
Names = Mapping[str, str]

KNOWN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, Separate, Precede, MaxDevices, MemoryCap)
"""Side constraints that hold for a lifted schedule if they hold for the smaller one and name only unfused operators."""

_DATA: dict[str, Any] = json.loads((files(__package__) / "fusion_rules.json").read_text())
_SAME: dict[str, str] = {name: short for short, names in _DATA["same"].items() for name in names.split()}
_SETS = {"activation": _DATA["activation"], "pointwise": _DATA["pointwise"].format(**_DATA)}

BACKENDS: Mapping[str, tuple[Rule, ...]] = {
    name: tuple(tuple(pattern.format(**_SETS) for pattern in rule.split()) for rule in rules)
    for name, rules in _DATA["rules"].items()
}
"""Rule sets by name: the fusions of the paper and most runtimes, of ONNX Runtime, and of element-wise compilers."""

_PREFIX = re.compile(r"^(torch\.ops\.|aten(\.|::)|prims?\.|tfoplambda:|com\.microsoft[.:]+|ai\.onnx[.:]+)+")


@cache
def short_kind(kind: str) -> str:
    """An operator's kind without framework-specific parts: lower-case letters and digits, with synonyms unified.

    Examples
    --------
    >>> [short_kind(kind) for kind in ("aten.conv2d.default", "Conv", "SeparableConv2D", "aten.relu_.default")]
    ['conv', 'conv', 'conv', 'relu']
    """
    lowered = kind.strip().lower()
    bare = _PREFIX.sub("", lowered)
    if bare != lowered and not bare.startswith("__"):
        bare = re.sub(r"\.[^.]*$", "", bare)  # the overload
    word = re.sub(r"[^a-z0-9]", "", bare)
    return _SAME.get(word, word)


@cache
def _matches(pattern: str, kind: str) -> bool:
    return any(fnmatchcase(kind, part) for part in pattern.split("|"))


def longest_chain(rules: Sequence[Rule], kinds: Sequence[str]) -> tuple[int, bool]:
    """How many of the first kinds form a complete rule (0: none), and whether all of them begin a longer rule.

    Examples
    --------
    >>> longest_chain([("conv", "bn"), ("conv", "bn", "add", "relu")], ["conv", "bn", "add"])
    (2, True)
    """
    agreeing = [len(rule) for rule in rules if all(map(_matches, rule, kinds))]  # up to the end of the shorter one
    return max((each for each in agreeing if each <= len(kinds)), default=0), max(agreeing, default=0) > len(kinds)


@dataclass(frozen=True, slots=True)
class Coarsening:
    """The reduction, and what it fused.

    Attributes
    ----------
    reduction
        The smaller problem, and the conversion of its schedules back. It is exact only if nothing was fused, because
        splitting a chain over devices may pay.
    members
        The original operators, in order, of every operator of the smaller problem.
    """

    reduction: Reduction[Placement, Schedule]
    members: Members

    @property
    def after(self) -> int:
        """Number of operators of the smaller problem."""
        return len(self.members)


def coarsen(problem: Placement, *, rules: Sequence[Rule] = BACKENDS["default"]) -> Coarsening:
    """Fuse chains of operators according to rules.

    An operator is fused with its successor only if it has no other successor. Then every path that leaves it passes
    through that successor, so no cycle can arise. Not fused: operators that make graph outputs before the end of a
    chain, operators that side constraints name, and chains that no device can run as a whole. If a side constraint is
    not one of opweave's own, nothing is fused, because its meaning is unknown. A fused operator takes as long and as
    much memory as its members together, so a lifted schedule is as long and fits.

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
    >>> coarsening.after, coarsening.members["c..r"]
    (1, ('c', 'r'))
    >>> small = Schedule(device={"c..r": "a"}, start={"c..r": 0.0})
    >>> dict(coarsening.reduction.lift(small).start)
    {'c': 0.0, 'r': 2.0}
    """
    ids, devices = problem.graph.operator_ids, tuple(device.name for device in problem.cluster.devices)
    chains = [tuple(ids[v] for v in chain) for chain in _chains(problem, rules)]
    members = FrozenDict(zip(fused_names(chains, problem.graph.operator_index), chains, strict=True))
    table = tuple(tuple(_summed(problem, inner, device) for device in devices) for inner in members.values())
    graph, costs = _coarse(problem.graph, members), Costs(operators=tuple(members), devices=devices, table=table)
    smaller = Placement(
        graph=graph,
        cluster=problem.cluster,
        costs=costs,
        constraints=problem.constraints,
        transfers=problem.transfers,
        memory=problem.memory,
    )
    return Coarsening(Reduction(smaller, partial(_expanded, problem, members), len(members) == len(ids)), members)


def _chains(problem: Placement, rules: Sequence[Rule]) -> list[list[int]]:
    """Chains in a topological order of the original's operators; most consist of one operator."""
    import networkx as nx

    graph, following = problem.graph, _following(problem)
    kinds = [short_kind(op.kind) for op in graph.operators]
    joined: dict[int, int] = {}
    grown: list[list[int]] = []
    for v in graph.listed_order.tolist():
        if v in joined:
            continue
        chain, whole = [v], 1
        more = longest_chain(rules, [kinds[v]])[1]
        while more:
            w = following.get(chain[-1])
            if w is None or w in joined or _reads_again(problem, chain, w):
                break
            chain.append(w)
            complete, more = longest_chain(rules, [kinds[u] for u in chain])
            runs = set.intersection(*(set(problem.known_seconds[graph.operators[u].id]) for u in chain))
            whole = complete if complete == len(chain) and runs else whole
        joined |= dict.fromkeys(chain[:whole], len(grown))
        grown.append(chain[:whole])
    arrays = graph.arrays.successors
    between: nx.DiGraph[int] = nx.DiGraph()
    between.add_nodes_from(range(len(grown)))
    ends = zip(arrays.heads().tolist(), arrays.items.tolist(), strict=True)
    between.add_edges_from((joined[u], joined[v]) for u, v in ends if joined[u] != joined[v])
    return [grown[number] for number in nx.lexicographical_topological_sort(between)]


def _following(problem: Placement) -> dict[int, int]:
    """The operator with which each may be fused: its only successor, if neither must stay alone."""
    graph, index = problem.graph, problem.graph.operator_index
    if any(type(constraint) not in KNOWN for constraint in problem.constraints):
        return {}
    values = [value for each in problem.constraints for value in each.model_dump().values()]
    named = {name for value in values for name in (value if isinstance(value, tuple | list) else [value])}
    alone, outputs = {index[name] for name in named if name in index}, set(graph.outputs)
    return {
        v: int(after[0])
        for v, op in enumerate(graph.operators)
        if len(after := graph.arrays.successors[v]) == 1
        and alone.isdisjoint((v, int(after[0])))
        and outputs.isdisjoint(op.outputs)
    }


def _reads_again(problem: Placement, chain: Sequence[int], w: int) -> bool:
    """Whether a tensor sent once to the fused operator would have to be sent to its members one by one."""
    operators, producer = problem.graph.operators, problem.graph.producer
    read = {name for v in chain for name in operators[v].inputs if name in producer}
    return problem.transfers == "one_port_edge" and not read.isdisjoint(operators[w].inputs)


def _summed(problem: Placement, members: Sequence[str], device: str) -> float | None:
    known = [problem.known_seconds[name].get(device) for name in members]
    return None if None in known else sum(filter(None, known))


def _expanded(problem: Placement, members: Members, schedule: Schedule) -> Schedule:
    """The members run back to back within the time of their fused operator; the first that reads a tensor gets it."""
    device: dict[str, str] = {}
    start: dict[str, float] = {}
    reader: dict[tuple[str | None, str], str] = {}
    for name, inner in members.items():
        where, begin = schedule.device[name], schedule.start[name]
        for op in inner:
            device[op], start[op] = where, begin
            begin += problem.known_seconds[op][where]
            for tensor in problem.graph.operators[problem.graph.operator_index[op]].inputs:
                reader.setdefault((name, tensor), op)
    sent = (
        each if each.consumer is None else each.model_copy(update={"consumer": reader[each.consumer, each.tensor]})
        for each in schedule.transfers
    )
    return Schedule(device=FrozenDict(device), start=FrozenDict(start), transfers=tuple(sent))


def _coarse(graph: OpGraph, members: Members) -> OpGraph:
    """The smaller graph; tensors, parameters and unfused operators keep their ids.

    Results inside a chain count as workspace, so a device that holds a fused operator can also hold its members. A view
    of one owns its bytes now.
    """
    made = {tensor.id: tensor for tensor in graph.tensors}
    chains = [[graph.operators[graph.operator_index[op]] for op in inner] for inner in members.values()]
    inside = {tensor for chain in chains for op in chain[:-1] for tensor in op.outputs}
    storage = {name: graph.storage[name] for name in graph.inputs}
    operators = []
    for name, chain in zip(members, chains, strict=True):
        inputs = tuple(dict.fromkeys(tensor for op in chain for tensor in op.inputs if tensor not in inside))
        read = {storage[tensor] for tensor in inputs}
        for tensor in chain[-1].outputs:
            above = made[tensor].alias_of
            while above is not None and above in inside:
                above = made[above].alias_of
            shared = tensor if above is None else storage.get(above, tensor)
            storage[tensor] = shared if shared in read else tensor
        operators.append(chain[0] if len(chain) == 1 else _fused(name, chain, inputs, made, storage))
    kept = tuple(
        tensor.model_copy(update={"alias_of": None if storage[tensor.id] == tensor.id else storage[tensor.id]})
        for tensor in graph.tensors
        if tensor.id in storage
    )
    return OpGraph(
        name=graph.name,
        operators=tuple(operators),
        tensors=kept,
        parameters=graph.parameters,
        outputs=graph.outputs,
    )


def _fused(
    name: str,
    chain: Sequence[Operator],
    inputs: tuple[str, ...],
    made: Mapping[str, Tensor],
    storage: Mapping[str, str],
) -> Operator:
    outputs = chain[-1].outputs
    owned = sum(made[each].bytes for op in chain for each in op.outputs if made[each].alias_of is None)
    own_now = sum(made[each].bytes for each in outputs if storage[each] == each)
    return Operator(
        id=name,
        kind="+".join(op.kind for op in chain),
        inputs=inputs,
        outputs=outputs,
        workspace_bytes=max(0, owned + sum(op.workspace_bytes for op in chain) - own_now),
        parameters=tuple(dict.fromkeys(parameter for op in chain for parameter in op.parameters)),
        flops=sum(op.flops for op in chain),
    )
