"""Benchmarks of placement on networks without cut points and on wide networks over slow links.

Run ``python -m benchmarks.placement_wide`` for everything, or name parts: ``rotary wide random``; ``--smoke`` uses only
small graphs and short limits. Clusters and both kinds of operator times are those of :mod:`benchmarks.placement`.

* rotary: exported language models in which mask and rotary tables are read by every layer. The one with 13 billion
  parameters has 40 layers of width 5120, and its weights exceed every device.
* wide: nets of wide cells: DARTS (Liu et al., 2019), AmoebaNet-D (Real et al., 2019, as in torchgpipe), HRNet, NASNet,
  and randomly wired ones.
* random: random tasks on six unlike devices, for which a bound has to exist in every case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import opweave as ow
from benchmarks.generators import scattered
from benchmarks.placement import REACHED, SHEET, on_cluster
from benchmarks.tables import GRAPHS, milliseconds, percent, run_parts, show, timed
from benchmarks.wide_nets import LLAMA_13B, amoebanet, darts, rotary_llama

COLUMNS = ("operators", "plan", "bound", "gap", "proof", "seconds")


def shipped(name: str) -> ow.OpGraph:
    """A graph of the repository."""
    return ow.load(GRAPHS / f"{name}.json.gz")


def result_cells(problem: ow.Placement, seconds: float) -> tuple[object, ...]:
    """Operators, plan, bound, gap, what proved the bound, wall seconds."""
    with timed() as clock:
        result = ow.solve(problem, time_limit=seconds)
    assert result.verified or result.solution is None
    return (
        len(problem.graph.operators),
        milliseconds(result.objective),
        milliseconds(result.bound),
        percent(result.gap),
        (result.bound_source or "-")[:40],
        f"{clock.seconds:.1f}",
    )


ROTARY: dict[str, Callable[[], ow.OpGraph]] = {
    "Llama 13B": lambda: rotary_llama(LLAMA_13B),
    "Llama 2 7B": lambda: shipped("torch/llama2_7b.export"),
    "T5 small": lambda: shipped("torch/t5_small.export"),
}

WIDE: dict[str, Callable[[], ow.OpGraph]] = {
    "DARTS": darts,
    "AmoebaNet-D": amoebanet,
    "HRNet": lambda: shipped("torch/hrnet_w18_small.export"),
    "randomly wired": lambda: shipped("torch/randwire_ws32_c78.dispatch"),
    "NASNet-A-Large": lambda: shipped("torch/nasnetalarge.export"),
    "T5 small": lambda: shipped("torch/t5_small.export"),
}


def rotary_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Exported language models on both clusters."""
    for name, make in list(ROTARY.items())[2 if smoke else 0 :]:
        graph = make()
        for cluster in ("moirai-inter", "moirai-intra")[: 1 if smoke else None]:
            for times, efficiency in (("sheet", SHEET), ("reached", REACHED))[: 1 if smoke else None]:
                problem = on_cluster(graph, cluster, efficiency=efficiency)
                yield name, cluster.removeprefix("moirai-"), times, *result_cells(problem, 1.0 if smoke else 60.0)


def rotary(*, smoke: bool) -> None:
    """Exported language models."""
    show(
        "Exported language models: makespan in ms, 60 s",
        ("graph", "cluster", "times", *COLUMNS),
        rotary_rows(smoke=smoke),
    )


def wide_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Wide nets at the times that are reached."""
    for name, make in list(WIDE.items())[: 1 if smoke else None]:
        for cluster in ("moirai-inter", "moirai-intra")[: 1 if smoke else None]:
            problem = on_cluster(make(), cluster, efficiency=REACHED)
            yield name, cluster.removeprefix("moirai-"), *result_cells(problem, 1.0 if smoke else 40.0)


def wide(*, smoke: bool) -> None:
    """Wide nets over slow links."""
    show("Wide nets, times as reached: makespan in ms, 40 s", ("graph", "cluster", *COLUMNS), wide_rows(smoke=smoke))


def random_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Random tasks."""
    sizes: Sequence[tuple[int, int]] = ((60, 3),) if smoke else ((120, 4), (200, 4), (500, 6), (2000, 6))
    for tasks, devices in sizes:
        yield f"{tasks} x {devices}", *result_cells(scattered(tasks, devices, seed=0), 1.0 if smoke else 10.0)


def random(*, smoke: bool) -> None:
    """Random tasks on unlike devices."""
    show(
        "Random tasks on unlike devices: makespan in ms, 10 s", ("tasks x devices", *COLUMNS), random_rows(smoke=smoke)
    )


def warm_up() -> None:
    """Load or compile every loop, so that the tables show only solve times."""
    ow.solve(on_cluster(shipped("torch/googlenet.export"), "moirai-inter"), time_limit=10)


def main() -> None:
    """Run the parts that are named on the command line."""
    run_parts(__doc__, {"rotary": rotary, "wide": wide, "random": random}, warm_up)


if __name__ == "__main__":
    main()
