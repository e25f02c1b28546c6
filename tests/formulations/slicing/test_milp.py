"""The program over cuts: exact on tiny instances, side constraints, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import opweave as ow
from opweave.formulations.slicing.instance import lower
from opweave.formulations.slicing.milp import Cuts
from opweave.problems.errors import InfeasibleError
from tests.oracles.slicing import best_slicing
from tests.problems.slicing.test_spec import chain
from tests.strategies.slicing import planned_slicings


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [(ow.MaxDevices(count=1), 16.0), (ow.Separate(ops=["p", "q"]), 24.0), (ow.Colocate(ops=["p", "q"]), 9.0)],
)
def test_side_constraints_that_only_the_program_knows(rule: ow.Constraint, seconds: float) -> None:
    result = ow.solve(chain(constraints=[rule]), time_limit=20)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(seconds)


def test_rows_of_one_s_own() -> None:
    result = ow.solve(chain(), solver="highs", extend=lambda model, _: model.add(model.on("p", "b") == 0))
    assert result.objective == pytest.approx(8 + 6)  # q: 6 rows on a; 2 rows on b, and the 3 that they need


def test_readings_that_the_program_does_not_know_are_refused() -> None:
    with pytest.raises(ow.UnsupportedFeatureError, match="refined"):
        ow.solve(chain(transfers="paper"), solver="highs", options={"head_start": False})


@pytest.mark.parametrize("rate", [1e4, 1.25e9, 1e12])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_times_of_unlike_sizes_are_told_apart(rate: float, scale: float) -> None:
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], rates=[rate, rate])
    costs = ow.Costs.from_table({"p": {"a": 0.0, "b": 0.1 * scale}, "q": {"a": 0.0031 * scale, "b": 0.0}})
    problem = chain(cluster=cluster, costs=costs, constraints=[ow.MaxDevices(count=1)])
    result = ow.solve(problem, solver="highs")
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(0.0031 * scale, rel=1e-6)


def test_slow_links_are_not_taken_for_a_contradiction() -> None:
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], rates=[1e-3, 1e-3])
    costs = ow.Costs.from_table({op: {"a": 1e-9, "b": 1e-9} for op in "pq"})
    pins = [ow.Pin(op="p", device="a"), ow.Pin(op="q", device="b")]
    result = ow.solve(
        chain(cluster=cluster, costs=costs, constraints=pins), solver="highs", options={"head_start": False}
    )
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(32_000.0)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(planned_slicings(max_operators=3, max_devices=2))
def test_a_plan_is_read_back_as_it_was_hinted(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    problem = problem.model_copy(update={"transfers": "refined", "order": plan.order})
    formulation = Cuts()
    try:
        model = formulation.build(problem)
    except InfeasibleError:
        return
    values = formulation.start(model, plan)
    for column in np.flatnonzero(np.isfinite(values)):
        assert model.low[column] <= values[column] <= model.high[column]
    assert formulation.extract(model, np.nan_to_num(values)).slices == plan.slices


def test_memory_and_an_open_order_are_no_reason_to_refuse() -> None:
    graph = ow.OpGraph(
        tensors=[
            ow.Tensor(id=name, bytes=3 * rows, shape=[1, 1, rows, 1])
            for name, rows in zip("xpq", (2, 4, 3), strict=True)
        ],
        operators=[ow.Operator(id=name, inputs=["x"], outputs=[name], workspace_bytes=6) for name in "pq"],
        outputs=["p"],
    )

    def on_boards(memory: int) -> ow.Slicing:
        devices = [ow.Device(name=name, memory_bytes=memory) for name in ("d0", "d1")]
        costs = ow.Costs.from_table({name: {"d0": 1.0, "d1": 2.0} for name in "pq"})
        cluster = ow.Cluster(devices=devices, rates=[1.0, 3.0])
        return ow.Slicing(graph=graph, cluster=cluster, costs=costs)

    problem, roomy = on_boards(38), on_boards(39)
    assert lower(problem).order_matters(problem)
    assert not lower(roomy).order_matters(roomy)  # everything fits at once
    result = ow.solve(problem, solver="highs", time_limit=30)
    assert result.objective == pytest.approx(best_slicing(problem)[0])
    assert "cut_" not in (result.bound_source or "")  # another order might do better
