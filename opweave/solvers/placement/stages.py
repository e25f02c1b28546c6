"""Consecutive stages as a placement: the model is cut as in a pipeline, for the least latency of one input.

A pipeline that takes one input at a time is a placement in which every device has a run of consecutive operators. Up to
a dozen devices, the best such plan is known exactly within milliseconds (see :mod:`opweave.solvers.pipeline.sums`).
Where memory decides and links are slow, as with language models on machines at home, few other plans come near it.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS, lower_unless_short
from opweave.problems.errors import OpweaveError
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement
from opweave.solvers.arguments import check_abilities
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.plans import fits, plan_of, solution_of
from opweave.solvers.registry import Feature, find_solver, named_solver
from opweave.solvers.run import Outcome, Run


@named_solver(
    Placement,
    "stages",
    "consecutive stages, one for each device that is used, for the least latency: a pipeline's exact search",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_staged(problem: Placement, run: Run) -> Outcome:
    """Cut the model into stages for the least latency; solver "stages"."""
    run.enter("stages")
    instance, scout = lower_unless_short(problem), run.child()
    try:
        pipeline = pipeline_of(problem)
        solver = find_solver(pipeline, "auto")
        check_abilities(pipeline, solver, scout)
        solver.run(pipeline, scout)
    except OpweaveError as error:
        return Outcome(run.termination(), reason=f"as a pipeline: {error}")
    if not isinstance(scout.best, Stages):
        return Outcome(run.termination(), reason="no consecutive stages fit the devices")
    index = {name: v for v, name in enumerate(instance.names)}
    position = {name: k for k, name in enumerate(instance.devices)}
    order = np.asarray([index[name] for stage in scout.best.stages for name in stage.operators], dtype=np.int64)
    device = np.empty(len(order), dtype=np.int64)
    for stage in scout.best.stages:
        device[[index[name] for name in stage.operators]] = position[stage.device]
    arrays = arrays_of(instance, problem)
    plan = plan_of(arrays, order, device)
    better = run.objective is None or plan.makespan < run.objective
    if better and np.isfinite(plan.makespan) and fits(arrays, device):
        schedule = solution_of(instance, arrays, plan)
        judged = problem.evaluate(schedule)
        if judged.feasible and judged.objective is not None:
            run.found(schedule, float(judged.objective))
    return Outcome(run.termination())


def pipeline_of(problem: Placement) -> Pipeline:
    """The pipeline whose plans are the placements in consecutive stages, for one input at a time.

    Raises
    ------
    InvalidSpecError
        If a constraint of the placement does not fit a pipeline.
    """
    return Pipeline(
        graph=problem.graph,
        cluster=problem.cluster,
        costs=problem.costs,
        memory=problem.memory,
        constraints=problem.constraints,
        objective="latency",
        inputs="everywhere",
    )
