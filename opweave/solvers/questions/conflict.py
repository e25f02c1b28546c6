"""Why a problem has no solution: requirements that cannot hold together, and the smallest changes that repair it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, PrivateAttr

from opweave.problems.errors import InvalidInputError, checked_call
from opweave.problems.problem import Problem
from opweave.problems.shown import Shown, find_view
from opweave.problems.solution import AnySolution, Solution
from opweave.problems.spec import Count, Many, Number, Spec, preset
from opweave.problems.words import counted
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.questions.changes import changed
from opweave.solvers.questions.feasibility import Feasibility, Known
from opweave.solvers.questions.requirements import Requirement, inputs_of, requirements_of
from opweave.solvers.run import Observer

AnyProblem = Problem[Any, Any]

SHOWN_REPAIRS = 4
"""Most repairs in an explanation."""

STAGE_SECONDS = 30.0
"""Most seconds for the repairs of one requirement when there is no time limit."""

MOST = 2**53
"""No amount is larger."""


class Proof(Spec):
    """What was proved about a problem with some of its requirements.

    Attributes
    ----------
    requirements
        Names of those in force.
    infeasible
        Whether they cannot hold together; otherwise a plan obeys them all.
    proof
        How it was proved.
    """

    requirements: Many[str]
    infeasible: bool
    proof: str


class Repair(Spec):
    """A single change of the problem that gives it a plan.

    Attributes
    ----------
    requirement
        Name of the requirement that is relaxed.
    words
        The change, such as ``"288 MiB more on 'phone'"``.
    cost
        The share by which an amount grows; 1 for a change without an amount.
    amount
        How much more; None for a change without an amount.
    at_least
        Amounts below this are proved not to be enough. If it equals ``amount``, the repair is the smallest possible.
    plan
        A solution of the changed problem that the referee accepts.
    """

    requirement: str
    words: str
    cost: Number
    amount: Count | None = None
    at_least: Count | None = None
    plan: AnySolution
    _problem: AnyProblem | None = PrivateAttr(default=None)

    @property
    def problem(self) -> AnyProblem | None:
        """The changed problem; None after reading from JSON or a pickle, which do not contain it."""
        return self._problem

    @property
    def least(self) -> bool:
        """Whether less is proved not to be enough; also true of changes without an amount."""
        return self.amount == self.at_least


class Conflict(Shown, Spec):
    """Why a problem has no solution.

    Attributes
    ----------
    problem
        The problem's kind.
    status
        ``"conflict"``: the requirements of ``items`` cannot hold together. ``"feasible"``: the problem has a plan.
        ``"unknown"``: neither was proved in time.
    items
        Requirements that cannot hold together; none if nothing that can be left out helps.
    irreducible
        Whether each of them is proved to be needed: without it, the others have a plan.
    proofs
        That the items cannot hold together, then for each item that the others can, where it was proved.
    witnesses
        For each item, a plan that obeys all other items; None where none was found.
    repairs
        Single changes that give the whole problem a plan, cheapest first; none if several changes are needed.
    plan
        A plan of a feasible problem.
    reason
        What is known, in one sentence.
    """

    schema_version: Literal[1] = 1
    problem: str
    status: Literal["conflict", "feasible", "unknown"]
    items: Many[Requirement] = preset(())
    irreducible: bool = False
    proofs: Many[Proof] = preset(())
    witnesses: Many[AnySolution | None] = preset(())
    repairs: Annotated[Many[Repair], Field(validation_alias=AliasChoices("repairs", "mends"))] = preset(())
    plan: AnySolution | None = None
    reason: str = ""

    def __str__(self) -> str:
        return self.explain()

    @property
    def headline(self) -> str:
        """What was found, in one line."""
        return f"{self.status}: {', '.join(item.name for item in self.items) or self.reason}"

    def explain(self) -> str:
        """Say in a few sentences what cannot hold together, the proof, and which changes would help."""
        return "\n".join(self._told()) if self.status == "conflict" else self.reason

    def _told(self) -> Iterator[str]:
        if not self.items:
            yield "There is no plan, even without the side constraints and limits that can be left out."
            yield f"Proof: {self.reason}."
            return
        kind = "Irreducible infeasible set (IIS)" if self.irreducible else "Infeasible set"
        yield f"{kind} of {counted(len(self.items), 'requirement')}:"
        yield from (f"  - {item.name}" for item in self.items)
        yield f"Proof: {self.reason}."
        lacking = sum(plan is None for plan in self.witnesses)
        if lacking:
            yield f"For {lacking} of them it is not proved that the others have a plan."
        elif len(self.items) > 1:
            yield "Each of them is needed: without it, the others have a plan."
        words = [repair.words + ("" if repair.least else " (perhaps less)") for repair in self.repairs[:SHOWN_REPAIRS]]
        if words:
            yield f"Changes that would help: {', or '.join(words)}."
        else:
            yield "No single change was found that would help; there may be further conflicts."


@checked_call
def conflict(
    problem: AnyProblem,
    *,
    time_limit: float | None = None,
    solver: str = "auto",
    seed: int = 0,
    progress: Observer | bool | None = None,
) -> Conflict:
    """Compute an irreducible infeasible set (IIS) of requirements, and the smallest changes that would help.

    The requirements are the side constraints, the memory of the devices, and fields that only restrict plans (such as
    ``limit_bytes``, ``max_stages`` or ``cuts``). Requirements are dropped until each of the rest is needed for the
    infeasibility. Infeasibility is proved by bounds and exact solvers, feasibility by a plan that the referee accepts.

    Parameters
    ----------
    problem
        Any problem.
    time_limit
        Seconds for everything; None for at most 10 seconds for each step, and 30 for the repairs of each
        requirement.
    solver
        The solver that decides whether there is a plan; with "auto", times are ignored at first.
    seed
        Seed of everything random.
    progress
        Called with a ``Progress`` whose ``stage`` names the step; True shows it on the terminal.

    Returns
    -------
    Conflict
        ``items``, ``proofs``, ``witnesses`` and ``repairs``; a plan if the problem has one. If there was no time for
        a proof, ``status`` is ``"unknown"`` or ``irreducible`` is False.

    Raises
    ------
    InvalidInputError
        For an argument of the wrong type or out of range.
    UnknownSolverError, SolverNotAvailableError, UnsupportedFeatureError, UnsupportedConstraintError
        When the solver does not support the problem.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[], parameters=[ow.Parameter(id="w", bytes=9)], operators=[ow.Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = ow.Cluster(devices=[ow.Device(name="a", memory_bytes=5), ow.Device(name="b")], shared=1e9)
    >>> costs = ow.Costs.from_table({"p": {"a": 1.0, "b": 2.0}})
    >>> pinned = [ow.Pin(op="p", device="a")]
    >>> found = conflict(ow.Placement(graph=graph, cluster=cluster, costs=costs, constraints=pinned))
    >>> [item.name for item in found.items]
    ["Pin('p', 'a')", "memory of 'a' (5 bytes)"]
    >>> [repair.words for repair in found.repairs]
    ["4 bytes more on 'a'", "without Pin('p', 'a')"]
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem is of type {type(problem).__name__}; it must be a problem")
    watch = find_view("solve", "progress") if progress is True else None
    if watch is not None:
        again = partial(conflict, problem, time_limit=time_limit, solver=solver, seed=seed)
        watched: Conflict = watch(problem, "conflict", lambda observer: again(progress=observer))
        return watched
    observer = None if isinstance(progress, bool) else progress
    end = time.perf_counter() + (checked_time_limit(time_limit) or math.inf)
    asked = Feasibility(solver, checked_whole("seed", seed, 0), end, observer)
    whole = asked.ask(problem, "is there a plan?")
    if whole.plan is not None:
        return Conflict(problem=problem.kind, status="feasible", plan=whole.plan, reason="There is a plan.")
    if not whole.infeasible:
        reason = f"It is not known whether there is a plan: {whole.proof}."
        return Conflict(problem=problem.kind, status="unknown", reason=reason)
    return _Search(problem, whole, asked).conflict()


class _Search:
    """A deletion filter: requirements without which there is still no plan are left out, until each one left is needed.

    Sets are numbers of requirements. Halves are tried before single ones, the last first, so that what users wrote
    first is blamed first. A plan without a requirement that is kept obeys all that are kept in the end, so it is the
    witness that this one is needed.
    """

    def __init__(self, problem: AnyProblem, whole: Known, asked: Feasibility) -> None:
        self._problem, self._asked = problem, asked
        self._all = tuple(requirements_of(problem))
        self._kept, self._proof = set(range(len(self._all))), whole
        self._without: dict[int, Known] = {}

    def conflict(self) -> Conflict:
        """Reduce, and look for repairs."""
        if self._kept:
            self._leave_out(sorted(self._kept))
        items = tuple(self._all[number] for number in sorted(self._kept))
        answers = [self._without[number] for number in sorted(self._kept)]
        names = [item.name for item in items]
        proofs = [Proof(requirements=tuple(names), infeasible=True, proof=self._proof.proof)]
        for item, answer in zip(items, answers, strict=True):
            if answer.plan is not None:
                others = tuple(name for name in names if name != item.name)
                proofs.append(Proof(requirements=others, infeasible=False, proof=answer.proof))
        return Conflict(
            problem=self._problem.kind,
            status="conflict",
            items=items,
            irreducible=all(each.plan is not None for each in answers),
            proofs=tuple(proofs),
            witnesses=tuple(each.plan for each in answers),
            repairs=self._repairs((*items, *inputs_of(self._problem))),
            reason=self._proof.proof,
        )

    def _leave_out(self, some: list[int]) -> None:
        """Leave some requirements out if the others cannot hold together; else those of each half."""
        rest = self._kept.difference(some)
        dropped = {item.axis: item.free for number, item in enumerate(self._all) if number not in rest}
        answer = self._ask(dropped, f"can {counted(len(rest), 'requirement')} hold together?")
        if answer.infeasible:
            self._kept, self._proof = rest, answer
        elif len(some) == 1:
            self._without[some[0]] = answer
        else:
            self._leave_out(some[len(some) // 2 :])
            self._leave_out(some[: len(some) // 2])

    def _ask(self, changes: Mapping[str, object], about: str) -> Known:
        problem = self._with(changes)
        return Known(proof="the changed problem is not valid") if problem is None else self._asked.ask(problem, about)

    def _with(self, changes: Mapping[str, object]) -> AnyProblem | None:
        """The changed problem; None if the changes make none."""
        try:
            return changed(self._problem, changes)
        except InvalidInputError:
            return None

    def _repairs(self, items: tuple[Requirement, ...]) -> tuple[Repair, ...]:
        """Single changes, cheapest first; each must relax one of the items."""
        found: list[Repair] = []
        end = self._asked.end
        for number, item in enumerate(items):
            if self._asked.end == -math.inf:  # interrupted
                break
            now = time.perf_counter()
            seconds = STAGE_SECONDS if end == math.inf else (end - now) / (len(items) - number)
            self._asked.end = now + seconds
            found += self._repairs_of(item)
        return tuple(sorted(found, key=lambda repair: repair.cost))

    def _repairs_of(self, item: Requirement) -> Iterator[Repair]:
        """The least amount by which a requirement is to be relaxed, and its removal where that is another change."""
        plan = self._ask({item.axis: item.free}, f"is there a plan {item.without()}?").plan
        if plan is None:
            return
        if item.amount is not None:
            yield from self._least(item, plan)
        if item.amount is None or item.axis.startswith("constraint:"):
            yield self._repair(item, item.without(), item.free, plan, cost=1.0)

    def _least(self, item: Requirement, plan: Solution) -> Iterator[Repair]:
        """Relax by the least amount, by bisection between amounts proved too small and amounts with a plan.

        One less than the least known amount mostly settles the matter, so it is tried first, and after every other
        plan.
        """
        best, low, proved, edge = self._enough(item, plan, MOST), 0, 0, True
        while best is not None and best - low > 1 and self._asked.left() > 0:
            tried = best - 1 if edge else (low + best) // 2
            answer = self._ask({item.axis: item.after(tried)}, f"is {item.relaxed(tried)} enough?")
            if answer.plan is not None:
                best, plan = self._enough(item, answer.plan, tried) or tried, answer.plan
            elif answer.infeasible or not edge:
                low, proved = max(low, tried), max(proved, tried if answer.infeasible else 0)
            edge = answer.plan is not None and not edge
        if best is not None:
            at_least = proved + 1 if item.monotone(self._problem) else 1
            cost = best / max(1, item.amount or 0)
            words, value = item.relaxed(best), item.after(best)
            yield self._repair(item, words, value, plan, cost=cost, amount=best, at_least=at_least)

    def _enough(self, item: Requirement, plan: Solution, most: int) -> int | None:
        """An amount that is enough for a plan: what the referee says is missing, doubled until it accepts the plan."""
        if item.falls:
            most = min(most, (item.amount or 0) - 1)
        broken = self._problem.evaluate(plan).violations
        excess = max((math.ceil(each.excess or 0) for each in broken), default=0)
        more = min(max(1, excess), most)
        while not self._accepts(plan, {item.axis: item.after(more)}):
            if more >= most:
                return None
            more = min(2 * more, most)
        return more

    def _accepts(self, plan: Solution, changes: Mapping[str, int | str | None]) -> bool:
        """Whether a plan is feasible for the problem with changes."""
        problem = self._with(changes)
        return problem is not None and problem.evaluate(plan).feasible

    def _repair(self, item: Requirement, words: str, value: int | str | None, plan: Solution, **cost: Any) -> Repair:
        repair = Repair(requirement=item.name, words=words, plan=plan, **cost)
        repair._problem = self._with({item.axis: value})
        return repair
