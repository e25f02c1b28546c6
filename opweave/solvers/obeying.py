"""``auto`` with rules that the searches of a problem do not understand, and with rows of a user's own.

Every plan is judged: the referee asks the rules, and rows of ``extend`` are evaluated on the plan
(:mod:`opweave.formulations.modeling.on_plans`). What obeys counts. These workers share the time:

1. *lists*: all baselines, and everything on each device alone.
2. CP-SAT and HiGHS on the model with everything, from the best plan that obeys; they prove that no plan does.
3. *penalties*: a search over rows of genes (:mod:`opweave.solvers.evolution.encoding`). What a plan misses is added to
   its objective as a penalty that grows until plans obey.
4. *without the rules*: the problem's own portfolio on the problem without them. Its bounds hold, because rules can only
   make plans longer; its plans count where they obey.

Rows that cannot be read on plans, such as those of a function that uses Pyomo's components, leave the work to engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from opweave.formulations.modeling.on_plans import PlanRows, rows_on_plans
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.constraints import Constraint, MeasuresMemory, Pin, objections
from opweave.problems.errors import InfeasibleError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.solution import Evaluation, Solution
from opweave.solvers.lanes import Workers, work_in_lanes
from opweave.solvers.portfolio import work_off
from opweave.solvers.registry import Solver, load_solvers
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker, by_name

ENGINES = ("cp-sat", "highs")
"""Engines that work on the model with everything, where the problem has a formulation for them."""


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Says whether plans obey everything, and how far they are from it.

    Attributes
    ----------
    problem
        The problem with its rules.
    rows
        The rows of the user's function and of expressed rules.
    added
        Those of the user's function alone, of which the referee does not know.
    rules
        The rules that the problem's own workers do not understand.
    """

    problem: Problem[Any, Any]
    rules: tuple[Constraint, ...]
    rows: PlanRows
    added: PlanRows

    def obeys(self, solution: Solution) -> Evaluation[Any] | None:
        """The referee's judgement of a plan that meets all requirements and rows; None of another plan."""
        judged = self.problem.evaluate(solution)
        if not judged.feasible or judged.objective is None or self.added.excess(solution) > 0.0:
            return None
        return judged

    def report(self, run: Run, solution: Solution) -> bool:
        """Report a plan if it obeys; whether it is the best so far."""
        judged = self.obeys(solution)
        return judged is not None and judged.objective is not None and run.found(solution, judged.objective)

    def lifted(self, solution: Solution) -> Solution | None:
        """A plan of the problem without the rules, if it obeys them."""
        return solution if self.obeys(solution) is not None else None

    def penalty(self, solution: Solution) -> float:
        """How far a plan is from obeying: what rows are missed by, as shares of their sides, and every violation."""
        excess = [each.excess for rule in self.rules for each in objections(rule, self.problem, solution)]
        return self.rows.excess(solution) + sum(1.0 if size is None else size / (1.0 + size) for size in excess)


def solve_obeying(workers: Workers, rules: Sequence[Constraint], problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run the portfolio for a problem with rules that its own workers do not understand, or with rows of a user's.

    Raises
    ------
    OpweaveError
        What the first engine raised, if no engine can take the user's rows and there is no plan.
    """
    kept = tuple(each for each in problem.constraints if not any(each is rule for rule in rules))
    free = problem.under(kept, checked=False)
    try:
        added = rows_on_plans(problem, run.extend, ())
        rows = rows_on_plans(problem, run.extend, rules)
    except InfeasibleError:
        return Outcome(infeasible=True, reason="a constraint of extend holds for no plan")
    judge = None if rows is None or added is None else Judge(problem, tuple(rules), rows, added)
    if judge is not None and run.start is not None and run.extend is not None:
        if judge.obeys(run.start) is None:
            raise InvalidInputError("the start does not obey the model: it violates a constraint of extend")
        judge.report(run, run.start)
    made = partial(_workers, workers, free, judge)
    if run.extend is None and (run.threads > 1 or run.executor is not None):
        return work_in_lanes(problem, made, run)
    crew = made(problem, run)
    outcome = work_off(crew, run)
    engines = [each for each in crew if isinstance(each, Steps) and each.name in ENGINES]
    failed = [each.error for each in engines if each.error is not None]
    if run.extend is not None and run.best is None and not outcome.infeasible and len(failed) == len(engines):
        raise failed[0]
    said = [each.outcome.reason for each in engines if each.outcome is not None and each.outcome.reason]
    return replace(outcome, reason=outcome.reason or (said[0] if said and not run.closed() else None))


def _workers(
    workers: Workers, free: Problem[Any, Any], judge: Judge | None, problem: Problem[Any, Any], _run: Run
) -> list[Worker]:
    crew = by_name(problem, *ENGINES)  # early: only they see at once that constraints contradict each other
    if judge is not None:
        crew.insert(0, Steps("lists", partial(_lists, judge, free), problem))
        crew.append(Steps("penalties", partial(_penalties, judge, free), problem))
    return [*crew, Steps("without the rules", partial(_without_rules, workers, judge, free), problem)]


def _lists(judge: Judge, free: Problem[Any, Any], problem: Problem[Any, Any], run: Run) -> Outcome:
    """All baselines on the problem without the rules, and then with every device alone."""
    baselines = [each for each in load_solvers(problem.kind) if each.baseline and each.missing() is None]
    for solver in baselines:
        _try(solver, judge, free, run)
    devices = [each.name for each in problem.cluster.devices] if isinstance(problem, MeasuresMemory) else []
    for device in devices:
        pinned = [Pin(op=op.id, device=device) for op in problem.graph.operators]
        for solver in baselines[:1] if run.best is not None else baselines:
            if run.should_stop():
                return Outcome(run.termination())
            try:
                _try(solver, judge, free.under((*free.constraints, *pinned), checked=False), run)
            except ContradictionError:
                break
    return Outcome(run.termination())


def _try(solver: Solver, judge: Judge, problem: Problem[Any, Any], run: Run) -> None:
    """Let a baseline make its plan, and judge it."""
    part = run.child()
    try:
        if problem.mode in solver.modes and not solver.beyond(problem):
            solver.run(problem, part)
    except (InvalidInputError, UnsupportedFeatureError, InfeasibleError):
        return
    if part.best is not None:
        judge.report(run, part.best)


def _without_rules(
    workers: Workers, judge: Judge | None, free: Problem[Any, Any], _problem: Problem[Any, Any], run: Run
) -> Outcome:
    """The portfolio on the problem without the rules: its bounds hold, its plans count where they obey."""
    part = run.child(gap=run.gap, lift=None if judge is None else judge.lifted, exact=True)
    outcome = work_off(workers(free, part), part)
    return outcome if outcome.infeasible else Outcome(run.termination())


def _penalties(judge: Judge, free: Problem[Any, Any], _problem: Problem[Any, Any], run: Run) -> Outcome:
    """The search with penalties, where the problem has an encoding."""
    from opweave.solvers.evolution.penalties import search_with_penalties

    try:
        search_with_penalties(judge, free, run)
    except (InvalidInputError, ContradictionError) as error:
        return Outcome(run.termination(), reason=str(error))
    return Outcome(run.termination())
