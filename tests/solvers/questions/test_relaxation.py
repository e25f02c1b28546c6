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
from tests.tiny import PROBLEMS, under

PLACEMENT, PIPELINE = PROBLEMS["placement"], PROBLEMS["pipeline"]


class Roomy(ow.Constraint):
    """A rule whose meaning depends on the devices' memory."""

    def violations(self, problem, solution):
        if max(problem.memory_by_device(solution).values()) < problem.cluster.devices[0].memory_bytes / 2:
            yield self.broken("half of the memory must be used")


class Odd(ow.Placement):
    """A problem of a user's own, which may mean anything by its fields."""


PIN, CAP, TWO = ow.Pin(op="a", device="d"), ow.MemoryCap(device="d", bytes=9), ow.MaxDevices(count=2)
LOOSER = {
    **{
        f"{axis} {more}": (changed(problem, {axis: more}), changed(problem, {axis: less}))
        for problem, axis, less, more in (
            (PLACEMENT, "memory", 8, 9),
            (PLACEMENT, "memory", 9, None),
            (PLACEMENT, "bandwidth", "1x", "2x"),
            (PLACEMENT, "latency", 0.2, 0.1),
            (PIPELINE, "stages", 1, 2),
            (PIPELINE, "stages", 2, None),
            (PIPELINE, "compression", 1.0, 2.0),
            (PIPELINE, "min_stages", 2, 1),
        )
    },
    "fewer rules": (under(PLACEMENT, PIN), under(PLACEMENT, PIN, CAP)),
    "no cap": (PLACEMENT, under(PLACEMENT, CAP)),
    "any devices": (PLACEMENT, under(PLACEMENT, TWO)),
    "two devices": (under(PLACEMENT, TWO), under(PLACEMENT, ow.MaxDevices(count=1))),
    "a rule of one's own stays": (under(PLACEMENT, Roomy()), under(PLACEMENT, Roomy(), PIN)),
    "dimensions are free": (changed(PROBLEMS["slicing"], {"memory": 100}), PROBLEMS["slicing"]),
}
OWN = Odd(**{name: getattr(PLACEMENT, name) for name in ow.Placement.model_fields})
RULE = rebuilt(PROBLEMS["slicing"], dimension="rule")
UNKNOWN = {
    "a batch of 1 may not be supported": (
        changed(PROBLEMS["batched_mapping"], {"batch": 1}),
        PROBLEMS["batched_mapping"],
    ),
    "another memory model": (PLACEMENT, rebuilt(PLACEMENT, memory="parameters")),
    "another problem": (PLACEMENT, PIPELINE),
    "more memory, slower links": (PLACEMENT, changed(PLACEMENT, {"memory": 100, "bandwidth": "0.5x"})),
    "a rule of one's own": (changed(under(PLACEMENT, Roomy()), {"memory": 100}), under(PLACEMENT, Roomy())),
    "a problem of one's own": (changed(OWN, {"memory": 100}), OWN),
    "the rule for dimensions": (changed(RULE, {"memory": 100}), RULE),
}


@pytest.mark.parametrize("case", [*LOOSER, *UNKNOWN])
def test_by_hand(case):
    loose, tight = {**LOOSER, **UNKNOWN}[case]
    assert relaxes(loose, tight) == (case in LOOSER)
    assert not relaxes(tight, loose)
    assert relaxes(loose, rebuilt(loose))


def test_a_cap_asks_what_a_memory_of_that_size_asks():
    capped = under(PLACEMENT, *(ow.MemoryCap(device=name, bytes=9) for name in "de"))
    assert relaxes(changed(PLACEMENT, {"memory": 9}), capped)
    assert relaxes(capped, changed(PLACEMENT, {"memory": 9}))


VALUES = {"memory": [4, 9, 20, None], "bandwidth": ["0.5x", "3x"], "latency": ["2x"], "devices": [1, 2]}
CHANGES = st.sampled_from([(axis, value) for axis, values in VALUES.items() for value in values])
GENERATED = {
    "placement": (placements(3, 2), best_placement),
    "pipeline": (pipelines(), best_pipeline),
    "slicing": (slicings(), best_slicing),
    "batched_mapping": (batched_mappings(), best_batched_mapping),
    "memory_ordering": (memory_orderings(), best_ordering_by_states),
}


@pytest.mark.parametrize("kind", GENERATED)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_brute_force_finds_no_worse_an_optimum_for_what_asks_less(kind, data):
    instances, optimum = GENERATED[kind]
    problem = data.draw(instances)
    changes = st.tuples(st.just("limit"), st.integers(1, 30)) if kind == "memory_ordering" else CHANGES
    first, second = problem, problem
    try:
        for axis, value in data.draw(st.lists(changes, min_size=1, max_size=3)):
            first, second = second, changed(second, {axis: value})
    except ValueError:
        return
    for loose, tight in ((first, second), (second, first), (problem, second)):
        if relaxes(loose, tight):
            best, other = optimum(loose)[0], optimum(tight)[0]
            assert other is None or (best is not None and best <= other * (1 + 1e-9))
