"""Instances of every problem for the benchmark of regret: seeded ones by number of operators, and real graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import opweave as ow
from benchmarks.cnn_nets import NETS, Net
from benchmarks.edge_networks import MEGABYTE, heterogeneous, keras, random_chain
from benchmarks.generators import layered_dag, randomly_wired, scattered
from benchmarks.memory_layout import pooled, random_layout
from benchmarks.serving import SECONDS as HELIX
from benchmarks.serving import case as on_helix
from benchmarks.serving import serving_on
from benchmarks.slicing import BOARDS, LINKS
from benchmarks.slicing import problem_of as network_on_boards
from benchmarks.stacked import Stack, stacked
from benchmarks.tables import GRAPHS

Instances = Iterator[tuple[str, ow.Problem[Any, Any]]]

MODULE = 12
"""Operators of one module of a stacked network: ten nodes, an input and an output."""

STAGE_MEMORY = 2.3e6
"""Mean number of bytes that an operator of a random chain needs."""


def orderings(operators: int, seed: int) -> Instances:
    """Random layers, narrow and wide, and a randomly wired network; peak and total."""
    graphs = [layered_dag(operators, min(width, max(2, operators // 4)), seed) for width in (6, 12)]
    graphs.append(randomly_wired(max(1, operators // 33), min(32, operators - 1), seed))
    for graph in graphs:
        for objective in ("peak", "total"):
            yield f"{graph.name}, {objective}", ow.MemoryOrdering(graph=graph, objective=objective)


def placements(operators: int, seed: int) -> Instances:
    """Random layers on three and four different devices; transfers that wait for a port, and free ones."""
    for devices in (3, 4):
        problem = scattered(operators, devices, seed)
        for transfers in ("one_port_tensor", "delay"):
            yield f"{operators} on {devices}, {transfers}", problem.model_copy(update={"transfers": transfers})


def batched_mappings(operators: int, seed: int) -> Instances:
    """Stacked networks with one input and with eight."""
    stack = Stack(max(1, operators // MODULE), nodes=min(10, operators - 2), seed=seed)
    for batch in (1, 8):
        yield f"{operators}, batch of {batch}", stacked(stack, batch)


def pipelines(operators: int, seed: int) -> Instances:
    """Chains on 20 different devices that each hold a tenth: without computing, and with it for both objectives."""
    graph, memory = random_chain(operators, seed), max(STAGE_MEMORY * operators / 10, 1.05e7)
    yield f"{operators}, transfers only", heterogeneous(graph, 20, memory, seed, computing=False, matrix=False)
    problem = heterogeneous(graph, 20, memory, seed, computing=True, matrix=True)
    yield f"{operators}, bottleneck", problem
    yield f"{operators}, latency", problem.model_copy(update={"objective": "latency"})


def random_network(operators: int, seed: int) -> Net:
    """Random convolutions with shortcuts and pools, on images of 8 to 64 rows."""
    rng = random.Random(seed)
    rows = rng.choice((16, 32, 64))
    net = Net(f"random network of {operators}, seed {seed}", rows)
    x, channels = "image", 3
    layers = 0
    while layers < operators:
        if layers + 2 <= operators and channels > 3 and rng.random() < 0.3:
            x = net.add(x, net.conv(x, channels, rng.choice((1, 3))))
            layers += 2
        elif rows > 8 and rng.random() < 4 / operators:
            x, rows = net.pool(x, 2, 2), rows // 2
            layers += 1
        else:
            channels = rng.choice((8, 16, 32))
            x = net.conv(x, channels, rng.choice((1, 3, 5)))
            layers += 1
    return net


def slicings(operators: int, seed: int) -> Instances:
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


def layouts(operators: int, seed: int) -> Instances:
    """Random lifetimes in one arena and in three pools, and the lifetimes of a random network's given order."""
    yield f"{operators} storages, one arena", random_layout(operators, max(2, operators // 2), seed)
    yield f"{operators} storages, three pools", pooled(operators, seed)
    for _, problem in orderings(operators, seed):
        assert isinstance(problem, ow.MemoryOrdering)
        if problem.objective == "peak":
            listed = ow.layout_of(problem, ow.solve(problem, solver="definition"))
            yield f"{problem.graph.name}, as listed", listed


def servings(operators: int, seed: int) -> Instances:
    """Layers on unlike devices, as many pairs of the two as there would be operators."""
    problem = serving_on(operators, seed)
    name = f"{len(problem.layers)} layers on {len(problem.cluster.devices)}"
    for entry in ("first", "any"):
        yield f"{name}, enter {entry}", problem.model_copy(update={"entry": entry})


def real_orderings() -> Instances:
    """Networks from architecture searches, and a training step."""
    for name in ("nas/pnasnet5large", "nas/rwshared_0", "torch/randwire_ws32_c78.train", "torch/t5_small.export"):
        graph = ow.load(GRAPHS / f"{name}.json.gz")
        for objective in ("peak", "total"):
            yield f"{graph.name}, {objective}", ow.MemoryOrdering(graph=graph, objective=objective)


def real_placements() -> Instances:
    """Convolutional networks and a transformer on a cluster from the literature."""
    cluster = ow.clusters.load("moirai-inter")
    for name in ("inception_v3", "swin_tiny_patch4_window7_224", "t5_small"):
        graph = ow.load(GRAPHS / f"torch/{name}.export.json.gz")
        yield graph.name, ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))


def real_batched_mappings() -> Instances:
    """The networks of Table I of "DiviML" with three channels."""
    for dependency in ("sdep", "wdep"):
        stack = Stack(channels=3, dependency=dependency)
        yield stack.label, stacked(stack, 4)


def real_pipelines() -> Instances:
    """Convolutional networks on 20 different devices."""
    for name in ("ResNet50", "InceptionResNetV2"):
        for objective in ("bottleneck", "latency"):
            problem = heterogeneous(keras(name), 20, 64 * MEGABYTE, 0, computing=True, matrix=True)
            yield f"{name}, {objective}", problem.model_copy(update={"objective": objective})


def real_slicings() -> Instances:
    """Convolutional networks on four different boards."""
    for name in NETS:
        yield name, network_on_boards(name, "x1")


def real_layouts() -> Instances:
    """Networks in their given order."""
    for name in ("nas/pnasnet5large", "torch/randwire_ws32_c78.train", "torch/t5_small.export"):
        problem = ow.MemoryOrdering(graph=ow.load(GRAPHS / f"{name}.json.gz"))
        yield problem.graph.name, ow.layout_of(problem, ow.solve(problem, solver="definition"))


def real_servings() -> Instances:
    """The clusters of Helix."""
    for name in HELIX:
        yield name, on_helix(name)[0]


Source = Mapping[str, tuple[Callable[[int, int], Instances], Callable[[], Instances]]]
"""Seeded instances of each problem by number of operators and seed, and its real graphs."""

BY_PROBLEM: Source = {
    "ordering": (orderings, real_orderings),
    "placement": (placements, real_placements),
    "batched": (batched_mappings, real_batched_mappings),
    "pipeline": (pipelines, real_pipelines),
    "slicing": (slicings, real_slicings),
    "layout": (layouts, real_layouts),
    "serving": (servings, real_servings),
}


def instances(
    problem: str, sizes: Sequence[int], seeds: Sequence[int], *, source: Source = BY_PROBLEM, real: bool
) -> Instances:
    """Instances of one problem: generated ones by size, then real graphs."""
    by_rule, shipped = source[problem]
    for operators in sizes:
        for seed in seeds:
            yield from by_rule(operators, seed)
    if real:
        yield from shipped()
