"""The default solver of serving flows: rules, a bound, stages, local search, and an engine for small problems."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from opweave.formulations.serving_flow.instance import Blocks, ServingInstance, lower
from opweave.problems.errors import EngineError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.registry import Feature, go_on_with, is_available, named_solver
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run
from opweave.solvers.serving_flow.baselines import BY_NAME
from opweave.solvers.serving_flow.bounds import Sets, prove, prove_best
from opweave.solvers.serving_flow.local import climb
from opweave.solvers.serving_flow.plans import SUPPORTS, every_plan, report
from opweave.solvers.serving_flow.staged import by_region, without_links

logger = logging.getLogger("opweave")

STAGES_SHARE, PROOF_SHARE = 0.4, 0.5
"""Largest shares of the remaining time for plans in stages, and for the bound."""

CLIMB_ROUNDS, CLIMB_SECONDS = 4, 10.0
"""Rounds and seconds of local search without a time limit; else it goes on until its time is up."""

CLIMB_SHARE = 0.7
"""Largest share of the remaining time for local search where an engine follows."""

TINY_CELLS = 60
"""Most devices times layers for which an engine is called at once."""

ENGINE_CELLS = 1500
"""Most devices times layers for which an engine is called."""

ENGINE_SECONDS = 10.0
"""Time for an engine if there is no time limit."""


@named_solver(
    ServingFlow,
    "auto",
    "rules, sets of devices for a layer as a bound, stages, local search, then an engine if it may help",
    kind="plan",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_auto(problem: ServingFlow, run: Run) -> Outcome:
    """Serve with all methods that apply."""
    instance = lower(problem)
    reason = instance.short()
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    last: Blocks | None = None
    for plan in _by_rules(instance):
        report(instance, plan, run)
        last = plan
    ended = every_plan(instance, run)
    if ended is not None:
        return ended
    if not run.should_stop():
        last = _stages(instance, run) or last
    cells = len(instance.names) * instance.layers
    if cells <= TINY_CELLS and not run.should_stop():
        return _by_engine(problem, run)
    small = cells <= ENGINE_CELLS
    if last is not None and not run.should_stop():
        run.enter("local search")
        rounds = CLIMB_ROUNDS if run.remaining() is None else 10**9
        with run.share(CLIMB_SHARE if small else 1.0, CLIMB_SECONDS):
            climb(instance, last, run, rounds)
        prove_best(Sets(instance, run), run)
    if not small or run.should_stop():
        return Outcome(run.termination())
    return _by_engine(problem, run)


def _by_rules(instance: ServingInstance) -> Iterator[Blocks]:
    for rule in BY_NAME.values():
        try:
            yield rule(instance)
        except NoPlanError:
            continue


def _stages(instance: ServingInstance, run: Run) -> Blocks | None:
    """Plans in stages, and the bound; returns the best one that ignores links, which may break side constraints."""
    last: Blocks | None = None
    run.enter("stages")
    with run.share(STAGES_SHARE):
        for last in without_links(instance, instance.bounded, run):
            report(instance, last, run)
    sets = Sets(instance, run)
    prove_best(sets, run)
    most = instance.bounded
    if not run.should_stop():
        with run.share(PROOF_SHARE):
            most = prove(sets, most, run)
    if not instance.unhindered and not run.should_stop():
        run.enter("stages by region")
        for plan in by_region(instance, most, run):
            report(instance, plan, run)
            last = last or plan
    return last


def _by_engine(problem: ServingFlow, run: Run) -> Outcome:
    """Let an engine go on where the problem is small, or has side constraints that only models know."""
    if not is_available(problem, "highs"):
        return Outcome(run.termination())
    try:
        with run.share(1.0, ENGINE_SECONDS):
            return go_on_with(problem, "highs", run)
    except (EngineError, InvalidInputError, UnsupportedFeatureError) as error:
        logger.info("HiGHS is of no help: %s", error)
        return Outcome(run.termination())
