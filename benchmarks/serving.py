"""Benchmarks of serving flows: Helix's clusters, its published plans, and random clusters.

Run ``python -m benchmarks.serving`` for everything, or name parts: ``helix random``; ``--smoke`` uses only a few cases.
Seconds of solvers are processor seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

import opweave as ow
from benchmarks.tables import data, percent, run_parts, table

RULES = ("equal_layers", "swarm", "petals", "separate")


def cluster(kinds: Sequence[str], bandwidth: np.ndarray) -> ow.Cluster:
    """Devices of some kinds, numbered."""
    np.fill_diagonal(bandwidth, 0.0)
    devices = [ow.Device(name=f"{kind}.{k}") for k, kind in enumerate(kinds)]
    return ow.Cluster(devices=devices, bandwidth=bandwidth.tolist())


def case(name: str) -> tuple[ow.ServingFlow, ow.LayerBlocks]:
    """A cluster of Helix's artifact with its model, and its published plan."""
    facts, known = data("helix"), data("helix")["clusters"][name]
    kinds, rates = known["kinds"], facts["rates"][known["rates"]]
    count = len(kinds)
    between = np.full((count, count), 1e9)
    if name == "24 in 3 regions":
        regions = facts["regions"]
        between[:] = 1.25e9
        for source, row in enumerate(regions["across"]):
            between[source, count - len(row) :] = between[count - len(row) :, source] = 1e6 * np.asarray(row)
    devices = cluster(kinds, between)
    names = [device.name for device in devices.devices]
    problem = ow.ServingFlow(
        graph=ow.layer_chain(known["layers"], activation_bytes=2 * known["hidden"], token_bytes=2),
        cluster=devices,
        rates={device: rates[kind] for device, kind in zip(names, kinds, strict=True)},
    )
    blocks = {
        device: problem.layers[first : first + held] for device, (first, held) in zip(names, known["plan"], strict=True)
    }
    return problem, ow.LayerBlocks(operators=blocks)


def rate(seconds: float | None) -> str:
    """Tokens per second."""
    return "-" if not seconds else f"{1.0 / seconds:,.1f}"


@table("Tokens per second on Helix's clusters", "cluster | published | its plan | best rule | plan | bound | gap | s")
def helix(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Helix's clusters: its plan, the rules, the default solver and its bound."""
    for name, known in list(data("helix")["clusters"].items())[: 2 if smoke else None]:
        problem, plan = case(name)
        theirs = problem.evaluate(plan)
        began = time.process_time()
        result = ow.solve(problem, time_limit=known["seconds"])
        took = time.process_time() - began
        rules = {rule: ow.solve(problem, solver=rule).objective for rule in RULES}
        best = min((seconds for seconds in rules.values() if seconds), default=None)
        yield (
            name,
            known["published"],
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
    devices = cluster([f"kind{kind}" for kind in kinds], between)
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


@table("Random clusters", "seed | devices | layers | status | tokens/s | gap | best rule / plan | s")
def random(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Random clusters: how far the default solver's plans are from the bound, and the best rule from the plans."""
    for seed in range(2 if smoke else 8):
        problem = random_case(seed)
        began = time.process_time()
        result = ow.solve(problem, time_limit=1.0 if smoke else 20.0)
        took = time.process_time() - began
        rules = [ow.solve(problem, solver=rule).objective for rule in ("equal_layers", "swarm", "petals")]
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


def warm_up() -> None:
    """Load what solvers need, so that the tables show only their work."""
    ow.solve(random_case(0), time_limit=1.0)


if __name__ == "__main__":
    run_parts(__doc__, helix, random, warm_up=warm_up)
