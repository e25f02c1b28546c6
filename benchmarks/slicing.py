"""Benchmarks of slicing: four networks on four different boards, every solver, speed, and the paper's claims.

Run ``python -m benchmarks.slicing`` for everything, or name parts: ``gaps solvers devices speed abstract``;
``--smoke`` uses one network and short limits. Boards compute 12, 8, 5 and 3 GFLOP/s (further boards 6 and 4), move 4
GB/s and take 0.1 ms to start an operator; times are rooflines in single precision. Links carry 100 Mbit/s (x1) or 800
Mbit/s (x8) into every board. Gap: latency / bound - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import opweave as ow
from benchmarks.networks import CONVOLUTIONAL, network
from benchmarks.tables import milliseconds, percent, reached, run_parts, table, timed

BOARDS = (("board-12", 12e9), ("board-8", 8e9), ("board-5", 5e9), ("board-3", 3e9), ("board-6", 6e9), ("board-4", 4e9))
LINKS = {"x1": 12.5e6, "x8": 100e6}
BASELINES = ("one_device", "uniform", "proportional", "all_rows")
SEARCHES: tuple[tuple[str, dict[str, bool | str]], ...] = (
    ("geneflow", {}),
    ("geneflow", {"seeded": False}),
    ("pymoo", {}),
    ("local", {}),
    ("auto", {}),
)


def problem_of(name: str, link: str, devices: int = 4, memory: int | None = None, **fields: Any) -> ow.Slicing:
    """A network on boards."""
    graph, geometry = network(name)
    boards = [
        ow.Device(name=board, flops_per_second=speed, memory_bandwidth=4e9, launch_seconds=1e-4, memory_bytes=memory)
        for board, speed in BOARDS[:devices]
    ]
    cluster = ow.Cluster(devices=boards, rates=[LINKS[link]] * devices)
    costs = ow.Costs.roofline(graph, cluster)
    return ow.Slicing(graph=graph, cluster=cluster, costs=costs, geometry=geometry, **fields)


def cases(*, smoke: bool) -> Iterator[tuple[str, str]]:
    """Networks and links."""
    for name in CONVOLUTIONAL[: 1 if smoke else None]:
        for link in LINKS:
            yield name, link


def warm_up() -> None:
    """Load or compile every loop."""
    problem = problem_of("VGG16", "x8")
    for name, options in SEARCHES:
        ow.solve(problem, solver=name, time_limit=1, options=options)


def ratio(result: ow.Result[ow.Slices]) -> str:
    """Latency / bound - 1."""
    return percent(result.objective / result.bound - 1) if result.objective and result.bound else "-"


@table(
    "Four boards, dimension free: latency in ms",
    f"network | links | {' | '.join(BASELINES)} | opweave | bound | gap | proof | seconds",
)
def gaps(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Baselines, plan and bound."""
    for name, link in cases(smoke=smoke):
        problem = problem_of(name, link)
        baselines = [ow.solve(problem, solver=baseline).objective for baseline in BASELINES]
        with timed() as clock:
            result = ow.solve(problem, time_limit=1.0 if smoke else 60.0)
        assert all(baseline is None or reached(result) <= baseline * (1 + 1e-9) for baseline in baselines)
        cells = (
            *(milliseconds(baseline) for baseline in baselines),
            milliseconds(result.objective),
            milliseconds(result.bound),
        )
        yield name, link, *cells, ratio(result), (result.bound_source or "-")[:36], f"{clock.seconds:.1f}"


@table(
    "Searches, 10 s each: latency in ms",
    "network | links | solver | without or with | latency",
    note="'seeded': without the baselines in the first population.",
)
def solvers(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every search with the same time."""
    for name, link in cases(smoke=smoke):
        problem = problem_of(name, link)
        for solver, options in SEARCHES:
            result = ow.solve(problem, solver=solver, options=options, time_limit=0.3 if smoke else 10.0)
            yield name, link, solver, ", ".join(options) or "-", milliseconds(result.objective)


@table("ResNet50 on 3 to 6 boards: ms", "boards | links | opweave | bound | gap")
def devices(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Three to six boards."""
    for devices in (3,) if smoke else (3, 4, 5, 6):
        for link in LINKS:
            result = ow.solve(problem_of("ResNet50", link, devices), time_limit=1.0 if smoke else 30.0)
            yield devices, link, milliseconds(result.objective), milliseconds(result.bound), ratio(result)


@table(
    "Random plans a second, one thread",
    "network | operators | latency | latency and memory | GenEFlow's problem",
)
def speed(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Plans per second."""
    from opweave.formulations.slicing.geneflow import GenEFlow
    from opweave.formulations.slicing.instance import lower
    from opweave.solvers.slicing.arrays import arrays_of, judge
    from opweave.solvers.slicing.geneflow import decode, gene_count

    for name in CONVOLUTIONAL[: 1 if smoke else None]:
        problem = problem_of(name, "x1")
        instance, rng = lower(problem), np.random.default_rng(0)
        arrays, (modes, cuts) = arrays_of(instance), decode(instance, rng.random((5_000, gene_count(instance))))
        found = {}
        for memory in (False, True):
            judge(arrays, modes[:500], cuts[:500], memory=memory)
            with timed() as clock:
                judge(arrays, modes, cuts, memory=memory)
            found[memory] = 5_000 / clock.seconds
        model = GenEFlow(problem, instance)
        rows = rng.integers(0, model.xu + 1, size=(1_000, model.n_var))
        with timed() as clock:
            model.evaluate(rows)
        yield name, instance.operators, *(f"{found[m]:,.0f}" for m in found), f"{1_000 / clock.seconds:,.0f}"


@table(
    "Savings: peak memory by the order; latency against even parts and against the best single board",
    "network | links | memory | rule, even parts | rule, one board | free, even parts | free, one board",
    note="The paper: 12 % (BTSearch) and 33.9 % (GenEFlow) at best, on its own devices and models. 'rule': the "
    "paper's dimension for every operator; 'free': the search chooses it.",
)
def abstract(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """The claims of the paper's abstract, on our networks."""
    for name in CONVOLUTIONAL[: 1 if smoke else None]:
        graph, _ = network(name)
        given = ow.MemoryOrdering(graph=graph)
        before = reached(ow.solve(given, solver="definition"))
        after = reached(ow.solve(given, time_limit=10))
        for link in LINKS:
            problem = problem_of(name, link)
            even = reached(ow.solve(problem, solver="uniform"))
            alone = reached(ow.solve(problem, solver="one_device"))
            ruled = reached(ow.solve(problem_of(name, link, dimension="rule"), time_limit=0.5 if smoke else 20.0))
            free = reached(ow.solve(problem, time_limit=0.5 if smoke else 20.0))
            shares = (1 - after / before, 1 - ruled / even, 1 - ruled / alone, 1 - free / even, 1 - free / alone)
            yield name, link, *(f"{100 * share:.1f} %" for share in shares)


if __name__ == "__main__":
    run_parts(__doc__, gaps, solvers, devices, speed, abstract, warm_up=warm_up)
