"""Hypothesis strategies for everything a user can build: small, legal, and odd in every way that is legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from hypothesis.strategies import DataObject, SearchStrategy, permutations

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.placement.spec import Placement, Schedule
from tests.oracles.placement import as_schedule, earliest_starts, tasks_of
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn, lists_of, of, or_none

SIZES = of(4, 4, 4, 1, 2, 2, 7, 0)
"""Bytes: few values, so that tensors often have the same size and may overwrite each other."""

SPEEDS = of(1.0, 2.0, 3.0, 10.0)
SPEEDS_OR_0 = st.just(0.0) | SPEEDS
BATCH_SIZES = st.none() | st.sets(st.integers(1, 4), min_size=1)
LATENCY = of(0.0, 0.1, 2.0)
SECOND = of(0.0, 0.5, 1.0, 2.0, 5.0)
SECOND_OR_NONE = SECOND | st.none()


@dataclass
class _Builder:
    """A graph under construction; whatever has been added so far is legal."""

    draw: DrawFn
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    storage: dict[str, str] = field(default_factory=dict)

    def add_tensor(self, alias_of: str | None = None) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(id=name, bytes=self.draw(SIZES), alias_of=alias_of))
        self.storage[name] = name if alias_of is None else self.storage[alias_of]
        return name

    def add_operator(self, parameters: list[Parameter], *, aliases: bool) -> None:
        names = [tensor.id for tensor in self.tensors]
        made = [name for op in self.operators for name in op.outputs]
        readable = names + made  # results count twice: more edges, fewer loose ends
        inputs = self.draw(lists_of(of(*readable), self.draw(of(1, 1, 1, 0)), 3)) if names else []
        outputs = []
        for _ in range(self.draw(of(1, 1, 1, 1, 2, 2, 0))):
            viewed = self.draw(or_none(of(*inputs), 2)) if aliases and inputs else None
            outputs.append(self.add_tensor(viewed))
        self._append(
            kind=self.draw(of("Conv", "Relu", "Add")),
            inputs=inputs,
            outputs=outputs,
            workspace_bytes=self.draw(of(0, 0, 0, 1, 5)),
            parameters=self.draw(lists_of(of(*[p.id for p in parameters]), 0, 2)) if parameters else [],
            flops=self.draw(of(0.0, 1.0, 20.0)),
            inplace_ok=self.draw(of(False, True, True)),
        )

    def add_twin(self) -> None:
        """Repeat an operator: the same inputs read, outputs of the same sizes written."""
        twin = self.draw(st.sampled_from(self.operators))
        made = {tensor.id: tensor for tensor in self.tensors}
        outputs = []
        for name in twin.outputs:
            outputs.append(f"t{len(self.tensors)}")
            self.tensors.append(made[name].model_copy(update={"id": outputs[-1]}))
            alias = made[name].alias_of
            self.storage[outputs[-1]] = outputs[-1] if alias is None else self.storage[alias]
        fields = {name: getattr(twin, name) for name in Operator.model_fields if name not in ("id", "outputs")}
        self._append(outputs=outputs, **fields)

    def _append(self, **fields: object) -> None:
        self.operators.append(Operator(id=f"o{len(self.operators)}", **fields))


@st.composite
def op_graphs(draw: DrawFn, max_operators: int = 6, *, min_operators: int = 1, aliases: bool = True) -> OpGraph:
    """Acyclic graphs with several outputs per operator, views, workspaces, twins and disconnected parts.

    Results that nobody reads, inputs that nobody reads or that are passed straight to the outputs, operators without
    inputs or outputs, zero sizes and shared parameters all occur. Operators are listed in any order.
    """
    builder = _Builder(draw)
    for _ in range(draw(st.integers(0, 3))):
        builder.add_tensor()
    parameters = [Parameter(id=f"w{index}", bytes=draw(SIZES)) for index in range(draw(st.integers(0, 2)))]
    for _ in range(draw(of(*range(min_operators, max_operators + 1)))):
        if builder.operators and draw(st.integers(0, 4)) == 0:
            builder.add_twin()
        else:
            builder.add_operator(parameters, aliases=aliases)
    names = [tensor.id for tensor in builder.tensors]
    outputs = draw(lists_of(of(*names), 0, 2, unique=True)) if names else []
    return OpGraph(
        operators=draw(permutations(builder.operators)),
        tensors=builder.tensors,
        parameters=parameters,
        outputs=outputs,
    )


@st.composite
def _precedes(draw: DrawFn, graph: OpGraph, *, contradictory: bool) -> list[Precede]:
    """Extra arcs: along one drawn order of the graph, or against each other."""
    names = [op.id for op in graph.operators]
    if len(names) < 2:
        return []
    if contradictory:
        first, second = draw(permutations(names))[:2]
        return [Precede(before=first, after=second), Precede(before=second, after=first)]
    order = draw(topological_orders(graph))
    pairs = [(before, after) for index, before in enumerate(order) for after in order[index + 1 :]]
    chosen = draw(lists_of(of(*pairs), 0, 3, unique=True))
    return [Precede(before=before, after=after) for before, after in chosen]


@st.composite
def topological_orders(draw: DrawFn, graph: OpGraph) -> tuple[str, ...]:
    """Orders in which the graph's operators can run."""
    names = [op.id for op in graph.operators]
    waiting = {name: {graph.operators[int(i)].id for i in graph.arrays.predecessors[k]} for k, name in enumerate(names)}
    order: list[str] = []
    while waiting:
        ready = [name for name, before in waiting.items() if not before]
        order.append(draw(of(*ready)))
        del waiting[order[-1]]
        for before in waiting.values():
            before.discard(order[-1])
    return tuple(order)


@st.composite
def memory_orderings(
    draw: DrawFn,
    max_operators: int = 6,
    *,
    graphs: SearchStrategy[OpGraph] | None = None,
    limits: bool = True,
    precedes: bool = True,
    contradictory: bool = False,
) -> MemoryOrdering:
    """Ordering problems with every reading of memory; feasible or not.

    Parameters
    ----------
    max_operators
        At most this many operators; up to 7 suits brute force.
    graphs
        Where the graphs come from, if not from :func:`op_graphs`.
    limits
        Whether some of them limit the bytes.
    precedes
        Whether some of them carry ``Precede`` constraints that some order satisfies.
    contradictory
        Whether the constraints contradict each other instead (whenever there are two operators or more).
    """
    graph = draw(op_graphs(max_operators) if graphs is None else graphs)
    constraints: list[Precede] = []
    if contradictory or (precedes and draw(st.booleans())):
        constraints = draw(_precedes(graph, contradictory=contradictory))
    return MemoryOrdering(
        graph=graph,
        constraints=constraints,
        objective=draw(of("peak", "total")),
        in_place=draw(of("none", "first", "any")),
        limit_bytes=draw(or_none(st.integers(4, 24), 2)) if limits else None,
        inputs=draw(of("freed", "kept", "excluded")),
        outputs=draw(of("kept", "excluded")),
    )


def _matrix(count: int, entries: SearchStrategy[float]) -> SearchStrategy[list[list[float]]]:
    return lists_of(lists_of(entries, count, count), count, count)


@cache
def _latencies(count: int) -> SearchStrategy[float | list[list[float]]]:
    return LATENCY | _matrix(count, LATENCY)


@st.composite
def clusters(
    draw: DrawFn, max_devices: int = 4, *, min_devices: int = 1, speeds: bool = False, connected: bool = False
) -> Cluster:
    """Clusters with every description of links, unlike directions, missing links, twins among the devices.

    Parameters
    ----------
    max_devices, min_devices
        How many devices.
    speeds
        Whether every device has the speeds that a roofline needs.
    connected
        Whether every device can reach every other.
    """
    count = draw(st.integers(min_devices, max_devices))
    speed = SPEEDS if speeds else or_none(SPEEDS)
    devices = [
        Device(
            name=f"d{index}",
            memory_bytes=draw(or_none(st.integers(0, 40))),
            flops_per_second=draw(speed),
            memory_bandwidth=draw(speed),
            launch_seconds=draw(of(0.0, 0.5)),
            batch_sizes=draw(BATCH_SIZES),
        )
        for index in range(count)
    ]
    if count > 1 and draw(st.booleans()):
        devices[-1] = devices[0].model_copy(update={"name": devices[-1].name})
    rate = SPEEDS if connected else SPEEDS_OR_0
    links: dict[str, object] = {}
    match draw(of("bandwidth", "rates", "shared")):
        case "bandwidth":
            links["bandwidth"] = draw(_matrix(count, rate))
        case "rates":
            links["rates"] = draw(lists_of(rate, count, count))
        case _:
            links["shared"] = draw(rate)
    return Cluster(devices=devices, latency=draw(_latencies(count)), **links)


@st.composite
def costs(
    draw: DrawFn, graph: OpGraph, cluster: Cluster, *, complete: bool = True, batches: tuple[int, ...] = (1,)
) -> Costs:
    """Tables for a graph on a cluster; with ``complete=False`` some times are unknown."""
    entry = SECOND if complete else SECOND_OR_NONE
    width = len(cluster.devices) * len(batches)
    return Costs(
        operators=[op.id for op in graph.operators],
        devices=[device.name for device in cluster.devices],
        batches=batches,
        table=[draw(lists_of(entry, width, width)) for _ in graph.operators],
    )


@st.composite
def placement_constraints(draw: DrawFn, graph: OpGraph, cluster: Cluster, *, precedes: bool) -> list[Constraint]:
    """Up to three side constraints; together they may be impossible to obey."""
    drawn = [drawn_constraint(draw, graph, cluster, 20) for _ in range(draw(st.integers(0, 3)))]
    return [*drawn, *draw(_precedes(graph, contradictory=False))] if precedes else drawn


def drawn_constraint(draw: DrawFn, graph: OpGraph, cluster: Cluster, most_bytes: int) -> Constraint:
    """A rule about devices."""
    ops, device = of(*[op.id for op in graph.operators]), of(*[device.name for device in cluster.devices])
    kinds = (Pin, Forbid, MaxDevices, MemoryCap, Colocate, Separate)[: 6 if len(graph.operators) > 1 else 4]
    kind = draw(of(*kinds))
    if kind is MaxDevices:
        return MaxDevices(count=draw(st.integers(1, len(cluster.devices))))
    if kind is MemoryCap:
        return MemoryCap(device=draw(device), bytes=draw(st.integers(0, most_bytes)))
    if kind in (Pin, Forbid):
        return kind(op=draw(ops), device=draw(device))
    return kind(ops=draw(lists_of(ops, 2, 3, unique=True)))


@st.composite
def placements(
    draw: DrawFn,
    max_operators: int = 4,
    max_devices: int = 3,
    *,
    min_devices: int = 1,
    graphs: SearchStrategy[OpGraph] | None = None,
    free: bool = False,
    precedes: bool = False,
) -> Placement:
    """Placement problems with every reading of transfers and memory; feasible or not.

    Parameters
    ----------
    max_operators, max_devices
        At most this many; up to 5 and 3 suit brute force.
    min_devices
        At least this many.
    graphs
        Where the graphs come from, if not from :func:`op_graphs`.
    free
        Whether any assignment is allowed: all links there, all times known, no limits, no side constraints.
    precedes
        Whether ``Precede`` may be among the side constraints.
    """
    graph = draw(op_graphs(max_operators) if graphs is None else graphs)
    cluster = draw(clusters(max_devices, min_devices=min_devices, connected=free or draw(st.booleans())))
    if free or draw(st.booleans()):
        unlimited = [device.model_copy(update={"memory_bytes": None}) for device in cluster.devices]
        cluster = cluster.model_copy(update={"devices": tuple(unlimited)})
    table = draw(costs(graph, cluster, complete=free or draw(st.booleans())))
    rows = [row if any(entry is not None for entry in row) else (1.0, *row[1:]) for row in table.table]
    return Placement(
        graph=graph,
        cluster=cluster,
        costs=table.model_copy(update={"table": tuple(rows)}),
        constraints=[] if free else draw(placement_constraints(graph, cluster, precedes=precedes)),
        transfers=draw(of("one_port_tensor", "one_port_edge", "delay")),
        memory=draw(of("additive", "parameters")),
    )


@st.composite
def planned_placements(
    draw: DrawFn, max_operators: int = 5, max_devices: int = 3, *, transfers: bool = False
) -> tuple[Placement, Schedule]:
    """A problem that allows any assignment, and a valid schedule: any devices, any order, each step at its earliest.

    With ``transfers=True`` there are ports, and something passes through them.
    """
    graphs = op_graphs(max_operators, min_operators=2).filter(lambda graph: graph.arrays.successors.items.size > 0)
    problem = draw(
        placements(
            max_operators,
            max_devices,
            min_devices=2 if transfers else 1,
            graphs=graphs if transfers else None,
            free=True,
        )
    )
    names = [device.name for device in problem.cluster.devices]
    device = {op.id: draw(of(*names)) for op in problem.graph.operators}
    if transfers:
        problem = problem.model_copy(update={"transfers": draw(of("one_port_tensor", "one_port_edge"))})
        before, after = draw(st.sampled_from(list(problem.graph.digraph.edges)))
        device[after] = draw(of(*[name for name in names if name != device[before]]))
    tasks = tasks_of(problem, device)
    assert tasks is not None
    ranks = draw(permutations(range(len(tasks))))
    return problem, as_schedule(tasks, device, earliest_starts(tasks, ranks))


def renamed(data: DataObject, graph: OpGraph, rename: Callable[[str], str]) -> OpGraph:
    """The graph with other names, its operators and tensors listed in another order."""
    operators, fields = [], ("inputs", "outputs", "parameters")
    for op in data.draw(permutations(graph.operators)):
        names = {field: tuple(map(rename, getattr(op, field))) for field in fields}
        operators.append(op.model_copy(update={"id": rename(op.id), **names}))
    tensors = [
        tensor.model_copy(update={"id": rename(tensor.id), "alias_of": tensor.alias_of and rename(tensor.alias_of)})
        for tensor in data.draw(permutations(graph.tensors))
    ]
    parameters = [each.model_copy(update={"id": rename(each.id)}) for each in graph.parameters]
    outputs = [rename(name) for name in graph.outputs]
    return OpGraph(operators=operators, tensors=tensors, parameters=parameters, outputs=outputs)
