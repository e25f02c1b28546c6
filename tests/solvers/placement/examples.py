"""Placement problems that several tests look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Placement, TransferModel

TOPCUOGLU_EDGES = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
"""Figure 2 of Topcuoglu et al. (2002): one data item per edge, sent at one byte a second."""

TOPCUOGLU_SECONDS = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip


def edge_problem(
    edges: Mapping[tuple[int, int], int],
    seconds: Sequence[Sequence[float]],
    transfers: TransferModel = "delay",
    memory: int | None = None,
) -> Placement:
    """Operators numbered from 1, one tensor per edge, all links at one byte a second."""
    devices = "abcd"[: len(seconds[0])]
    operators = [
        Operator(
            id=str(v),
            inputs=[f"{i}-{j}" for i, j in edges if j == v],
            outputs=[f"{i}-{j}" for i, j in edges if i == v],
        )
        for v in range(1, len(seconds) + 1)
    ]
    return Placement(
        graph=OpGraph(tensors=[Tensor(id=f"{i}-{j}", bytes=c) for (i, j), c in edges.items()], operators=operators),
        cluster=Cluster(
            devices=[Device(name=name, memory_bytes=memory) for name in devices],
            bandwidth=[[1.0] * len(devices)] * len(devices),
        ),
        costs=Costs.from_table(
            {str(v): dict(zip(devices, map(float, row), strict=True)) for v, row in enumerate(seconds, start=1)}
        ),
        transfers=transfers,
    )


def topcuoglu(transfers: TransferModel = "delay", scale: float = 1.0) -> Placement:
    """The published ten-task example; ``scale`` stretches all times."""
    edges = {pair: int(size * scale) for pair, size in TOPCUOGLU_EDGES.items()}
    return edge_problem(edges, [[scale * each for each in row] for row in TOPCUOGLU_SECONDS], transfers)


def layered(operators: int, devices: int = 4, *, seed: int = 0, memory: int | None = None) -> Placement:
    """A random graph whose operators read one or two of the dozen before them."""
    random = np.random.default_rng(seed)
    tensors = [Tensor(id=f"t{v}", bytes=int(random.integers(1, 100))) for v in range(operators)]
    made = []
    for v in range(operators):
        read = {int(u) for u in random.integers(max(0, v - 12), v, size=min(v, 2))} if v else set()
        made.append(Operator(id=f"o{v}", inputs=[f"t{u}" for u in sorted(read)], outputs=[f"t{v}"]))
    names = [f"d{k}" for k in range(devices)]
    base = random.uniform(1, 10, size=(operators, 1)) * random.uniform(0.5, 3, size=devices)
    return Placement(
        graph=OpGraph(tensors=tensors, operators=made),
        cluster=Cluster(
            devices=[Device(name=name, memory_bytes=memory) for name in names], bandwidth=[[20.0] * devices] * devices
        ),
        costs=Costs(operators=[op.id for op in made], devices=names, table=[tuple(row) for row in base.tolist()]),
    )
