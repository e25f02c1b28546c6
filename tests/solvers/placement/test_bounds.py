"""Every bound against brute force, and against itself under changes that must not matter."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.area import (
    Memory,
    best_area,
    energetic,
    memory_of,
    quick_area,
)
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.decompose import raise_windows, solve_decompose, solve_prices
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem
from tests.tiny import graph_of


def _net(problem: Placement) -> PlacementArrays:
    return arrays_of(lower(problem), problem)


def _all_bounds(problem: Placement) -> dict[str, float]:
    """Every bound by itself."""
    instance, run = lower(problem), Run()
    arrays = arrays_of(instance, problem)
    reach, best = reach_of(arrays), Best(run)
    path = longest(arrays, reach)
    chain = milestones_of(arrays)
    found = {
        "critical path": path,
        "energetic": energetic(arrays, reach, path),
        "area": best_area(arrays.seconds, np.zeros(len(instance.devices)), memory_of(instance)).value,
        "first": chain.value(),
    }
    raise_windows(chain, run, best.report)
    found["relaxed"] = chain.value()
    raise_windows(chain, run, best.report, exact=True)
    return found | {"searched": chain.value()}


def _priced(problem: Placement) -> float:
    """The bound with memory at its price; 0 for none."""
    run = Run()
    solve_prices(problem, run)
    return run.bound or 0.0


def test_two_operators_by_hand() -> None:
    problem = layered_problem(1, 2)
    # in (1), the two branches one after the other (3 + 3) or one sent away and back (1 + 4 + 1), join (1)
    run = Run()
    solve_decompose(problem, run)
    assert max(run.bound or 0.0, *_all_bounds(problem).values()) == pytest.approx(8.0, rel=1e-4)


@pytest.mark.parametrize("seed", range(150))
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    problem = small_problem(seed, memory=seed % 2 == 1)
    optimum, _ = best_placement(problem)
    for name, value in _all_bounds(problem).items():
        assert optimum is None or value <= optimum * (1 + 1e-9) + 1e-12, name


@pytest.mark.parametrize("seed", range(12))
def test_bounds_scale_with_the_times(seed: int) -> None:
    first, second = (_all_bounds(small_problem(seed, scale=scale)) for scale in (1.0, 1e-6))
    for name, value in first.items():
        assert second[name] == pytest.approx(value * 1e-6, rel=1e-4), name


@pytest.mark.parametrize("backwards", [0.0, 4.0])
def test_energetic_bounds_where_links_are_missing(backwards: float) -> None:
    """a runs on x or z, b on y; without a link from z to y nothing can run b, with one of 4 bytes/s it ends at 4 s."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="t", bytes=4)],
        operators=[ow.Operator(id="a", outputs=["t"]), ow.Operator(id="b", inputs=["t"]), ow.Operator(id="c")],
    )
    costs = {"a": {"x": 1.0, "z": 2.0}, "b": {"y": 1.0}, "c": {"x": 1.0, "y": 1.0, "z": 1.0}}
    devices = [ow.Device(name=name) for name in "xyz"]
    cluster = ow.Cluster(devices=devices, bandwidth=[[0.0] * 3, [0.0] * 3, [0.0, backwards, 0.0]])
    arrays = _net(ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(costs)))
    reach = reach_of(arrays)
    expected = 4.0 if backwards else np.inf
    for baseline in (0.0, longest(arrays, reach)):
        assert energetic(arrays, reach, baseline) == pytest.approx(expected)


def test_area_equals_the_linear_program() -> None:
    seconds = np.asarray([[2.0, 4.0], [3.0, 1.0], [5.0, 5.0]])
    assert best_area(seconds, np.zeros(2)).value == pytest.approx(4.0)
    assert quick_area(seconds, np.zeros(2)).value <= 4.0 + 1e-9


def test_area_pays_for_memory() -> None:
    seconds = np.asarray([[1.0, 10.0], [1.0, 10.0]])
    tight = Memory(np.asarray([6.0, 6.0]), np.asarray([6.0, np.inf]))
    assert best_area(seconds, np.zeros(2), tight).value >= 9.9
    assert best_area(seconds, np.zeros(2)).value < 2.0


def test_prices_see_memory_that_binds() -> None:
    without = max(_all_bounds(layered_problem(8, 2)).values())
    assert _priced(layered_problem(8, 2, room=24)) > 1.05 * without


def test_alike_branches_of_unlike_memory_are_charged_the_least() -> None:
    problem = layered_problem(1, 3)
    weights = {parameter.id: parameter.bytes for parameter in problem.graph.parameters}
    weights |= {"l0.h0.w": 9, "l0.h1.w": 0, "l0.h2.w": 0}
    parameters = [
        parameter.model_copy(update={"bytes": weights[parameter.id]}) for parameter in problem.graph.parameters
    ]
    graph = problem.graph.model_copy(update={"parameters": tuple(parameters)})
    fast = problem.cluster.devices[0].model_copy(update={"memory_bytes": 2})
    cluster = problem.cluster.model_copy(update={"devices": (fast, problem.cluster.devices[1])})
    tight = Placement(graph=graph, cluster=cluster, costs=problem.costs, memory="parameters")
    optimum, _ = best_placement(tight)
    assert optimum is not None
    assert max(_all_bounds(tight).values()) <= optimum * (1 + 1e-9)


def test_no_part_of_a_deep_model_stays_one_window() -> None:
    """1,500 layers that all read one mask, so that no operator but the first and last is on every path."""
    reads = {"mask": "", "l0": "mask"} | {f"l{k}": f"l{k - 1} mask" for k in range(1, 1_500)}
    graph = graph_of(dict.fromkeys(reads, 1), reads)
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1.0),
        costs=ow.Costs.from_table({operator.id: {"a": 1.0, "b": 1.0} for operator in graph.operators}),
    )
    modules = milestones_of(_net(problem)).modules
    assert max(len(block.window.inner) for each in modules for block in each.blocks) <= 100
