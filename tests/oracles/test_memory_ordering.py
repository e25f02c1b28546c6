"""The oracles themselves: one example by hand, and each against the other."""

from __future__ import annotations

from hypothesis import given, settings

from opweave.problems.constraints import Precede
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from tests.oracles.memory_ordering import best_ordering, best_ordering_by_states
from tests.strategies.specs import memory_orderings
from tests.tiny import graph_of


def test_by_hand():
    """Two branches from x (1 byte) to a sum: each grows (6 and 4 bytes) before it shrinks (1 byte)."""
    sizes = {"x": 1, "a": 6, "a2": 1, "b": 4, "b2": 1, "y": 1}
    steps = {"a": "x", "a2": "a", "b": "x", "b2": "a2 b", "y": "b2"}
    # a first: x + a = 7, then x + a + a2 = 8; b first: 1 + 4 = 5, then b stays, and a costs x + b + a = 11.
    problem = MemoryOrdering(graph_of(sizes, steps, "y"))
    expected = 8, ("a", "a2", "b", "b2", "y")
    assert best_ordering(problem) == best_ordering_by_states(problem) == expected


@settings(max_examples=40)
@given(problem=memory_orderings(max_operators=5))
def test_the_oracles_agree(problem):
    plain, _ = best_ordering(problem)
    fast, order = best_ordering_by_states(problem)
    assert plain == fast
    if order is not None:
        judged = problem.evaluate(Ordering(order=order))
        assert judged.feasible
        assert judged.objective == fast


@settings(max_examples=30)
@given(problem=memory_orderings(max_operators=4, contradictory=True))
def test_contradictory_constraints_leave_nothing(problem):
    if any(isinstance(constraint, Precede) for constraint in problem.constraints):
        assert best_ordering(problem) == best_ordering_by_states(problem) == (None, None)


@settings(max_examples=30)
@given(problem=memory_orderings(limits=False))
def test_consistent_constraints_leave_something(problem):
    assert best_ordering_by_states(problem)[0] is not None
