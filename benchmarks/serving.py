"""Benchmarks of serving flows: Helix's clusters, its published plans, and random clusters.

Run ``python -m benchmarks.serving`` for everything, or name parts: ``helix random``; ``--smoke`` uses only a few cases.
Seconds of solvers are processor seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

import opweave as ow
from benchmarks import helix_clusters as helix
from benchmarks.tables import percent, run_parts, show

PUBLISHED = {
    "10 devices": "286.6, proved in 3,803 s",
    "24 devices": "1,289.6 after 600 s, bound 78,062",
    "24 in 3 regions": "1,212.2 after 2,700 s, bound 46,521",
    "42 devices": "4,892.2",
}
"""Tokens per second of the plans in Helix's artifact, and what Gurobi 11 proved on 14 cores."""

RULES = ("equal_layers", "by_capacity", "swarm", "petals", "separate")

SECONDS = {"10 devices": 10.0, "24 devices": 10.0, "24 in 3 regions": 60.0, "42 devices": 30.0}
"""Time limits."""


def cluster(kinds: str, bandwidth: np.ndarray) -> ow.Cluster:
    """Devices of some kinds, numbered."""
    np.fill_diagonal(bandwidth, 0.0)
    devices = [ow.Device(name=f"{kind}.{k}") for k, kind in enumerate(kinds.split())]
    return ow.Cluster(devices=devices, bandwidth=bandwidth.tolist())


def regions() -> tuple[np.ndarray, list[float], list[float]]:
    """Bytes per second between the devices of three regions, and from and to the coordinator."""
    count = sum(helix.REGIONS)
    between = np.full((count, count), 1.25e9)
    for source, row in enumerate(helix.ACROSS.strip().splitlines()):
        far = np.asarray(row.split(), dtype=float) * 1e6
        between[source, count - len(far) :] = far
        between[count - len(far) :, source] = far
    arriving, leaving = ([float(each) * 1e6 for each in ends.split()] for ends in (helix.IN, helix.OUT))
    return between, arriving, leaving


def case(name: str) -> tuple[ow.ServingFlow, ow.LayerBlocks]:
    """A cluster of Helix's artifact with its model, and its published plan."""
    count, kinds, rates, plan = {
        "10 devices": (10, helix.KINDS_10, helix.RATES_30B, helix.PLAN_10),
        "24 devices": (24, helix.KINDS_24, helix.RATES_24, helix.PLAN_24),
        "24 in 3 regions": (24, helix.KINDS_3X, helix.RATES_24, helix.PLAN_3X),
        "42 devices": (42, helix.KINDS_42, helix.RATES_42, helix.PLAN_42),
    }[name]
    layers, hidden = (60, 6656) if rates is helix.RATES_30B else (80, 8192)
    between, arriving, leaving = np.full((count, count), 1e9), [1e9] * count, [1e9] * count
    if kinds is helix.KINDS_3X:
        between, arriving, leaving = regions()
    devices = cluster(kinds, between)
    names = [device.name for device in devices.devices]
    problem = ow.ServingFlow(
        graph=ow.layer_chain(layers, activation_bytes=2 * hidden, token_bytes=2),
        cluster=devices,
        rates={each: rates[each.split(".")[0]] for each in names},
        arriving=dict(zip(names, arriving, strict=True)),
        leaving=dict(zip(names, leaving, strict=True)),
    )
    blocks = {}
    for device, block in zip(names, plan.split(), strict=True):
        first, held = map(int, block.split("+"))
        blocks[device] = problem.layers[first : first + held]
    return problem, ow.LayerBlocks(operators=blocks)


def rate(seconds: float | None) -> str:
    """Tokens per second."""
    return "-" if not seconds else f"{1.0 / seconds:,.1f}"


def helix_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Helix's clusters: its plan, the rules, the default solver and its bound."""
    for name, published in list(PUBLISHED.items())[: 2 if smoke else None]:
        problem, plan = case(name)
        theirs = problem.evaluate(plan)
        began = time.process_time()
        result = ow.solve(problem, time_limit=SECONDS[name])
        took = time.process_time() - began
        rules = {rule: ow.solve(problem, solver=rule).objective for rule in RULES}
        best = min((seconds for seconds in rules.values() if seconds), default=None)
        yield (
            name,
            published,
            rate(theirs.objective),
            rate(best),
            rate(result.objective),
            rate(result.bound),
            percent(result.gap),
            f"{took:.1f}",
        )


def unlike_devices(
    draw: np.random.Generator, layers: int, speeds: np.ndarray, most: np.ndarray, kinds: list[int]
) -> ow.ServingFlow:
    """Devices of some kinds, whose layers, up to a number of each kind, run at some speeds; random links, some missing.

    ``speeds`` are the layers a second of a kind by number of layers held.
    """
    between = 10 ** draw.uniform(6.5, 9.5, (len(kinds), len(kinds))) * (draw.random((len(kinds), len(kinds))) > 0.1)
    devices = cluster(" ".join(f"kind{kind}" for kind in kinds), between)
    return ow.ServingFlow(
        graph=ow.layer_chain(layers, activation_bytes=8192, token_bytes=2),
        cluster=devices,
        rates={
            device.name: speeds[kind, : most[kind]].tolist()
            for device, kind in zip(devices.devices, kinds, strict=True)
        },
    )


def random_case(seed: int) -> ow.ServingFlow:
    """Unlike devices, links from slow to fast, some missing; layers that weigh something."""
    draw = np.random.default_rng(seed)
    count, layers = int(draw.integers(10, 43)), int(draw.integers(12, 80))
    speeds = np.stack([10 ** draw.uniform(3, 5) / np.arange(1, 40) ** draw.uniform(1.0, 1.5) for _ in range(4)])
    kinds = draw.integers(0, 4, count).tolist()
    most = draw.integers(2, max(3, 3 * layers // count + 2), 4)
    problem = unlike_devices(draw, layers, speeds, most, kinds)
    return problem.model_copy(update={"entry": "any" if draw.random() < 0.3 else "first"})


def serving_on(pairs: int, seed: int) -> ow.ServingFlow:
    """Four kinds of devices, links from slow to fast, some missing; at least twice the memory that the layers need."""
    draw = np.random.default_rng(seed)
    count = max(2, math.isqrt(pairs))
    layers = max(2, pairs // count)
    speeds = 10 ** draw.uniform(3, 5, (4, 1)) / np.arange(1, layers + 1) ** draw.uniform(1.0, 1.5, (4, 1))
    most = np.minimum(layers, draw.integers(2, 6, 4) + 2 * (layers // count))
    return unlike_devices(draw, layers, speeds, most, draw.integers(0, 4, count).tolist())


def random_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Random clusters: how far the default solver's plans are from the bound, and the best rule from the plans."""
    for seed in range(2 if smoke else 8):
        problem = random_case(seed)
        began = time.process_time()
        result = ow.solve(problem, time_limit=1.0 if smoke else 20.0)
        took = time.process_time() - began
        rules = [
            ow.solve(problem, solver=rule).objective for rule in ("equal_layers", "by_capacity", "swarm", "petals")
        ]
        best = min((seconds for seconds in rules if seconds), default=None)
        ratio = "-" if best is None or not result.objective else f"{best / result.objective:.2f}"
        devices, layers = len(problem.cluster.devices), len(problem.layers)
        yield (
            seed,
            devices,
            layers,
            result.status.value,
            rate(result.objective),
            percent(result.gap),
            ratio,
            f"{took:.1f}",
        )


def helix_part(*, smoke: bool) -> None:
    """Helix's clusters."""
    header = ("cluster", "published", "its plan", "best rule", "plan", "bound", "gap", "s")
    show("Tokens per second on Helix's clusters", header, helix_rows(smoke=smoke))


def random_part(*, smoke: bool) -> None:
    """Random clusters."""
    header = ("seed", "devices", "layers", "status", "tokens/s", "gap", "best rule / plan", "s")
    show("Random clusters", header, random_rows(smoke=smoke))


def warm_up() -> None:
    """Load what solvers need, so that the tables show only their work."""
    ow.solve(random_case(0), time_limit=1.0)


if __name__ == "__main__":
    run_parts(__doc__, {"helix": helix_part, "random": random_part}, warm_up)
