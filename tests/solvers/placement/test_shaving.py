"""Heads, tails and devices within a length: every plan as short as the length has to stay possible."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.backbone import core_of
from opweave.solvers.placement.bounds.conditional import add_trials
from opweave.solvers.placement.bounds.critical_path import longest, operator_order, reach_of
from opweave.solvers.placement.bounds.shaving import Space, shaved_space
from opweave.solvers.placement.bounds.windows import cut_vertices
from opweave.solvers.placement.module_intervals import hint_of, net_intervals, shortest_alone
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import Plan, plan_of
from tests.solvers.placement.instances import layered_problem, small_problem

SCALES = (1.0, 1e-9, 1e7)


def _net(problem: Placement) -> PlacementArrays:
    return arrays_of(lower(problem), problem)


def _never() -> bool:
    return False


def _plans(arrays: PlacementArrays, seed: int) -> list[Plan]:
    """The shortest plan, where a short search finds it, and one with random devices."""
    rng, order = np.random.default_rng(seed), operator_order(arrays)
    device = np.asarray([rng.choice(np.flatnonzero(np.isfinite(row))) for row in arrays.seconds], dtype=np.int64)
    found = search_module(arrays, 1.001 * shortest_alone(arrays), 0.0, 20_000)
    plans = [plan_of(arrays, order, device), *([found.plan()] if found.device[0] >= 0 else [])]
    return [plan for plan in plans if 0.0 < plan.makespan < np.inf]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_stays_within_its_own_length(seed: int) -> None:
    arrays = _net(small_problem(seed, most_operators=9, scale=SCALES[seed % 7 % 3]))
    every = np.arange(len(arrays.seconds))
    for plan in _plans(arrays, seed):
        slack, device = 1e-9 * plan.makespan, plan.device
        left = plan.makespan - plan.start - arrays.seconds[every, device]
        space = Space.of(arrays, plan.makespan)
        assert space is not None
        for _ in range(3):
            assert (space.reach.heads[every, device] <= plan.start + slack).all()
            assert (space.reach.tails[every, device] <= left + slack).all()
            assert space.shave(_never)
            for trial in space.trials:
                if trial.device == device[trial.operator]:
                    assert (trial.reach.heads[every, device] <= plan.start + slack).all()
                    assert (trial.reach.tails[every, device] <= left + slack).all()


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_trials_allow_every_plan_of_the_length(seed: int) -> None:
    arrays = _net(small_problem(seed, most_operators=9, scale=SCALES[seed % 7 % 3]))
    for plan in _plans(arrays, seed):
        length = plan.makespan * (1.0 + 1e-9)
        space = shaved_space(arrays, length, None, _never)
        assert space is not None
        within = arrays._replace(seconds=np.where(space.possible(), arrays.seconds, np.inf))
        model = net_intervals(within, length, 0.0, space.reach)
        assert model is not None
        add_trials(model, space.trials)
        assert model.broken(hint_of(model, arrays, plan)) is None


def _gathering(transfers: str) -> PlacementArrays:
    """Four operators on devices of their own send four seconds each to a fifth, which one device alone can run."""
    names = [f"part{i}" for i in range(4)]
    devices = [f"d{k}" for k in range(5)]
    graph = OpGraph(
        operators=[
            *(Operator(id=name, inputs=[], outputs=[f"{name}.out"], parameters=[]) for name in names),
            Operator(id="sum", inputs=[f"{name}.out" for name in names], outputs=["y"], parameters=[]),
        ],
        tensors=[Tensor(id="y", bytes=1), *(Tensor(id=f"{name}.out", bytes=4) for name in names)],
    )
    costs = {name: {devices[i]: 1.0} for i, name in enumerate([*names, "sum"])}
    cluster = Cluster(devices=[Device(name=name) for name in devices], bandwidth=[[1.0] * 5] * 5)
    return _net(
        Placement(graph=graph, cluster=cluster, costs=Costs.from_table(costs), transfers=transfers)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("transfers", "length"), [("delay", 6.0), ("one_port_edge", 18.0), ("one_port_tensor", 18.0)])
def test_what_enters_a_device_passes_its_port_one_after_the_other(transfers: str, length: float) -> None:
    arrays = _gathering(transfers)
    assert longest(arrays, reach_of(arrays)) == pytest.approx(length, rel=1e-3)


@pytest.mark.parametrize(("seed", "share"), [(161, 0.3), (193, 0.5), (217, 0.9), (226, 0.9)])
def test_shaving_refutes_what_heads_and_tails_leave_open_and_nothing_else(seed: int, share: float) -> None:
    arrays = _net(small_problem(seed, most_operators=12))
    optimum = search_module(arrays, 1.001 * shortest_alone(arrays), 0.0, 20_000)
    known = longest(arrays, reach_of(arrays))
    length = known + share * (optimum.makespan - known)
    assert optimum.proved
    assert shaved_space(arrays, optimum.makespan, None, _never) is not None
    assert Space.of(arrays, length) is not None
    assert shaved_space(arrays, length, None, _never) is None


def test_shaving_sees_work_that_does_not_fit() -> None:
    """Six equal branches leave every single operator room on both devices."""
    arrays = _net(layered_problem(1, 6, transfers="delay"))
    optimum = search_module(arrays, 1.001 * shortest_alone(arrays), 0.0, 100_000)
    assert optimum.proved
    assert Space.of(arrays, 0.7 * optimum.makespan) is not None
    assert shaved_space(arrays, 0.7 * optimum.makespan, None, _never) is None


def test_strays_do_not_hide_the_cut_vertices_of_the_core() -> None:
    chain = [Operator(id="o0", inputs=[], outputs=["t0"], parameters=[])]
    chain += [
        Operator(
            id=f"o{i}", inputs=[f"t{i - 1}", *([f"s{i}.out"] if i % 3 == 0 else [])], outputs=[f"t{i}"], parameters=[]
        )
        for i in range(1, 12)
    ]
    strays = [Operator(id=f"s{i}", inputs=[], outputs=[f"s{i}.out"], parameters=[]) for i in range(12)]
    graph = OpGraph(
        operators=[*strays, *chain],
        tensors=[Tensor(id=op.outputs[0], bytes=1) for op in (*strays, *chain)],
    )
    costs = {op.id: {"a": 4.0 if op.id.startswith("o") else 1.0, "b": 5.0} for op in graph.operators}
    cluster = Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[1.0, 1.0], [1.0, 1.0]])
    arrays = _net(Placement(graph=graph, cluster=cluster, costs=Costs.from_table(costs)))
    core = core_of(arrays)
    assert len(core.seconds) == 12
    assert len(cut_vertices(arrays, operator_order(arrays))) == 0
    assert len(cut_vertices(core, operator_order(core))) == 12
