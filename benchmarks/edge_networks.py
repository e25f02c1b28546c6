"""Devices around a Wi-Fi router, drawn as in the paper on edge pipelines, and pipelines on them.

Source: Parthasarathy and Krishnamachari (2022), section IV, equation (12): positions uniform in (-150, -1) and (1, 150)
squared, a device's rate log2(1 + a / (x^2 + y^2)) Mbit/s with a = 283230. The text does not state the rate of a pair;
here it is the smaller of the two rates, because data passes the router.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import opweave as ow
from benchmarks.tables import GRAPHS
from opweave.problems.pipeline.spec import PAPER_COMPRESSION

AMPLITUDE = 283230.0
NEAREST, FARTHEST = 1.0, 150.0
MEGABYTE = 2**20
BYTES_PER_MEGABIT = 1e6 / 8

MODELS = tuple(sorted(path.name.removesuffix(".json.gz") for path in (GRAPHS / "keras").glob("*.json.gz")))


@cache
def keras(name: str) -> ow.OpGraph:
    """A Keras graph from the repository."""
    return ow.load(GRAPHS / "keras" / f"{name}.json.gz")


def rates(devices: int, seed: int) -> list[float]:
    """Bytes per second of every device's connection to the router, by equation (12)."""
    rng = random.Random(seed)

    def coordinate() -> float:
        return rng.choice((-1, 1)) * rng.uniform(NEAREST, FARTHEST)

    return [
        math.log2(1 + AMPLITUDE / (coordinate() ** 2 + coordinate() ** 2)) * BYTES_PER_MEGABIT for _ in range(devices)
    ]


def wireless(devices: int, memory_bytes: int, seed: int) -> ow.Cluster:
    """Devices with equal memory around a router."""
    machines = [ow.Device(name=f"d{index}", memory_bytes=memory_bytes) for index in range(devices)]
    return ow.Cluster(devices=machines, rates=rates(devices, seed)) if devices > 1 else ow.Cluster(devices=machines)


def as_in_the_paper(model: str, devices: int, megabytes: float, seed: int, **fields: Any) -> ow.Pipeline:
    """The paper's assumptions: cuts at dominators, no computing, compressed transfers, equal memory."""
    cluster = wireless(devices, int(megabytes * MEGABYTE), seed)
    reading: dict[str, Any] = {"cuts": "dominators", "include_compute": False, "compression": PAPER_COMPRESSION}
    return ow.Pipeline(graph=keras(model), cluster=cluster, **reading | fields)


def heterogeneous(
    graph: ow.OpGraph, devices: int, memory_bytes: float, seed: int, *, computing: bool, matrix: bool
) -> ow.Pipeline:
    """Devices with 0.5 to 1.5 times a memory size, optionally 1 to 20 GFLOP/s, and given or random links."""
    rng = random.Random(seed)
    machines = [
        ow.Device(
            name=f"d{index}",
            memory_bytes=int(memory_bytes * rng.uniform(0.5, 1.5)),
            flops_per_second=rng.uniform(1e9, 20e9),
            memory_bandwidth=1e10,
        )
        for index in range(devices)
    ]
    if matrix:
        links = [[rng.uniform(1, 20) * BYTES_PER_MEGABIT for _ in machines] for _ in machines]
        cluster = ow.Cluster(devices=machines, bandwidth=links)
    else:
        cluster = ow.Cluster(devices=machines, rates=rates(devices, seed))
    costs = ow.Costs.roofline(graph, cluster) if computing else None
    return ow.Pipeline(
        graph=graph,
        cluster=cluster,
        costs=costs,
        include_compute=computing,
        compression=PAPER_COMPRESSION,
        cuts="dominators",
    )


def random_chain(operators: int, seed: int) -> ow.OpGraph:
    """Layers in sequence: tensors of 20 KB to 2 MB, weights of 0.2 to 3 MB, FLOPs in proportion to both."""
    rng = random.Random(seed)
    sizes = [int(20e3 * 100 ** rng.random()) for _ in range(operators + 1)]
    weights = [int(2e5 * 15 ** rng.random()) for _ in range(operators)]
    return ow.OpGraph(
        name=f"chain of {operators}, seed {seed}",
        tensors=[ow.Tensor(id=f"t{index}", bytes=size) for index, size in enumerate(sizes)],
        operators=[
            ow.Operator(
                id=f"o{index}",
                inputs=[f"t{index}"],
                outputs=[f"t{index + 1}"],
                parameters=[f"w{index}"],
                flops=float(weights[index] * rng.uniform(1, 100)),
            )
            for index in range(operators)
        ],
        parameters=[ow.Parameter(id=f"w{index}", bytes=size) for index, size in enumerate(weights)],
        outputs=[f"t{operators}"],
    )
