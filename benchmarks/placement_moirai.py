"""The eleven sizes of Table IV of Zhang et al., "Moirai", and Moirai's own way with them, measured.

The paper runs Gurobi on programs of its sizes for minutes (Table V) and does not say how close to a proof it came. With
HiGHS the paper's program ends at some dozens of operators, so small transformers of the same build stand for the large
ones: one port for each edge, parameters as memory, times as in the table of sizes.

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

import numpy as np

import opweave as ow
from benchmarks.placement import CLUSTERS, REACHED, on_cluster
from benchmarks.tables import milliseconds, percent, table, timed
from benchmarks.transformers import TABLE_IV, Size, transformer
from opweave.formulations.order_arcs import ancestors
from opweave.formulations.placement.coarsening import coarsen
from opweave.formulations.placement.instance import lower

SMALL = ((1, 2), (2, 2), (2, 4), (4, 4))
"""Layers and heads of the transformers that are planned."""

LIMIT_SECONDS = 30.0
LARGEST_COUNTED = 8_000
"""Operators up to which the rows of the paper's program are counted: it compares all pairs."""


def posed(layers: int, heads: int, width: int, name: str = "") -> ow.Placement:
    """A transformer between four servers, with the paper's transfers."""
    graph = transformer(layers, heads, width, name=name)
    problem = on_cluster(graph, CLUSTERS[0], memory="parameters", efficiency=REACHED)
    return problem.model_copy(update={"transfers": "one_port_edge"})


def program_rows(problem: ow.Placement) -> str:
    """Rows of equations (6) and (8), about: 2 k for each pair of operators and 4 k for each pair of flows, no path."""
    instance = lower(problem)
    count, flows = instance.operators, len(instance.source)
    if count > LARGEST_COUNTED:
        return "-"
    closed = ancestors(instance.after)
    entering = np.bincount(instance.target, minlength=count)
    reached = (closed @ entering + entering)[instance.source].sum()  # pairs of flows, one after the other
    pairs, flow_pairs = count * (count - 1) // 2 - int(closed.sum()), flows * (flows - 1) // 2 - int(reached)
    return f"{len(instance.devices) * (2 * pairs + 4 * flow_pairs):,}"


@table(
    "Table IV: what coarsening leaves, and the rows of the paper's program, four devices",
    "model | operators | the paper's | seconds | rows (6) and (8) | paper's minutes",
    note=f"Rows are counted up to {LARGEST_COUNTED:,} operators; {ow.Limits().model_rows:,} are built at most.",
)
def coarse(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every size of Table IV: operators, rows, and seconds of coarsening."""
    for size in TABLE_IV[3:4] if smoke else TABLE_IV:
        problem = posed(size.layers, size.heads, size.width, size.name)
        with timed() as clock:
            found = coarsen(problem)
        yield (
            size.name,
            f"{len(problem.graph.operators)} -> {found.after}",
            f"{size.operators} -> {size.coarsened}",
            f"{clock.seconds:.1f}",
            f"{program_rows(problem)} -> {program_rows(found.reduction.problem)}",
            f"{size.minutes:g} -> {size.minutes_coarsened:g}",
        )


@table(
    f"solver 'moirai' on small transformers, {LIMIT_SECONDS:g} s: makespan in ms",
    "model | operators | program | reduce + build + solve s | ended | moirai | bound | gap | auto",
    note="The bound holds for the whole problem, so a gap remains where fusing costs something; 'completed' is a proof "
    "for the coarsened problem alone.",
)
def moirai(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Small transformers by the paper's way and by "auto", in the same time."""
    for layers, heads in SMALL[: 1 if smoke else None]:
        problem = posed(layers, heads, 64 * heads)
        seconds = 2.0 if smoke else LIMIT_SECONDS
        seen: list[ow.results.Progress] = []
        result = ow.solve(problem, solver="moirai", time_limit=seconds, progress=seen.append)
        auto = ow.solve(problem, time_limit=seconds)
        times = result.timings
        yield (
            f"{layers} layers, {heads} heads",
            f"{len(problem.graph.operators)} -> {coarsen(problem).after}",
            next((now.stage.removeprefix("highs: ") for now in seen if "variables" in now.stage), "-"),
            f"{times.reduce:.3f} + {times.build:.1f} + {times.solve:.1f}",
            result.termination.value,
            milliseconds(result.objective),
            milliseconds(result.bound),
            percent(result.gap),
            milliseconds(auto.objective),
        )


SIZE_SECONDS = 52.0
"""Time limit that leaves the referee its seconds within a minute."""

SMALLEST = Size("small", 2, 4, 256, 118, 0, 0.0, 0.0)


def measure(size: Size, cluster: str, seconds: float) -> tuple[object, ...]:
    """Plan one size, and tell what the table shows; loops are compiled or loaded before the clock starts."""
    small = on_cluster(
        transformer(SMALLEST.layers, SMALLEST.heads, SMALLEST.width, tokens=64), cluster, memory="parameters"
    )
    ow.solve(small, time_limit=min(10.0, seconds))
    graph = transformer(size.layers, size.heads, size.width, name=size.name)
    problem = on_cluster(graph, cluster, memory="parameters", efficiency=REACHED)
    alone = ow.solve(problem, solver="one_device").objective
    with timed() as clock:
        result = ow.solve(problem, time_limit=seconds)
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    fused = coarsen(problem).after  # after memory is measured
    return (
        f"{fused} ({size.coarsened})" if size.coarsened else fused,
        milliseconds(alone) if alone is not None else "does not fit",
        milliseconds(result.objective),
        milliseconds(result.bound),
        percent(result.gap),
        f"{clock.seconds:.1f}",
        f"{result.timings.verify:.1f}",
        f"{kilobytes / 2**20:.2f}",
        f"{size.minutes:g} -> {size.minutes_coarsened:g}" if size.coarsened else "-",
    )


@table(
    f"Table IV: makespan in ms, planned with a time limit of {SIZE_SECONDS:g} s; memory: parameters of 2 bytes",
    "model | cluster | operators | fused | one device | opweave | bound | gap | seconds | referee s | peak GiB | "
    "paper's minutes",
    note="Seconds include the referee. Peak GiB: the whole process, graph included. The paper's minutes: Gurobi, "
    "original -> coarsened graph. Fused: operators after opweave's coarsening (the paper's). 'does not fit': no "
    "single device holds the model, so memory binds.",
)
def sizes(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Every size on every cluster."""
    context = multiprocessing.get_context("spawn")
    for cluster in CLUSTERS[: 1 if smoke else None]:
        for size in (SMALLEST,) if smoke else TABLE_IV:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                found = pool.submit(measure, size, cluster, 2.0 if smoke else SIZE_SECONDS).result()
            yield size.name, cluster.removeprefix("moirai-"), size.operators, *found
