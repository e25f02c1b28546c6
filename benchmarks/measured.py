"""Two placement profiles measured by the authors of "Moirai" (benchmarks/profiles, MIT licence beside them).

A profile lists for each node the time on each of four devices and its memory, and for each edge a 4 x 4 matrix of
times. All edges of a node have the same matrix, which is a size times one fixed matrix, up to the source's rounding to
0.00001 ms. Every node therefore writes one tensor, whose bytes and the cluster's bandwidths reproduce the transfer
times. They do so to 0.0005 % in yolov5x, and in GoogLeNet to 0.08 % for transfers of 0.01 ms and more; for shorter ones
the rounding leaves up to 0.6 % (0.00001 ms). The unit of bytes is arbitrary: 10 GB/s from the first device to the
second is assumed. Memory needs become parameters, so problems use ``memory="parameters"``.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import opweave as ow

PROFILES = Path(__file__).parent / "profiles"
MILLISECONDS = 1e-3
FIRST_LINK = 10e9
"""Bytes per second from the first device to the second."""


@dataclass(frozen=True, slots=True)
class Known:
    """The best values known for a profile with one port per edge, in milliseconds."""

    name: str
    best: float
    bound: float
    others: str


KNOWN = (
    Known("GoogLeNet", 1.2787, 1.2787, "HEFT 1.551, best list schedule 1.504"),
    Known("yolov5x", 23.745, 23.502, "one device 24.169"),
)


def profile(name: str) -> dict[str, Any]:
    """Read a profile unchanged."""
    with gzip.open(PROFILES / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        data: dict[str, Any] = json.load(file)
    return data


def measured(name: str) -> ow.Placement:
    """Convert a profile to a placement problem with one port for each edge, as in the paper."""
    data = profile(name)
    devices = [f"d{index}" for index in range(len(data["Mem"]))]
    size, slowness = sizes_and_slowness(np.array([edge["comm"] for edge in data["edges"]]))
    sent = {edge["src"]: amount for edge, amount in zip(data["edges"], size.tolist(), strict=True)}
    reads: dict[int, list[str]] = {node["id"]: [] for node in data["nodes"]}
    for edge in data["edges"]:
        reads[edge["dst"]].append(str(edge["src"]))
    operators, parameters = [], []
    for node in data["nodes"]:
        word = str(node["id"])
        parameters.append(ow.Parameter(id=f"{word}.w", bytes=round(node["mem"])))
        operators.append(ow.Operator(id=word, inputs=reads[node["id"]], outputs=[word], parameters=[f"{word}.w"]))
    graph = ow.OpGraph(
        name=data["name"],
        operators=operators,
        tensors=[ow.Tensor(id=str(node["id"]), bytes=round(sent.get(node["id"], 0.0))) for node in data["nodes"]],
        parameters=parameters,
    )
    cluster = ow.Cluster(
        devices=[
            ow.Device(name=name, memory_bytes=int(limit)) for name, limit in zip(devices, data["Mem"], strict=True)
        ],
        bandwidth=[[0.0 if cell == 0 else 1.0 / cell for cell in row] for row in slowness.tolist()],
    )
    costs = ow.Costs.from_table(
        {
            str(node["id"]): {device: MILLISECONDS * time for device, time in zip(devices, node["p"], strict=True)}
            for node in data["nodes"]
        }
    )
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, transfers="one_port_edge", memory="parameters")


def sizes_and_slowness(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Split transfer times in milliseconds, (edges, devices, devices), into bytes and seconds per byte.

    The least-squares matrix of rank one gives the links. The bytes of an edge are then those with the smallest maximum
    relative error over the links.
    """
    flat = MILLISECONDS * times.reshape(len(times), -1)
    links = np.abs(np.linalg.svd(flat, full_matrices=False)[2][0])
    links[flat.max(axis=0) == 0.0] = 0.0
    links /= links[1] * FIRST_LINK
    used = links > 0.0
    ratio = flat[:, used] / links[used]
    return (ratio.min(axis=1) + ratio.max(axis=1)) / 2, links.reshape(times.shape[1:])
