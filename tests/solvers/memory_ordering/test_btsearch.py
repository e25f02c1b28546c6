from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.formulations.expressions import express
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.constraints import Constraint, Precede
from opweave.problems.graph import OpGraph, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Termination
from opweave.solvers.arguments import start_run
from opweave.solvers.memory_ordering.btsearch import solve_btsearch
from opweave.solvers.run import Outcome, Run
from tests.formulations.memory_ordering.nets import Net, net_problems
from tests.oracles.memory_ordering import all_orders, best_ordering, best_ordering_by_states
from tests.strategies.specs import memory_orderings
from tests.tiny import row_of


def solve(problem: MemoryOrdering, **fields: object) -> tuple[Run, Outcome]:
    run = Run(**fields)
    start_run(problem, run)
    return run, solve_btsearch(problem, run)


def check_optimal(problem: MemoryOrdering, optimum: int | None, **fields: object) -> Outcome:
    """The search ends with the optimum and its proof, or with a proof that there is none."""
    run, outcome = solve(problem, **fields)
    assert outcome.termination is Termination.COMPLETED
    if optimum is None:
        assert outcome.infeasible
        assert outcome.reason
        assert run.best is None
        return outcome
    assert (run.objective, run.bound) == (optimum, optimum)
    assert not outcome.infeasible
    judged = problem.evaluate(run.best)
    assert judged.feasible
    assert judged.objective == optimum
    return outcome


def two_branches(**fields: object) -> MemoryOrdering:
    """A large branch and a small one that should not be entered first."""
    net = Net(x=4)
    net.op("x", 6, "medium")
    net.op("x", 20, "large")
    net.op("large", 4, "small")
    net.op("medium small", 4, "join")
    return MemoryOrdering(graph=net.graph("join"), **fields)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("objective", "optimum"), [("peak", 28), ("total", 24 + 28 + 14 + 14)])
def test_two_branches(objective: str, optimum: int, plain: bool) -> None:
    problem = two_branches(objective=objective)
    run, _ = solve(problem, options={"plain": plain})
    assert run.best.order == ("large", "small", "medium", "join")
    check_optimal(problem, optimum, options={"plain": plain})


# Against brute force


@given(
    net_problems() | memory_orderings(6),
    st.sampled_from(["peak", "total"]),
    st.none() | st.integers(5, 40),
    st.booleans(),
)
@settings(max_examples=40)
def test_every_reading_of_networks_and_odd_graphs(
    problem: MemoryOrdering, objective: str, limit: int | None, plain: bool
) -> None:
    problem = problem.model_copy(update={"objective": objective, "limit_bytes": limit})
    check_optimal(problem, best_ordering_by_states(problem)[0], options={"plain": plain})


class NotLast(Constraint):
    """``op`` does not run last, and not in the ``forbidden`` step."""

    op: str
    forbidden: int

    def violations(self, problem, solution):
        step = solution.order.index(self.op)
        if step in (self.forbidden, len(solution.order) - 1):
            yield self.broken(f"{self.op} runs in step {step}")


@express(NotLast, "step_rule")
def _not_last(problem, constraint):
    last = len(problem.graph.operators) - 1
    return lambda done, op: op != constraint.op or len(done) not in (constraint.forbidden, last)


@given(memory_orderings(max_operators=6), st.data(), st.booleans())
def test_rules_of_ones_own(problem: MemoryOrdering, data: st.DataObject, plain: bool) -> None:
    names = [op.id for op in problem.graph.operators]
    rule = NotLast(op=data.draw(st.sampled_from(names)), forbidden=data.draw(st.integers(0, 3)))
    problem = problem.model_copy(update={"constraints": (*problem.constraints, rule)})
    check_optimal(problem, best_ordering(problem)[0], options={"plain": plain})


@given(memory_orderings(max_operators=6, limits=False, precedes=False), st.data())
def test_a_start_never_hides_the_optimum(problem: MemoryOrdering, data: st.DataObject) -> None:
    start = Ordering(order=data.draw(st.sampled_from(list(all_orders(problem.graph)))))
    check_optimal(problem, best_ordering(problem)[0], start=start)


# What stands in the way


def test_the_reason_names_the_limit() -> None:
    assert check_optimal(two_branches(limit_bytes=25), None).reason == "no order stays within the limit of 25 bytes"


def test_the_reason_names_the_inputs_when_they_are_too_large() -> None:
    outcome = check_optimal(two_branches(limit_bytes=3), None)
    assert outcome.reason.startswith("the graph inputs alone take 4 bytes before the first step")


def test_the_reason_names_the_constraints_when_they_leave_no_order() -> None:
    never = [NotLast(op="join", forbidden=0)]
    outcome = check_optimal(two_branches(constraints=never), None)
    assert outcome.reason == "the side constraints (not_last) leave no order"


def test_the_reason_names_the_cycle() -> None:
    problem = two_branches(constraints=[Precede(before="join", after="large")])
    with pytest.raises(ContradictionError, match="large"):
        check_optimal(problem, None)


# Stopping


def wide(branches: int, objective: str = "peak") -> MemoryOrdering:
    rng = random.Random(3)
    net = Net(x=4)
    ends = []
    for index in range(branches):
        source = "x"
        for step in range(4):
            source = net.op(source, rng.randint(1, 90), f"b{index}.{step}")
        ends.append(source)
    net.op(" ".join(ends), 1, "join")
    return MemoryOrdering(graph=net.graph("join"), objective=objective)


def test_a_callback_stops_the_search() -> None:
    run, outcome = solve(wide(12), callback=lambda progress: progress.objective is not None)
    assert outcome.termination is Termination.INTERRUPTED
    assert run.best is not None


def test_a_gap_stops_the_search() -> None:
    run, outcome = solve(wide(12), gap=0.9)
    assert outcome.termination is Termination.GAP_REACHED
    assert run.objective - run.bound <= 0.9 * run.objective


def test_the_budget_of_states_is_kept() -> None:
    run, outcome = solve(wide(12), options={"max_states": 100})
    assert outcome.termination is Termination.BUDGET
    assert run.best is not None
    assert run.objective > run.bound


def test_long_chains_are_no_trouble() -> None:
    check_optimal(MemoryOrdering(row_of(5_000)), 2, options={"plain": True})


def test_no_operators_at_all() -> None:
    graph = OpGraph(tensors=[Tensor(id="x", bytes=7)], operators=[], outputs=["x"])
    check_optimal(MemoryOrdering(graph=graph), 7)
    check_optimal(MemoryOrdering(graph=graph, objective="total"), 0)
