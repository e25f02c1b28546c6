"""Check that no bound is false under extreme numbers: ``python -m benchmarks.hostile_bounds [--smoke]``.

Three kinds of witness can refute a bound: brute force on small hostile instances (:mod:`benchmarks.hostile_instances`);
plans of other solvers on graphs too large for brute force; and, for real networks, plans found without a useless
device. Such a device takes a thousand seconds for each operator and has links of a thousand bytes per second. It
changes no optimum, so no bound with it may be above a plan found without it.

The script prints, for each problem and solver, the number of instances and the largest (bound - optimum) / optimum,
which is rounding or below 0. It ends with status 1 if any bound is false, any ``reason`` mentions a false bound, or any
plan beats an oracle.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import opweave as ow
from benchmarks.hostile_instances import (
    MODELS,
    hostile_batched_mapping,
    hostile_ordering,
    hostile_pipeline,
    hostile_placement,
    hostile_slicing,
)
from benchmarks.networks import network as known
from benchmarks.tables import GRAPHS, show
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.slicing import best_slicing

ROUNDED = 2e-6
"""How far above an optimum a bound in seconds may be: the tolerance of ``solve``, for both values."""

MAKERS: dict[str, Callable[..., ow.extend.Problem[Any, Any]]] = {
    "placement": hostile_placement,
    "pipeline": hostile_pipeline,
    "memory_ordering": hostile_ordering,
}
LARGE = {"placement": (12, 40), "pipeline": (12, 40), "memory_ordering": (14, 40)}
"""Smallest and largest number of operators of instances whose witnesses are plans."""

LARGE_SECONDS = 1.5
NETWORK_SECONDS = 10.0
SMOKE_SECONDS = 2.0
"""Time limits of a solve on larger instances, and on networks."""

SOLVERS = {
    "placement": ("auto", "decompose", "highs", "cp-sat", "scip"),
    "batched_mapping": ("auto", "split", "highs"),
    "pipeline": ("auto", "exact", "highs", "scip"),
    "memory_ordering": ("auto", "exact", "btsearch", "highs", "scip"),
    "slicing": ("auto", "bound", "highs", "scip"),
}
QUICK = {"auto", "decompose", "exact", "btsearch", "bound", "highs", "split"}
"""Solvers of the smoke test: those that do not start a process for every solve."""

FIRST_OPERATORS = 80
"""Number of operators of ResNet50 in the smoke test."""


@dataclass
class Line:
    """The findings about one solver on one problem."""

    instances: int = 0
    bounds: int = 0
    worst: float = -np.inf
    false: list[str] = field(default_factory=list)


@dataclass
class Book:
    """All lines, by problem and solver."""

    lines: dict[tuple[str, str], Line] = field(default_factory=dict)

    def note(self, problem: str, name: str, result: ow.Result[Any], optimum: float | None, *, proved: bool) -> None:
        """Compare a result with an oracle (``proved``), or with a plan."""
        line = self.lines.setdefault((problem, result.solver), Line())
        line.instances += 1
        if result.bound is not None and optimum is not None:
            line.bounds += 1
            above = (result.bound - optimum) / optimum if optimum else float(result.bound > 0)
            line.worst = max(line.worst, above)
            if above > (0.0 if isinstance(optimum, int) else ROUNDED):
                line.false.append(f"{name}: bound {result.bound!r}, a plan of {optimum!r}")
        if result.reason is not None and any(word in result.reason for word in ("lies above", "claimed", "although")):
            line.false.append(f"{name}: {result.reason}")
        least = np.inf if optimum is None else optimum * (1.0 - ROUNDED)
        if proved and result.objective is not None and result.objective < least:
            line.false.append(f"{name}: a plan of {result.objective!r} beats the oracle's {optimum!r}")
        if proved and optimum is not None and result.status is ow.Status.INFEASIBLE:
            line.false.append(f"{name}: called infeasible, the optimum is {optimum!r}")

    def rows(self) -> Iterator[tuple[object, ...]]:
        """One row for each problem and solver."""
        for (problem, solver), line in sorted(self.lines.items()):
            worst = "-" if line.worst == -np.inf else f"{line.worst:.1e}"
            yield problem, solver, line.instances, line.bounds, worst, len(line.false)


def small(seed: int) -> Iterator[tuple[str, ow.extend.Problem[Any, Any], float | int | None]]:
    """One hostile instance of every problem with its optimum."""
    makers: tuple[tuple[Callable[[int], Any], Callable[[Any], tuple[Any, Any]]], ...] = (
        (hostile_placement, best_placement),
        (hostile_batched_mapping, best_batched_mapping),
        (hostile_pipeline, best_pipeline),
        (hostile_ordering, best_ordering_by_states),
        (hostile_slicing, best_slicing),
    )
    for make, best in makers:
        problem = make(seed)
        yield f"{problem.kind} {seed}", problem, best(problem)[0]


def solved(problem: ow.extend.Problem[Any, Any], names: Iterator[str], **arguments: Any) -> Iterator[ow.Result[Any]]:
    """Results of the named solvers that are available, support the problem, and do not refuse its numbers."""
    available = {row.name for row in ow.list_solvers(problem) if row.available}
    for name in names:
        if name in available:
            try:
                yield ow.solve(problem, solver=name, **arguments)
            except (ow.UnsupportedFeatureError, ow.InvalidInputError):
                continue


def against_oracles(book: Book, *, seeds: range, smoke: bool) -> None:
    """Small instances, with and without a gap."""
    for seed in seeds:
        for name, problem, optimum in small(seed):
            names = [n for n in SOLVERS[problem.kind] if not smoke or n in QUICK]
            for gap in (0.0, 0.05):
                for result in solved(problem, iter(names if gap == 0.0 else names[:1]), time_limit=5.0, gap=gap):
                    book.note(problem.kind, name, result, optimum, proved=True)


def against_plans(book: Book, *, seeds: range, smoke: bool) -> None:
    """Larger instances: no bound of any solver may be above a plan of any solver."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for kind, (least, most) in LARGE.items():
            operators = int(rng.integers(least, most + 1))
            try:
                problem = MAKERS[kind](seed, least_operators=operators, most_operators=operators)
            except ow.InvalidInputError:  # so many slow transfers take longer than a problem may last
                continue
            names = [n for n in SOLVERS[kind] if not smoke or n in QUICK]
            results = list(solved(problem, iter(names), time_limit=0.5 if smoke else LARGE_SECONDS))
            plans = [result.objective for result in results if result.objective is not None]
            for result in results:
                book.note(kind, f"{kind} {seed} of {operators}", result, min(plans, default=None), proved=False)


def network(graph: ow.OpGraph, *, slow: bool, transfers: Any) -> ow.Placement:
    """A network on two devices; with ``slow``, there is a third device that does not help."""
    table = {}
    for op in graph.operators:
        seconds = 1e-5 + 1e-5 * len(op.inputs) + 2e-5 * (sum(map(ord, op.kind)) % 7)
        table[op.id] = {"a": seconds, "b": 1.5 * seconds} | ({"u": 1000.0} if slow else {})
    names = ["a", "b", "u"][: 3 if slow else 2]
    rate = np.full((len(names), len(names)), 1e3)
    rate[0, 1], rate[1, 0] = 5e9, 4e9
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in names], bandwidth=rate.tolist())
    return ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), transfers=transfers)


def first_part(graph: ow.OpGraph, operators: int) -> ow.OpGraph:
    """The first ``operators`` operators of a network."""
    chosen = graph.operators[:operators]
    used = {name for op in chosen for name in (*op.inputs, *op.outputs)}
    held = {name for op in chosen for name in op.parameters}
    return ow.OpGraph(
        name=f"{graph.name}, first {operators}",
        tensors=[tensor for tensor in graph.tensors if tensor.id in used],
        operators=chosen,
        parameters=[parameter for parameter in graph.parameters if parameter.id in held],
    )


def networks(*, smoke: bool) -> Iterator[ow.OpGraph]:
    """ResNet50 and ResNet101, and others."""
    whole = ow.load(GRAPHS / "keras" / "ResNet50.json.gz")
    assert isinstance(whole, ow.OpGraph)
    yield first_part(whole, FIRST_OPERATORS)
    yield whole
    if not smoke:
        yield known("ResNet101")[0]
        for name in ("DenseNet121", "InceptionResNetV2", "NASNetMobile"):
            yield ow.load(GRAPHS / "keras" / f"{name}.json.gz")


def against_a_useless_device(book: Book, *, smoke: bool) -> None:
    """A plan found without the slow device is also a plan with it."""
    for graph in networks(smoke=smoke):
        for transfers in MODELS[: 1 if smoke else None]:
            seconds = SMOKE_SECONDS if smoke else NETWORK_SECONDS
            plain, slow = (network(graph, slow=each, transfers=transfers) for each in (False, True))
            results = [ow.solve(problem, time_limit=seconds, gap=0.001) for problem in (plain, slow)]
            plans = [result.objective for result in results if result.objective is not None]
            for result in results:
                book.note("networks", f"{graph.name} ({transfers})", result, min(plans, default=None), proved=False)


def main() -> int:
    """Print the table; 1 if any bound is false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few seeds, half a minute at most")
    parser.add_argument("--seeds", type=int, default=200, help="hostile instances of every problem")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ow.ImplausibleWarning)  # implausible numbers are the point here
    smoke: bool = arguments.smoke
    book, began = Book(), time.perf_counter()
    against_a_useless_device(book, smoke=smoke)
    against_oracles(book, seeds=range(4 if smoke else arguments.seeds), smoke=smoke)
    against_plans(book, seeds=range(2 if smoke else max(1, arguments.seeds // 5)), smoke=smoke)
    header = "problem | solver | instances | bounds | worst (bound - optimum) / optimum | false"
    show("Bounds under hostile numbers", header, book.rows(), f"{time.perf_counter() - began:.0f} s")
    wrong = [text for line in book.lines.values() for text in line.false]
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
