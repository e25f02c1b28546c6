"""Operators outside the core of a network: they fill the times in which devices wait."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.backbone import core_network
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.cooling import cool_down
from opweave.solvers.placement.idle import Idle, around_core, idle_times
from opweave.solvers.placement.local import empty_search
from opweave.solvers.placement.plans import plan_of, schedule_of
from opweave.solvers.run import Run


def gated(layers: int, gate_seconds: float = 0.5, gate_bytes: int = 0, tied: bool = False) -> Placement:
    """Layers of two branches and a sum; a gate, which reads nothing, belongs to each left branch.

    Every layer's left branch is fast on ``a`` and its right branch on ``b``. ``tied`` puts gates beside right branches.
    """
    tensors, operators, table = [ow.Tensor(id="x", bytes=4)], [], {}

    def run(name: str, inputs: list[str], size: int, seconds: tuple[float, float]) -> str:
        tensors.append(ow.Tensor(id=name, bytes=size))
        operators.append(ow.Operator(id=name, inputs=inputs, outputs=[name]))
        table[name] = dict(zip(("a", "b"), seconds, strict=True))
        return name

    state = run("embed", ["x"], 4, (1.0, 1.0))
    for layer in range(layers):
        gate = run(f"gate{layer}", [], gate_bytes, (gate_seconds, gate_seconds))
        left = run(f"left{layer}", [state, gate], 4, (2.0, 9.0))
        right = run(f"right{layer}", [state], 4, (9.0, 2.0))
        state = run(f"sum{layer}", [left, right], 4, (1.0, 1.0))
    ties = [ow.Colocate(ops=[f"gate{layer}", f"right{layer}"]) for layer in range(layers)] if tied else []
    return Placement(
        graph=ow.OpGraph(tensors=tensors, operators=operators),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in ("a", "b")], shared=4.0),
        costs=ow.Costs.from_table(table),
        constraints=ties,
    )


def lowered(problem: Placement) -> tuple[PlacementInstance, PlacementArrays]:
    instance = lower(problem)
    return instance, arrays_of(instance, problem)


def test_an_operator_takes_the_last_idle_time_before_it_is_due() -> None:
    idle = Idle(begins=[0.0, 3.0], ends=[2.0, 5.0])
    assert idle.last_fit(1.0, 9.0) == (1, 4.0)
    assert idle.last_fit(1.0, 4.0) == (1, 3.0)
    assert idle.last_fit(1.0, 3.5) == (0, 1.0)
    assert idle.last_fit(3.0, 9.0) is None
    idle.take(1, 3.5, 1.0)
    assert (idle.begins, idle.ends) == ([0.0, 3.0, 4.5], [2.0, 3.5, 5.0])
    idle.take(0, 0.0, 2.0)
    assert (idle.begins, idle.ends) == ([3.0, 4.5], [3.5, 5.0])


def test_gates_with_little_work_and_nothing_to_send_are_not_of_the_core() -> None:
    core = core_network(*lowered(gated(8)))
    assert core is not None
    assert len(core.operators) == 25
    assert not any(name.startswith("gate") for name in core.instance.names)
    assert core_network(*lowered(gated(8, gate_seconds=9.0))) is None  # too much work to fit beside the core
    assert core_network(*lowered(gated(8, gate_bytes=4))) is None  # sending it matters
    assert core_network(*lowered(gated(0))) is None


def test_gates_fit_into_the_time_in_which_a_device_waits() -> None:
    instance, arrays = lowered(gated(4))
    core = core_network(instance, arrays)
    assert core is not None
    device = np.array([int(name.startswith("right")) for name in core.instance.names], dtype=np.int64)
    alone = plan_of(core.arrays, operator_order(core.arrays), device)
    waits = idle_times(core.arrays, alone.start, device, alone.makespan)
    assert sum(end - begin for begin, end in zip(waits[0].begins, waits[0].ends, strict=True)) == pytest.approx(
        alone.makespan - core.arrays.seconds[device == 0, 0].sum()
    )
    order, place = around_core(instance, arrays, core, alone.start, device)
    assert (place[core.operators] == device).all()
    gates = [v for v, name in enumerate(instance.names) if name.startswith("gate")]
    assert (place[gates[1:]] == 0).all()
    assert plan_of(arrays, order, place).makespan <= alone.makespan + 0.5  # only the first gate may be in the way


def test_gates_stay_with_the_operators_to_which_they_are_tied() -> None:
    problem = gated(4, tied=True)
    instance, arrays = lowered(problem)
    core = core_network(instance, arrays)
    assert core is not None
    device = np.array([int(name.startswith("right")) for name in core.instance.names], dtype=np.int64)
    alone = plan_of(core.arrays, operator_order(core.arrays), device)
    order, place = around_core(instance, arrays, core, alone.start, device)
    assert problem.evaluate(schedule_of(instance, arrays, order, place)).feasible


@pytest.mark.parametrize("tied", [False, True])
def test_a_cooling_around_the_core_gives_plans_of_the_whole(tied: bool) -> None:
    problem = gated(6, tied=tied)
    run = Run(time_limit=0.5)
    search = empty_search(problem, run)
    search.consider(operator_order(search.arrays), np.zeros(search.instance.operators, dtype=np.int64))
    first = search.makespan
    cool_down(search)
    assert run.objective is not None
    assert run.objective < first
    judged = problem.evaluate(run.best)
    assert judged.feasible
    assert judged.objective == pytest.approx(run.objective)
