"""The eleven sizes of Table IV of Zhang et al., "Moirai", on both of its clusters, next to the paper's minutes.

Graphs are generated (see :mod:`benchmarks.transformers`) and planned without fusion. Times are rooflines with the
shares of a data sheet that are reached in practice (see :data:`benchmarks.placement.REACHED`). With the data sheets'
own figures, the gaps between servers are larger: 15 % for GPT-3 330M, 23 % for AlphaFold2 87M, 9 to 10 % for the large
models. Every row runs in its own process, so that its peak memory can be measured.

The column "fused" gives the number of operators after opweave's coarsening, and the paper's count. Ours is layers x (9
x heads + 7): each of a head's three projections absorbs its bias, the output projection its bias, the widening product
its bias and activation, and the narrowing product the residual sum. The paper's counts are up to 7 % below ours
(AlphaFold2) and up to 9 % above (Swin). They are not multiples of the number of layers, and the paper keeps about 80 %
of Swin's operators, 77 % of GPT-3's and 70 % of AlphaFold2's. Each of its families has other kinds of operators,
whereas the generated graphs share one kind of layer, of which coarsening keeps about 74 %.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import opweave as ow
from benchmarks.placement import CLUSTERS, REACHED, on_cluster
from benchmarks.tables import milliseconds, percent, show, timed
from benchmarks.transformers import TABLE_IV, Size, transformer
from opweave.formulations.placement.coarsening import coarsen

LIMIT_SECONDS = 52.0
"""Time limit that leaves the referee its seconds within a minute."""

SMALL = Size("small", 2, 4, 256, 118, 0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one process."""

    alone: float | None
    objective: float | None
    bound: float | None
    gap: float | None
    seconds: float
    verify_seconds: float
    peak_bytes: int
    reason: str | None
    fused: int


def measure(size: Size, cluster: str, seconds: float) -> Measured:
    """Plan one size; loops are compiled or loaded before the clock starts."""
    small = on_cluster(transformer(SMALL.layers, SMALL.heads, SMALL.width, tokens=64), cluster, memory="parameters")
    ow.solve(small, time_limit=min(10.0, seconds))
    graph = transformer(size.layers, size.heads, size.width, name=size.name)
    problem = on_cluster(graph, cluster, memory="parameters", efficiency=REACHED)
    alone = ow.solve(problem, solver="one_device").objective
    with timed() as clock:
        result = ow.solve(problem, time_limit=seconds)
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    fused = coarsen(problem).after  # after memory is measured
    return Measured(
        alone=alone,
        objective=result.objective,
        bound=result.bound,
        gap=result.gap,
        seconds=clock.seconds,
        verify_seconds=result.timings.verify,
        peak_bytes=1024 * kilobytes,
        reason=result.reason,
        fused=fused,
    )


def size_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every size on every cluster."""
    context = multiprocessing.get_context("spawn")
    for cluster in CLUSTERS[: 1 if smoke else None]:
        for size in (SMALL,) if smoke else TABLE_IV:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                found = pool.submit(measure, size, cluster, 2.0 if smoke else LIMIT_SECONDS).result()
            paper = f"{size.minutes:g} -> {size.minutes_coarsened:g}" if size.coarsened else "-"
            yield (
                size.name,
                cluster.removeprefix("moirai-"),
                size.operators,
                f"{found.fused} ({size.coarsened})" if size.coarsened else found.fused,
                milliseconds(found.alone) if found.alone is not None else "does not fit",
                milliseconds(found.objective),
                milliseconds(found.bound),
                percent(found.gap),
                f"{found.seconds:.1f}",
                f"{found.verify_seconds:.1f}",
                f"{found.peak_bytes / 2**30:.2f}",
                paper,
            )


def sizes(*, smoke: bool) -> None:
    """Print the sizes of Table IV."""
    show(
        f"Table IV: makespan in ms, planned with a time limit of {LIMIT_SECONDS:g} s; memory: parameters of 2 bytes",
        (
            "model",
            "cluster",
            "operators",
            "fused",
            "one device",
            "opweave",
            "bound",
            "gap",
            "seconds",
            "referee s",
            "peak GiB",
            "paper's minutes",
        ),
        size_rows(smoke=smoke),
        note="Seconds include the referee. Peak GiB: the whole process, graph included. The paper's minutes: Gurobi, "
        "original -> coarsened graph. Fused: operators after opweave's coarsening (the paper's). 'does not fit': no "
        "single device holds the model, so memory binds.",
    )
