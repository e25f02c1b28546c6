"""Bounds of batched mapping: never above the optimum, and what each of them is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.formulations.batched_mapping.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.solvers.batched_mapping.bounds.area import area
from opweave.solvers.batched_mapping.bounds.best import nothing_known
from opweave.solvers.batched_mapping.bounds.energetic import energetic
from opweave.solvers.batched_mapping.bounds.modules import lbound
from opweave.solvers.batched_mapping.bounds.reach import critical_path, reach_of
from opweave.solvers.batched_mapping.modules import modules_of
from opweave.solvers.batched_mapping.net import net_of
from tests.brute_force_batched_mapping import best_batched_mapping
from tests.strategies_batched_mapping import batched_mappings


def always() -> bool:
    return True


def all_bounds(problem: ow.BatchedMapping) -> dict[str, float]:
    instance = lower(problem)
    net = net_of(instance)
    reach = reach_of(instance, net)
    whole = area(instance.seconds, np.zeros(len(instance.devices)), instance.granules)
    path = critical_path(reach)
    return {
        "path": path,
        "area": whole.value,
        "energetic": energetic(instance, reach, whole.price, max(path, 0.0), always),
        "LBound 1": lbound(instance, modules_of(instance, 1, least=1), nothing_known, always),
        "LBound 2": lbound(instance, modules_of(instance, 2, least=1), nothing_known, always),
    }


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(batched_mappings(3, 2, 4, precedes=True))
def test_no_bound_exceeds_the_optimum(problem):
    optimum = best_batched_mapping(problem)[0]
    assume(optimum is not None)
    try:
        found = all_bounds(problem)
    except ContradictionError:
        pytest.fail("a problem with a solution was called contradictory")
    for name, value in found.items():
        assert value <= optimum * (1 + 1e-9) + 1e-12, name


def two_channels() -> ow.BatchedMapping:
    """The methods' counterexample: by the paper's batched LBound nothing ends before 41, but 31 is possible."""
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in {"s": 1000, "x1": 0, "x2": 0}.items()]
    graph = ow.OpGraph(
        tensors=tensors,
        operators=[
            ow.Operator(id="s", outputs=["s"]),
            ow.Operator(id="o1", inputs=["s"], outputs=["x1"]),
            ow.Operator(id="o2", inputs=["s"], outputs=["x2"]),
            ow.Operator(id="i1", inputs=["x1"]),
            ow.Operator(id="i2", inputs=["x2"]),
        ],
    )
    devices = ["u", "v", "w1", "w1b", "w2", "w2b"]
    both = {name: {1: 10.0} for name in ("u", "v")}
    table = {
        "s": {name: {1: 1.0} for name in ("u", "v")},
        "o1": both,
        "o2": both,
        "i1": {"w1": {1: 10.0}, "w1b": {1: 20.0}},
        "i2": {"w2": {1: 10.0}, "w2b": {1: 20.0}},
    }
    return ow.BatchedMapping(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in devices], bandwidth=[[1.0] * 6] * 6),
        costs=ow.Costs.from_table(table),
        batch=2,
    )


def test_the_batched_bound_is_repaired_for_two_channels():
    problem = two_channels()
    optimum = best_batched_mapping(problem)[0]
    assert optimum == pytest.approx(31.0)
    assert all(value <= optimum + 1e-9 for value in all_bounds(problem).values())


def test_module_bounds_add_up_over_one_channel():
    """One input through a chain of modules: at least as good as the best area of the whole."""
    problem = stacked(Stack(modules=3, nodes=5))
    found = all_bounds(problem)
    assert found["LBound 1"] >= found["area"] * (1 - 1e-9)


def test_area_cuts_batches_into_sizes_that_can_run():
    """Three granules in sizes 1 and 3: a device that is slow at 3 is not priced as if it could run 1.5."""
    seconds = np.array([[[0.0, 1.0, np.inf, 9.0], [0.0, 1.0, np.inf, 9.0]]])
    assert area(seconds, np.zeros(2), 3).value == pytest.approx(4.5, rel=1e-6)
    assert area(seconds, np.zeros(2), 2).value == pytest.approx(1.0, rel=1e-6)
