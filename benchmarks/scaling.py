"""Benchmark of several cores: the time to the same gap, or to the proof, with one thread and with two.

Run ``python -m benchmarks.scaling``; ``--smoke`` uses a few instances and short limits. Each instance is solved with
one thread until it is proved or its limit is up, then with two threads in the same way. The table compares the times to
the wider of the two final gaps, which both runs reach. If both prove the optimum, these are the times of the proof.

The instances are real and seeded graphs of every problem, chosen for their size and kind. The hardest are those on
which one thread improves its gap last, whatever two threads do, because an instance that one core solves in a second
says little about a second core. Graphs are built, loops compiled and processes started before. Nothing else should run
on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, log
from time import sleep
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.edge_networks import heterogeneous, random_chain
from benchmarks.generators import layered_dag, scattered
from benchmarks.placement import REACHED, on_cluster
from benchmarks.slicing import problem_of
from benchmarks.stacked import Stack, stacked
from benchmarks.tables import GRAPHS, percent, show

SAME_GAP = 1e-6
"""Gaps that differ by less count as equal."""

LEAST_SECONDS = 0.01
"""Shorter times count as this many seconds."""

START_SECONDS = 2.0
"""Seconds for processes to start."""


class Instance(NamedTuple):
    """A problem, built when it is needed, and the seconds that one thread gets."""

    name: str
    problem: Callable[[], ow.Problem[Any, Any]]
    seconds: float


def torch_graph(name: str) -> ow.OpGraph:
    """A graph of the repository."""
    return ow.load(GRAPHS / f"torch/{name}.json.gz")


def long_pipeline(devices: int, operators: int, seed: int) -> ow.Pipeline:
    """A chain cut into about 20 stages on different devices."""
    graph = random_chain(operators, seed)
    total = sum(parameter.bytes for parameter in graph.parameters) + sum(tensor.bytes for tensor in graph.tensors)
    return heterogeneous(graph, devices, max(1.15 * total / 20, 1.05e7), seed, computing=True, matrix=False)


def with_reached_times(name: str) -> ow.Placement:
    """A graph on the slower cluster with times that are reached in practice."""
    return on_cluster(torch_graph(name), "moirai-inter", efficiency=REACHED)


def total(graph: ow.OpGraph) -> ow.MemoryOrdering:
    """Smallest total of the footprints."""
    return ow.MemoryOrdering(graph=graph, objective="total")


INSTANCES = (
    Instance("placement, inception_v3", lambda: on_cluster(torch_graph("inception_v3.export"), "moirai-inter"), 30),
    Instance("placement, inception_v3, reached times", lambda: with_reached_times("inception_v3.export"), 30),
    Instance("placement, t5_small", lambda: on_cluster(torch_graph("t5_small.export"), "moirai-inter"), 30),
    Instance("placement, nasnetalarge", lambda: on_cluster(torch_graph("nasnetalarge.export"), "moirai-inter"), 30),
    Instance(
        "placement, swin_tiny, reached times",
        lambda: on_cluster(torch_graph("swin_tiny_patch4_window7_224.export"), "moirai-intra", efficiency=REACHED),
        30,
    ),
    Instance(
        "placement, 45 tasks on 4, delay",
        lambda: scattered(45, 4, seed=4).model_copy(update={"transfers": "delay"}),
        30,
    ),
    Instance("placement, 120 tasks on 4", lambda: scattered(120, 4, seed=2), 30),
    Instance("placement, 340 tasks on 4", lambda: scattered(340, 4, seed=2), 30),
    Instance(
        "peak, randomly wired, training", lambda: ow.MemoryOrdering(graph=torch_graph("randwire_ws32_c78.train")), 30
    ),
    Instance("peak, 400 random, width 14", lambda: ow.MemoryOrdering(graph=layered_dag(400, 14, seed=5)), 30),
    Instance("peak, 150 random, width 22", lambda: ow.MemoryOrdering(graph=layered_dag(150, 22, seed=3)), 30),
    Instance("peak, 5,000 random, width 50", lambda: ow.MemoryOrdering(graph=layered_dag(5000, 50, seed=1)), 30),
    Instance("total, 100 random, width 10", lambda: total(layered_dag(100, 10, seed=2)), 30),
    Instance("total, hrnet_w18_small", lambda: total(torch_graph("hrnet_w18_small.export")), 30),
    Instance("batches of 16, 10 modules", lambda: stacked(Stack(modules=10, nodes=10), 16), 30),
    Instance("batches of 16, 10 modules, 3 channels", lambda: stacked(Stack(modules=10, channels=3), 16), 30),
    Instance("batches of 16, 10 modules, 4 channels", lambda: stacked(Stack(modules=10, channels=4), 16), 30),
    Instance("slicing, ResNet50, slow links", lambda: problem_of("ResNet50", "x1"), 30),
    Instance("slicing, Inception-v3, slow links", lambda: problem_of("Inception-v3", "x1"), 30),
    Instance("slicing, VGG16, slow links", lambda: problem_of("VGG16", "x1"), 30),
    Instance("pipeline, 300 layers on 100", lambda: long_pipeline(100, 300, 7), 30),
    Instance("pipeline, 600 layers on 200", lambda: long_pipeline(200, 600, 3), 30),
)

SMOKE = (
    Instance("placement, 40 tasks on 4", lambda: scattered(40, 4, seed=1), 1),
    Instance("peak, 150 random, width 22", lambda: ow.MemoryOrdering(graph=layered_dag(150, 22, seed=3)), 1),
    Instance("batches of 8, 3 modules", lambda: stacked(Stack(modules=3, nodes=8), 8), 1),
)

HARDEST = 10


class Row(NamedTuple):
    """One instance.

    Attributes
    ----------
    one_gap, more_gap
        Final gaps of one thread and of more threads.
    last
        Time of the last improvement of the gap with one thread.
    one, more
        Times at which each reached the wider of the two gaps.
    """

    name: str
    one_gap: float
    more_gap: float
    last: float
    one: float
    more: float

    @property
    def ratio(self) -> float:
        """How many times faster."""
        return self.one / max(self.more, LEAST_SECONDS)


def reached(result: ow.Result[Any], gap: float, otherwise: float) -> float:
    """Seconds until a gap was reached, or ``otherwise``."""
    for step in result.incumbents:
        if step.objective is None or step.bound is None:
            continue
        if step.objective - step.bound <= (gap + SAME_GAP) * abs(step.objective):
            return step.seconds
    return otherwise


def measure(instance: Instance, threads: int) -> Row:
    """Solve twice."""
    problem = instance.problem()
    alone = ow.solve(problem, time_limit=instance.seconds)
    ow.solve(problem, time_limit=START_SECONDS, threads=threads)
    sleep(START_SECONDS)
    together = ow.solve(problem, time_limit=instance.seconds, threads=threads)
    first, second = (1.0 if result.gap is None else result.gap for result in (alone, together))
    wider = max(first, second)
    return Row(
        instance.name,
        one_gap=first,
        more_gap=second,
        last=reached(alone, first, instance.seconds),
        one=reached(alone, wider, instance.seconds),
        more=reached(together, wider, instance.seconds),
    )


def geometric_mean(values: list[float]) -> float:
    """The geometric mean of ratios."""
    return exp(sum(map(log, values)) / len(values))


def warm_up(chosen: tuple[Instance, ...]) -> None:
    """Load or compile the loops of all problems."""
    for instance in chosen:
        ow.solve(instance.problem(), time_limit=2)


def rows(chosen: tuple[Instance, ...], threads: int) -> Iterator[tuple[object, ...]]:
    """All instances, then the mean over the hardest ones."""
    found = []
    for instance in chosen:
        row = measure(instance, threads)
        found.append(row)
        times = (f"{seconds:.2f}" for seconds in (row.last, row.one, row.more, row.ratio))
        yield row.name, percent(row.one_gap), percent(row.more_gap), *times
    hardest = sorted(found, key=lambda row: -row.last)[:HARDEST]
    mean = geometric_mean([row.ratio for row in hardest])
    yield f"geometric mean of the {len(hardest)} hardest", "", "", "", "", "", f"{mean:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few instances, short limits")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="instances whose name contains this")
    arguments = parser.parse_args()
    chosen = tuple(each for each in (SMOKE if arguments.smoke else INSTANCES) if arguments.only in each.name)
    warm_up(chosen)
    show(
        f"Seconds to the same gap with 1 thread and with {arguments.threads}",
        f"instance | gap with 1 | with {arguments.threads} | last progress with 1 | to the wider gap with 1 | with "
        f"{arguments.threads} | ratio",
        rows(chosen, arguments.threads),
    )


if __name__ == "__main__":
    main()
