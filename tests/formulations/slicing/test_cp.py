"""Cuts for CP-SAT: what brute force says, side constraints, and no claim where the order is open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from opweave.formulations.slicing.cp import TICKS, CutCounts
from opweave.formulations.slicing.instance import lower
from opweave.problems.errors import InfeasibleError
from tests.oracles.slicing import best_slicing
from tests.problems.slicing.test_spec import chain
from tests.strategies.slicing import planned_slicings, slicings

pytest.importorskip("ortools")

QUICK = {"head_start": False, "workers": 1}


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(slicings(2, 2))
def test_the_engine_agrees_with_brute_force(problem: ow.Slicing) -> None:
    assume(problem.channel == "dedicated" and problem.transfers == "refined")
    optimum, _ = best_slicing(problem)
    result = ow.solve(problem, solver="cp-sat", options=QUICK, time_limit=30)
    if result.objective is not None:
        assert optimum is not None
        assert result.objective >= optimum * (1 - 1e-6)
    if result.bound is not None and optimum is not None:
        assert result.bound <= optimum * (1 + 1e-6)
    if result.status is ow.Status.INFEASIBLE:
        assert optimum is None


@given(planned_slicings(max_operators=3, max_devices=2))
def test_a_plan_is_read_back_as_it_was_hinted(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    problem = problem.model_copy(update={"channel": "dedicated", "transfers": "refined", "order": plan.order})
    formulation = CutCounts()
    try:
        model = formulation.build(problem)
    except InfeasibleError:
        return
    values = formulation.start(model, plan)
    for column in np.flatnonzero(np.isfinite(values)):
        assert model.low[column] <= values[column] <= model.high[column]
    assert formulation.extract(model, np.nan_to_num(values)).slices == plan.slices
    assert model.goal == len(model) - 1
    assert formulation.objective_bound(problem, TICKS) == pytest.approx(model.written.unit)


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
def test_memory_and_an_open_order_are_no_reason_to_refuse(solver: str) -> None:
    graph = ow.OpGraph(
        tensors=[
            ow.Tensor(id=name, bytes=3 * rows, shape=[1, 1, rows, 1])
            for name, rows in zip("xpq", (2, 4, 3), strict=True)
        ],
        operators=[ow.Operator(id=name, inputs=["x"], outputs=[name], workspace_bytes=6) for name in "pq"],
        outputs=["p"],
    )
    devices = [ow.Device(name="d0", memory_bytes=38), ow.Device(name="d1", memory_bytes=38)]
    problem = ow.Slicing(
        graph=graph,
        cluster=ow.Cluster(devices=devices, rates=[1.0, 3.0]),
        costs=ow.Costs.from_table({name: {"d0": 1.0, "d1": 2.0} for name in "pq"}),
        input_device="d0",
    )
    assert lower(problem).order_matters(problem)
    roomy = problem.model_copy(
        update={
            "cluster": ow.Cluster(
                devices=[d.model_copy(update={"memory_bytes": 39}) for d in devices], rates=[1.0, 3.0]
            )
        }
    )
    assert not lower(roomy).order_matters(roomy)  # everything fits at once
    result = ow.solve(problem, solver=solver, time_limit=30)
    assert result.objective == pytest.approx(best_slicing(problem)[0])
    assert "cut_" not in (result.bound_source or "")  # another order might do better


def test_side_constraints_hold() -> None:
    problem = chain()
    name = problem.graph.operators[0].id
    for constraint in (ow.MaxDevices(count=1), ow.Colocate(ops=[op.id for op in problem.graph.operators[:2]])):
        limited = problem.model_copy(update={"constraints": (constraint,)})
        found = [ow.solve(limited, solver=solver, time_limit=30) for solver in ("cp-sat", "highs")]
        assert found[0].status is found[1].status is ow.Status.OPTIMAL
        assert found[0].objective == pytest.approx(found[1].objective)

    def extend(model, _problem) -> None:
        CutCounts().add_row(model, model.on(name, problem.cluster.devices[0].name) <= 0)

    kept = ow.solve(problem, solver="cp-sat", extend=extend, time_limit=30)
    assert problem.cluster.devices[0].name not in kept.solution.devices_by_operator()[name]
