"""Benchmarks of plans as rows: how fast rows are judged, and how good pymoo's algorithms are beside other solvers.

Run ``python -m benchmarks.evolution`` for everything, or name parts: ``speed algorithms``; ``--smoke`` uses small
problems and short limits. Every problem has 200 operators, and a population 200 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

import opweave as ow
from benchmarks import regret_instances
from benchmarks.tables import run_parts, show

MAKERS = {
    "memory_ordering": regret_instances.orderings,
    "placement": regret_instances.placements,
    "batched_mapping": regret_instances.batched_mappings,
    "pipeline": regret_instances.pipelines,
    "slicing": regret_instances.slicings,
}
POPULATION = 200
ONE_BY_ONE = 20
"""Rows for the referee, which takes its time."""

ALGORITHMS = ("ga", "brkga", "de", "pso", "cmaes", "nsga2")


def problems(*, smoke: bool) -> Iterator[tuple[str, ow.Problem[Any, Any]]]:
    """One problem of each kind."""
    for kind, make in MAKERS.items():
        yield kind, list(make(20 if smoke else 200, 0))[-1][1]


def warm_up() -> None:
    """Have the loops compiled."""
    for _, problem in problems(smoke=True):
        rows = ow.pymoo_problem(problem)
        for _ in range(3):
            rows.evaluate(np.random.default_rng(0).random((POPULATION, rows.n_var)))


def speed_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Rows a second by the encoding, and one by one by the referee."""
    for kind, problem in problems(smoke=smoke):
        rows = ow.pymoo_problem(problem)
        genes = np.random.default_rng(0).random((POPULATION, rows.n_var))
        best = {True: np.inf, False: np.inf}
        for _ in range(3):
            began = process_time()
            rows.evaluate(genes)
            best[True] = min(best[True], (process_time() - began) / POPULATION)
        values = rows.encoding.judge(genes).objective
        legal = [row for row, value in zip(genes, values, strict=True) if np.isfinite(value)][:ONE_BY_ONE]
        solutions = [rows.decode(row) for row in legal]
        began = process_time()
        for solution in solutions:
            problem.evaluate(solution)
        alone = (process_time() - began) / max(1, len(solutions))
        yield kind, rows.n_var, f"{1 / best[True]:,.0f}", f"{1 / alone:,.0f}", f"{alone / best[True]:,.0f}"


def speed(*, smoke: bool) -> None:
    """How fast rows are judged."""
    header = ("problem", "genes", "rows a second", "referee, plans a second", "times")
    show("200 operators, 200 rows at once, one thread, process time", header, speed_rows(smoke=smoke))


def algorithm_rows(*, smoke: bool) -> Iterator[tuple[object, ...]]:
    """Objectives after some seconds, of the best baseline and of the algorithms, divided by that of "auto"."""
    seconds = 0.5 if smoke else 5.0
    for kind, problem in problems(smoke=smoke):
        best = ow.solve(problem, time_limit=seconds).objective
        simple = [ow.solve(problem, solver=row.name).objective for row in ow.list_solvers(problem) if row.baseline]
        found = [
            ow.solve(problem, solver="pymoo", time_limit=seconds, options={"algorithm": name}).objective
            for name in ALGORITHMS
        ]
        legal = [each for each in simple if each is not None]
        yield (
            kind,
            *(
                "-" if each is None or best is None else f"{each / best:.3f}"
                for each in (min(legal, default=None), *found)
            ),
        )


def algorithms(*, smoke: bool) -> None:
    """How good pymoo's algorithms are."""
    header = ("problem", "best baseline", *ALGORITHMS)
    show("Objective after 5 s; that of auto = 1", header, algorithm_rows(smoke=smoke))


if __name__ == "__main__":
    run_parts(__doc__, {"speed": speed, "algorithms": algorithms}, warm_up)
