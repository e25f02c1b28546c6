"""Plans of pipelines: cut points and devices, their costs, and the matching solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance, lower_unless_short, smallest_memory
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Inner cut points, and a device for each stage.

    Attributes
    ----------
    cuts
        Inner cut points, one fewer than stages.
    devices
        Positions in the instance.
    """

    cuts: tuple[int, ...]
    devices: tuple[int, ...]

    def stages(self, last: int) -> Iterator[tuple[int, int, int]]:
        """Device, first and last point of every stage, the last of which ends at a point."""
        return zip(self.devices, [0, *self.cuts], [*self.cuts, last], strict=True)


def exact_value(instance: PipelineInstance, plan: PipelinePlan) -> float:
    """The objective of a plan, every stage summed separately; it equals the referee's except for the last digits."""
    position, computing = instance.position, list[float]()
    for v, a, b in plan.stages(instance.last):
        computing.append(math.fsum(instance.seconds[v, position[a] : position[b]]))
    return _objective(instance, computing, plan)


def is_chain(instance: PipelineInstance, stages: Stages) -> bool:
    """Whether stages are runs of the order, between the instance's points, each on one device of its own."""
    ends = np.cumsum([len(stage.operators) for stage in stages.stages])
    alone = all(not stage.replicas for stage in stages.stages)
    devices = [stage.device for stage in stages.stages]
    in_turn = tuple(name for stage in stages.stages for name in stage.operators) == instance.names
    cut = bool(np.isin(ends, instance.position).all())
    return alone and in_turn and cut and len(set(devices)) == len(devices) and set(devices) <= set(instance.devices)


def plan_from(instance: PipelineInstance, stages: Stages) -> PipelinePlan:
    """A valid solution as points and devices."""
    points, devices = instance.plan(stages)
    return PipelinePlan(tuple(points[1:-1]), tuple(devices))


def stage_seconds(instance: PipelineInstance, plan: PipelinePlan) -> list[float]:
    """Seconds of every stage."""
    elapsed = instance.elapsed
    return [float(elapsed[v, b] - elapsed[v, a]) for v, a, b in plan.stages(instance.last)]


def transfer_seconds(instance: PipelineInstance, plan: PipelinePlan) -> list[float]:
    """Seconds of every transfer; infinite without a link."""
    pairs = zip(plan.cuts, plan.devices[:-1], plan.devices[1:], strict=True)
    return [instance.send_seconds(b, v, w) for b, v, w in pairs]


def value_of(instance: PipelineInstance, plan: PipelinePlan) -> float:
    """The objective of a plan by differences of ``elapsed``, as in searches; infinite without a link."""
    return _objective(instance, stage_seconds(instance, plan), plan)


def _objective(instance: PipelineInstance, computing: list[float], plan: PipelinePlan) -> float:
    carrying = transfer_seconds(instance, plan)
    if instance.goal == "transfers":
        return math.fsum(carrying)
    if instance.goal == "latency":
        return math.fsum([*computing, *carrying])
    if instance.shared_channel:
        return max([*computing, math.fsum(carrying)])
    if instance.summed:
        return max(map(math.fsum, zip([0.0, *carrying], computing, [*carrying, 0.0], strict=True)))
    return max([*computing, *carrying])


def is_valid(instance: PipelineInstance, plan: PipelinePlan) -> bool:
    """Whether the plan obeys memory, devices, links and numbers of stages."""
    held = all(a < b <= instance.reach[v, a] for v, a, b in plan.stages(instance.last))
    counted = instance.least <= len(plan.devices) <= min(instance.most, instance.most_devices)
    apart = len(set(plan.devices)) == len(plan.devices)
    return held and counted and apart and value_of(instance, plan) < math.inf


@dataclass(eq=False)
class BestPlan:
    """The best plan so far; better ones are reported to the run."""

    instance: PipelineInstance
    run: Run
    plan: PipelinePlan | None = field(default=None)
    value: float = math.inf
    _seen: Solution | None = field(default=None)

    def look(self) -> None:
        """Take over a better plan of others; :attr:`plan` is None if some stage has replicas."""
        stages, known = self.run.best, self.run.objective
        if stages is self._seen or not isinstance(stages, Stages) or known is None:
            return
        self._seen = stages
        plan = plan_from(self.instance, stages) if is_chain(self.instance, stages) else None
        value = float(known) if plan is None else value_of(self.instance, plan)
        if value < self.value:
            self.plan, self.value = plan, value

    def consider(self, plan: PipelinePlan) -> bool:
        """Consider a valid plan; return whether it is the best."""
        value = value_of(self.instance, plan)
        if value >= self.value:
            return False
        self.plan, self.value = plan, value
        self.run.found(self.instance.stages(plan.cuts, plan.devices), exact_value(self.instance, plan))
        self._seen = self.run.best
        return True

    def proved(self, bound: float, source: str) -> None:
        """Report a lower bound, reduced by the rounding error of its sums."""
        safe, known = max(0.0, bound - self.instance.blur), self.run.objective
        if known is not None and known * (1.0 - SUMMATION) <= safe < known:
            safe = float(known)  # they differ by rounding only
        self.run.proved(safe, source)


def finished(run: Run, *, proved: bool) -> Outcome:
    """The outcome of a search that has proved its plan, or was stopped."""
    budget = not proved and run.time_limit is None and not run.should_stop()
    return Outcome(Termination.BUDGET if budget else run.termination())


def nothing_fits(problem: Pipeline, instance: PipelineInstance) -> str:
    """A sentence that says that no plan exists, and how much memory would suffice."""
    rules = " and all side constraints obeyed" if problem.constraints else ""
    reason = (
        f"no chain of at most {instance.most} of the {len(instance.devices)} usable devices holds the model's "
        f"{instance.last} pieces in their order, with links between neighbours{rules}"
    )
    enough = smallest_memory(problem)
    limits = [*problem.memory_limits.values()]
    if enough is None or all(limit is None or limit >= enough for limit in limits):
        return reason
    return f"{reason}; {enough:,} bytes on every device would be enough memory"


Rule = Callable[[PipelineInstance, int], PipelinePlan]
"""Builds a plan from arrays and a seed, or raises :class:`~opweave.solvers.rules.NoPlanError`."""


def attempt(rule: Rule, instance: PipelineInstance, seed: int) -> PipelinePlan:
    """The rule's plan, checked.

    Raises
    ------
    NoPlanError
        When the rule finds no plan, or one that does not fit.
    """
    plan = rule(instance, seed)
    if not is_valid(instance, plan):
        raise NoPlanError("the rule's plan needs a link that the cluster does not have, or breaks a limit on stages")
    return plan


def carry_out(rule: Rule, problem: Pipeline, run: Run) -> None:
    """Build a rule's plan and report it."""
    instance = lower_unless_short(problem)
    plan = attempt(rule, instance, run.seed) if instance.names else PipelinePlan((), ())
    run.found(instance.stages(plan.cuts, plan.devices), exact_value(instance, plan) if instance.names else 0.0)
