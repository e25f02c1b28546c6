"""A baseline's plan for runs that end before their solver has found one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from opweave.formulations.expressions import NARROWED, expressible
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.collecting import collector_paused
from opweave.problems.constraints import Constraint
from opweave.problems.errors import OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.overdue import Interrupter, OverdueError
from opweave.solvers.registry import Solver, find_solver, load_solvers
from opweave.solvers.run import Outcome, Run
from opweave.solvers.verdict import Referee

BASELINES = {
    "memory_ordering": ("definition",),
    "placement": ("one_device", "fill"),
    "batched_mapping": ("best_device", "met_whole", "met"),
    "pipeline": ("one_device", "by_memory"),
    "slicing": ("one_device", "by_memory"),
    "serving_flow": ("petals", "swarm"),
    "memory_layout": ("size_classes", "best_fit", "onnxruntime", "tflm", "by_size"),
}
"""Solvers that find a plan at once, if they find one; tried in turn. Of other problems, all baselines are tried."""


PLAN_PER_OPERATOR = 16e-6
"""Approximate seconds of a core in which a baseline has a plan and the referee has judged it, for each operator."""

LATER_THAN_BASELINES = {"batched_mapping", "pipeline", "slicing", "memory_layout"}
"""Kinds of problems whose searches take longer until they have a plan. Other searches begin with a plan as quickly."""

MOST_FIRST, LEAST_FIRST = 0.6, 0.5
"""A plan is made before the solver begins where it takes at most the first share of the limit, and more than the second
of the time allowed beyond the limit."""


def plan_first(problem: Problem[Any, Any], solver: Solver, run: Run, referee: Referee) -> None:
    """Have a baseline's plan before the solver begins, if the model is so large that it could only come too late.

    The plan stays out of the solver's sight, and counts if the solver has found none when the time is up.
    """
    if run.time_limit is None or run.candidates or run.extend is not None or solver.baseline:
        return
    expected = PLAN_PER_OPERATOR * problem.size
    if not LEAST_FIRST * run.allowance.beyond < expected <= MOST_FIRST * run.time_limit:
        return
    scout = Run(time_limit=run.time_limit, seed=run.seed, began=run.began)
    name = _run_baselines(problem, scout, run.allowance.until_overdue)
    if scout.candidates:
        run.spare = scout.candidates[-1], name
        with suppress(OverdueError), Interrupter(run.allowance.until_late):
            referee.judge(scout.candidates[-1].solution)


def comes_too_late(problem: Problem[Any, Any], solver: Solver, run: Run) -> bool:
    """Whether the solver could have no plan in time, so that only a baseline is worth its time."""
    if run.time_limit is None or run.candidates or run.spare is not None or run.extend is not None or solver.baseline:
        return False
    in_time = run.time_limit + run.allowance.beyond
    return problem.kind in LATER_THAN_BASELINES and PLAN_PER_OPERATOR * problem.size > in_time


def with_baseline(problem: Problem[Any, Any], run: Run, referee: Referee, outcome: Outcome) -> Outcome:
    """Report a baseline's plan if the time was up before there was any plan; return how the run ended.

    The baseline gets some seconds more, if it needs them: a problem that is too large for its limit has a plan a little
    later. Nothing runs if a user's function adds to the model, because the baseline's plan might break the additions.
    """
    cut_short = outcome.termination is Termination.TIME_LIMIT and not outcome.infeasible
    if not cut_short or run.candidates or run.extend is not None:
        return outcome
    if run.spare is not None:
        found, name = run.spare
        run.found(found.solution, found.objective)
    else:
        with referee.first_plan():
            name = _run_baselines(problem, run, run.allowance.until_overdue)
    if run.candidates:
        return replace(outcome, reason=f"the time was up before there was a plan; {name!r} made one")
    return replace(outcome, reason=outcome.reason or "the time was up before there was a plan")


def _run_baselines(problem: Problem[Any, Any], run: Run, left: Callable[[], float]) -> str:
    """Run baselines until one has a plan, or no seconds are ``left``; return the name of the last one.

    A baseline that does not know all rules ignores those; its plan counts if it obeys them by chance.
    """
    name, relaxed = "", dict[tuple[Constraint, ...], Problem[Any, Any]]()
    for name, within in _turns(problem):
        solver = find_solver(problem, name)
        if problem.reading not in solver.readings:
            continue
        try:
            with run.at_work(), collector_paused(), Interrupter(left):
                _carry_out(problem, solver, run, relaxed, tuple(each for each in solver.supports if each not in within))
        except (ContradictionError, OpweaveError):
            continue
        except OverdueError:
            break
        if run.candidates:
            break
    return name


def _turns(problem: Problem[Any, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names of the baselines and what they leave out: narrower problems, which take long, come after all of them."""
    narrowed = (NARROWED,) if problem.constraints else ()
    yield from ((name, narrowed) for name in _baselines(problem))
    if narrowed:
        yield from ((name, ()) for name in _baselines(problem))


def _baselines(problem: Problem[Any, Any]) -> Iterator[str]:
    """Names of the baselines, the first ones first; the others need all solvers, which take a while to import."""
    first = () if problem.reading is not None else BASELINES.get(problem.kind, ())
    yield from first
    if problem.constraints or not first:
        yield from (row.name for row in load_solvers(problem.kind) if row.baseline and row.name not in first)


def _carry_out(
    problem: Problem[Any, Any],
    solver: Solver,
    run: Run,
    relaxed: dict[tuple[Constraint, ...], Problem[Any, Any]],
    supports: Sequence[str],
) -> None:
    """Run a baseline; without the rules that it does not know, if there are any, and then its plan has to obey them.

    ``supports`` says what it may know. ``relaxed`` keeps the problem without the other rules, because what a baseline
    derives from it serves the next one.
    """
    rules = tuple(each for each in problem.constraints if not expressible(type(each), supports))
    if not rules:
        solver.run(problem, run)
        return
    from opweave.solvers.narrowing.narrower import without  # ``import opweave`` does without them
    from opweave.solvers.narrowing.runs import narrower_run

    easier = relaxed.setdefault(rules, without(problem, rules))
    solver.run(easier, narrower_run(problem, easier, rules, run))
