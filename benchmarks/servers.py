"""A decoding step of a GPT-3-like model on several servers with identical devices (DiviML, section VI)."""

from __future__ import annotations

from opweave import BatchedMapping, Cluster, Costs, Device, Operator, OpGraph, Tensor

HEADS = 2
INSIDE, BETWEEN = 50e9, 12.5e9
"""Bytes per second within a server and between servers."""

LAUNCH, PER_INPUT = 0.6, 0.4
"""Shares of a single input's time; a decoding step mostly reads weights, whatever the batch."""


def layers_graph(layers: int) -> tuple[OpGraph, dict[str, float]]:
    """Layers of attention in ``HEADS`` groups and a feed-forward block in two halves; seconds for one input."""
    tensors, operators, seconds = [], [], {}

    def run(name: str, reads: list[str], took: float) -> str:
        tensors.append(Tensor(id=name, bytes=4 * 20 * 12288))
        operators.append(Operator(id=name, inputs=reads, outputs=[name], module=name.split(".", maxsplit=1)[0]))
        seconds[name] = took
        return name

    last: list[str] = []
    for layer in range(layers):
        at = f"l{layer}"
        norm = run(f"{at}.norm", last, 20e-6)
        groups = [run(f"{at}.attention{h}", [norm], 400e-6 / HEADS) for h in range(HEADS)]
        joined = run(f"{at}.join", groups, 130e-6)
        halves = [run(f"{at}.mlp{h}", [joined], 540e-6 / 2) for h in range(2)]
        last = [run(f"{at}.out", halves, 40e-6)]
    return OpGraph(name=f"GPT-3-like, {layers} layers", tensors=tensors, operators=operators), seconds


def on_servers(layers: int, servers: int, devices: int, batch: int) -> BatchedMapping:
    """The step on ``servers`` servers with ``devices`` identical devices each; any batch size."""
    graph, seconds = layers_graph(layers)
    names = [f"s{s}g{d}" for s in range(servers) for d in range(devices)]
    links = [[INSIDE if a[:-2] == b[:-2] else BETWEEN for b in names] for a in names]
    sizes = range(1, batch + 1)
    table = {
        op: {name: {b: took * (LAUNCH + PER_INPUT * b) for b in sizes} for name in names}
        for op, took in seconds.items()
    }
    cluster = Cluster(devices=[Device(name=name, group="gpu") for name in names], bandwidth=links, latency=5e-6)
    return BatchedMapping(graph=graph, cluster=cluster, costs=Costs.from_table(table), batch=batch)
