"""Why a problem has no solution: requirements that cannot hold together, and the smallest changes that mend it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

from pydantic import PrivateAttr

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.shown import Shown, find_view
from opweave.problems.solution import AnySolution
from opweave.problems.spec import SCHEMA_VERSION, Many, Spec
from opweave.problems.words import counted
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.inquiry import Answer, Inquiry
from opweave.solvers.questions.mend import Mend, mends_of
from opweave.solvers.questions.requirements import Requirement, inputs_of, requirements_of
from opweave.solvers.run import Observer

AnyProblemType = Problem[Any, Any]

SHOWN_MENDS = 4
"""Most mends in an explanation."""


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
    mends
        Single changes that give the whole problem a plan, cheapest first; none if several changes are needed.
    plan
        A plan of a feasible problem.
    reason
        What is known, in one sentence.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    problem: str
    status: Literal["conflict", "feasible", "unknown"]
    items: Many[Requirement] = ()
    irreducible: bool = False
    proofs: Many[Proof] = ()
    witnesses: Many[AnySolution | None] = ()
    mends: Many[Mend] = ()
    plan: AnySolution | None = None
    reason: str = ""
    _answers: AnyProblemType | None = PrivateAttr(default=None)

    @property
    def answers(self) -> AnyProblemType | None:
        """The problem that was asked about; None after reading from JSON or a pickle, which do not contain it."""
        return self._answers

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "__pydantic_private__": {"_answers": None}}

    def __str__(self) -> str:
        return self.explain()

    @property
    def headline(self) -> str:
        """What was found, in one line."""
        return f"{self.status}: {', '.join(item.name for item in self.items) or self.reason}"

    def explain(self) -> str:
        """Say in a few sentences what cannot hold together, how that is known, and what would mend it."""
        if self.status != "conflict":
            return self.reason
        return "\n".join([*self._told(), *self._mended()])

    def _told(self) -> Iterable[str]:
        if not self.items:
            yield "There is no plan, even without the side constraints and limits that can be left out."
        elif len(self.items) == 1:
            yield f"There is no plan because of {self.items[0].name}."
        else:
            yield f"These {len(self.items)} requirements cannot hold together:"
            yield from (f"  - {item.name}" for item in self.items)
        yield f"Proof: {self.reason}."
        if self.irreducible and len(self.items) > 1:
            yield "Each of them is needed: without it, the others have a plan."
        elif not self.irreducible and self.items:
            lacking = sum(plan is None for plan in self.witnesses)
            yield f"For {lacking} of them it is not proved that the others have a plan."

    def _mended(self) -> Iterable[str]:
        if self.mends:
            words = [mend.words + ("" if mend.least else " (perhaps less)") for mend in self.mends[:SHOWN_MENDS]]
            yield f"What would mend it: {', or '.join(words)}."
        elif self.items:
            yield "No single change was found that would mend it; there may be other conflicts beside this one."


def conflict(
    problem: AnyProblemType,
    *,
    time_limit: float | None = None,
    solver: str = "auto",
    seed: int = 0,
    progress: Observer | bool | None = None,
) -> Conflict:
    """Find out why a problem has no solution, and what would mend it.

    The requirements that are looked at are the side constraints, the memory of the devices, the limits and settings
    that only restrict solutions (such as ``limit_bytes``, ``max_stages`` or ``cuts``), and what the data lacks: times,
    links and batch sizes. Those that do not matter are left out, until each of the rest is needed. Every step is
    proved: that requirements cannot hold together by bounds and exact solvers, that they can by a plan that the referee
    accepts.

    Parameters
    ----------
    problem
        Any problem.
    time_limit
        Seconds for everything; None for at most 10 seconds for each question on the way, and 30 for the mends of
        each requirement.
    solver
        The solver that is asked whether there is a plan; with "auto", times are left aside first.
    seed
        Seed of everything random.
    progress
        Called with a ``Progress`` whose ``stage`` says what is asked; True shows it on the terminal.

    Returns
    -------
    Conflict
        ``items``, ``proofs``, ``witnesses`` and ``mends``; a plan if the problem has one. If the time was too short for
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
    >>> [mend.words for mend in found.mends]
    ["4 bytes more on 'a'", "without Pin('p', 'a')"]
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"problem is of type {type(problem).__name__}; it must be a problem, such as a Placement"
        )
    watch = find_view("solve", "progress") if progress is True else None
    if watch is not None:
        asked = partial(conflict, problem, time_limit=time_limit, solver=solver, seed=seed)
        watched: Conflict = watch(problem, "conflict", lambda observer: asked(progress=observer))
        return watched
    observer = None if isinstance(progress, bool) else progress
    inquiry = Inquiry(solver, checked_whole("seed", seed, 0), checked_time_limit(time_limit), observer)
    whole = inquiry.ask(problem, "is there a plan?")
    if whole.plan is not None:
        found = Conflict(problem=problem.kind, status="feasible", plan=whole.plan, reason="There is a plan.")
    elif not whole.infeasible:
        reason = f"It is not known whether there is a plan: {whole.proof}."
        found = Conflict(problem=problem.kind, status="unknown", reason=reason)
    else:
        found = _Search(problem, whole, inquiry).conflict()
    found._answers = problem
    return found


class _Search:
    """A deletion filter: requirements without which there is still no plan are left out, until each one left is needed.

    Sets are numbers of requirements. Halves are tried before single ones, the last first, so that what users wrote
    first is blamed first. A plan without a requirement that is kept obeys all that are kept in the end, so it is the
    witness that this one is needed.
    """

    def __init__(self, problem: AnyProblemType, whole: Answer, inquiry: Inquiry) -> None:
        self._problem, self._inquiry = problem, inquiry
        self._all = requirements_of(problem)
        self._kept, self._proof = set(range(len(self._all))), whole
        self._without: dict[int, Answer] = {}

    def conflict(self) -> Conflict:
        """Reduce, and look for mends."""
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
            mends=mends_of(self._problem, (*items, *inputs_of(self._problem)), self._inquiry),
            reason=self._proof.proof,
        )

    def _leave_out(self, some: list[int]) -> None:
        """Leave some requirements out if the others cannot hold together; else those of each half."""
        rest = self._kept.difference(some)
        draft = Draft(self._problem)
        for number, item in enumerate(self._all):
            if number not in rest:
                item.drop(draft)
        answer = self._inquiry.of(draft, f"can {counted(len(rest), 'requirement')} hold together?")[1]
        if answer.infeasible:
            self._kept, self._proof = rest, answer
        elif len(some) == 1:
            self._without[some[0]] = answer
        else:
            self._leave_out(some[len(some) // 2 :])
            self._leave_out(some[: len(some) // 2])
