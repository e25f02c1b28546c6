"""Benchmarks of placement: real graphs, machines at home, wide nets, the sizes of "Moirai".

Run ``python -m benchmarks.placement`` for everything, or name parts: ``real home rotary wide sizes coarse moirai``;
``--smoke`` uses only a few small graphs. Clusters are those of Table III of Zhang et al., "Moirai", and machines at
home. Times of operators are rooflines, either from the devices' data sheets in single precision ("sheet"), or from the
shares of them that are reached in practice (:data:`REACHED`), which Table IV uses. Neither choice is easier throughout:
the second makes convolutional networks harder to prove, and transformers easier. Seconds are wall time of the solve
with the referee's check; graphs are built and loops compiled before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import opweave as ow
from benchmarks.generators import randomly_wired
from benchmarks.networks import network
from benchmarks.tables import GRAPHS, milliseconds, percent, reached, run_parts, table, timed
from opweave.problems.on_cluster import MemoryModel

CLUSTERS = ("moirai-inter", "moirai-intra")
REAL = ("googlenet", "inception_v3", "swin_tiny_patch4_window7_224", "t5_small", "nasnetalarge")
HOME = ("hrnet_w18_small", "swin_tiny_patch4_window7_224", "t5_small", "densenet121", "inception_v3", "gpt2_small")
"""Networks of which hardly anything can leave the fastest machine at home."""

ROTARY = ("t5_small.export", "llama2_7b.export", "Llama 2 13B")
"""Language models whose mask and rotary tables every layer reads; the weights of the last exceed every device."""

WIDE = ("DARTS", "AmoebaNet-D", "hrnet_w18_small.export", "randwire_ws32_c78.dispatch", "nasnetalarge.export")

SHEET = ow.Efficiency()
REACHED = ow.Efficiency(arithmetic=0.3, launch_seconds=3.8e-6)
"""Shares of a data sheet that are reached in practice. 30 % of the arithmetic: Shoeybi et al., "Megatron-LM", 2019,
arXiv:1909.08053 (one GPU, transformers of billions of parameters). 3.8 microseconds to launch: Alan Gray, "Getting
Started with CUDA Graphs", 2019 (V100, launches that overlap with kernels)."""

TIMES = {"sheet": SHEET, "reached": REACHED}


def graph_of(name: str) -> ow.OpGraph:
    """An exported graph of the repository, or a network."""
    path = GRAPHS / f"torch/{name}.json.gz"
    return ow.load(path) if path.exists() else network(name)[0]


def on_cluster(
    graph: ow.OpGraph, cluster: str, memory: MemoryModel = "additive", *, efficiency: ow.Efficiency = SHEET
) -> ow.Placement:
    """A graph on a cluster from the literature, with roofline costs."""
    machines = ow.clusters.load(cluster)
    costs = ow.Costs.roofline(graph, machines, default_efficiency=efficiency)
    return ow.Placement(graph=graph, cluster=machines, costs=costs, memory=memory)


def warm_up() -> None:
    """Load or compile every loop, so that the tables show only solve times."""
    problem = on_cluster(graph_of("googlenet.export"), "moirai-inter")
    for name in ("one_device", "fill", "heft", "auto"):
        ow.solve(problem, solver=name, time_limit=20)


COLUMNS = "operators | one device | HEFT | opweave | bound | gap | proof | seconds"


def result_cells(problem: ow.Placement, seconds: float) -> tuple[object, ...]:
    """Operators, one device, a list schedule, plan, bound, gap, bound source, seconds."""
    baselines = [ow.solve(problem, solver=name).objective for name in ("one_device", "heft")]
    with timed() as clock:
        result = ow.solve(problem, time_limit=seconds)
    assert all(reached(result) <= baseline * (1 + 1e-9) for baseline in baselines if baseline is not None)
    return (
        len(problem.graph.operators),
        *map(milliseconds, (*baselines, result.objective, result.bound)),
        percent(result.gap),
        (result.bound_source or "-")[:40],
        f"{clock.seconds:.1f}",
    )


@table("Real graphs on the clusters of Table III: makespan in ms", f"graph | cluster | times | {COLUMNS}")
def real(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Graphs of the repository and a randomly wired network on both clusters."""
    graphs = [graph_of(f"{name}.export") for name in REAL[: 1 if smoke else None]]
    for graph in [*graphs, randomly_wired(3, 32, seed=0)]:
        seconds = 1.0 if smoke else 60.0 if len(graph.operators) < 400 else 90.0
        for cluster, times in product(CLUSTERS[: 1 if smoke else None], TIMES):
            problem = on_cluster(graph, cluster, efficiency=TIMES[times])
            yield graph.name, cluster.removeprefix("moirai-"), times, *result_cells(problem, seconds)


@table("Four machines at home: makespan in ms, 15 s", f"graph | {COLUMNS}")
def home(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Graphs of the repository on four machines of a home network."""
    for name in HOME[: 1 if smoke else None]:
        graph = graph_of(f"{name}.export")
        yield graph.name, *result_cells(on_cluster(graph, "home"), 1.0 if smoke else 15.0)


@table("Exported language models: makespan in ms, 60 s", f"graph | cluster | times | {COLUMNS}")
def rotary(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Exported language models on both clusters."""
    for name in ROTARY[: 1 if smoke else None]:
        for cluster, times in product(CLUSTERS[: 1 if smoke else None], list(TIMES)[: 1 if smoke else None]):
            problem = on_cluster(graph_of(name), cluster, efficiency=TIMES[times])
            yield name, cluster.removeprefix("moirai-"), times, *result_cells(problem, 1.0 if smoke else 60.0)


@table("Wide nets, times as reached: makespan in ms, 40 s", f"graph | cluster | {COLUMNS}")
def wide(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Nets of wide cells at the times that are reached."""
    for name in WIDE[: 1 if smoke else None]:
        for cluster in CLUSTERS[: 1 if smoke else None]:
            problem = on_cluster(graph_of(name), cluster, efficiency=REACHED)
            yield name, cluster.removeprefix("moirai-"), *result_cells(problem, 1.0 if smoke else 40.0)


def main() -> None:
    """Run the parts that are named on the command line."""
    from benchmarks.placement_moirai import coarse, moirai, sizes

    run_parts(__doc__, real, home, rotary, wide, sizes, coarse, moirai, warm_up=warm_up)


if __name__ == "__main__":
    main()
