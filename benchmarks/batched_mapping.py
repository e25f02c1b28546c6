"""Benchmarks of batched mapping: Tables I, III, IV and V of "DiviML", with synthetic costs.

Run ``python -m benchmarks.batched_mapping`` for everything, or name parts: ``latency speed throughput servers
sizes``; ``--smoke`` uses small networks and short limits. The tables show the paper's numbers
beside ours. The paper's graphs and profiles are not public, so absolute values differ; only ratios can be compared.
Seconds are wall time of the solve with the referee's check; loops are compiled before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import opweave as ow
from benchmarks.servers import on_servers
from benchmarks.stacked import Stack, stacked
from benchmarks.tables import milliseconds, percent, reached, run_parts, show, table, timed

ROWS = (
    Stack(),
    *(Stack(channels=c, dependency="sdep") for c in (2, 3, 4)),
    *(Stack(channels=c, dependency="wdep") for c in (2, 3, 4)),
)
TABLE_I = {
    "1-chan": "211.7 209.9 104.4 99.9 97.5 98.9 80.1 80.1",
    "sdep, 2-chan": "234.9 219.3 111.8 109.3 103.8 106.2 79.1 73.7",
    "sdep, 3-chan": "236.5 235.4 114.2 108.5 104.7 106.1 80.3 68.1",
    "sdep, 4-chan": "250.5 249.1 116.3 111.3 107.6 109.5 79.4 61.3",
    "wdep, 2-chan": "225.2 223.8 103.7 101.7 97.3 98.1 77.6 73.3",
    "wdep, 3-chan": "229.9 229.3 107.4 104.3 100.9 103.1 78.7 71.8",
    "wdep, 4-chan": "242.9 240.7 106.8 104.4 102.0 103.6 77.0 62.1",
}
TABLE_III = {("sdep", 5): "83 2.26", ("sdep", 10): "232 4.83", ("sdep", 20): "1907 13.5", ("wdep", 5): "129 2.45",
             ("wdep", 10): "272 5.00", ("wdep", 20): "5850 14.8"}  # fmt: skip
TABLE_IV = {
    "1-chan": "54 56 74 75 84 87 135 164",
    "sdep, 2-chan": "48 50 67 66 75 78 119 180",
    "sdep, 3-chan": "49 51 68 70 78 81 129 196",
    "sdep, 4-chan": "47 48 65 67 76 79 126 209",
    "wdep, 2-chan": "51 53 76 75 86 87 137 182",
    "wdep, 3-chan": "49 52 73 73 82 85 137 181",
    "wdep, 4-chan": "47 50 72 74 82 84 138 207",
}
LISTS = ("best_device", "met", "greedy", "heft")


def small(stack: Stack, *, smoke: bool) -> Stack:
    """The stack, or a small stack of its kind."""
    if not smoke:
        return stack
    return Stack(2, stack.channels, stack.dependency, stack.wires, 4, stack.seed)


def warm_up() -> None:
    """Load or compile every loop, so that the tables show only solve times."""
    for batch in (1, 8):
        problem = stacked(Stack(modules=2, nodes=8), batch)
        for name in (*LISTS, "local", "auto"):
            ow.solve(problem, solver=name, time_limit=0.5)


def value(problem: ow.BatchedMapping, solver: str, seconds: float | None = None, **options: Any) -> float | None:
    """The objective of one solver."""
    return ow.solve(problem, solver=solver, time_limit=seconds, **options).objective


@table(
    "Table I again, one input, 10 modules ER(0.2): ms",
    "network | paper: HEFT EA SPLIT LB | BD | MET | Greedy | HEFT | auto | bound | gap | proof | seconds",
    note="auto: 60 s at most.",
)
def latency(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """One input: every baseline, the plan and its bound."""
    limit = 2.0 if smoke else 60.0
    for stack in ROWS[:2] if smoke else ROWS:
        problem = stacked(small(stack, smoke=smoke))
        cells = [value(problem, name) for name in LISTS]
        with timed() as clock:
            result = ow.solve(problem, time_limit=limit)
        assert result.bound is not None
        assert all(cell is None or reached(result) <= cell * (1 + 1e-9) for cell in cells)
        yield (
            stack.label,
            " ".join(np.array(TABLE_I[stack.label].split())[[3, 4, 6, 7]]),
            *map(milliseconds, (*cells, result.objective, result.bound)),
            percent(result.gap),
            (result.bound_source or "-")[:16],
            f"{clock.seconds:.1f}",
        )


@table(
    "Table III again: SPLIT against the whole program in HiGHS, one input: ms, seconds",
    "network | paper: MILP, SPLIT s | SPLIT | status | seconds | HiGHS | gap | seconds | factor",
)
def speed(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """SPLIT against the whole program."""
    limit = 1.0 if smoke else 120.0
    channels = [(1, "sdep")] if smoke else [(1, "sdep"), (2, "sdep"), (2, "wdep")]
    for stack in [Stack(modules, c, d) for c, d in channels for modules in ((2,) if smoke else (5, 10, 20))]:
        problem = stacked(small(stack, smoke=smoke))
        with timed() as clock:
            split = ow.solve(problem, solver="split", options={"channels": stack.channels}, time_limit=limit)
        with timed() as whole_clock:
            whole = ow.solve(problem, solver="highs", time_limit=limit, options={"head_start": False})
        yield (
            f"{stack.label}, {stack.modules} modules",
            TABLE_III.get((stack.dependency, stack.modules), "-"),
            milliseconds(split.objective),
            split.status.value,
            f"{clock.seconds:.1f}",
            milliseconds(whole.objective),
            percent(whole.gap),
            f"{whole_clock.seconds:.0f}",
            f"> {whole_clock.seconds / clock.seconds:.0f}",
        )


@table(
    "Table IV again, 16 inputs in batches of 4, 8, 12, 16, 10 modules ER(0.2): inputs per second",
    "network, costs | paper: bHEFT SA SPLIT UB | BD | bMET | bGreedy | bHEFT | data par. | auto | at most | "
    "bound/best | proof",
    note="A: time grows almost with the batch; C: mostly launch. auto: 60 s.",
)
def throughput(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Sixteen inputs: inputs per second of the baselines, SPLIT, the whole program and the plan; the upper bound."""
    for growth, stack in product("A" if smoke else "AC", ROWS[:1] if smoke else ROWS):
        problem = stacked(small(stack, smoke=smoke), 16, growth)
        cells = [value(problem, name) for name in (*LISTS, "data_parallel")]
        result = ow.solve(problem, time_limit=1.0 if smoke else 60.0)
        assert result.bound is not None
        assert all(cell is None or reached(result) <= cell * (1 + 1e-9) for cell in cells)
        yield (
            f"{stack.label}, {growth}",
            " ".join(np.array(TABLE_IV[stack.label].split())[[3, 5, 6, 7]]),
            *("-" if cell is None else f"{16 / cell:.1f}" for cell in (*cells, result.objective, result.bound)),
            f"{result.bound / reached(result):.3f}",
            (result.bound_source or "-")[:12],
        )


def servers(*, smoke: bool) -> None:
    """Table V: several servers with identical devices."""
    layers, count, devices, batch = (2, 2, 2, 4) if smoke else (6, 6, 4, 12)
    problem = on_servers(layers, count, devices, batch)
    limit = 1.0 if smoke else 60.0
    part = on_servers(max(1, layers // count), 1, devices, batch)
    by_layers = ow.solve(part, time_limit=limit / 2).objective
    result = ow.solve(problem, time_limit=limit)
    rows = [
        ("pure data parallelism", "-", value(problem, "data_parallel")),
        ("one server's plan, a share of the layers each", "5.7", count * by_layers if by_layers else None),
        ("list schedule, HEFT", "-", value(problem, "heft")),
        ("auto, all servers; it contains the one before", "6.3", result.objective),
        ("no plan exceeds", "9.9", result.bound),
    ]
    show(
        f"Table V again: {problem.graph.name} on {count} servers of {devices} devices, {batch} inputs",
        "plan | paper: inputs/s | ms | inputs/s",
        [(name, paper, milliseconds(took), f"{batch / took:.1f}") for name, paper, took in rows if took],
        note=f"bound by {result.bound_source}",
    )


@table("One input over one channel", "tasks | ms | bound | gap | status | seconds")
def sizes(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """One channel, one input: 120 and 340 tasks."""
    for stack, limit in ((Stack(2, nodes=4), 2.0),) if smoke else ((Stack(), 10.0), (Stack(10, nodes=32), 120.0)):
        problem = stacked(stack)
        with timed() as clock:
            result = ow.solve(problem, time_limit=limit)
        cells = (milliseconds(result.objective), milliseconds(result.bound), percent(result.gap))
        yield len(problem.graph.operators), *cells, result.status.value, f"{clock.seconds:.1f}"


if __name__ == "__main__":
    run_parts(__doc__, latency, speed, throughput, servers, sizes, warm_up=warm_up)
