"""A problem that asks less has no worse an optimum: so say hand-made pairs, and brute force on odd ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.questions.changes import changed, rebuilt
from opweave.solvers.questions.relaxation import relaxes
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.slicing import best_slicing
from tests.strategies.batched_mapping import batched_mappings
from tests.strategies.pipeline import pipelines
from tests.strategies.slicing import slicings
from tests.strategies.specs import memory_orderings, placements
from tests.tiny import PROBLEMS

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
    return changed(problem, {"memory": value})


def test_more_of_everything_asks_less():
    for axis, less, more in (("memory", 8, 9), ("memory", 9, None), ("bandwidth", "1x", "2x"), ("latency", 0.2, 0.1)):
        loose, tight = changed(PLACEMENT, {axis: more}), changed(PLACEMENT, {axis: less})
        assert relaxes(loose, tight), axis
        assert not relaxes(tight, loose), axis
    pipeline = PROBLEMS["pipeline"]
    for axis, less, more in (("stages", 1, 2), ("stages", 2, None), ("compression", 1.0, 2.0), ("min_stages", 2, 1)):
        assert relaxes(changed(pipeline, {axis: more}), changed(pipeline, {axis: less})), axis
        assert not relaxes(changed(pipeline, {axis: less}), changed(pipeline, {axis: more})), axis


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
    assert not relaxes(changed(batch, {"batch": 1}), batch)  # a batch of 1 may not be a size that a device supports
    assert not relaxes(PLACEMENT, rebuilt(PLACEMENT, memory="parameters"))
    assert not relaxes(PLACEMENT, PROBLEMS["pipeline"])
    assert relaxes(PLACEMENT, PLACEMENT)
    mixed = changed(memory(PLACEMENT, 100), {"bandwidth": "0.5x"})
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

GENERATED = {
    "placement": (placements(3, 2), best_placement),
    "pipeline": (pipelines(), best_pipeline),
    "slicing": (slicings(), best_slicing),
    "batched_mapping": (batched_mappings(), best_batched_mapping),
    "memory_ordering": (memory_orderings(), best_ordering_by_states),
}


@pytest.mark.parametrize("kind", GENERATED)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_brute_force_finds_no_worse_an_optimum_for_what_asks_less(kind, data):
    instances, optimum = GENERATED[kind]
    problem = data.draw(instances)
    changes = data.draw(st.lists(CHANGES, min_size=1, max_size=3))
    first, second = problem, problem
    try:
        for axis, value in changes + [("limit", 7), ("limit", 10)] * (kind == "memory_ordering"):
            if kind != "memory_ordering" or axis == "limit":
                first, second = second, changed(second, {axis: value})
    except ValueError:
        return
    for loose, tight in ((first, second), (second, first), (problem, second)):
        if relaxes(loose, tight):
            best, other = optimum(loose)[0], optimum(tight)[0]
            assert other is None or (best is not None and best <= other * (1 + 1e-9))
