"""Small random problems of placement that brute force can settle."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.plans import plan_of

MODELS = ("delay", "one_port_edge", "one_port_tensor")


def small_problem(seed: int, *, most_operators: int = 5, scale: float = 1.0, memory: bool = False) -> Placement:
    """A random graph on 1 to 3 devices: shared tensors, missing run times, uneven links; the seed picks the model."""
    rng = np.random.default_rng(seed)
    count, devices = int(rng.integers(2, most_operators + 1)), int(rng.integers(1, 4))
    density = float(rng.choice([0.3, 0.5, 0.8]))
    tensors, outputs, inputs = [], [[] for _ in range(count)], [[] for _ in range(count)]
    for v in range(count):
        readers = [w for w in range(v + 1, count) if rng.random() < density]
        for t in range(1 if rng.random() < 0.7 else 2):
            tensors.append(Tensor(id=f"t{v}.{t}", bytes=int(rng.integers(0, 8))))
            outputs[v].append(f"t{v}.{t}")
            for w in readers:
                if t == 0 or rng.random() < 0.6:
                    inputs[w].append(f"t{v}.{t}")
    table = {
        f"o{v}": {
            f"d{k}": scale * int(rng.integers(0, 9)) for k in range(devices) if k == v % devices or rng.random() < 0.85
        }
        for v in range(count)
    }
    bandwidth = np.asarray(rng.choice([0.5, 1.0, 2.0, 4.0], size=(devices, devices))) / scale
    weights = [int(rng.integers(0, 10)) for _ in range(count)]
    room = [int(rng.integers(5, 30)) if memory else None for _ in range(devices)]
    graph = OpGraph(
        operators=[
            Operator(id=f"o{v}", inputs=inputs[v], outputs=outputs[v], parameters=[f"w{v}", "all"][: 1 + v % 2])
            for v in range(count)
        ],
        tensors=tensors,
        parameters=[*(Parameter(id=f"w{v}", bytes=weights[v]) for v in range(count)), Parameter(id="all", bytes=3)],
    )
    cluster = Cluster(
        devices=[Device(name=f"d{k}", memory_bytes=room[k]) for k in range(devices)],
        bandwidth=bandwidth.tolist(),
        latency=scale * float(rng.choice([0.0, 0.5])),
    )
    model: Any = MODELS[seed % 3]
    return Placement(graph=graph, cluster=cluster, costs=Costs.from_table(table), transfers=model)


def twin_problem(seed: int, *, most_operators: int = 5) -> Placement:
    """A random graph on three devices, of which the last two can be exchanged; memory is short."""
    rng, problem = np.random.default_rng(seed), small_problem(seed, most_operators=most_operators)
    table = {op.id: {"a": float(rng.integers(1, 9))} for op in problem.graph.operators}
    for row in table.values():
        row["b"] = row["c"] = float(rng.integers(1, 9))
    there, back, between = (float(rate) for rate in rng.choice([0.5, 1.0, 4.0], size=3))
    room = [int(rng.integers(5, 30)), *[int(rng.integers(5, 20))] * 2]
    cluster = Cluster(
        devices=[Device(name=name, memory_bytes=bytes_) for name, bytes_ in zip("abc", room, strict=True)],
        bandwidth=[[0.0, there, there], [back, 0.0, between], [back, between, 0.0]],
        latency=float(rng.choice([0.0, 0.5])),
    )
    data = {"graph": problem.graph, "cluster": cluster, "costs": Costs.from_table(table)}
    return Placement(**data, transfers=problem.transfers)


def layered_problem(
    layers: int, branches: int, room: int | None = None, transfers: Any = "one_port_tensor"
) -> Placement:
    """Equal layers of equal parallel branches on two unlike devices."""
    operators, tensors, parameters = [], [Tensor(id="x", bytes=2)], []

    def add(name: str, inputs: list[str], weight: int) -> str:
        tensors.append(Tensor(id=f"{name}.out", bytes=2))
        parameters.append(Parameter(id=f"{name}.w", bytes=weight))
        operators.append(Operator(id=name, inputs=inputs, outputs=[f"{name}.out"], parameters=[f"{name}.w"]))
        return f"{name}.out"

    last = "x"
    for layer in range(layers):
        first = add(f"l{layer}.in", [last], 1)
        heads = [add(f"l{layer}.h{h}", [first], 2) for h in range(branches)]
        last = add(f"l{layer}.join", heads, 1)
    costs = {op.id: {"fast": 1.0 + 2.0 * (".h" in op.id), "slow": 3.0 + 1.0 * (".h" in op.id)} for op in operators}
    cluster = Cluster(
        devices=[Device(name="fast", memory_bytes=room), Device(name="slow")], bandwidth=[[0, 2.0], [2.0, 0]]
    )
    return Placement(
        graph=OpGraph(operators=operators, tensors=tensors, parameters=parameters),
        cluster=cluster,
        costs=Costs.from_table(costs),
        transfers=transfers,
        memory="parameters",
    )


def islands_problem(layers: int, *, slow: float | None, room: int = 36) -> Placement:
    """Layers of x, y and z on linked devices a and b and a fast device c without links.

    z runs on a and b only. Without c, x runs on b and y on a in ``slow`` seconds; with None, only c runs them.
    """
    operators, tensors, parameters, table = [], [], [], {}

    def add(name: str, inputs: list[str], seconds: dict[str, float | None]) -> str:
        tensors.append(Tensor(id=f"{name}.out", bytes=2))
        parameters.append(Parameter(id=f"{name}.w", bytes=3))
        operators.append(Operator(id=name, inputs=inputs, outputs=[f"{name}.out"], parameters=[f"{name}.w"]))
        table[name] = {device: each for device, each in seconds.items() if each is not None}
        return f"{name}.out"

    last = add("in", [], {"a": 2.0, "b": 2.0, "c": 1.0})
    for layer in range(layers):
        x = add(f"l{layer}.x", [last], {"b": slow, "c": 1.0})
        y = add(f"l{layer}.y", [last], {"a": slow, "c": 1.0})
        z = add(f"l{layer}.z", [last], {"a": 3.0, "b": 3.0})
        last = add(f"l{layer}.join", [x, y, z], {"a": 2.0, "b": 2.0, "c": 1.0})
    cluster = Cluster(
        devices=[Device(name=name, memory_bytes=room) for name in "abc"],
        bandwidth=[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    )
    graph = OpGraph(operators=operators, tensors=tensors, parameters=parameters)
    return Placement(graph=graph, cluster=cluster, costs=Costs.from_table(table))


def cheapest(arrays: PlacementArrays, cost: FloatArray) -> float:
    """The least length plus price of all plans that start everything as early as some order allows."""
    count = len(arrays.seconds)
    before = [arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist() for v in range(count)]
    orders = [
        np.asarray(order)
        for order in permutations(range(count))
        if all(order.index(u) < order.index(v) for v in range(count) for u in before[v])
    ]
    best = math.inf
    usable = [np.flatnonzero(np.isfinite(row)).tolist() for row in arrays.seconds]
    for chosen in product(*usable):
        device = np.asarray(chosen)
        price = float(cost[np.arange(count), device].sum())
        best = min(best, *(plan_of(arrays, order, device).makespan + price for order in orders))
    return best
