"""The paper's program in Pyomo's own words: its starts, handles and side constraints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from pyomo.environ import value

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.pyomo import load_values
from opweave.formulations.placement.moirai import Moirai
from tests.formulations.placement.instances import PLAIN, agrees, fork
from tests.oracles.placement import best_placement
from tests.strategies.specs import planned_placements


@pytest.mark.parametrize("context", ["ceiling", "extended"])
@settings(max_examples=30)
@given(planned=planned_placements(5, 3))
def test_a_start_obeys_the_model_and_comes_back_no_longer(context, planned):
    problem, schedule = planned
    if problem.transfers != "one_port_edge":
        return
    length = problem.evaluate(schedule).objective
    formulation = Moirai(BuildContext(ceiling=length) if context == "ceiling" else BuildContext(extended=True))
    model = formulation.build(problem)
    values = formulation.start(model, schedule)
    program = model.opweave.program()
    assert program.broken(program.engine_values(values)) is None
    assert not formulation.separate(model, values)
    back = problem.evaluate(formulation.extract(model, values))
    assert back.feasible
    assert back.objective <= length * (1 + 1e-9)
    load_values(model.opweave.variables, values)
    for op in problem.graph.operators:
        begin, end = problem.intervals(schedule)[op.id]
        assert value(model.start(op.id)) == value(model.start(op.id)) == pytest.approx(begin)
        assert value(model.end(op.id)) == value(model.end(op.id)) == pytest.approx(end)
        where = [device.name for device in problem.cluster.devices if value(model.on(op.id, device.name)) > 0.5]
        assert where == [schedule.device[op.id]]


CONSTRAINTS = [
    ow.MaxDevices(count=1),
    ow.Colocate(ops=["make", "right"]),
    ow.Separate(ops=["left", "right"]),
    ow.Forbid(op="make", device="a"),
    ow.Precede(before="right", after="left"),
    ow.MemoryCap(device="a", bytes=20),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: each.kind)
def test_side_constraints_agree_with_brute_force(constraint):
    problem = fork(transfers="one_port_edge", constraints=[constraint])
    result = ow.solve(problem, solver="highs", formulation="moirai", options=PLAIN)
    assert agrees(result, best_placement(problem)[0])
