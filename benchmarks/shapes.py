"""Instances of shapes that the seeded generators do not make, on clusters of unlike devices.

Three shapes: series-parallel networks, trees that end in one result, and stages with connections that skip some of
them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import opweave as ow
from benchmarks.generators import Builder
from benchmarks.networks import random_network
from benchmarks.slicing import BOARDS, LINKS


def series_parallel(operators: int, seed: int) -> ow.OpGraph:
    """Grown from two operators: in each step a random edge gets an operator in it or a parallel way beside it."""
    rng = random.Random(seed)
    edges, count = [(0, 1)], 2
    while count < operators:
        at = rng.randrange(len(edges))
        first, second = edges[at]
        if rng.random() < 0.5:
            edges[at] = (first, count)
        else:
            edges.append((first, count))
        edges.append((count, second))
        count += 1
    return _of_edges(f"series-parallel, {operators:,} operators", count, edges, rng)


def in_tree(operators: int, seed: int) -> ow.OpGraph:
    """A tree of two or three inputs each; the root is the result."""
    rng = random.Random(seed)
    edges: list[tuple[int, int]] = []
    ready, count = [0], 1
    while count < operators:
        parent = ready.pop(rng.randrange(len(ready)))
        for _ in range(min(rng.randint(1, 3), operators - count)):
            edges.append((count, parent))
            ready.append(count)
            count += 1
    return _of_edges(f"in-tree, {operators:,} operators", count, edges, rng)


def skips(operators: int, seed: int) -> ow.OpGraph:
    """Stages of one to five operators; a stage reads the stage before, and now and then one far before it."""
    rng = random.Random(seed)
    stages: list[list[int]] = []
    edges: list[tuple[int, int]] = []
    count = 0
    while count < operators:
        stage = list(range(count, min(operators, count + rng.randint(1, 5))))
        count += len(stage)
        for op in stage if stages else ():
            edges += [(before, op) for before in rng.sample(stages[-1], rng.randint(1, len(stages[-1])))]
            if rng.random() < 0.2:
                edges.append((rng.choice(rng.choice(stages)), op))
        stages.append(stage)
    return _of_edges(f"skips, {operators:,} operators", count, sorted(set(edges)), rng)


def _of_edges(name: str, count: int, edges: list[tuple[int, int]], rng: random.Random) -> ow.OpGraph:
    """A graph of operators 0 to ``count`` - 1; an edge says that the second operator reads the first one's result."""
    build = Builder(name)
    reads: list[list[int]] = [[] for _ in range(count)]
    read = [False] * count
    for first, second in edges:
        reads[second].append(first)
        read[first] = True
    waits = [len(before) for before in reads]
    readers: list[list[int]] = [[] for _ in range(count)]
    for second, before in enumerate(reads):
        for first in before:
            readers[first].append(second)
    ready = [op for op in range(count) if not waits[op]]
    source = build.input("x", 4096)
    for op in ready:
        inputs = [f"op{first}" for first in dict.fromkeys(reads[op])]
        build.run(f"op{op}", inputs or [source], 1024 * rng.randint(1, 64))
        for second in readers[op]:
            waits[second] -= 1
            if not waits[second]:
                ready.append(second)
    return build.graph([f"op{op}" for op in range(count) if not read[op]])


def unlike(graph: ow.OpGraph, devices: int, seed: int, memory: int | None = None) -> ow.Cluster:
    """Devices with links of unlike speeds in both directions: a tensor takes 1 to 10 ms on average."""
    rng = random.Random(seed)
    mean = sum(tensor.bytes for tensor in graph.tensors) / max(1, len(graph.tensors))
    machines = [ow.Device(name=f"d{index}", memory_bytes=memory) for index in range(devices)]
    links = [[mean / rng.uniform(1e-3, 10e-3) for _ in machines] for _ in machines]
    return ow.Cluster(devices=machines, bandwidth=links, latency=1e-4)


def times(graph: ow.OpGraph, cluster: ow.Cluster, seed: int) -> dict[str, dict[str, float]]:
    """Operators of 1 to 20 ms on the fastest device; devices of 1 to 4 times that, give or take a third."""
    rng = random.Random(seed)
    slower = {device.name: rng.uniform(1, 4) for device in cluster.devices}
    table = {}
    for op in graph.operators:
        work = rng.uniform(1e-3, 20e-3)
        table[op.id] = {name: round(work * factor * rng.uniform(0.67, 1.33), 6) for name, factor in slower.items()}
    return table


def batched_mappings(operators: int, seed: int) -> Iterator[tuple[str, ow.BatchedMapping]]:
    """All shapes on three devices, one input and six."""
    for shape in (series_parallel, in_tree, skips):
        graph = shape(operators, seed)
        cluster = unlike(graph, 3, seed)
        for batch in (1, 6):
            table = {
                name: {
                    device: {b: seconds * (0.4 + 0.6 * b) for b in range(1, batch + 1)}
                    for device, seconds in row.items()
                }
                for name, row in times(graph, cluster, seed).items()
            }
            costs = ow.Costs.from_table(table)
            yield (
                f"{graph.name}, batch of {batch}",
                ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=batch),
            )


def slicings(operators: int, seed: int) -> Iterator[tuple[str, ow.Slicing]]:
    """Random networks on two and four different boards; the second with memory for only a part of the network."""
    net = random_network(operators, seed)
    graph = net.graph()
    held = sum(parameter.bytes for parameter in graph.parameters) + 2 * max(tensor.bytes for tensor in graph.tensors)
    for boards, memory in ((2, None), (4, None), (4, max(1, held // 2))):
        devices = [
            ow.Device(name=name, flops_per_second=speed, memory_bandwidth=4e9, launch_seconds=1e-5, memory_bytes=memory)
            for name, speed in BOARDS[:boards]
        ]
        cluster = ow.Cluster(devices=devices, rates=[LINKS["x8"]] * boards)
        costs = ow.Costs.roofline(graph, cluster)
        problem = ow.Slicing(graph=graph, cluster=cluster, costs=costs, geometry=net.geometry)
        yield f"{operators} on {boards}{'' if memory is None else ', memory'}", problem
