"""Moirai's own way, measured: what coarsening leaves of the sizes of Table IV, and what HiGHS does with the program.

The paper runs Gurobi on programs of its sizes for minutes (Table V) and does not say how close to a proof it came. With
HiGHS the paper's program ends at some dozens of operators, so small transformers of the same build stand for the large
ones: one port for each edge, parameters as memory, times as in :mod:`benchmarks.placement_sizes`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import opweave as ow
from benchmarks.placement import CLUSTERS, REACHED, on_cluster
from benchmarks.tables import milliseconds, percent, show, timed
from benchmarks.transformers import TABLE_IV, transformer
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


def coarse_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
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


def solved_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Small transformers by the paper's way and by "auto", in the same time."""
    for layers, heads in SMALL[: 1 if smoke else None]:
        problem = posed(layers, heads, 64 * heads)
        seconds = 2.0 if smoke else LIMIT_SECONDS
        seen: list[ow.Progress] = []
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


def moirai(*, smoke: bool) -> None:
    """Print both tables."""
    show(
        "Table IV: what coarsening leaves, and the rows of the paper's program, four devices",
        ("model", "operators", "the paper's", "seconds", "rows (6) and (8)", "paper's minutes"),
        coarse_rows(smoke=smoke),
        note=f"Rows are counted up to {LARGEST_COUNTED:,} operators; {ow.Limits().model_rows:,} are built at most.",
    )
    show(
        f"solver 'moirai' on small transformers, {LIMIT_SECONDS:g} s: makespan in ms",
        ("model", "operators", "program", "reduce + build + solve s", "ended", "moirai", "bound", "gap", "auto"),
        solved_rows(smoke=smoke),
        note="The bound holds for the whole problem, so a gap remains where fusing costs something; 'completed' is a "
        "proof for the coarsened problem alone.",
    )
