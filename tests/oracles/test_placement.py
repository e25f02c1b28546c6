"""The oracle of placement itself: by hand, against a plainer one, and by the referee."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given, settings

from opweave.problems.constraints import Constraint, Pin
from opweave.problems.costs import Costs
from tests.oracles.placement import allowed_assignments, as_schedule, best_placement, earliest_starts, tasks_of
from tests.problems.placement.test_spec import BY_HAND, TABLE, two
from tests.strategies.specs import placements


@pytest.mark.parametrize(
    ("transfers", "makespan"),
    # with q on a from 1 to 8 nothing of t needs to be sent twice: the paper's model then does as well as ours
    [("one_port_tensor", 10.5), ("one_port_edge", 10.5), ("delay", 9.0)],
)
def test_by_hand(transfers, makespan):
    assert best_placement(two(transfers=transfers))[0] == makespan


def test_by_hand_where_everything_is_forced():
    # t for p, u for p, then t for q: p 5-7, y 7-9.5, r 9.5-10.5, and q from 7.5 on is not in the way
    forced = two(transfers="one_port_edge", constraints=[Pin(op="q", device="b")])
    assert best_placement(forced)[0] == 10.5
    # with q of 4 seconds on b it pays to send t for q last and run p first
    slow = two(
        transfers="one_port_edge",
        constraints=[Pin(op="q", device="b")],
        costs=Costs.from_table({**TABLE, "q": {"b": 4.0}}),
    )
    assert best_placement(slow)[0] == 11.5


def test_the_examples_of_the_referee_are_no_better():
    for transfers, plan, makespan in BY_HAND:
        problem = two(transfers=transfers)
        assert best_placement(problem)[0] <= makespan == problem.evaluate(plan).objective


def plainest(problem):
    """Every assignment, every order, judged by the referee."""
    best = None
    names = [op.id for op in problem.graph.operators]
    for chosen in product([device.name for device in problem.cluster.devices], repeat=len(names)):
        device = dict(zip(names, chosen, strict=True))
        if any(device[name] not in problem.known_seconds[name] for name in names):
            continue
        tasks = tasks_of(problem, device)
        for ranks in permutations(range(len(tasks))) if tasks is not None else ():
            judged = problem.evaluate(as_schedule(tasks, device, earliest_starts(tasks, ranks)))
            if judged.feasible and (best is None or judged.objective < best):
                best = judged.objective
    return best


@settings(max_examples=30)
@given(problem=placements(max_operators=3, max_devices=2, precedes=True))
def test_the_oracles_agree(problem):
    best, _ = best_placement(problem)
    assert best == (plainest(problem) if best is None else pytest.approx(plainest(problem), rel=1e-9))


@settings(max_examples=40)
@given(problem=placements(max_operators=5, precedes=True))
def test_the_referee_accepts_what_the_oracle_finds(problem):
    best, plan = best_placement(problem)
    assert (best is None) == (plan is None) == (not any(tasks_of(problem, one) for one in allowed_assignments(problem)))
    if plan is not None:
        judged = problem.evaluate(plan)
        assert judged.violations == ()
        assert judged.objective == best


def test_a_constraint_that_the_oracle_does_not_know():
    class Odd(Constraint):
        def violations(self, problem, solution):
            return ()

    with pytest.raises(NotImplementedError, match="Odd"):
        best_placement(two(constraints=[Odd()]))
