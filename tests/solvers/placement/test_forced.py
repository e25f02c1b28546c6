"""Work that slow links force onto one device: no length that a plan has is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.forced import raise_by_forced_work
from opweave.solvers.placement.module_intervals import shortest_alone
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.solvers.placement.instances import small_problem

NO_PLAN = Schedule(device=FrozenDict({}), start=FrozenDict({}))


def _raised(arrays: PlacementArrays, known: float, length: float) -> float:
    """The bound after a search between a known one and a plan's length."""
    run = Run()
    run.found(NO_PLAN, length)
    run.proved(known, "known")
    raise_by_forced_work(arrays, Best(run))
    assert run.bound is not None
    return float(run.bound)


def _fork(branches: int, data: int) -> PlacementArrays:
    """Branches of one second each between two operators; ``data`` seconds to send what a branch reads or makes."""
    names = [f"b{i}" for i in range(branches)]
    graph = OpGraph(
        operators=[
            Operator(id="first", inputs=[], outputs=["x"], parameters=[]),
            *(Operator(id=name, inputs=["x"], outputs=[f"{name}.y"], parameters=[]) for name in names),
            Operator(id="last", inputs=[f"{name}.y" for name in names], outputs=["z"], parameters=[]),
        ],
        tensors=[Tensor(id=name, bytes=data) for name in ("x", "z", *(f"{name}.y" for name in names))],
    )
    costs = {name: {"a": 1.0, "b": 1.0} for name in ("first", *names, "last")}
    cluster = Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 1.0], [1.0, 0]])
    problem = Placement(graph=graph, cluster=cluster, costs=Costs.from_table(costs))
    return arrays_of(lower(problem), problem)


def test_branches_that_are_too_far_away_follow_one_another() -> None:
    """Sent away, a branch takes 1 + 4 + 1 + 4 + 1 seconds; five branches on one device take 7."""
    arrays = _fork(5, 4)
    assert _raised(arrays, 3.0, 7.0) == 7.0


def test_branches_that_may_leave_are_not_forced() -> None:
    """With 1 second for every message, two devices need less than ten seconds for eight branches."""
    arrays = _fork(8, 1)
    order = operator_order(arrays)
    device = np.asarray([0, 0, 0, 0, 0, 0, 1, 1, 1, 0], dtype=np.int64)
    shared = plan_of(arrays, order, device).makespan
    assert shared < 10.0
    assert _raised(arrays, 3.0, 10.0) <= shared


@pytest.mark.parametrize("seed", range(120))
def test_no_length_of_a_plan_is_refuted(seed: int) -> None:
    problem = small_problem(seed, most_operators=9, scale=(1.0, 1e-9, 1e7)[seed % 7 % 3])
    arrays = arrays_of(lower(problem), problem)
    slow = (1.0, 3.0, 10.0)[seed % 5 % 3]
    arrays = arrays._replace(per_byte=arrays.per_byte * slow)
    alone = shortest_alone(arrays)
    found = search_module(arrays, 1.001 * alone, 0.0, 200_000)
    if not found.proved or found.device[0] < 0 or not 0.0 < found.makespan < np.inf:
        return
    for length in (found.makespan, 1.3 * found.makespan, 3.0 * found.makespan):
        assert _raised(arrays, 0.01 * found.makespan, length) <= found.makespan * (1.0 + 1e-9)
