"""Small random problems with side constraints about devices, which brute force can settle."""

from __future__ import annotations

import numpy as np

import opweave as ow
from tests.solvers.placement.instances import small_problem

MOST_RULES = 2


def with_rules(bare: ow.Problem, constraints: list[ow.Constraint]) -> ow.Problem:
    """The problem under these side constraints, checked like any that a user builds."""
    fields = {name: getattr(bare, name) for name in type(bare).model_fields}
    return type(bare)(**{**fields, "constraints": constraints})


def random_rules(problem: ow.Problem, seed: int) -> list[ow.Constraint]:
    """One or two rules among Separate, Colocate and MaxDevices, and sometimes a Pin or a Precede."""
    rng = np.random.default_rng(seed)
    names = [op.id for op in problem.graph.operators]
    devices = [device.name for device in problem.cluster.devices]

    def some(most: int) -> list[str]:
        count = int(rng.integers(2, max(2, min(most, len(names))) + 1))
        return [names[i] for i in rng.permutation(len(names))[:count]]

    rules: list[ow.Constraint] = []
    for _ in range(int(rng.integers(1, MOST_RULES + 1))):
        kind = int(rng.integers(3))
        if kind == 0:
            rules.append(ow.Separate(ops=some(max(2, len(devices)))))
        elif kind == 1:
            rules.append(ow.Colocate(ops=some(3)))
        else:
            rules.append(ow.MaxDevices(count=int(rng.integers(1, len(devices) + 1))))
    if rng.random() < 0.3:
        rules.append(ow.Pin(op=names[0], device=devices[0]))
    if rng.random() < 0.3:
        before, after = sorted(some(2)[:2])  # names rise along the data flow
        rules.append(ow.Precede(before=before, after=after))
    return rules


def placement_with_rules(seed: int) -> ow.Placement:
    """A placement of at most 4 operators on at most 3 devices."""
    bare = small_problem(seed, most_operators=4, memory=seed % 4 == 0)
    return with_rules(bare, random_rules(bare, seed))


def batched_with_rules(seed: int) -> ow.BatchedMapping:
    """At most 3 operators on 2 devices, with a batch of 2."""
    bare = small_problem(seed, most_operators=3)
    names = [device.name for device in bare.cluster.devices][:2]
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in names], shared=1.0)
    rng = np.random.default_rng(seed)
    costs = {
        op.id: {name: {1: float(rng.integers(1, 9)), 2: float(rng.integers(6, 14))} for name in names}
        for op in bare.graph.operators
    }
    problem = ow.BatchedMapping(graph=bare.graph, cluster=cluster, costs=ow.Costs.from_table(costs), batch=2)
    return with_rules(problem, random_rules(problem, seed))


def slicing_with_rules(seed: int) -> ow.Slicing:
    """At most 4 operators that stay whole, on at most 3 devices."""
    bare = small_problem(seed, most_operators=4)
    devices = [ow.Device(name=device.name) for device in bare.cluster.devices]
    problem = ow.Slicing(graph=bare.graph, cluster=ow.Cluster(devices=devices, shared=2.0), costs=bare.costs)
    return with_rules(problem, random_rules(problem, seed))
