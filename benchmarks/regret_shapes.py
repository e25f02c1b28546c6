"""Instances of shapes that the seeded generators do not make, and real graphs on clusters of unlike devices.

Three shapes: series-parallel networks, trees that end in one result, and stages with connections that skip some of
them. Each becomes an ordering, placements under every reading of transfers, one of them with memory for little more
than the network, batches, pipelines and layouts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import opweave as ow
from benchmarks.generators import Builder
from benchmarks.regret_instances import Instances, Source
from benchmarks.tables import GRAPHS

SPARE_MEMORY = 1.2
"""Memory of all devices together, as a multiple of what the network needs, where memory binds."""

REAL = (
    "keras/MobileNetV2",
    "keras/Xception",
    "nas/nasnetmobile_keras",
    "torch/googlenet.export",
    "torch/gpt2_small.export",
)
PIPED = ("keras/EfficientNetB1", "keras/DenseNet121", "torch/gpt2_small.export")


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


SHAPES: tuple[Callable[[int, int], ow.OpGraph], ...] = (series_parallel, in_tree, skips)


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


def orderings(operators: int, seed: int) -> Instances:
    """All shapes; peak and total."""
    for shape in SHAPES:
        graph = shape(operators, seed)
        for objective in ("peak", "total"):
            yield f"{graph.name}, {objective}", ow.MemoryOrdering(graph=graph, objective=objective)


def placements(operators: int, seed: int) -> Instances:
    """All shapes on two to six devices under all readings of transfers; and with memory that binds."""
    readings = ("one_port_tensor", "one_port_edge", "delay")
    for number, shape in enumerate(SHAPES):
        graph = shape(operators, seed)
        devices = 2 + (seed + 2 * number) % 5
        cluster = unlike(graph, devices, seed)
        problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(times(graph, cluster, seed)))
        for reading in readings:
            yield f"{graph.name} on {devices}, {reading}", problem.model_copy(update={"transfers": reading})
        held = int(SPARE_MEMORY * sum(tensor.bytes for tensor in graph.tensors) / devices)
        tight = problem.model_copy(update={"cluster": unlike(graph, devices, seed, max(held, 1 << 17))})
        yield f"{graph.name} on {devices}, memory binds", tight
        blocking = problem.model_copy(update={"transfers": "blocking", "host": "d0"})
        yield f"{graph.name} on {devices}, blocking", blocking


def batched_mappings(operators: int, seed: int) -> Instances:
    """All shapes on three devices, one input and six."""
    for shape in SHAPES:
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


def pipelines(operators: int, seed: int) -> Instances:
    """All shapes on five devices: both objectives, and loads that add up."""
    for shape in SHAPES:
        graph = shape(operators, seed)
        cluster = unlike(graph, 5, seed)
        problem = ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.from_table(times(graph, cluster, seed)))
        for name, fields in (
            ("bottleneck", {}),
            ("latency", {"objective": "latency"}),
            ("sum", {"load": "sum"}),
        ):
            yield f"{graph.name}, {name}", problem.model_copy(update=fields)


def layouts(operators: int, seed: int) -> Instances:
    """The lifetimes of the orders as listed."""
    for shape in SHAPES:
        problem = ow.MemoryOrdering(graph=shape(operators, seed))
        yield f"{problem.graph.name}, as listed", ow.layout_of(problem, ow.solve(problem, solver="definition"))


def real_placements() -> Instances:
    """Networks on clusters of two to six unlike devices."""
    readings = ("one_port_tensor", "delay", "one_port_edge")
    for number, name in enumerate(REAL):
        graph = ow.load(GRAPHS / f"{name}.json.gz")
        cluster = unlike(graph, 2 + number, number)
        costs = ow.Costs.from_table(times(graph, cluster, number))
        for reading in (readings[number % 3], readings[(number + 1) % 3]):
            yield (
                f"{graph.name} on {2 + number}, {reading}",
                ow.Placement(graph=graph, cluster=cluster, costs=costs, transfers=reading),
            )


def real_pipelines() -> Instances:
    """Networks on six unlike devices."""
    for number, name in enumerate(PIPED):
        graph = ow.load(GRAPHS / f"{name}.json.gz")
        cluster = unlike(graph, 6, number)
        problem = ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.from_table(times(graph, cluster, number)))
        yield f"{graph.name}, bottleneck", problem
        yield f"{graph.name}, sum", problem.model_copy(update={"load": "sum"})
        yield f"{graph.name}, latency", problem.model_copy(update={"objective": "latency"})


def nothing() -> Instances:
    """No real graphs: those of the seeded instances serve."""
    return iter(())


BY_PROBLEM: Source = {
    "ordering": (orderings, nothing),
    "placement": (placements, real_placements),
    "batched": (batched_mappings, nothing),
    "pipeline": (pipelines, real_pipelines),
    "layout": (layouts, nothing),
}
