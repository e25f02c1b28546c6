"""Questions that people asked in public, with the answers that were worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import opweave as ow

L, MIB = ow.Lifetime, 2**20


def chain(count: int, size: int = 1) -> ow.OpGraph:
    tensors = [ow.Tensor(id=f"t{k}", bytes=size) for k in range(count + 1)]
    ops = [ow.Operator(id=f"o{k}", inputs=[f"t{k}"], outputs=[f"t{k + 1}"]) for k in range(count)]
    return ow.OpGraph(tensors=tensors, operators=ops, outputs=[f"t{count}"])


SPLITS = [
    ([2.4, *[0.295] * 62, 2.4], 8, 2.95),  # bytes of pieces as their costs: the most on a device
    *(([1.0] * layers, count, most) for layers, count, most in ((42, 16, 3), (38, 8, 5), (61, 8, 8), (40, 16, 3))),
    ([1.0] * 30, 4, 8),
]


@pytest.mark.parametrize(("costs", "count", "longest"), SPLITS)
def test_layers_in_order_on_equal_devices(costs: Sequence[float], count: int, longest: float) -> None:
    names = [f"d{k}" for k in range(count)]
    table = {f"o{k}": dict.fromkeys(names, cost) for k, cost in enumerate(costs)}
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in names], shared=1e12)
    problem = ow.Pipeline(graph=chain(len(costs)), cluster=cluster, costs=ow.Costs.from_table(table))
    result = ow.solve(problem, time_limit=10)
    assert result.objective == pytest.approx(longest)


def storages(rows: str) -> list[ow.Lifetime]:
    cells = (row.split() for row in rows.split(","))
    return [L(id=name, begin=int(begin), end=int(end), bytes=int(size)) for name, size, begin, end in cells]


TVM = storages(
    "sid_9 301056 1 3, PaddedInput_7 314646 2 4, Conv2dOutput_7 256 3 4, sid_8 802816 3 5, tensor_2 200704 4 6"
)
LAYOUTS = [
    (TVM, [ow.Pool(name="fast", bytes=200_704, price=0), ow.Pool(name="slow")], 1_117_462),
    (storages("a 100 0 2, b 80 1 3, c 60 2 4"), [ow.Pool(name="arena")], 180),
    (storages("a 65536 0 1, b 32768 1 2, c 32768 1 2"), [ow.Pool(name="arena")], 65_536),
]


@pytest.mark.parametrize(("lifetimes", "pools", "least"), LAYOUTS, ids=["slow pool", "inclusive ends", "two halves"])
def test_the_least_memory_of_a_layout(lifetimes: list[ow.Lifetime], pools: list[ow.Pool], least: int) -> None:
    result = ow.solve(ow.MemoryLayout(lifetimes=lifetimes, pools=pools), time_limit=20)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, least)


@pytest.mark.parametrize(("speeds", "share"), [((40, 20), 0.1), ((40, 20), 0.3), ((40, 20, 9), 0.2)])
def test_a_share_of_the_operators_on_a_phone(speeds: Sequence[int], share: float) -> None:
    """The portfolio is no worse than one of its engines alone, and finds a plan for any share."""
    graph = ow.load(Path(__file__).parent / "data/MobileNetV2.json.gz")
    names = ["laptop", "phone", "board"][: len(speeds)]
    devices = [
        ow.Device(name=name, flops_per_second=1e9 * speed, memory_bandwidth=1e9 * speed)
        for name, speed in zip(names, speeds, strict=True)
    ]
    cluster = ow.Cluster(devices=devices, shared="40 MB/s")
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))

    def enough(model: Any, problem: ow.Placement) -> None:
        placed = [model.on(op.id, "phone") for op in problem.graph.operators]
        model.add(sum(placed) >= share * len(placed))

    best, alone = (ow.solve(problem, solver=solver, extend=enough, time_limit=2) for solver in ("auto", "highs"))
    assert best.verified and best.objective is not None
    assert alone.objective is None or best.objective <= alone.objective
    on_phone = sum(device == "phone" for device in best.plan.device.values())
    assert on_phone >= share * len(graph.operators)


def test_weights_that_are_read_most_often_stay_in_the_fast_memory() -> None:
    """Two networks share 7.04 MiB: one of 10.11 MiB runs once for each picture, one of 5.44 MiB five times.

    What was published about their layers is not enough to derive 25.6 MiB of traffic in one order and 7.74 in the
    other, so here the sixteen layers of a network are equal.
    """
    layers, names = 16, {"once": (10.11, 1), "often": (5.44, 5)}
    sizes = {name: round(size * MIB / layers) for name, (size, _) in names.items()}
    rows = [
        L(id=f"{name} {k}", begin=0, end=1, bytes=sizes[name], traffic=times * sizes[name])
        for name, (_, times) in names.items()
        for k in range(layers)
    ]
    pools = [ow.Pool(name="fast", bytes=round(7.04 * MIB)), ow.Pool(name="slow", speed=MIB)]
    result = ow.solve(ow.MemoryLayout(lifetimes=rows, pools=pools, objective="traffic"), time_limit=20)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(10.11 * 14 / 16, rel=1e-6)  # two of these layers fit beside the others
    assert result.objective >= 10.11 + 5.44 - 7.04, "what even parts of layers would not save"
    assert {name for name, pool in result.plan.pool.items() if pool == "fast"} >= {f"often {k}" for k in range(layers)}


def test_statistics_of_every_activation_cost_their_own_bytes_alone() -> None:
    """A ReduceMin and a ReduceMax of each activation, listed at the end."""
    net, count, size = chain(12, 1000), 12, 1000
    before = ow.solve(ow.MemoryOrdering(graph=net), time_limit=10).objective
    made = [f"{kind}{k}" for k in range(1, count + 1) for kind in ("min", "max")]
    tensors = [*net.tensors, *(ow.Tensor(id=name, bytes=4) for name in made)]
    reduces = [ow.Operator(id=f"r_{name}", inputs=[f"t{name[3:]}"], outputs=[name]) for name in made]
    graph = ow.OpGraph(tensors=tensors, operators=[*net.operators, *reduces], outputs=[f"t{count}", *made])
    listed = ow.MemoryOrdering(graph=graph).evaluate(ow.Ordering(order=[op.id for op in graph.operators])).objective
    best = ow.solve(ow.MemoryOrdering(graph=graph), time_limit=10).objective
    assert best <= before + 8 * count
    assert listed >= count * size


def test_updates_right_after_their_gradients() -> None:
    """Sixteen layers of 1024 x 1024, forward and backward, with all updates listed at the end."""
    count, act, weight = 16, 4096, 4 * MIB
    sizes = {f"a{k}": act for k in range(count + 1)} | {f"d{k}": act for k in range(count + 1)}
    sizes |= {f"g{k}": weight for k in range(count)} | {f"u{k}": 0 for k in range(count)}
    ops = [ow.Operator(id=f"f{k}", inputs=[f"a{k}"], outputs=[f"a{k + 1}"]) for k in range(count)]
    ops += [ow.Operator(id="loss", inputs=[f"a{count}"], outputs=[f"d{count}"])]
    for k in reversed(range(count)):
        ops.append(ow.Operator(id=f"b{k}", inputs=[f"d{k + 1}", f"a{k}"], outputs=[f"d{k}", f"g{k}"]))
    ops += [ow.Operator(id=f"s{k}", inputs=[f"g{k}"], outputs=[f"u{k}"]) for k in range(count)]
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in sizes.items()]
    graph = ow.OpGraph(tensors=tensors, operators=ops, outputs=[f"u{k}" for k in range(count)])
    problem = ow.MemoryOrdering(graph=graph, in_place="first")
    assert problem.evaluate(ow.Ordering(order=[op.id for op in ops])).objective >= 64 * MIB
    assert ow.solve(problem, time_limit=10).objective <= 8 * MIB + act * (count + 2)


def test_eight_calls_are_those_that_save_most() -> None:
    """Twenty runs of operators that could go to an accelerator, each between two that cannot, and eight calls."""
    savings = [3, 9, 1, 7, 2, 8, 5, 4, 11, 6, 10, 12, 1, 2, 14, 3, 13, 5, 4, 6]
    table = {f"o{k}": {"cpu": 1.0} for k in range(0, 41, 2)}
    table |= {f"o{2 * k + 1}": {"cpu": 20.0, "dla": 20.0 - saved} for k, saved in enumerate(savings)}
    cluster = ow.Cluster(devices=[ow.Device(name="cpu"), ow.Device(name="dla")], shared=1e15)
    rules = {"transfers": "blocking", "host": "cpu", "max_calls": 8}
    problem = ow.Placement(graph=chain(41), cluster=cluster, costs=ow.Costs.from_table(table), **rules)
    result = ow.solve(problem, time_limit=10)
    assert result.objective == pytest.approx(21 + 20 * 20 - sum(sorted(savings)[-8:]))
