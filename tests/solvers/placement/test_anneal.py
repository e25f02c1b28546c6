"""Both ways of annealing: what they return is a plan of that length that fits."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.annealing import NEARBY, anneal
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.moves import DRAWS, counted_plan
from opweave.solvers.placement.plans import fits, plan_of
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem


def best_of(problem: Placement, device: IntArray, heat: float) -> float:
    """The best length that 400 moves meet, with everything about it checked."""
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    order = topological_order(instance.after).astype(np.int64)
    plan = counted_plan(arrays, order, device, instance.cluster)
    best_order, best_device = order.copy(), device.copy()
    draws = np.random.default_rng(0).random((400, DRAWS))
    shares = np.geomspace(heat, heat / 100, len(draws))
    best, current = anneal(arrays, plan, draws, shares, best_order, best_device)
    assert best <= current
    assert plan_of(arrays, best_order, best_device).makespan == pytest.approx(best)
    assert plan_of(arrays, plan.order, plan.device).makespan == pytest.approx(current, rel=1e-9)
    assert fits(arrays, best_device)
    position = np.argsort(best_order)
    assert all(position[u] < position[v] for v in range(len(order)) for u in instance.before[v].tolist())
    again = counted_plan(arrays, plan.order, plan.device, instance.cluster)
    assert (again.room.used == plan.room.used).all()
    assert (again.room.holders == plan.room.holders).all()
    return float(best)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_plan_has_the_length_that_is_claimed(seed: int) -> None:
    problem = small_problem(seed)
    seconds = lower(problem).seconds
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert best_of(problem, seconds.argmin(axis=1).astype(np.int64), 1.0) >= optimum - 1e-9


@pytest.mark.parametrize("transfers", ["delay", "one_port_edge", "one_port_tensor"])
def test_large_plans_are_timed_block_by_block(transfers: str) -> None:
    problem = layered_problem(40, 5, transfers=transfers)
    seconds = lower(problem).seconds
    assert len(seconds) > 2 * NEARBY
    fastest = int(seconds.sum(axis=0).argmin())
    assert best_of(problem, np.full(len(seconds), fastest), 1.0) < seconds[:, fastest].sum()


@pytest.mark.parametrize("solver", ["local", "auto"])
@pytest.mark.parametrize("time_limit", [None, 5.0])
def test_nothing_to_place_takes_no_time(solver: str, time_limit: float | None) -> None:
    nothing = Placement(
        graph=ow.OpGraph(tensors=[], operators=[]),
        cluster=ow.Cluster(devices=[ow.Device(name="a")]),
        costs=ow.Costs(operators=(), devices=("a",), table=()),
    )
    result = ow.solve(nothing, solver=solver, time_limit=time_limit)
    assert (result.status, result.objective, result.bound_source) == (ow.Status.OPTIMAL, 0.0, "trivial")
    assert result.termination is ow.results.Termination.COMPLETED


@pytest.mark.parametrize("pairs", [1, 3])
def test_operators_change_places_where_memory_is_full(pairs: int) -> None:
    """Every operator begins on its slow device, and no device has room for one more."""
    names = [f"{kind}{index}" for index in range(pairs) for kind in "ab"]
    problem = ow.Placement(
        graph=ow.OpGraph(
            operators=[ow.Operator(id=name, outputs=[f"{name}.out"]) for name in names],
            tensors=[ow.Tensor(id=f"{name}.out", bytes=1) for name in names],
        ),
        cluster=ow.Cluster(devices=[ow.Device(name=name, memory_bytes=pairs) for name in "ab"], shared=1.0),
        costs=ow.Costs.from_table({name: {"a": 1.0 + (name[0] == "b"), "b": 1.0 + (name[0] == "a")} for name in names}),
    )
    slow = np.asarray([1, 0] * pairs, dtype=np.int64)
    assert best_of(problem, slow, 0.1) == pairs


@pytest.mark.parametrize("seed", range(12))
def test_exchanges_keep_ties_and_memory(seed: int) -> None:
    """Tied operators move together or not at all, whatever a move overfills."""
    problem = small_problem(seed, most_operators=8, memory=True)
    first, second, *_ = (op.id for op in problem.graph.operators)
    problem = problem.model_copy(update={"constraints": (ow.Colocate(ops=(first, second)),)})
    optimum, plan = best_placement(problem)
    if optimum is None:
        return
    instance = lower(problem)
    assert plan is not None
    device = np.asarray([instance.devices.index(plan.device[name]) for name in instance.names], dtype=np.int64)
    assert best_of(problem, device, 1.0) >= optimum - 1e-9


def test_a_start_over_a_missing_link_is_no_reason_to_overfill() -> None:
    """Nothing is longer than a plan that never ends, but a plan that does not fit is none."""
    names = ("p", "q", "r")
    problem = ow.Placement(
        graph=ow.OpGraph(
            operators=[
                ow.Operator(id=name, inputs=["p.out"] if name == "q" else [], outputs=[f"{name}.out"]) for name in names
            ],
            tensors=[ow.Tensor(id=f"{name}.out", bytes=4) for name in names],
        ),
        cluster=ow.Cluster(
            devices=[ow.Device(name="a", memory_bytes=4), ow.Device(name="b", memory_bytes=8)],
            bandwidth=[[0, 0], [1.0, 0]],
        ),
        costs=ow.Costs.from_table({name: {"a": 1.0, "b": 2.0} for name in names}),
    )
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    device, order = np.asarray([0, 1, 1], dtype=np.int64), np.arange(3)
    assert plan_of(arrays, order, device).makespan == np.inf
    for seed in range(20):
        plan = counted_plan(arrays, order, device, instance.cluster)
        best_order, best_device = order.copy(), device.copy()
        draws = np.random.default_rng(seed).random((50, DRAWS))
        anneal(arrays, plan, draws, np.full(50, 0.1), best_order, best_device)
        assert fits(arrays, best_device)
        assert fits(arrays, plan.device)
