"""Benchmarks of memory ordering: real graphs, scaling, the paper's tables.

Run ``python -m benchmarks.memory_ordering`` for everything, or name parts: ``real scale paper table_iv total``;
``--smoke`` uses only a few small graphs. Times are wall seconds of the solve itself: graphs are loaded and loops
compiled before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import opweave as ow
from benchmarks.generators import chain, layered_dag, transformer_training
from benchmarks.tables import GRAPHS, kilobytes, percent, reached, run_parts, table, timed

SMOKE = ("keras/MobileNetV2", "nas/paper_hrnet_w18_small_v1_256_cut", "nas/rwshared_0")
BASELINES = ("definition", "rpo", "lpmf", "bfs", "dfs")


def graph_files(*, smoke: bool) -> list[Path]:
    """The graphs of the repository, or the few of the smoke run."""
    if smoke:
        return [GRAPHS / f"{name}.json.gz" for name in SMOKE]
    return sorted(GRAPHS.glob("*/*.json.gz"))


def warm_up() -> None:
    """Load or compile every loop, so that the tables show only solve times."""
    for name in ("nas/nasnetmobile_keras", "nas/hrnet_w18_small_train"):
        for _, problem in memory_models(GRAPHS / f"{name}.json.gz"):
            ow.solve(problem, time_limit=20)
    ow.solve(problem.model_copy(update={"objective": "total"}), time_limit=1)


def memory_models(path: Path) -> Iterator[tuple[str, ow.MemoryOrdering]]:
    """Three memory models: nothing in place; elementwise operators in place; every operator over its first input."""
    graph = ow.load(path)
    yield "none", ow.MemoryOrdering(graph=graph)
    yield "any", ow.MemoryOrdering(graph=graph, in_place="any")
    every = ow.load(path, inplace_kinds={op.kind for op in graph.operators})
    yield "first, all kinds", ow.MemoryOrdering(graph=every, in_place="first")


@table(
    "Real graphs: peak in KB",
    "graph | in place | operators | as given | RPO | best greedy | opweave | gap | proof | seconds",
    note="'any': elementwise operators may overwrite an input that dies. 'first, all kinds': every operator its "
    "first input, as in the literature. Seconds include the referee.",
)
def real(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every graph of the repository under three in-place rules."""
    for path in graph_files(smoke=smoke):
        for rule, problem in memory_models(path):
            baselines = {name: reached(ow.solve(problem, solver=name)) for name in BASELINES}
            with timed() as clock:
                result = ow.solve(problem, solver="auto", time_limit=10.0)
            assert all(reached(result) <= baseline for baseline in baselines.values())
            yield (
                f"{path.parent.name}/{problem.graph.name}",
                rule,
                len(problem.graph.operators),
                kilobytes(baselines["definition"]),
                kilobytes(baselines["rpo"]),
                kilobytes(min(baselines.values())),
                kilobytes(result.objective),
                percent(result.gap),
                (result.bound_source or "-").split(" at ")[0],
                f"{clock.seconds:.3f}",
            )


@table("Large graphs: peak in KB", "graph | operators | as given | opweave | gap | seconds | with referee")
def scale(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Large generated graphs."""
    graphs = [transformer_training(4, 8, 512, 128), chain(2_000)] if smoke else []
    graphs = graphs or [transformer_training(40, 36, 4608, 512), chain(100_000), layered_dag(5_000, 50, seed=0)]
    for graph in graphs:
        problem = ow.MemoryOrdering(graph=graph)
        ow.solve(problem, solver="lpmf")
        with timed() as clock:
            result = ow.solve(problem, time_limit=1.0 if smoke else 10.0)
        yield (
            graph.name,
            len(graph.operators),
            kilobytes(ow.solve(problem, solver="definition").objective),
            kilobytes(result.objective),
            percent(result.gap),
            f"{result.timings.solve:.2f}",
            f"{clock.seconds:.2f}",
        )


@table(
    "Objective total (MemoriaNova, section 3.2): sum of the footprints in KB",
    "graph | as given | best greedy | opweave | gap | seconds",
)
def total(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Sum of the footprints instead of the largest one."""
    for path in graph_files(smoke=smoke):
        if path.parent.name != "nas":
            continue
        problem = ow.MemoryOrdering(graph=ow.load(path), objective="total")
        baselines = [reached(ow.solve(problem, solver=name)) for name in BASELINES]
        with timed() as clock:
            result = ow.solve(problem, time_limit=1.0 if smoke else 10.0)
        yield (
            problem.graph.name,
            kilobytes(ow.solve(problem, solver="definition").objective),
            kilobytes(min(baselines)),
            kilobytes(result.objective),
            percent(result.gap),
            f"{clock.seconds:.2f}",
        )


def main() -> None:
    """Run the parts named on the command line."""
    from benchmarks.memory_ordering_paper import paper, table_iv

    run_parts(__doc__, real, scale, paper, table_iv, total, warm_up=warm_up)


if __name__ == "__main__":
    main()
