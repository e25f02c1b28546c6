"""Problems from 7 to 50,000 operators for testing time limits: seeded ones, and graphs of the repository."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import opweave as ow
from benchmarks.generators import layered_dag
from benchmarks.memory_layout import pooled, random_layout
from benchmarks.networks import Net, network
from benchmarks.serving import serving_on
from benchmarks.tables import GRAPHS

SIZES = (7, 100, 2_000, 10_000, 50_000)
REAL = ("keras/ResNet50", "torch/gpt2_small.export")
WIDTH = 6
MEGABYTE = 2**20
DEVICES = (("a", 8e9), ("b", 12e9), ("c", 5e9), ("d", 3e9))
"""Devices and their FLOP/s."""


@cache
def graph_of(case: str) -> ow.OpGraph:
    """A graph of the repository by its path, or a number of operators in random layers with weights and FLOPs."""
    if "/" in case:
        return ow.load(GRAPHS / f"{case}.json.gz")
    size = int(case)
    rng, shape = random.Random(size), layered_dag(size, WIDTH, seed=size)
    operators = [
        ow.Operator(
            id=op.id,
            kind="Conv",
            inputs=op.inputs,
            outputs=op.outputs,
            parameters=[f"{op.id}.w"],
            flops=rng.uniform(1e6, 2e7),
        )
        for op in shape.operators
    ]
    parameters = [ow.Parameter(id=f"{op.id}.w", bytes=1024 * rng.randint(1, 256)) for op in operators]
    return ow.OpGraph(
        name=shape.name, operators=operators, tensors=shape.tensors, parameters=parameters, outputs=shape.outputs
    )


def cluster_of(memory: int | None = None) -> ow.Cluster:
    """Four different devices, with links of 30 to 60 MB/s."""
    rng = random.Random(1)
    devices = [
        ow.Device(name=name, flops_per_second=speed, memory_bytes=memory, memory_bandwidth=1e10)
        for name, speed in DEVICES
    ]
    links = [[0.0 if a == b else rng.uniform(3e7, 6e7) for b in DEVICES] for a in DEVICES]
    return ow.Cluster(devices=devices, bandwidth=links)


def ordering(case: str) -> ow.MemoryOrdering:
    """Smallest peak."""
    return ow.MemoryOrdering(graph=graph_of(case))


def totals(case: str) -> ow.MemoryOrdering:
    """Smallest total."""
    return ow.MemoryOrdering(graph=graph_of(case), objective="total")


def placement(case: str) -> ow.Placement:
    """Roofline costs, one port."""
    graph, cluster = graph_of(case), cluster_of()
    return ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))


def batched(case: str) -> ow.BatchedMapping:
    """A batch of 8, in batches of 2, 4, 6 or 8, with times that grow less than in proportion."""
    graph, cluster, rng = graph_of(case), cluster_of(), random.Random(2)
    table = {
        op.id: {
            name: {b: (0.2e-3 + op.flops * b**0.9 / speed) * rng.uniform(0.8, 1.2) for b in (2, 4, 6, 8)}
            for name, speed in DEVICES
        }
        for op in graph.operators
    }
    return ow.BatchedMapping(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), batch=8)


def pipeline(case: str) -> ow.Pipeline:
    """Devices of which none holds more than 40 % of the weights."""
    graph = graph_of(case)
    weights = sum(parameter.bytes for parameter in graph.parameters)
    most = max((tensor.bytes for tensor in graph.tensors), default=0)
    cluster = cluster_of(int(0.4 * weights) + 64 * most + MEGABYTE)
    return ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), cuts="prefix")


@cache
def residual(operators: int) -> tuple[ow.OpGraph, dict[str, ow.Geometry]]:
    """Residual blocks of two convolutions and a sum on 32 x 32 images, with ``operators`` operators in all."""
    net = Net(f"residual, {operators:,} operators", 32)
    x = net.conv("image", 16)
    for index in range(operators - 1):
        if index % 3 == 0:
            before = x
        x = net.add(before, x) if index % 3 == 2 else net.conv(x, 16)
    return net.graph(), net.geometry


def slicing(case: str) -> ow.Slicing:
    """Boards with a router."""
    graph, geometry = network("ResNet50") if "/" in case else residual(int(case))
    devices = [
        ow.Device(name=name, flops_per_second=speed, memory_bandwidth=4e9, launch_seconds=1e-4)
        for name, speed in DEVICES
    ]
    cluster = ow.Cluster(devices=devices, rates=[12.5e6] * len(devices))
    return ow.Slicing(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster), geometry=geometry)


def layout(case: str) -> ow.MemoryLayout:
    """Random lifetimes, or those of a graph's given order."""
    if "/" not in case:
        return random_layout(int(case), max(2, int(case) // 2), seed=0)
    problem = ordering(case)
    return ow.MemoryLayout.of(problem, ow.solve(problem, solver="definition"))


def pools(case: str) -> ow.MemoryLayout:
    """Random storages in three pools of different speed."""
    return pooled(int(case) if "/" not in case else 500, seed=0)


def serving(case: str) -> ow.ServingFlow:
    """About as many pairs of a device and a layer as the case has operators."""
    return serving_on(int(case) if "/" not in case else 500, seed=0)


class Demanding(ow.Constraint):
    """A rule of a user's own, which about half of all plans break, and which takes long to check."""

    def check(self, problem: ow.extend.Problem[Any, Any]) -> None:
        """Fit every problem."""

    def violations(self, problem: Any, solution: Any) -> Iterator[ow.extend.Violation]:
        """Object to plans at random, but always to the same ones."""
        del problem
        if zlib.crc32(solution.model_dump_json().encode()) % 2:
            yield ow.extend.Violation(rule="demanding", message="this plan is not welcome")


def at_last(model: Any, problem: ow.extend.Problem[Any, Any]) -> None:
    """Rows of a user's own: one that every plan keeps."""
    del problem
    model.add(model.objective <= 1e15)


PROBLEMS: dict[str, Callable[[str], ow.extend.Problem[Any, Any]]] = {
    "ordering": ordering,
    "totals": totals,
    "placement": placement,
    "batched": batched,
    "pipeline": pipeline,
    "slicing": slicing,
    "layout": layout,
    "pools": pools,
    "serving": serving,
}
