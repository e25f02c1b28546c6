"""Published list rules, implemented plainly, compared with ``auto``, which must not be behind any of them.

Run ``python -m benchmarks.list_rules``; ``--graphs`` and ``--limit`` select. Each rule is a few lines that follow its
paper, for transfers that need no port, and shares no code with the library; the problem's referee judges its plan. The
graphs are seeded: 10 to 100 operators in random layers, trees and chains of forks, two to eight devices, and transfers
from much shorter to much longer than run times.

Sources: HEFT, CPOP (Topcuoglu et al. 2002), PEFT (Arabnejad and Barbosa 2014), ETF (Hwang et al. 1989), HLFET (Adam et
al. 1974), MCP (Wu and Gajski 1990), DLS (Sih and Lee 1993), BIL (Oh and Ha 1996), MET, MCT, OLB, min-min, max-min,
duplex, sufferage (Maheswaran et al. 1999, Braun et al. 2001).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, median

import opweave as ow
from benchmarks.tables import show
from opweave.problems.spec import FrozenDict

Pick = tuple[int, int]
Rule = Callable[["Graph"], "Plan"]


@dataclass
class Graph:
    """Run times by operator and device, and arcs with the seconds between each pair of devices."""

    seconds: list[list[float]]
    sent: dict[tuple[int, int], list[list[float]]]

    @cached_property
    def before(self) -> list[list[int]]:
        """Predecessors."""
        return [[u for u, w in self.sent if w == v] for v in range(len(self.seconds))]

    @cached_property
    def after(self) -> list[list[int]]:
        """Successors; operators are numbered so that successors come later."""
        return [[w for u, w in self.sent if u == v] for v in range(len(self.seconds))]

    @cached_property
    def devices(self) -> range:
        """Devices."""
        return range(len(self.seconds[0]))

    def mean_sent(self, u: int, v: int) -> float:
        """Mean over the links between different devices."""
        table = self.sent[u, v]
        return mean(table[a][b] for a in self.devices for b in self.devices if a != b)

    def rank(self, run: Callable[[list[float]], float], links: float) -> list[float]:
        """Upward rank."""
        ranks = [0.0] * len(self.seconds)
        for v in reversed(range(len(ranks))):
            ways = [links * self.mean_sent(v, w) + ranks[w] for w in self.after[v]]
            ranks[v] = run(self.seconds[v]) + max(ways, default=0.0)
        return ranks

    def depth(self) -> list[float]:
        """Downward rank."""
        depths = [0.0] * len(self.seconds)
        for v in range(len(depths)):
            ways = [depths[u] + mean(self.seconds[u]) + self.mean_sent(u, v) for u in self.before[v]]
            depths[v] = max(ways, default=0.0)
        return depths


@dataclass
class Plan:
    """A plan under construction."""

    graph: Graph
    device: dict[int, int] = field(default_factory=dict)
    start: dict[int, float] = field(default_factory=dict)
    busy: list[list[tuple[float, float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.busy = [[] for _ in self.graph.devices]

    def arrival(self, v: int, k: int) -> float:
        """The time when all inputs can be on a device."""
        ends = {u: self.start[u] + self.graph.seconds[u][self.device[u]] for u in self.graph.before[v]}
        return max((end + self.graph.sent[u, v][self.device[u]][k] for u, end in ends.items()), default=0.0)

    def free(self, k: int) -> float:
        """The time when a device has finished everything assigned to it."""
        return self.busy[k][-1][1] if self.busy[k] else 0.0

    def begin(self, v: int, k: int, gaps: bool) -> float:
        """The time when an operator would start, in a gap or after everything else."""
        ready, lasts = self.arrival(v, k), self.graph.seconds[v][k]
        if not gaps:
            return max(ready, self.free(k))
        for first, last in self.busy[k]:
            if ready + lasts <= first:
                return ready
            ready = max(ready, last)
        return ready

    def end(self, v: int, k: int, gaps: bool) -> float:
        """The time when it would end."""
        return self.begin(v, k, gaps) + self.graph.seconds[v][k]

    def put(self, v: int, k: int, gaps: bool) -> None:
        """Decide."""
        begin = self.begin(v, k, gaps)
        self.device[v], self.start[v] = k, begin
        self.busy[k] = sorted([*self.busy[k], (begin, begin + self.graph.seconds[v][k])])

    def ready(self) -> list[int]:
        """Operators whose predecessors are all scheduled."""
        names = range(len(self.graph.seconds))
        return [v for v in names if v not in self.start and all(u in self.start for u in self.graph.before[v])]


def by_priority(graph: Graph, priority: list[float], cost: Callable[[Plan, int, int], float], gaps: bool) -> Plan:
    """Schedule the ready operator with the highest priority on the device with the least cost."""
    plan = Plan(graph)
    while waiting := plan.ready():
        v = max(waiting, key=lambda v: priority[v])
        plan.put(v, min(graph.devices, key=lambda k: cost(plan, v, k)), gaps)
    return plan


def by_pair(graph: Graph, pick: Callable[[Plan, list[int]], Pick]) -> Plan:
    """Choose operator and device together at every step."""
    plan = Plan(graph)
    while waiting := plan.ready():
        plan.put(*pick(plan, waiting), gaps=False)
    return plan


def least(graph: Graph, cost: Callable[[Plan, int, int], tuple[float, ...]]) -> Plan:
    """The pair with the least cost."""
    return by_pair(graph, lambda plan, ready: min(((v, k) for v in ready for k in graph.devices),
                                                  key=lambda pair: cost(plan, *pair)))  # fmt: skip


def heft(graph: Graph) -> Plan:
    """Upward rank, earliest end with insertion."""
    return by_priority(graph, graph.rank(mean, 1.0), lambda plan, v, k: plan.end(v, k, True), True)


def mcp(graph: Graph) -> Plan:
    """Latest start first, earliest start with insertion."""
    return by_priority(graph, graph.rank(mean, 1.0), lambda plan, v, k: plan.begin(v, k, True), True)


def hlfet(graph: Graph) -> Plan:
    """Static level, earliest start after everything that is scheduled."""
    return by_priority(graph, graph.rank(mean, 0.0), lambda plan, v, k: plan.begin(v, k, False), False)


def cpop(graph: Graph) -> Plan:
    """The critical path on one device, all other operators where they end first."""
    rank, depth = graph.rank(mean, 1.0), graph.depth()
    priority = [up + down for up, down in zip(rank, depth, strict=True)]
    path = [max((v for v in range(len(rank)) if not graph.before[v]), key=lambda v: priority[v])]
    while graph.after[path[-1]]:
        path.append(max(graph.after[path[-1]], key=lambda v: priority[v]))
    own = min(graph.devices, key=lambda k: sum(graph.seconds[v][k] for v in path))

    def cost(plan: Plan, v: int, k: int) -> float:
        return float(k != own) if v in path else plan.end(v, k, True)

    return by_priority(graph, priority, cost, True)


def peft(graph: Graph) -> Plan:
    """The optimistic cost table."""
    table = [[0.0] * len(graph.devices) for _ in graph.seconds]
    for v in reversed(range(len(table))):
        for k in graph.devices:
            table[v][k] = max(
                (min(table[w][q] + graph.seconds[w][q] + (q != k) * graph.mean_sent(v, w) for q in graph.devices)
                 for w in graph.after[v]), default=0.0)  # fmt: skip
    return by_priority(graph, [mean(row) for row in table], lambda plan, v, k: plan.end(v, k, True) + table[v][k], True)


def etf(graph: Graph) -> Plan:
    """Earliest start of all pairs; ties go to the higher static level."""
    level = graph.rank(mean, 0.0)
    return least(graph, lambda plan, v, k: (plan.begin(v, k, False), -level[v]))


def dls(graph: Graph) -> Plan:
    """The largest dynamic level."""
    level = graph.rank(median, 0.0)
    return least(
        graph,
        lambda plan, v, k: (plan.begin(v, k, False) - level[v] - median(graph.seconds[v]) + graph.seconds[v][k],),
    )


def bil(graph: Graph) -> Plan:
    """Best imaginary makespans: the operator whose k-th is largest, where k is the number of ready operators."""
    table = [[0.0] * len(graph.devices) for _ in graph.seconds]
    for v in reversed(range(len(table))):
        for k in graph.devices:
            away = [min(table[w][q] + graph.sent[v, w][k][q] for q in graph.devices) for w in graph.after[v]]
            table[v][k] = graph.seconds[v][k] + max(away, default=0.0)

    def pick(plan: Plan, ready: list[int]) -> Pick:
        makespans = {v: [plan.begin(v, k, False) + table[v][k] for k in graph.devices] for v in ready}
        place = min(len(ready), len(graph.devices)) - 1
        v = max(ready, key=lambda v: sorted(makespans[v])[place])
        crowd = max(len(ready) / len(graph.devices) - 1.0, 0.0)
        return v, min(graph.devices, key=lambda k: makespans[v][k] + crowd * graph.seconds[v][k])

    return by_pair(graph, pick)


def met(graph: Graph) -> Plan:
    """The fastest device for each operator."""
    return by_priority(graph, [-v for v in range(len(graph.seconds))], lambda _, v, k: graph.seconds[v][k], False)


def mct(graph: Graph) -> Plan:
    """The earliest end, in the order of the graph."""
    order = [-float(v) for v in range(len(graph.seconds))]
    return by_priority(graph, order, lambda plan, v, k: plan.end(v, k, False), False)


def olb(graph: Graph) -> Plan:
    """The device that is free first."""
    order = [-float(v) for v in range(len(graph.seconds))]
    return by_priority(graph, order, lambda plan, _, k: plan.free(k), False)


def min_min(graph: Graph) -> Plan:
    """The earliest end of all pairs."""
    return least(graph, lambda plan, v, k: (plan.end(v, k, False),))


def _ends(plan: Plan, v: int) -> list[float]:
    return sorted(plan.end(v, k, False) for k in plan.graph.devices)


def _soonest(plan: Plan, v: int) -> Pick:
    return v, min(plan.graph.devices, key=lambda k: plan.end(v, k, False))


def max_min(graph: Graph) -> Plan:
    """The operator whose earliest end is latest."""
    return by_pair(graph, lambda plan, ready: _soonest(plan, max(ready, key=lambda v: _ends(plan, v)[0])))


def sufferage(graph: Graph) -> Plan:
    """The operator that would lose most by its second choice."""
    return by_pair(
        graph,
        lambda plan, ready: _soonest(plan, max(ready, key=lambda v: _ends(plan, v)[1] - _ends(plan, v)[0])),
    )


RULES: tuple[Rule, ...] = (
    heft, cpop, peft, etf, hlfet, mcp, dls, bil, met, mct, olb, min_min, max_min, sufferage,
)  # fmt: skip


def graphs(count: int) -> Iterator[ow.Placement]:
    """Seeded problems."""
    for seed in range(count):
        rng = random.Random(seed)
        size, devices = rng.choice([10, 20, 30, 50, 100]), rng.choice([2, 3, 4, 8])
        window, fan = rng.choice([1, 4, 12, size]), rng.randint(1, 4)
        ops = []
        for v in range(size):
            near = range(max(0, v - window), v)
            reads = rng.sample(near, min(len(near), rng.randint(1, fan)))
            ops.append(ow.Operator(id=f"o{v}", inputs=[f"t{u}" for u in reads] or ["x"], outputs=[f"t{v}"]))
        tensors = [ow.Tensor(id="x", bytes=0), *(ow.Tensor(id=f"t{v}", bytes=rng.randint(1, 100)) for v in range(size))]
        names, ratio = [f"d{k}" for k in range(devices)], rng.choice([0.1, 1.0, 5.0])
        links = [[0.0 if a == b else rng.uniform(0.5, 2.0) / ratio for b in names] for a in names]
        times = {op.id: {name: rng.uniform(10.0, 100.0) for name in names} for op in ops}
        yield ow.Placement(
            graph=ow.OpGraph(name=f"graph {seed}", operators=ops, tensors=tensors),
            cluster=ow.Cluster(devices=[ow.Device(name=name) for name in names], bandwidth=links),
            costs=ow.Costs.from_table(times),
            transfers="delay",
        )


def graph_of(problem: ow.Placement) -> Graph:
    """The problem as a graph for the rules."""
    devices = [device.name for device in problem.cluster.devices]
    made = {tensor: v for v, op in enumerate(problem.graph.operators) for tensor in op.outputs}
    bytes_of = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    speed = problem.cluster.effective_bandwidth
    sent = {
        (made[tensor], v): [
            [0.0 if a == b else bytes_of[tensor] / float(speed[a, b]) for b in range(len(devices))]
            for a in range(len(devices))
        ]
        for v, op in enumerate(problem.graph.operators)
        for tensor in op.inputs
        if tensor in made
    }
    return Graph([[problem.costs.seconds(op.id, name) for name in devices] for op in problem.graph.operators], sent)


def makespan(problem: ow.Placement, plan: Plan) -> float:
    """The makespan of a rule's plan, according to the referee."""
    names = [op.id for op in problem.graph.operators]
    devices = [device.name for device in problem.cluster.devices]
    device = FrozenDict({names[v]: devices[k] for v, k in plan.device.items()})
    start = FrozenDict({names[v]: begin for v, begin in plan.start.items()})
    judged = problem.evaluate(ow.Schedule(device=device, start=start))
    assert judged.feasible, judged.violations
    assert judged.objective is not None
    return float(judged.objective)


def main() -> None:
    """Print how far every rule is behind ``auto``, and name the graphs on which ``auto`` is behind a rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--limit", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--solver", default="auto")
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {rule.__name__: [] for rule in RULES}
    for problem in graphs(arguments.graphs):
        found = ow.solve(problem, solver=arguments.solver, time_limit=arguments.limit).objective
        assert found is not None
        graph = graph_of(problem)
        for rule in RULES:
            ratios[rule.__name__].append(makespan(problem, rule(graph)) / found)
    rows = [
        (name, f"{mean(row):.3f}", f"{min(row):.4f}", sum(ratio < 1.0 - 1e-9 for ratio in row))
        for name, row in ratios.items()
    ]
    show(f"Makespan over that of {arguments.solver}, {arguments.graphs} graphs, {arguments.limit:g} s each",
         ("rule", "mean", "least", "auto behind"), rows)  # fmt: skip


if __name__ == "__main__":
    main()
