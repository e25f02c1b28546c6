"""A problem that asks less has no worse an optimum: so say hand-made pairs, and brute force on odd ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.questions.fields import rebuilt, varied
from opweave.solvers.questions.relaxation import plan_for, relaxes
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.slicing import best_slicing
from tests.strategies.batched_mapping import batched_mappings
from tests.strategies.pipeline import pipelines
from tests.strategies.slicing import slicings
from tests.strategies.specs import memory_orderings, placements
from tests.tiny import GRAPH, PROBLEMS

PLACEMENT = PROBLEMS["placement"]
SLICING = PROBLEMS["slicing"]


class Roomy(ow.Constraint):
    """A rule whose meaning depends on the devices' memory."""

    def violations(self, problem, solution):
        if max(problem.memory_by_device(solution).values()) < problem.cluster.devices[0].memory_bytes / 2:
            yield self.broken("half of the memory must be used")


class Odd(ow.Placement):
    """A problem of a user's own, which may mean anything by its fields."""


def memory(problem, value):
    return varied(problem, "memory", value)


def test_more_of_everything_asks_less():
    for axis, less, more in (("memory", 8, 9), ("memory", 9, None), ("bandwidth", "1x", "2x"), ("latency", 0.2, 0.1)):
        loose, tight = varied(PLACEMENT, axis, more), varied(PLACEMENT, axis, less)
        assert relaxes(loose, tight), axis
        assert not relaxes(tight, loose), axis
    pipeline = PROBLEMS["pipeline"]
    for axis, less, more in (("stages", 1, 2), ("stages", 2, None), ("compression", 1.0, 2.0), ("min_stages", 2, 1)):
        assert relaxes(varied(pipeline, axis, more), varied(pipeline, axis, less)), axis
        assert not relaxes(varied(pipeline, axis, less), varied(pipeline, axis, more)), axis


def test_fewer_rules_ask_less():
    pin, cap, two = ow.Pin(op="a", device="d"), ow.MemoryCap(device="d", bytes=9), ow.MaxDevices(count=2)
    for rules, fewer in (([pin, cap], [pin]), ([cap], []), ([two], []), ([ow.MaxDevices(count=1)], [two])):
        tight, loose = (rebuilt(PLACEMENT, constraints=each) for each in (rules, fewer))
        assert relaxes(loose, tight)
        assert not relaxes(tight, loose)
    capped = rebuilt(PLACEMENT, constraints=[ow.MemoryCap(device=name, bytes=9) for name in "de"])
    assert relaxes(memory(PLACEMENT, 9), capped)  # a cap asks what a memory of that size asks
    assert relaxes(capped, memory(PLACEMENT, 9))


def test_what_is_not_known_is_not_claimed():
    batch = PROBLEMS["batched_mapping"]
    assert not relaxes(varied(batch, "batch", 1), batch)  # a batch of 1 may not be a size that a device supports
    assert not relaxes(PLACEMENT, rebuilt(PLACEMENT, memory="parameters"))
    assert not relaxes(PLACEMENT, PROBLEMS["pipeline"])
    assert relaxes(PLACEMENT, PLACEMENT)
    mixed = varied(memory(PLACEMENT, 100), "bandwidth", "0.5x")
    assert not relaxes(mixed, PLACEMENT)
    assert not relaxes(PLACEMENT, mixed)


def test_a_rule_of_the_users_own_may_depend_on_the_memory():
    own = rebuilt(PLACEMENT, constraints=[Roomy()])
    assert not relaxes(memory(own, 100), own)
    assert relaxes(own, rebuilt(own, constraints=[Roomy(), ow.Pin(op="a", device="d")]))


def test_a_problem_of_the_users_own_may_mean_anything():
    own = Odd(**{name: getattr(PLACEMENT, name) for name in ow.Placement.model_fields})
    assert relaxes(own, rebuilt(own))
    assert not relaxes(memory(own, 100), own)


def test_the_rule_for_dimensions_depends_on_the_memory():
    assert relaxes(memory(SLICING, 100), SLICING)
    ruled = rebuilt(SLICING, dimension="rule")
    assert not relaxes(memory(ruled, 100), ruled)


CHANGES = st.sampled_from(
    [("memory", 4), ("memory", 9), ("memory", 20), ("memory", None), ("bandwidth", "0.5x"), ("bandwidth", "3x"),
     ("latency", "2x"), ("devices", 1), ("devices", 2)]
)  # fmt: skip


def check(problem, changes, optimum):
    """Brute force finds no worse an optimum for whichever asks less."""
    first, second = problem, problem
    try:
        for axis, value in changes:
            first, second = second, varied(second, axis, value)
    except ValueError:
        return
    for loose, tight in ((first, second), (second, first), (problem, second)):
        if relaxes(loose, tight):
            best, other = optimum(loose)[0], optimum(tight)[0]
            assert other is None or (best is not None and best <= other * (1 + 1e-9))


few = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
LISTS = st.lists(CHANGES, min_size=1, max_size=3)


@few
@given(placements(3, 2), LISTS)
def test_placement(problem, changes):
    check(problem, changes, best_placement)


@few
@given(pipelines(), LISTS)
def test_pipeline(problem, changes):
    check(problem, [*changes, ("stages", 2)], best_pipeline)


@settings(few, max_examples=10)
@given(slicings(), LISTS)
def test_slicing(problem, changes):
    check(problem, [each for each in changes if each[0] != "devices"], best_slicing)


@settings(few, max_examples=10)
@given(batched_mappings(), LISTS)
def test_batched_mapping(problem, changes):
    check(problem, changes, best_batched_mapping)


@few
@given(memory_orderings(), st.integers(1, 30))
def test_memory_ordering(problem, limit):
    check(problem, [("limit_bytes", limit), ("limit_bytes", limit + 3)], best_ordering_by_states)


@pytest.mark.parametrize("kind", ["placement", "batched_mapping"])
def test_a_plan_is_timed_anew_for_other_links(kind):
    problem = PROBLEMS[kind]
    slow = varied(problem, "bandwidth", "0.1x")
    plan = ow.solve(problem, time_limit=10).solution
    found = plan_for(slow, problem, plan)
    assert found is not None
    assert found[1].feasible
    back = plan_for(problem, slow, found[0])
    assert back is not None
    assert back[1].objective == pytest.approx(problem.evaluate(plan).objective)


def test_a_plan_that_does_not_fit_is_none():
    problem = ow.MemoryOrdering(graph=GRAPH)
    plan = ow.solve(problem).solution
    assert plan_for(rebuilt(problem, limit_bytes=3), problem, plan) is None
    assert plan_for(PLACEMENT, problem, plan) is None
