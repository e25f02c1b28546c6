"""Simpler constraints imply the rule that they stand for."""

from __future__ import annotations

from itertools import islice, permutations, product

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.expressions import NARROWED, expression
from opweave.solvers.narrowing.narrower import ranked_assignments, seconds_left
from tests.solvers.narrowing.instances import placement_with_rules, with_rules
from tests.tiny import CLUSTER, COSTS, GRAPH

BARE = ow.Placement(graph=GRAPH, cluster=CLUSTER, costs=COSTS)


def ways(problem: ow.Problem, rule: ow.Constraint) -> list[tuple[ow.Constraint, ...]]:
    write = expression(type(rule), NARROWED)
    assert write is not None
    return list(islice(write(problem, rule), 50))


def test_the_ways_of_the_smallest_example() -> None:
    """b takes 3 s on d and 1 s on e; a takes 1 s and 2 s."""
    apart = ways(BARE, ow.Separate(ops=["a", "b"]))
    assert [[(pin.op, pin.device) for pin in way] for way in apart] == [
        [("a", "d"), ("b", "e")],
        [("a", "e"), ("b", "d")],
    ]
    together = ways(BARE, ow.Colocate(ops=["a", "b"]))
    assert [{pin.device for pin in way} for way in together] == [{"e"}, {"d"}]
    assert {frozenset(each.device for each in way) for way in ways(BARE, ow.MaxDevices(count=1))} == {
        frozenset({"d"}),
        frozenset({"e"}),
    }
    assert ways(BARE, ow.MaxDevices(count=2)) == [()]


def test_ways_respect_what_else_is_asked() -> None:
    problem = with_rules(BARE, [ow.Pin(op="a", device="e")])
    assert [[(pin.op, pin.device) for pin in way] for way in ways(problem, ow.Separate(ops=["a", "b"]))] == [
        [("a", "e"), ("b", "d")]
    ]
    assert [{each.device for each in way} for way in ways(problem, ow.MaxDevices(count=1))] == [{"d"}]
    assert ways(BARE, ow.Separate(ops=["a", "b", "c"])) == []


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_whoever_obeys_a_way_obeys_the_rule(seed: int) -> None:
    problem = placement_with_rules(seed)
    names, devices = [op.id for op in problem.graph.operators], [device.name for device in problem.cluster.devices]
    others = [each for each in problem.constraints if isinstance(each, ow.Pin | ow.Precede)]
    try:
        seconds_left(with_rules(problem, others))
    except ow.InfeasibleError:
        return
    for rule in problem.constraints:
        if isinstance(rule, ow.Pin | ow.Precede):
            continue
        for way, chosen in product(ways(with_rules(problem, others), rule), product(devices, repeat=len(names))):
            plan = ow.Schedule(device=dict(zip(names, chosen, strict=True)), start=dict.fromkeys(names, 0.0))
            if not any(True for each in way for _ in each.violations(problem, plan)):
                assert list(rule.violations(problem, plan)) == []


@pytest.mark.parametrize("seed", range(8))
def test_assignments_come_once_each_and_by_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 4)), 4
    cost = rng.integers(0, 9, size=(rows, columns)).astype(float)
    cost[rng.random((rows, columns)) < 0.3] = np.inf
    sums = {
        chosen: sum(cost[row, column] for row, column in enumerate(chosen))
        for chosen in permutations(range(columns), rows)
    }
    expected = sorted(value for value in sums.values() if np.isfinite(value))
    found = [tuple(chosen.tolist()) for chosen in ranked_assignments(cost)]
    assert len(set(found)) == len(found)
    assert [sums[chosen] for chosen in found] == expected
