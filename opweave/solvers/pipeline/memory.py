"""The fewest bytes on the fullest device: bisected, with a search for any plan at every limit."""

from __future__ import annotations

import math

from opweave.formulations.pipeline.instance import lower, lower_unless_short, shortage, smallest_memory
from opweave.problems.constraints import MemoryCap
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.pipeline.arrays import arrays_of
from opweave.solvers.pipeline.bottleneck import Finding, ThresholdTests, any_plan
from opweave.solvers.pipeline.plans import finished, nothing_fits
from opweave.solvers.run import Outcome, Run


def balanced(problem: Pipeline, run: Run) -> Outcome:
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
    tester = ThresholdTests(arrays_of(instance), run.should_stop, run.seed)
    answer = any_plan(tester, run)
    plan = tester.plan if answer is Finding.KEPT else None
    return answer, None if plan is None else instance.stages(plan.cuts, plan.devices)
