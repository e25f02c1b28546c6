"""The worker of pipelines, which "auto" runs: simple splits, then cuts and devices together, until proved.

One search for each kind of objective has no equal, so there is one worker.
"""

from __future__ import annotations

from functools import partial

from opweave.formulations.pipeline.instance import SUPPORTS, PipelineInstance, lower, lower_unless_short
from opweave.problems.on_cluster import MEMORY
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.auto import register_auto
from opweave.solvers.pipeline.baselines import by_memory, filling, joint_greedy, one_device, random_split
from opweave.solvers.pipeline.bottleneck import BottleneckSearch
from opweave.solvers.pipeline.load_search import LoadSearch
from opweave.solvers.pipeline.memory import balanced
from opweave.solvers.pipeline.plans import BestPlan, attempt, value_of
from opweave.solvers.pipeline.sums import SumSearch
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import plans_of
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker

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
    modes=(None, MEMORY),
)
def solve_exact(problem: Pipeline, run: Run) -> Outcome:
    """Begin with simple splits, then search for the optimum and its proof.

    Searches take differences of sums over all operators, so hours on some device lose the digits of microseconds on it.
    Bounds stay valid all the same (:attr:`PipelineInstance.blur`); another search, without the options that the best
    plan beats, makes them sharp again.
    """
    if problem.objective == "memory":
        return balanced(problem, run)
    instance = lower_unless_short(problem)
    if not instance.names:
        run.found(instance.stages((), ()), 0.0)
        run.proved(0.0, "nothing to run")
        return Outcome(run.termination())
    best = BestPlan(instance, run)
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


def _searched(problem: Pipeline, instance: PipelineInstance, best: BestPlan) -> Outcome:
    """Run the search that suits the objective."""
    if instance.summed or problem.max_replicas > 1:
        return LoadSearch(problem, instance, best.run, best).search()
    if instance.goal == "bottleneck" and not instance.shared_channel:
        return BottleneckSearch(problem, instance, best.run, best).search()
    return SumSearch(problem, instance, best.run, best).search()


def workers(problem: Pipeline, _run: Run) -> list[Worker]:
    """The exact search."""
    return [Steps("exact", solve_exact, problem)]


register_auto(
    Pipeline,
    workers,
    "simple splits, then cuts and devices together, proved",
    supports=SUPPORTS,
    modes=(None, MEMORY),
)
