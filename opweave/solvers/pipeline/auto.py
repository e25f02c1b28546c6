"""The default solver of pipelines: a single device, the simple splits, then the joint optimum.

It runs every rule, so with the same seed it is never worse than any of them, unless a time limit cuts the paper's
method short. The proof comes from the joint search.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance, lower, lower_unless_short
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.pipeline.arrays import arrays_of
from opweave.solvers.pipeline.baselines import by_memory, joint_greedy, one_device, random_split
from opweave.solvers.pipeline.exact import BottleneckSearch
from opweave.solvers.pipeline.kpath import kpath
from opweave.solvers.pipeline.load_search import LoadSearch
from opweave.solvers.pipeline.plans import Best, Plan, Rule, attempt, is_chain, plan_from, value_of
from opweave.solvers.pipeline.sums import SumSearch
from opweave.solvers.registry import SEARCHES, Feature, named_solver
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Outcome, Run

MOST_SEARCHES = 6
SHARP = 1e-7
"""Most restarts of a search, and the rounding error of sums, relative to the best plan, that does not call for one."""

SIMPLE_RULES: tuple[Rule, ...] = (joint_greedy, random_split, by_memory)
"""Rules tried when the joint search has not proved its plan optimal; an optimal plan cannot be beaten."""

GRACE_SECONDS = 0.5
"""Seconds that the paper's method, tried after them, gets even if the search has used all the time."""


@named_solver(
    Pipeline,
    "auto",
    "do not split, simple splits, then cuts and devices together, proved",
    kind="plan",
    proves="optimum",
    features=SEARCHES | {Feature.START},
    supports=SUPPORTS,
)
def solve_auto(problem: Pipeline, run: Run, joint: type[BottleneckSearch] = BottleneckSearch) -> Outcome:
    """Run the solvers of pipelines in turn; ``joint`` is the search for the bottleneck."""
    instance = lower_unless_short(problem)
    best = Best(instance, run)
    if isinstance(run.start, Stages) and is_chain(instance, run.start):
        best.consider(plan_from(instance, run.start))
    elif isinstance(run.start, Stages):
        judged = problem.evaluate(run.start)
        if judged.feasible and judged.objective is not None:
            best.value = float(judged.objective)
            run.found(run.start, best.value)
    outcome = _searched(problem, instance, run, best, joint)
    if not outcome.infeasible and not run.closed():
        _try([*SIMPLE_RULES, _within_grace(run)], best)
    return outcome


@named_solver(
    Pipeline,
    "exact",
    "cuts and devices together: priced walks, dives, beams and exact labels",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_exact(problem: Pipeline, run: Run) -> Outcome:
    """Run the joint search alone, from the plan on one device."""
    instance = lower_unless_short(problem)
    return _searched(problem, instance, run, Best(instance, run), BottleneckSearch)


def _searched(
    problem: Pipeline, instance: PipelineInstance, run: Run, best: Best, joint: type[BottleneckSearch]
) -> Outcome:
    """Try one device first, then the search that suits the objective."""
    if not instance.names:
        run.found(instance.stages((), ()), 0.0)
        run.proved(0.0, "nothing to run")
        return Outcome(run.termination())
    _try([one_device], best)
    if best.value == 0.0:
        run.proved(0.0, "nothing takes no time")
        return Outcome(run.termination())
    return _sharpened(problem, instance, best, joint)


def _sharpened(problem: Pipeline, instance: PipelineInstance, best: Best, joint: type[BottleneckSearch]) -> Outcome:
    """Search, and search again without the options that the best plan beats if their times swamp the plan's times.

    Searches take differences of sums over all operators, so hours on some device lose the digits of microseconds on it.
    Bounds stay valid all the same (:attr:`PipelineInstance.blur`); the second search makes them sharp again.
    """
    run = best.run
    for _ in range(MOST_SEARCHES):
        if best.plan is not None and instance.blur > SHARP * best.value:
            # the points and devices stay the same, so plans do
            instance = best.instance = lower(problem, run.objective)
            best.value = value_of(instance, best.plan)
        outcome = search_chain(problem, instance, best, joint)
        if best.plan is None or instance.blur <= SHARP * best.value or run.should_stop():
            break
    return outcome


def search_chain(
    problem: Pipeline, instance: PipelineInstance, best: Best, joint: type[BottleneckSearch] = BottleneckSearch
) -> Outcome:
    """Run the search that suits the objective on given arrays; every device has one stage."""
    run = best.run
    if instance.summed or problem.max_replicas > 1:
        return LoadSearch(problem, instance, run, best).search()
    if instance.goal == "bottleneck" and not instance.shared_channel:
        return joint(problem, instance, arrays_of(instance, run.halt), run, best).search()
    stages = 1.0 if instance.goal == "latency" and instance.compute_counts else 0.0
    return SumSearch(problem, instance, arrays_of(instance, run.halt), run, best, stages, 1.0).search()


def _within_grace(run: Run) -> Rule:
    """The paper's method until time is up, but at least for a moment."""

    def rule(instance: PipelineInstance, seed: int) -> Plan:
        graced = run.elapsed() + GRACE_SECONDS
        return kpath(instance, seed, lambda: run.elapsed() > graced and run.should_stop())

    return rule


def _try(rules: Iterable[Rule], best: Best) -> None:
    for plan in plans_of(partial(attempt, rule, best.instance, best.run.seed) for rule in rules):
        best.consider(plan)
