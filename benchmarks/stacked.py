"""Stacked randomly wired modules with one or more channels between them, as in "DiviML", with synthetic costs.

The paper's graphs and profiles are not public. Each module has as many inputs and outputs as there are channels.
Between them is a random graph of ``nodes`` nodes whose edges run from smaller to larger numbers: ER(0.2), WS(4, 0.75)
or BA(5). "sdep": the first input feeds all of the module's sources, and its first output reads all of its sinks;
"wdep": they are assigned at random. Half of the operators are light and equally fast on all devices. The other half are
heavy, so that in total CPU : T4 : A100 take 7.10 : 1.26 : 1 (the paper's Table II).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx

from opweave import BatchedMapping, Cluster, Costs, Device, Operator, OpGraph, Tensor

MILLISECOND = 1e-3
LIGHT, HEAVY = (0.4, 1.6), (1.5, 3.5)
SLOWER = {"cpu": 9.54, "t4": 1.364, "a100": 1.0}
"""How many times longer a heavy operator takes."""

BYTES = (200_000, 4_000_000)
BANDWIDTH = 16e9
LATENCY = 10e-6

WIRES: dict[str, Callable[[int, int], nx.Graph]] = {
    "ER": lambda nodes, seed: nx.gnp_random_graph(nodes, 0.2, seed=seed),
    "WS": lambda nodes, seed: nx.watts_strogatz_graph(nodes, 4, 0.75, seed=seed),
    "BA": lambda nodes, seed: nx.barabasi_albert_graph(nodes, min(5, nodes - 1), seed=seed),
}

GROWTH: dict[str, Callable[[str, int], float]] = {
    "A": lambda device, b: float(b) if device == "cpu" else 0.3 + 0.7 * b**0.9,
    "C": lambda device, b: 0.5 + 0.5 * b if device == "cpu" else 0.964 + 0.036 * b**0.9,
    "E": lambda _, b: float(b),
}
"""Time of a batch of b relative to a batch of one: A grows almost in proportion, C is mostly launch, E has no gain."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The kind of stacked network, and the seed of its wires and costs."""

    modules: int = 10
    channels: int = 1
    dependency: str = "sdep"
    wires: str = "ER"
    nodes: int = 10
    seed: int = 0

    @property
    def label(self) -> str:
        """The label in the paper's tables."""
        return "1-chan" if self.channels == 1 else f"{self.dependency}, {self.channels}-chan"


def module_edges(stack: Stack, number: int, rng: random.Random) -> list[tuple[str, str]]:
    """Edges of one module between its inputs ``i0...``, nodes ``n0...`` and outputs ``o0...``."""
    graph = WIRES[stack.wires](stack.nodes, stack.seed * 1000 + number)
    edges = [(min(edge), max(edge)) for edge in graph.edges]
    heads, tails = {b for _, b in edges}, {a for a, _ in edges}
    sources = [node for node in range(stack.nodes) if node not in heads]
    sinks = [node for node in range(stack.nodes) if node not in tails]
    found = [(f"n{a}", f"n{b}") for a, b in edges]
    first_in = dict.fromkeys(sources, 0)
    first_out = dict.fromkeys(sinks, 0)
    if stack.dependency == "wdep":
        first_in = {node: rng.randrange(stack.channels) for node in sources}
        first_out = {node: rng.randrange(stack.channels) for node in sinks}
    found += [(f"i{channel}", f"n{node}") for node, channel in first_in.items()]
    found += [(f"n{node}", f"o{channel}") for node, channel in first_out.items()]
    for channel in range(stack.channels):
        if channel not in first_in.values():
            found.append((f"i{channel}", f"n{rng.randrange(stack.nodes)}"))
        if channel not in first_out.values():
            found.append((f"n{rng.randrange(stack.nodes)}", f"o{channel}"))
    return list(dict.fromkeys(found))


def stacked_graph(stack: Stack) -> OpGraph:
    """The network; every operator writes one tensor of the same name."""
    rng = random.Random(stack.seed)
    reads: dict[str, list[str]] = {}
    for number in range(stack.modules):
        names = [f"i{c}" for c in range(stack.channels)]
        names += [f"n{n}" for n in range(stack.nodes)] + [f"o{c}" for c in range(stack.channels)]
        reads |= {f"m{number}.{name}": [] for name in names}
        for source, target in module_edges(stack, number, rng):
            reads[f"m{number}.{target}"].append(f"m{number}.{source}")
        for channel in range(stack.channels):
            before = f"m{number - 1}.o{channel}" if number else f"x{channel}"
            reads[f"m{number}.i{channel}"].append(before)
    inputs = [Tensor(id=f"x{channel}", bytes=BYTES[0]) for channel in range(stack.channels)]
    return OpGraph(
        name=f"{stack.wires}({stack.nodes}) x {stack.modules}, {stack.label}",
        tensors=[*inputs, *(Tensor(id=name, bytes=rng.randint(*BYTES)) for name in reads)],
        operators=[
            Operator(id=name, inputs=names, outputs=[name], module=name.split(".")[0]) for name, names in reads.items()
        ],
        outputs=[f"m{stack.modules - 1}.o{channel}" for channel in range(stack.channels)],
    )


def machine(sizes: list[int] | None = None) -> Cluster:
    """A server with a CPU, a T4 and an A100 on PCIe 4.0 x16."""
    devices = [Device(name=name, batch_sizes=sizes) for name in SLOWER]
    return Cluster(devices=devices, bandwidth=[[BANDWIDTH] * 3] * 3, latency=LATENCY)


def stacked(stack: Stack, batch: int = 1, growth: str = "A") -> BatchedMapping:
    """The network on the server; batches of a quarter, a half, three quarters and all of the inputs."""
    graph = stacked_graph(stack)
    sizes = sorted({max(1, batch * quarter // 4) for quarter in range(1, 5)}) if batch > 1 else [1]
    rng = random.Random(stack.seed + 7)
    table: dict[str, dict[str, dict[int, float]]] = {}
    for op in graph.operators:
        light = rng.random() < 0.5
        base = MILLISECOND * rng.uniform(*(LIGHT if light else HEAVY))
        table[op.id] = {
            name: {
                b: base * (1.0 if light else slower) * GROWTH[growth](name, b) / GROWTH[growth](name, 1) for b in sizes
            }
            for name, slower in SLOWER.items()
        }
    return BatchedMapping(graph=graph, cluster=machine(sizes), costs=Costs.from_table(table), batch=batch)
