"""More than one core, measured: the time to the same gap, or to the proof, with one thread and with two.

Run ``python -m benchmarks.scaling``; ``--smoke`` takes a few instances and short limits. Each instance is solved with one
thread until it is proved or its limit is up; the row says when the last improvement of the gap came, and when two threads
had a gap no wider than that. Graphs are built and loops compiled before. The instances are those that keep one core
busy longest: real graphs, and seeded ones of every problem. Two busy cores are needed, and nothing else should run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, log
from typing import Any, NamedTuple

import opweave as ow
from benchmarks.batched_mapping import warm_up as warm_up_batches
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
    return unlike(graph, devices, max(1.15 * total / 20, 1.05e7), seed, computing=True)


INSTANCES = (
    Instance("placement, inception_v3", lambda: on_cluster(torch_graph("inception_v3.export"), "moirai-inter"), 30),
    Instance("placement, t5_small", lambda: on_cluster(torch_graph("t5_small.export"), "moirai-inter"), 60),
    Instance(
        "placement, swin_tiny, reached times",
        lambda: on_cluster(
            torch_graph("swin_tiny_patch4_window7_224.export"), "moirai-intra", efficiency=REACHED
        ),
        30,
    ),
    Instance(
        "placement, 40 tasks on 4, delay",
        lambda: scattered(40, 4, seed=1).model_copy(update={"transfers": "delay"}),
        30,
    ),
    Instance("placement, 120 tasks on 4", lambda: scattered(120, 4, seed=2), 20),
    Instance("peak, randomly wired, training", lambda: ow.MemoryOrdering(graph=torch_graph("randwire_ws32_c78.train")), 20),
    Instance("peak, 150 random, width 22", lambda: ow.MemoryOrdering(graph=layered_dag(150, 22, seed=3)), 20),
    Instance(
        "total, hrnet training",
        lambda: ow.MemoryOrdering(graph=ow.load(GRAPHS / "nas/hrnet_w18_small_train.json.gz"), objective="total"),
        20,
    ),
    Instance("batches of 16, 10 modules", lambda: stacked(Stack(modules=10, nodes=10), 16), 20),
    Instance("batches of 16, 10 modules, 3 channels", lambda: stacked(Stack(modules=10, channels=3), 16), 20),
    Instance("slicing, ResNet50, slow links", lambda: problem_of("ResNet50", "x1"), 20),
    Instance("slicing, Inception-v3, slow links", lambda: problem_of("Inception-v3", "x1"), 20),
    Instance("pipeline, 300 layers on 100", lambda: long_pipeline(100, 300, 7), 15),
)

SMOKE = (
    Instance("placement, 40 tasks on 4", lambda: scattered(40, 4, seed=1), 2),
    Instance("peak, 150 random, width 22", lambda: ow.MemoryOrdering(graph=layered_dag(150, 22, seed=3)), 2),
    Instance("batches of 8, 3 modules", lambda: stacked(Stack(modules=3, nodes=8), 8), 2),
)
