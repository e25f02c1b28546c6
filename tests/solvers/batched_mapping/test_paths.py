"""Times that must pass before and after every batch, against a plain longest path."""

from __future__ import annotations

import random

import pytest

import opweave as ow
from opweave.formulations.batched_mapping.instance import lower
from opweave.solvers.batched_mapping.bounds import paths_of

BATCH = 3


def random_problem(seed: int, devices: int) -> ow.BatchedMapping:
    """Up to nine operators in a random graph; more inputs take longer."""
    rng = random.Random(seed)
    count = rng.randint(1, 9)
    reads = [[f"t{v}" for v in range(w) if rng.random() < 0.4] for w in range(count)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{v}", bytes=rng.randint(0, 9)) for v in range(count)],
        operators=[ow.Operator(id=f"o{v}", inputs=reads[v], outputs=[f"t{v}"]) for v in range(count)],
    )
    names = [f"d{k}" for k in range(devices)]
    table = {
        f"o{v}": {name: dict(enumerate(sorted(rng.uniform(1.0, 9.0) for _ in range(BATCH)), 1)) for name in names}
        for v in range(count)
    }
    cluster = ow.Cluster(
        devices=[ow.Device(name=name) for name in names],
        bandwidth=[[0.0 if a == b else 1.0 for b in names] for a in names],
    )
    return ow.BatchedMapping(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), batch=BATCH)


@pytest.mark.parametrize("seed", range(12))
def test_on_one_device_it_is_the_longest_path(seed: int) -> None:
    problem = random_problem(seed, devices=1)
    instance = lower(problem)
    paths = paths_of(instance)
    seconds = {name: min(by_device["d0"].values()) for name, by_device in problem.known_seconds.items()}
    maker = {op.outputs[0]: op.id for op in problem.graph.operators}
    before: dict[str, float] = {}
    for op in problem.graph.operators:  # in a topological order
        before[op.id] = max((before[maker[t]] + seconds[maker[t]] for t in op.inputs), default=0.0)
    after = dict.fromkeys(before, 0.0)
    for op in reversed(problem.graph.operators):
        for t in op.inputs:
            after[maker[t]] = max(after[maker[t]], after[op.id] + seconds[op.id])
    for i, name in enumerate(instance.names):
        assert paths.heads[i, 0] == pytest.approx(before[name])
        assert paths.tails[i, 0] == pytest.approx(after[name])


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_starts_a_batch_before_what_it_says(seed: int) -> None:
    problem = random_problem(seed, devices=2)
    instance = lower(problem)
    paths = paths_of(instance)
    row = {name: i for i, name in enumerate(instance.names)}
    column = {name: u for u, name in enumerate(instance.devices)}
    for solver in ("greedy", "best_device", "local"):
        solution = ow.solve(problem, solver=solver, time_limit=1.0).solution
        assert solution is not None
        last = max(batch.end for batch in solution.batches)
        for batch in solution.batches:
            i, u = row[batch.operator], column[batch.device]
            assert batch.start >= paths.heads[i, u] * (1 - 1e-9)
            assert last - batch.end >= paths.tails[i, u] * (1 - 1e-9) - 1e-12
