"""Which of two problems asks less: its bound then holds for the other one, and a plan of the other one fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap, means
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status, Termination
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.questions.changes import rebuilt
from opweave.solvers.registry import Feature, find_solver
from opweave.solvers.run import agree
from opweave.solvers.solve import solve
from opweave.solvers.verdict import may_hold

AnyProblem = Problem[Any, Any]

KNOWN_RULES: tuple[Any, ...] = tuple(
    kind for kind in Constraint.kinds().values() if kind.__module__ == Constraint.__module__
)
"""Constraints that ask the same whatever memory and links there are."""

KNOWN_PROBLEMS = (MemoryOrdering, Placement, BatchedMapping, Slicing, Pipeline)
"""Problems whose fields mean what is compared here; a subclass may mean something else by them."""

MORE_IS_LESS = frozenset({"max_calls", "compression"})
"""Fields beside :attr:`~opweave.problems.problem.Problem.restrictions` that ask less the larger they are."""


def relaxes(problem: AnyProblem, other: AnyProblem) -> bool:
    """Whether a problem is the other one, or asks less: then its lower bounds hold for the other one too.

    A problem asks less if it differs only in more memory, faster links, looser restrictions (a higher ``limit_bytes``,
    more stages allowed), more compression, or fewer side constraints. This is a judgement of the data alone: False
    means "not known".

    With a rule of a user's own, whose meaning may depend on any field, only the side constraints may differ.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> graph = OpGraph(tensors=[], operators=[Operator(id="p")])
    >>> loose, tight = MemoryOrdering(graph=graph), MemoryOrdering(graph=graph, limit_bytes=8)
    >>> relaxes(loose, tight), relaxes(tight, loose)
    (True, False)
    """
    if problem is other:
        return True
    if type(problem) is not type(other):
        return False
    known = type(problem) in KNOWN_PROBLEMS
    rules_known = all(means(each, *KNOWN_RULES) for each in (*problem.constraints, *other.constraints))
    for name in type(problem).model_fields:
        mine, theirs = getattr(problem, name), getattr(other, name)
        if mine is theirs:
            continue
        if known and name == "constraints":
            less = _fewer_constraints(problem, other)
        elif known and rules_known and name == "cluster":
            less = _better_cluster(problem, other)
        else:
            less = mine == theirs or (known and rules_known and _looser(problem, name, mine, theirs))
        if not less:
            return False
    return True


def _looser(problem: AnyProblem, name: str, mine: Any, theirs: Any) -> bool:
    """Whether a value of a field restricts less than another one."""
    if name not in problem.restrictions and name not in MORE_IS_LESS:
        return False
    if mine == problem.restrictions.get(name):
        return True
    if not (isinstance(mine, int | float) and isinstance(theirs, int | float)):
        return False
    return mine <= theirs if name.startswith("min") else mine >= theirs


def _fewer_constraints(problem: AnyProblem, other: AnyProblem) -> bool:
    """Every constraint of the problem is asked of the other one too, at least as strictly."""
    if _most_devices(problem.constraints) < _most_devices(other.constraints) or not _more_memory(problem, other):
        return False
    asked = [each for each in other.constraints if not means(each, MaxDevices, MemoryCap)]
    return all(each in asked for each in problem.constraints if not means(each, MaxDevices, MemoryCap))


def _most_devices(constraints: tuple[Constraint, ...]) -> float:
    return min((each.count for each in constraints if means(each, MaxDevices)), default=np.inf)


def _more_memory(problem: Any, other: Any) -> bool:
    """Every device may hold at least as much, side constraints included."""
    mine, theirs = getattr(problem, "memory_limits", {}), getattr(other, "memory_limits", {})
    if isinstance(problem, Slicing) and problem.dimension == "rule":
        return bool(mine == theirs)  # the rule chooses dimensions by the memory there is, so more may be worse
    return mine.keys() == theirs.keys() and all(
        limit is None or (theirs[name] is not None and limit >= theirs[name]) for name, limit in mine.items()
    )


def _better_cluster(problem: Any, other: Any) -> bool:
    """The same devices with at least as much memory, and links that are nowhere slower."""
    if _described(problem.cluster) != _described(other.cluster) or not _more_memory(problem, other):
        return False
    (rate, delay), (their_rate, their_delay) = _links(problem), _links(other)
    return bool(np.all(np.asarray(rate) >= their_rate) and np.all(np.asarray(delay) <= their_delay))


def _described(cluster: Cluster) -> tuple[object, ...]:
    """Devices but for their memory, and how links are described."""
    devices = [each.model_copy(update={"memory_bytes": None}) for each in cluster.devices]
    return devices, *(links is None for links in (cluster.bandwidth, cluster.rates, cluster.shared))


def _links(problem: Any) -> tuple[Any, Any]:
    if isinstance(problem, Slicing):
        return problem.rates, problem.latencies
    return problem.cluster.effective_bandwidth, problem.cluster.effective_latency


@dataclass(slots=True, eq=False)
class Case:
    """A problem among several, its name in sentences, what was found, and the cases that ask less and more."""

    problem: AnyProblem
    name: str
    result: Result[Any]
    looser: list[Case] = field(default_factory=list)
    tighter: list[Case] = field(default_factory=list)

    @property
    def objective(self) -> int | float:
        """The objective of the best plan; infinite without one."""
        return np.inf if self.result.objective is None else self.result.objective

    def learn(self) -> None:
        """Take over the best plan, bound or proof of infeasibility that other cases imply.

        Bounds and proofs come from cases that ask less. Plans come from cases that ask more, or less if the referee
        accepts them here. A bound that contradicts a verified plan is dropped, because one of the two solves was wrong.
        """
        result, changes = self.result, dict[str, Any]()
        better, near = (
            [case for case in cases if case.objective < self.objective] for cases in (self.tighter, self.looser)
        )
        better.sort(key=lambda case: case.objective)
        near.sort(key=lambda case: -case.objective)
        objective, timeline = result.objective, result.timeline
        for case in (*better[:1], *near[:1]):
            judged = self.problem.evaluate(case.result.solution)
            if judged.feasible and judged.objective is not None and (objective is None or judged.objective < objective):
                objective, timeline = judged.objective, judged.timeline
                changes = {"objective": objective, "solution": case.result.solution, "verified": True, "violations": ()}
        bounds = [(result.bound, result.bound_source)]
        for case in self.looser:
            method = case.result.bound_source or case.result.solver
            bounds.append((case.result.bound, f"{method}, at {case.name}"))
        known = [(bound, source) for bound, source in bounds if bound is not None and may_hold(bound, objective)]
        bound, source = max(known, key=lambda pair: pair[0], default=(None, None))
        status, reason = result.status, result.reason
        refuted = next((case for case in self.looser if case.result.status is Status.INFEASIBLE), None)
        if objective is not None:
            bound = None if bound is None else min(bound, objective)  # they differ only by rounding
            status = Status.OPTIMAL if bound is not None and agree(bound, objective) else Status.FEASIBLE
            reason = reason if result.solution is not None else None
        elif status is Status.INFEASIBLE or refuted is not None:
            if refuted is not None and status is not Status.INFEASIBLE:
                reason = f"there is no plan at {refuted.name}, which asks less: {refuted.result.reason or 'proved'}"
            status, bound, source = Status.INFEASIBLE, None, None
        if (objective, bound, status) != (result.objective, result.bound, result.status):
            changes |= {"bound": bound, "bound_source": source, "status": status, "reason": reason}
            self.result = rebuilt(result, **changes).of_problem(self.problem).with_timeline(timeline)


@dataclass(slots=True)
class Series:
    """Problems that are solved one after the other and learn from each other.

    Attributes
    ----------
    solver, arguments
        Who solves, and further arguments of ``solve``.
    cases
        The problems so far.
    """

    solver: str
    arguments: Mapping[str, Any]
    cases: list[Case] = field(default_factory=list)

    def add(self, problem: AnyProblem, name: str) -> Case:
        """Add a problem and compare it with the others."""
        nothing: Result[Any] = Result(
            problem=problem.kind,
            status=Status.UNKNOWN,
            termination=Termination.COMPLETED,
            solver=self.solver,
            seed=self.arguments["seed"],
            assumptions=problem.assumptions(),
        )
        case = Case(problem, name, nothing.of_problem(problem))
        for other in self.cases:
            for loose, tight in ((case, other), (other, case)):
                if relaxes(loose.problem, tight.problem):
                    loose.tighter.append(tight)
                    tight.looser.append(loose)
        self.cases.append(case)
        return case

    def solve(self, case: Case, time_limit: float | None) -> Result[Any]:
        """Solve a case from the best known plan that fits, unless what is known of others settles it."""
        case.learn()
        if case.result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            takes = Feature.START in find_solver(case.problem, self.solver).features
            start = case.result.solution if takes else None
            case.result = solve(case.problem, solver=self.solver, time_limit=time_limit, start=start, **self.arguments)
            case.learn()
        return case.result
