"""More than one core, measured: the time to the same gap, or to the proof, with one thread and with two.

Run ``python -m benchmarks.scaling``; ``--smoke`` takes a few instances and short limits. Each instance is solved with
one thread until it is proved or its limit is up; the row says when the last improvement of the gap came, and when two
threads had a gap no wider than that. Graphs are built and loops compiled before. The instances are those that keep one
core busy longest: real graphs, and seeded ones of every problem. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, log
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.edge_networks import random_chain, unlike
from benchmarks.generators import layered_dag, scattered
from benchmarks.placement import REACHED, on_cluster
from benchmarks.slicing import problem_of
from benchmarks.stacked import Stack, stacked
from benchmarks.tables import GRAPHS, percent, show

SAME_GAP = 1e-6
"""Gaps that differ by less are the same."""


class Instance(NamedTuple):
    """A problem, built when its turn comes, and the seconds that one thread gets."""

    name: str
    problem: Callable[[], ow.Problem[Any, Any]]
    seconds: float


def torch_graph(name: str) -> ow.OpGraph:
    """A shipped graph."""
    return ow.load(GRAPHS / f"torch/{name}.json.gz")


def long_pipeline(devices: int, operators: int, seed: int) -> ow.Pipeline:
    """A chain cut into about 20 stages of unlike devices."""
    graph = random_chain(operators, seed)
    total = sum(parameter.bytes for parameter in graph.parameters) + sum(tensor.bytes for tensor in graph.tensors)
    return unlike(graph, devices, max(1.15 * total / 20, 1.05e7), seed, computing=True, matrix=False)


def with_reached_times(name: str) -> ow.Placement:
    """A graph on the slower cluster with the times that are reached."""
    return on_cluster(torch_graph(name), "moirai-inter", efficiency=REACHED)


def total(graph: ow.OpGraph) -> ow.MemoryOrdering:
    """The least sum of footprints."""
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
    Instance("placement, 40 tasks on 4", lambda: scattered(40, 4, seed=1), 2),
    Instance("peak, 150 random, width 22", lambda: ow.MemoryOrdering(graph=layered_dag(150, 22, seed=3)), 2),
    Instance("batches of 8, 3 modules", lambda: stacked(Stack(modules=3, nodes=8), 8), 2),
)

HARDEST = 10


class Row(NamedTuple):
    """One instance.

    Attributes
    ----------
    gap, one
        What one thread reached, and when.
    more
        When more threads had that gap; None when they had not.
    end, end_gap
        When more threads ended, and with which gap.
    """

    name: str
    gap: float | None
    one: float
    more: float | None
    end: float
    end_gap: float | None

    @property
    def ratio(self) -> float:
        """How many times sooner; where the gap was not reached again, the end counts as its time."""
        return self.one / (self.end if self.more is None else max(self.more, 0.01))


def reached(result: ow.Result[Any], gap: float) -> float | None:
    """Seconds until a gap was reached; None when it was not."""
    for step in result.incumbents:
        if step.objective is None or step.bound is None:
            continue
        if step.objective - step.bound <= (gap + SAME_GAP) * abs(step.objective):
            return step.seconds
    return None


def measure(instance: Instance, threads: int) -> Row:
    """Solve twice."""
    problem = instance.problem()
    alone = ow.solve(problem, time_limit=instance.seconds)
    together = ow.solve(problem, time_limit=instance.seconds, threads=threads)
    gap = 1.0 if alone.gap is None else alone.gap
    one = reached(alone, gap) or instance.seconds
    more = reached(together, gap)
    return Row(instance.name, alone.gap, one, more, together.timings.total, together.gap)


def geometric_mean(values: list[float]) -> float:
    """The mean of ratios."""
    return exp(sum(map(log, values)) / len(values))


def warm_up(chosen: tuple[Instance, ...]) -> None:
    """Load or compile the loops of all problems."""
    for instance in chosen:
        ow.solve(instance.problem(), time_limit=2)


def rows(chosen: tuple[Instance, ...], threads: int) -> Iterator[tuple[object, ...]]:
    """All instances, then the mean of the hardest."""
    found = []
    for instance in chosen:
        row = measure(instance, threads)
        found.append(row)
        more = "not reached" if row.more is None else f"{row.more:.2f}"
        yield row.name, percent(row.gap), f"{row.one:.2f}", more, f"{row.ratio:.2f}", percent(row.end_gap)
    hardest = sorted(found, key=lambda row: -row.one)[:HARDEST]
    mean = geometric_mean([row.ratio for row in hardest])
    yield f"geometric mean of the {len(hardest)} hardest", "", "", "", f"{mean:.2f}", ""


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
        f"Seconds to the gap that one thread reaches, and with {arguments.threads} threads",
        ("instance", "gap", "1 thread", f"{arguments.threads} threads", "ratio", "their gap at the end"),
        rows(chosen, arguments.threads),
    )


if __name__ == "__main__":
    main()
