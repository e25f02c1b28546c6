"""Benchmarks of memory layout: orders of real graphs, large traces, pools.

Run ``python -m benchmarks.memory_layout`` for everything, or name parts: ``graphs large pools``; ``--smoke`` is for a
few small ones. Times are seconds of the processor, and loops are compiled before. Public instances are in
:mod:`benchmarks.yardstick`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import opweave as ow
from benchmarks.tables import GRAPHS, percent, reached, run_parts, table

SMOKE = ("keras/MobileNetV2", "keras/NASNetMobile", "nas/rwshared_0")
RULES = ("tflm", "by_size", "by_breadth", "onnxruntime", "executorch")


def warm_up() -> None:
    """Load or compile the loops."""
    ow.solve(random_layout(40, 40, seed=1), time_limit=20)


def random_layout(storages: int, moments: int, seed: int) -> ow.MemoryLayout:
    """Storages of all sizes and lifetimes: most are short, some long."""
    noise = np.random.default_rng(seed)
    begin = noise.integers(0, moments, storages)
    long, short = noise.geometric(min(1.0, 6 / moments), storages), noise.geometric(0.2, storages) * moments // 20
    length = 1 + np.minimum(long, short)
    size = 64 * (1 + np.minimum(noise.geometric(0.002, storages), 100_000))
    return ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id=f"s{k}", begin=int(b), end=int(b + w), bytes=int(s))
            for k, (b, w, s) in enumerate(zip(begin, length, size, strict=True))
        ]
    )


@table(
    "Graphs in their best orders: bytes, and what rules waste",
    f"graph | storages | live peak | arena | gap | seconds | {' | '.join(RULES)}",
)
def graphs(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Graphs of the repository in their best orders."""
    for path in [GRAPHS / f"{name}.json.gz" for name in SMOKE] if smoke else sorted(GRAPHS.glob("*/*.json.gz")):
        ordering = ow.MemoryOrdering(graph=ow.load(path))
        problem = ow.MemoryLayout.of(ordering, ow.solve(ordering, time_limit=10.0))
        rules = [reached(ow.solve(problem, solver=rule)) for rule in RULES]
        began = time.process_time()
        result = ow.solve(problem, time_limit=1.0 if smoke else 10.0)
        yield (
            f"{path.parent.name}/{ordering.graph.name}",
            len(problem.lifetimes),
            problem.live_peak,
            result.objective,
            percent(result.gap),
            f"{time.process_time() - began:.3f}",
            *(f"{100 * (arena / problem.live_peak - 1):.1f} %" for arena in rules),
        )


def family(shape: str, storages: int, seed: int) -> ow.MemoryLayout:
    """Random storages with alignment: nested as in training, a sliding window, or bursts that begin together."""
    noise, begin = np.random.default_rng(seed), np.arange(storages)
    if shape == "nested":
        short = noise.random(storages) < 0.5
        end = np.where(short, begin + noise.integers(1, 5, storages), 2 * storages - begin + noise.integers(-3, 4))
    elif shape == "windows":
        end = begin + noise.integers(1, 40, storages)
    else:
        begin = 10 * noise.integers(0, storages // 20, storages)
        end = begin + noise.geometric(0.05, storages)
    size = 1 + (64 * noise.lognormal(3.0, 1.2, storages)).astype(np.int64)
    step = noise.choice([1, 16, 64], storages)
    rows = zip(begin.tolist(), end.tolist(), size.tolist(), step.tolist(), strict=True)
    return ow.MemoryLayout(
        lifetimes=[ow.Lifetime(id=f"s{k}", begin=b, end=e, bytes=s, alignment=a) for k, (b, e, s, a) in enumerate(rows)]
    )


@table("Random lifetimes", "storages | live peak | arena | gap | seconds")
def large(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Many storages."""
    for count in (1_000,) if smoke else (1_000, 10_000, 60_000):
        problem = random_layout(count, count // 2, seed=0)
        began = time.process_time()
        result = ow.solve(problem, time_limit=2.0 if smoke else 60.0)
        yield count, problem.live_peak, result.objective, percent(result.gap), f"{time.process_time() - began:.1f}"


def pooled(storages: int, seed: int) -> ow.MemoryLayout:
    """A random layout with a small fast pool, a larger slower one, and a slow one without limit."""
    plain = random_layout(storages, storages // 2, seed)
    pools = [
        ow.Pool(name="tcm", bytes=plain.live_peak // 6, speed=64e9),
        ow.Pool(name="sram", bytes=plain.live_peak // 3, speed=16e9),
        ow.Pool(name="dram", speed=2e9),
    ]
    noise = np.random.default_rng(seed)
    traffic = [int(each.bytes * noise.integers(2, 9)) for each in plain.lifetimes]
    lifetimes = [
        each.model_copy(update={"traffic": moved}) for each, moved in zip(plain.lifetimes, traffic, strict=True)
    ]
    return ow.MemoryLayout(lifetimes=lifetimes, pools=pools, objective="traffic")


@table("Three pools: microseconds of traffic", "storages | TFLM, fastest first | opweave | bound | gap")
def pools(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Traffic to three pools."""
    for seed in range(1 if smoke else 5):
        problem = pooled(40 if smoke else 200, seed)
        greedy = ow.solve(problem, solver="tflm").objective
        result = ow.solve(problem, time_limit=1.0 if smoke else 30.0)
        assert result.objective is not None
        yield (
            len(problem.lifetimes),
            f"{1e6 * (greedy or 0):,.1f}",
            f"{1e6 * result.objective:,.1f}",
            f"{1e6 * (result.bound or 0):,.1f}",
            percent(result.gap),
        )


if __name__ == "__main__":
    run_parts(__doc__, graphs, large, pools, warm_up=warm_up)
