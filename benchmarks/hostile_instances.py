"""Problems whose numbers differ as much as their types allow, small enough for brute force.

Each combines seconds from 0 to 1000, devices a million times slower than others, links from 1 B/s to 1e12 B/s, and
tensors from 0 to 2**50 bytes (2**52 if bytes are the objective). A seed gives the same problem on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import opweave as ow

MODELS = ("one_port_tensor", "one_port_edge", "delay")


class _Hostile:
    """Draws hostile numbers; a quarter of all instances are hostile in one respect only."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.respects = set(range(4)) if self.rng.random() < 0.75 else {int(self.rng.integers(4))}

    def pick(self, *choices: Any) -> Any:
        """One of several values."""
        return choices[int(self.rng.integers(len(choices)))]

    def size(self, most: int = 2**50) -> int:
        """Bytes."""
        if 0 not in self.respects:
            return int(self.rng.integers(0, 9)) * 1000
        kind = self.rng.random()
        if kind < 0.15:
            return 0
        return most if kind > 0.93 else int(2 ** (self.rng.random() * np.log2(most)))

    def bandwidth(self) -> float:
        """Bytes per second."""
        return float(10.0 ** self.rng.uniform(0, 12)) if 1 in self.respects else float(self.rng.integers(1, 9)) * 1e6

    def speeds(self, devices: int) -> list[float]:
        """Factors on run times: some devices are a million times slower, and one may be 1e9 times slower."""
        if 2 not in self.respects:
            return [float(self.pick(1.0, 1.5, 2.0)) for _ in range(devices)]
        return [float(self.pick(1.0, 1.0, 1.5, 1e3, 1e6, 1e9)) for _ in range(devices)]

    def seconds(self, speed: float) -> float:
        """A run time on a device."""
        if 3 in self.respects and self.rng.random() < 0.3:
            return 0.0
        base = 10.0 ** self.rng.uniform(-6, -4) if 3 in self.respects else float(self.rng.integers(1, 9)) * 1e-5
        heavy = 1e9 if 3 in self.respects and self.rng.random() < 0.07 else 1.0
        return min(float(base * speed * heavy), 1e6)

    def cluster(self, devices: int, *, missing: bool = True, memory: list[int | None] | None = None) -> ow.Cluster:
        """Devices with uneven links, some of them missing."""
        rate = [
            [0.0 if missing and self.rng.random() < 0.1 else self.bandwidth() for _ in range(devices)]
            for _ in range(devices)
        ]
        room = memory or [None] * devices
        return ow.Cluster(
            devices=[ow.Device(name=f"d{k}", memory_bytes=room[k]) for k in range(devices)],
            bandwidth=rate,
            latency=float(self.pick(0.0, 0.0, 1e-9, 1.0)),
        )

    def graph(self, operators: int, most: int = 2**50, *, outputs: bool = True) -> ow.OpGraph:
        """A random graph of tensors of all sizes."""
        tensors, made = list[ow.Tensor](), list[list[str]]()
        read = [list[str]() for _ in range(operators)]
        for v in range(operators):
            made.append([f"t{v}"])
            tensors.append(ow.Tensor(id=f"t{v}", bytes=self.size(most)))
            for w in range(v + 1, operators):
                if self.rng.random() < min(0.5, 3.0 / operators):
                    read[w].append(f"t{v}")
        parameters = [ow.Parameter(id=f"w{v}", bytes=self.size(most)) for v in range(operators)]
        return ow.OpGraph(
            tensors=tensors,
            operators=[
                ow.Operator(
                    id=f"o{v}",
                    inputs=read[v],
                    outputs=made[v],
                    parameters=[f"w{v}"],
                    workspace_bytes=self.size(most) // 8,
                )
                for v in range(operators)
            ],
            parameters=parameters,
            outputs=[f"t{operators - 1}"] if outputs else [],
        )

    def memories(self, graph: ow.OpGraph, devices: int) -> list[int | None]:
        """Memories that hold everything, hold a part, or have no limit."""
        total = sum(t.bytes for t in graph.tensors) + sum(p.bytes for p in graph.parameters)
        total += sum(op.workspace_bytes for op in graph.operators)
        return [
            self.pick(None, None, max(1, min(total, 2**53)), max(1, min(2 * total // 3, 2**53))) for _ in range(devices)
        ]


def hostile_placement(seed: int, *, least_operators: int = 2, most_operators: int = 5) -> ow.Placement:
    """A few operators on two or three devices."""
    draw = _Hostile(seed)
    operators, devices = int(draw.rng.integers(least_operators, most_operators + 1)), int(draw.rng.integers(2, 4))
    graph, speeds = draw.graph(operators), draw.speeds(devices)
    table = {f"o{v}": {f"d{k}": draw.seconds(speeds[k]) for k in range(devices)} for v in range(operators)}
    cluster = draw.cluster(devices, memory=draw.memories(graph, devices) if draw.rng.random() < 0.4 else None)
    model: Any = MODELS[seed % 3]
    return ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), transfers=model)


def hostile_batched_mapping(seed: int) -> ow.BatchedMapping:
    """Up to three operators, two devices, three inputs."""
    draw = _Hostile(seed)
    operators, devices, batch = int(draw.rng.integers(1, 4)), 2, int(draw.rng.integers(1, 4))
    graph, speeds = draw.graph(operators), draw.speeds(devices)
    table: dict[str, dict[str, dict[int, float]]] = {}
    for v in range(operators):
        table[f"o{v}"] = {
            f"d{k}": {size: draw.seconds(speeds[k]) * float(draw.pick(1, size)) for size in range(1, batch + 1)}
            for k in range(devices)
        }
    model: Any = draw.pick("delay", "delay_per_input")
    return ow.BatchedMapping(
        graph=graph, cluster=draw.cluster(devices), costs=ow.Costs.from_table(table), batch=batch, transfers=model
    )


def hostile_pipeline(seed: int, *, least_operators: int = 2, most_operators: int = 6) -> ow.Pipeline:
    """A few operators on two to four devices, every objective."""
    draw = _Hostile(seed)
    operators, devices = int(draw.rng.integers(least_operators, most_operators + 1)), int(draw.rng.integers(2, 5))
    graph, speeds = draw.graph(operators, outputs=False), draw.speeds(devices)
    table = {f"o{v}": {f"d{k}": draw.seconds(speeds[k]) for k in range(devices)} for v in range(operators)}
    wishes: dict[str, Any] = {
        "objective": draw.pick("bottleneck", "bottleneck", "transfers", "latency"),
        "cuts": draw.pick("prefix", "dominators"),
        "channel": draw.pick("dedicated", "shared"),
        "min_stages": draw.pick(1, 2),
    }
    return ow.Pipeline(graph=graph, cluster=draw.cluster(devices), costs=ow.Costs.from_table(table), **wishes)


def hostile_ordering(seed: int, *, least_operators: int = 2, most_operators: int = 7) -> ow.MemoryOrdering:
    """A few operators, peak or total, bytes of all sizes."""
    draw = _Hostile(seed)
    operators = int(draw.rng.integers(least_operators, most_operators + 1))
    goal: Any = draw.pick("peak", "peak", "total")
    inner: Any = draw.pick("none", "first")
    return ow.MemoryOrdering(graph=draw.graph(operators, 2**48), objective=goal, in_place=inner)


def hostile_slicing(seed: int) -> ow.Slicing:
    """One or two operators of up to four rows or channels on two devices."""
    draw = _Hostile(seed)
    devices, count = 2, int(draw.rng.integers(1, 3))
    unit = max(1, draw.size(2**46))
    channels, rows = int(draw.rng.integers(1, 3)), int(draw.rng.integers(1, 5))
    shapes = {"x": (channels, rows)}
    operators, geometry, last = [], {}, "x"
    for v in range(count):
        kernel, (channels, rows) = int(draw.pick(1, 3)), shapes[last]
        made = int(draw.rng.integers(1, 3))
        geometry[f"o{v}"] = ow.Geometry(kernel=kernel, stride=1, padding=kernel // 2)
        operators.append(ow.Operator(id=f"o{v}", kind="conv", inputs=[last], outputs=[f"o{v}"]))
        shapes[f"o{v}"], last = (made, rows), f"o{v}"
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=t, bytes=unit * c * h, shape=[1, c, h, 1]) for t, (c, h) in shapes.items()],
        operators=operators,
        outputs=[last],
    )
    speeds = draw.speeds(devices)
    table = {op.id: {f"d{k}": draw.seconds(speeds[k]) for k in range(devices)} for op in operators}
    cluster = ow.Cluster(
        devices=[ow.Device(name=f"d{k}", launch_seconds=draw.pick(0.0, 1e-9, 1.0)) for k in range(devices)],
        rates=[draw.bandwidth() for _ in range(devices)],
        latency=draw.pick(0.0, 1e-9),
    )
    return ow.Slicing(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), geometry=geometry)
