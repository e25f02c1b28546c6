"""Whole storages to pools by an integer program, without offsets: what a layout can gain at most, and a good guess."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.apart import with_highs
from opweave.solvers.linear import LinearProgram, highs_with
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Run
from opweave.solvers.tree import least_whole

MOST_COLUMNS = 6_000
"""Most shares for which integer programs are solved."""

SEARCH_SHARE, BOUND_SHARE = 0.2, 0.4
"""Shares of the time left for a good assignment, and then for a bound."""

UNTIMED_NODES, UNTIMED_SECONDS = 2_000, 20.0
"""Limits of the engine's search without a time limit."""


class Question(NamedTuple):
    """A program, the number of its integral columns, which come first, and limits."""

    program: LinearProgram
    whole: int
    seconds: float
    nodes: int
    seed: int


def best_assignment(program: LinearProgram, whole: int, run: Run) -> FloatArray | None:
    """The best whole shares that an engine finds in a part of the time left; None if it finds none."""
    if whole > MOST_COLUMNS:
        return None
    run.enter("assignment to pools")
    left = run.remaining()
    seconds, nodes = (UNTIMED_SECONDS, UNTIMED_NODES) if left is None else (SEARCH_SHARE * left, 2**31 - 1)
    question = Question(_scaled(program)[0], whole, seconds, nodes, run.seed)
    return with_highs(_solved, question, seconds, run.should_stop)


def prove_assignment(program: LinearProgram, whole: int, run: Run) -> float | None:
    """A lower bound of the program with whole shares, in a part of the time left; None if there is none."""
    left = run.remaining()
    if whole > MOST_COLUMNS or left is None or run.objective is None:
        return None
    run.enter("bound of the assignment")
    scaled, factor = _scaled(program)
    integral = np.arange(len(program.cost)) < whole
    ceiling = float(run.objective) * factor
    nothing = np.zeros(len(program.cost), dtype=bool)
    proof = least_whole(scaled, integral, nothing, ceiling, BOUND_SHARE * left, run.should_stop)
    return proof.bound / factor * (1.0 - SUMMATION) if math.isfinite(proof.bound) else None


def _scaled(program: LinearProgram) -> tuple[LinearProgram, float]:
    """The program with costs near 1, and the power of two they were multiplied by: engines have absolute tolerances."""
    largest = float(np.abs(program.cost).max(initial=0.0))
    factor = 2.0 ** (-math.frexp(largest)[1]) if largest > 0.0 else 1.0
    return replace(program, cost=program.cost * factor), factor


def _solved(question: Question, _should_stop: Callable[[], bool]) -> FloatArray | None:
    """The integral columns of the best point; runs where highspy can be loaded."""
    import highspy

    limits: dict[str, str | float] = {"time_limit": question.seconds, "mip_max_nodes": question.nodes}
    engine = highs_with(question.program, **limits, threads=1, random_seed=question.seed % 2**31)
    if engine is None:
        return None
    columns = np.arange(question.whole, dtype=np.int32)
    kinds = np.full(question.whole, highspy.HighsVarType.kInteger)
    engine.changeColsIntegrality(len(columns), columns, kinds)
    engine.run()
    if engine.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    values = engine.getSolution().col_value
    return np.asarray(values[: question.whole], dtype=np.float64)
