"""Engines inside the default solver: choosing one for a graph, and running it while it makes progress."""

from __future__ import annotations

import logging
import math

from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.precedence import ancestors
from opweave.problems.errors import EngineError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.registry import find_solver, is_available
from opweave.solvers.run import Outcome, Progress, Run

logger = logging.getLogger("opweave")

ENGINE_OPERATORS = 1_000
MOST_PAIRS = 25_000
"""Operators, and pairs of operators without a fixed order, up to which an engine is tried. Beyond that it makes no
progress in minutes."""

CP_PAIRS = 2_500
"""Number of pairs up to which CP-SAT proves peaks sooner than HiGHS; for totals HiGHS is better."""

PATIENCE_SHARE, PATIENCE_SECONDS = 0.5, 20.0
"""Longest time of an engine without progress: share of the time left when it begins, or seconds without a limit."""

GAIN = 0.001
"""Least change of the gap that counts as progress."""


def engine_for(problem: MemoryOrdering) -> str | None:
    """The engine that may help; None if there is none."""
    count = len(problem.graph.operators)
    if count > ENGINE_OPERATORS:
        return None
    pairs = count * (count - 1) // 2 - int(ancestors(lower(problem).after).sum())
    if pairs > MOST_PAIRS:
        return None
    if problem.objective == "peak" and pairs <= CP_PAIRS and is_available(problem, "cp-sat"):
        return "cp-sat"
    return "highs" if is_available(problem, "highs") else None


def run_while_it_helps(engine: str, problem: MemoryOrdering, run: Run) -> Outcome:
    """Run an engine until it has not narrowed the gap for too long; report its results to the run at once."""
    left = run.remaining()
    patience = PATIENCE_SECONDS if left is None else PATIENCE_SHARE * left
    best_gap, gained_at = _gap(run), run.elapsed()

    def stop(_: Progress) -> bool:
        nonlocal best_gap, gained_at
        _hand_on(part, run)
        if not part.build_seconds:  # patience begins with the engine's work, not while its model is written
            gained_at = run.elapsed()
        if _gap(run) < best_gap - GAIN:
            best_gap, gained_at = _gap(run), run.elapsed()
        return run.should_stop() or run.elapsed() - gained_at > patience

    part = Run(time_limit=left, gap=run.gap, seed=run.seed, threads=run.threads, callback=stop, stage=engine)
    _hand_on(run, part)
    run.enter(engine)
    try:
        outcome = find_solver(problem, engine).run(problem, part)
    except (EngineError, InvalidInputError, UnsupportedFeatureError) as error:
        logger.info("%s is of no help: %s", engine, error)
        return Outcome()
    _hand_on(part, run)
    return outcome


def _hand_on(known: Run, run: Run) -> None:
    if known.best is not None and known.objective is not None:
        run.found(known.best, known.objective)
    if known.bound is not None:
        run.proved(known.bound, known.bound_source or "")


def _gap(run: Run) -> float:
    if run.objective is None or run.bound is None:
        return math.inf
    return (run.objective - run.bound) / run.objective if run.objective else 0.0
