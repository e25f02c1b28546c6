"""The exact search of pipelines: a single device, the simple splits, then cuts and devices together.

The most bytes on any device are bisected: the search for any plan says whether so many bytes are enough.
"""

from __future__ import annotations

import math
from functools import partial

from opweave.formulations.pipeline.instance import (
    SUPPORTS,
    PipelineInstance,
    lower,
    lower_unless_short,
    shortage,
    smallest_memory,
)
from opweave.problems.constraints import MemoryCap
from opweave.problems.on_cluster import MEMORY
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.pipeline.arrays import arrays_of
from opweave.solvers.pipeline.baselines import by_memory, filling, joint_greedy, one_device, random_split
from opweave.solvers.pipeline.bottleneck import BottleneckSearch
from opweave.solvers.pipeline.load_search import LoadSearch
from opweave.solvers.pipeline.plans import Best, attempt, finished, nothing_fits, value_of
from opweave.solvers.pipeline.sums import SumSearch
from opweave.solvers.pipeline.threshold import Finding, Thresholds, any_plan
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Outcome, Run

MOST_SEARCHES = 6
SHARP = 1e-7
"""Most restarts of a search, and the rounding error of sums, relative to the best plan, that does not call for one."""

SIMPLE = (one_device, filling, joint_greedy, by_memory, random_split)


@named_solver(
    Pipeline,
    "exact",
    "cuts and devices together: priced walks, dives, beams and exact labels",
    proves="optimum",
    supports=SUPPORTS,
    readings=(None, MEMORY),
)
def solve_exact(problem: Pipeline, run: Run) -> Outcome:
    """Begin with simple splits, then search for the optimum and its proof.

    Searches take differences of sums over all operators, so hours on some device lose the digits of microseconds on it.
    Bounds stay valid all the same (:attr:`PipelineInstance.blur`); another search, without the options that the best
    plan beats, makes them sharp again.
    """
    if problem.objective == "memory":
        return _balanced(problem, run)
    instance = lower_unless_short(problem)
    if not instance.names:
        run.found(instance.stages((), ()), 0.0)
        run.proved(0.0, "nothing to run")
        return Outcome(run.termination())
    best = Best(instance, run)
    best.look()
    for plan in plans_of(partial(attempt, rule, instance, run.seed) for rule in SIMPLE):
        best.consider(plan)
    if best.value == 0.0:
        run.proved(0.0, "nothing takes no time")
        return Outcome(run.termination())
    for _ in range(MOST_SEARCHES):
        if best.plan is not None and instance.blur > SHARP * best.value:
            # the points and devices stay the same, so plans do
            instance = best.instance = lower(problem, run.objective)
            best.value = value_of(instance, best.plan)
        outcome = _searched(problem, instance, best)
        if best.plan is None or instance.blur <= SHARP * best.value or run.should_stop():
            break
    return outcome


def _searched(problem: Pipeline, instance: PipelineInstance, best: Best) -> Outcome:
    """Run the search that suits the objective."""
    if instance.summed or problem.max_replicas > 1:
        return LoadSearch(problem, instance, best.run, best).search()
    if instance.goal == "bottleneck" and not instance.shared_channel:
        return BottleneckSearch(problem, instance, best.run, best).search()
    return SumSearch(problem, instance, best.run, best).search()


def _balanced(problem: Pipeline, run: Run) -> Outcome:
    """Try without a limit, then with the fewest bytes that stages of any devices need, then between plan and bound."""
    instance = lower_unless_short(problem)
    run.enter("bisection")
    least, tried = smallest_memory(problem) or 0, math.inf
    run.proved(least, "stages of any devices")
    while not run.should_stop():
        answer, stages = _within(problem, tried, run)
        if stages is not None:
            run.found(stages, max(problem.memory_by_device(stages).values()))
        elif answer is Finding.REFUTED and tried < math.inf:
            least = max(least, int(tried) + 1)
            run.proved(least, "bisection over memory")
        elif answer is Finding.REFUTED:
            return Outcome(infeasible=True, reason=nothing_fits(problem, instance))
        else:
            break
        most = int(run.objective or 0)
        if most <= least:
            break
        tried = least if tried == math.inf else (least + most) // 2
    proved = run.objective is not None and run.objective <= least
    return finished(run, proved=proved)


def _within(problem: Pipeline, most: float, run: Run) -> tuple[Finding, Stages | None]:
    """Whether stages with at most so many bytes each have a plan, and such a plan."""
    caps = [MemoryCap(device=name, bytes=int(most)) for name in problem.cluster.device_index if most < math.inf]
    within = problem.under((*problem.constraints, *caps), checked=False)
    if caps and shortage(within) is not None:
        return Finding.REFUTED, None
    instance = lower(within)
    if not instance.names:
        return Finding.KEPT, instance.stages((), ())
    tester = Thresholds(arrays_of(instance), run.should_stop, run.seed)
    answer = any_plan(tester, run)
    plan = tester.plan if answer is Finding.KEPT else None
    return answer, None if plan is None else instance.stages(plan.cuts, plan.devices)
