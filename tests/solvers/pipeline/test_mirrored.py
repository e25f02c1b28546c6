"""Training as inference: the smaller problem has the optimum of the full one, and is refused where it would not."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.mirrored import mirrored
from tests.oracles.pipeline import best_pipeline

EDGES = {"chain": [(0, 1), (1, 2)], "fork": [(0, 2), (1, 2)], "skip": [(0, 1), (1, 2), (0, 2)]}


def training(edges: list[tuple[int, int]], seed: int, **fields: object) -> Pipeline:
    """Three layers with backward passes on two or three unlike devices with a common memory."""
    rng = np.random.default_rng(seed)
    names, devices = range(3), "abc"[: 2 + seed % 2]
    sizes = {f"f{x}{z}": int(rng.integers(0, 6)) for x, z in edges} | {
        f"b{x}{z}": int(rng.integers(0, 6)) for x, z in edges
    }
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in sizes.items()]
    tensors += [ow.Tensor(id=f"kept{k}", bytes=int(rng.integers(0, 9))) for k in names]
    forward = [
        ow.Operator(
            id=f"f{k}",
            inputs=[f"f{x}{z}" for x, z in edges if z == k],
            outputs=[*(f"f{x}{z}" for x, z in edges if x == k), f"kept{k}"],
            parameters=[f"w{k}"],
        )
        for k in names
    ]
    backward = [
        ow.Operator(
            id=f"b{k}",
            inputs=[*(f"b{x}{z}" for x, z in edges if x == k), f"kept{k}"],
            outputs=[f"b{x}{z}" for x, z in edges if z == k],
        )
        for k in reversed(names)
    ]
    parameters = [ow.Parameter(id=f"w{k}", bytes=int(rng.integers(1, 9))) for k in names]
    graph = ow.OpGraph(tensors=tensors, operators=[*forward, *backward], parameters=parameters)
    given = {
        "graph": graph,
        "cluster": ow.Cluster(
            devices=[ow.Device(name=v, memory_bytes=int(rng.integers(8, 24))) for v in devices],
            rates=[float(rng.integers(1, 4)) for _ in devices],
        ),
        "costs": ow.Costs.from_table(
            {op.id: {v: float(rng.integers(1, 6)) for v in devices} for op in graph.operators}
        ),
        "constraints": tuple(ow.Colocate(ops=[f"f{k}", f"b{k}"]) for k in names),
        "cuts": "ideals",
        "delivery": "host",
        "load": "sum",
        "memory": "parameters",
        "max_visits": 2,
    }
    return Pipeline(**{**given, **fields})


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("seed", range(4))
def test_the_smaller_problem_has_the_same_optimum(edges: list[tuple[int, int]], seed: int) -> None:
    problem = training(edges, seed)
    smaller = mirrored(problem)
    assert smaller is not None
    optimum, plan = best_pipeline(smaller.problem)
    assert optimum == pytest.approx(best_pipeline(problem)[0])
    if plan is not None:
        judged = problem.evaluate(smaller.unfolded(problem, plan))
        assert (judged.violations, judged.objective) == ((), pytest.approx(optimum))


def test_auto_proves_training() -> None:
    result = ow.solve(training(EDGES["skip"], 3), time_limit=10.0)
    assert result.status is ow.Status.OPTIMAL


@pytest.mark.parametrize(
    "fields",
    [
        {"constraints": ()},
        {"load": "overlap"},
        {"max_visits": 3},
        {"memory": "additive"},
        {"constraints": tuple(ow.Colocate(ops=[f"f{k}", f"b{2 - k}"]) for k in range(3))},
    ],
)
def test_what_has_other_plans_is_refused(fields: dict[str, object]) -> None:
    assert mirrored(training(EDGES["chain"], 1, **fields)) is None
