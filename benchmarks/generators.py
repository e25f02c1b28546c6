"""Generated graphs for scaling runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from opweave import Cluster, Costs, Device, Operator, OpGraph, Parameter, Placement, Tensor


@dataclass
class Builder:
    """Collects operators with one output each."""

    name: str
    operators: list[Operator] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def input(self, tensor: str, size: int) -> str:
        """Add a graph input."""
        self.tensors.append(Tensor(id=tensor, bytes=size))
        return tensor

    def run(self, operator: str, inputs: list[str], size: int) -> str:
        """Add an operator; return its output, which has the operator's name."""
        self.tensors.append(Tensor(id=operator, bytes=size))
        self.operators.append(Operator(id=operator, inputs=inputs, outputs=[operator]))
        return operator

    def graph(self, outputs: list[str]) -> OpGraph:
        """The graph of everything added so far."""
        return OpGraph(name=self.name, operators=self.operators, tensors=self.tensors, outputs=outputs)


def chain(operators: int) -> OpGraph:
    """Operators in sequence; all results have the same size."""
    build = Builder(f"chain of {operators:,}")
    last = build.input("x", 1024)
    for index in range(operators):
        last = build.run(f"op{index}", [last], 1024)
    return build.graph([last])


def layered_dag(operators: int, width: int, seed: int) -> OpGraph:
    """Random layers of ``width`` operators, each of which reads one to three results of the two previous layers."""
    rng = random.Random(seed)
    build = Builder(f"random, {operators:,} operators, width {width}")
    recent = [build.input("x", 4096)]
    layer: list[str] = []
    for index in range(operators):
        if len(layer) == width:
            recent, layer = [*recent[-width:], *layer], []
        inputs = rng.sample(recent, min(len(recent), rng.randint(1, 3)))
        layer.append(build.run(f"op{index}", inputs, 1024 * rng.randint(1, 64)))
    return build.graph(layer)


def transformer_training(layers: int, heads: int, hidden: int, tokens: int) -> OpGraph:
    """Forward and backward pass of a transformer with separate attention heads (12 x heads + 22 operators per layer).

    Every backward operator reads the activation of its forward operator; weight gradients are outputs.
    """
    build = Builder(f"transformer training, {layers} layers, {heads} heads")
    wide, head, square = 4 * tokens * hidden, 4 * tokens * hidden // heads, 4 * tokens * tokens
    state = build.input("x", wide)
    tape: list[tuple[str, list[tuple[str, int]], int]] = []
    gradients: list[str] = []

    def forward(name: str, inputs: list[tuple[str, int]], size: int) -> str:
        tape.append((name, inputs, size))
        return build.run(name, [tensor for tensor, _ in inputs], size)

    for layer in range(layers):
        at = f"l{layer}."
        norm = forward(at + "norm1", [(state, wide)], wide)
        mixed = []
        for h in range(heads):
            q, k, v = (forward(f"{at}h{h}.{part}", [(norm, wide)], head) for part in "qkv")
            score = forward(f"{at}h{h}.score", [(q, head), (k, head)], square)
            soft = forward(f"{at}h{h}.softmax", [(score, square)], square)
            mixed.append((forward(f"{at}h{h}.mix", [(soft, square), (v, head)], head), head))
        joined = forward(at + "join", mixed, wide)
        projected = forward(at + "project", [(joined, wide)], wide)
        residual = forward(at + "add1", [(state, wide), (projected, wide)], wide)
        norm = forward(at + "norm2", [(residual, wide)], wide)
        grown = forward(at + "grow", [(norm, wide)], 4 * wide)
        active = forward(at + "gelu", [(grown, 4 * wide)], 4 * wide)
        shrunk = forward(at + "shrink", [(active, 4 * wide)], wide)
        state = forward(at + "add2", [(residual, wide), (shrunk, wide)], wide)
    incoming: dict[str, str] = {state: build.run("loss", [state], wide)}
    for name, inputs, _ in reversed(tape):
        gradient = incoming.pop(name)
        for position, (tensor, size) in enumerate(inputs):
            reads = [gradient, *(other for other, _ in inputs)]
            back = build.run(f"{name}.back{position}", reads, size)
            if tensor in incoming:
                back = build.run(f"{name}.sum{position}", [incoming[tensor], back], size)
            incoming[tensor] = back
        if name.endswith(("project", "grow", "shrink")):
            gradients.append(build.run(f"{name}.weight", [gradient, inputs[0][0]], 4 * hidden * hidden))
    return build.graph([state, *gradients, *incoming.values()])


def randomly_wired(stages: int, nodes: int, seed: int, *, channels: int = 78, pixels: int = 56) -> OpGraph:
    """A randomly wired network (Xie et al., 2019): Watts-Strogatz stages of separable convolutions.

    Each stage is WS(nodes, 4, 0.75) with edges directed from smaller to larger numbers; until the image is one pixel,
    it halves the image and doubles the channels. A node adds its inputs (without weights) and convolves the sum.
    Sources read the previous stage, and the stage's result is the mean of its sinks.
    """
    import networkx as nx

    tensors = [Tensor(id="x", bytes=4 * 3 * (2 * pixels) ** 2)]
    operators: list[Operator] = []
    parameters: list[Parameter] = []
    last, depth = "x", 3
    for stage in range(stages):
        halved = min(stage, pixels.bit_length() - 1)
        width, side = channels << halved, pixels >> halved
        size = 4 * width * side * side
        wires = nx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed + stage)
        reads: dict[int, list[str]] = {node: [] for node in range(nodes)}
        for first, second in wires.edges:
            reads[max(first, second)].append(f"s{stage}.n{min(first, second)}")
        for node in range(nodes):
            name = f"s{stage}.n{node}"
            before = depth if not reads[node] else width
            weights = 9 * before + before * width
            parameters.append(Parameter(id=f"{name}.w", bytes=4 * weights))
            tensors.append(Tensor(id=name, bytes=size))
            operators.append(
                Operator(
                    id=name,
                    kind="SepConv",
                    inputs=reads[node] or [last],
                    outputs=[name],
                    parameters=[f"{name}.w"],
                    flops=2.0 * weights * side * side,
                    module=f"s{stage}",
                )
            )
        used = {name for names in reads.values() for name in names}
        sinks = [f"s{stage}.n{node}" for node in range(nodes) if f"s{stage}.n{node}" not in used]
        last, depth = f"s{stage}.mean", width
        tensors.append(Tensor(id=last, bytes=size))
        mean = Operator(id=last, kind="Mean", inputs=sinks, outputs=[last], flops=float(size // 4), module=f"s{stage}")
        operators.append(mean)
    name = f"randomly wired, {stages} x {nodes}"
    return OpGraph(name=name, operators=operators, tensors=tensors, parameters=parameters, outputs=[last])


def scattered(operators: int, devices: int, seed: int) -> Placement:
    """Random layers of six; the devices differ: operators of 1 to 20 ms, links 0.5 to 2 MB/s, tensors 1 to 8 KB."""
    rng = random.Random(seed)
    shape = layered_dag(operators, 6, seed)
    tensors = [Tensor(id=tensor.id, bytes=1024 * rng.randint(1, 8)) for tensor in shape.tensors]
    graph = OpGraph(
        name=f"random, {operators} operators", operators=shape.operators, tensors=tensors, outputs=shape.outputs
    )
    names = [f"d{index}" for index in range(devices)]
    links = [[0.0 if row == column else rng.uniform(5e5, 2e6) for column in names] for row in names]
    times = {op.id: {name: round(rng.uniform(1e-3, 20e-3), 6) for name in names} for op in graph.operators}
    cluster = Cluster(devices=[Device(name=name) for name in names], bandwidth=links)
    return Placement(graph=graph, cluster=cluster, costs=Costs.from_table(times))
