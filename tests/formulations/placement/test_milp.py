"""The mixed-integer programs of placement, one of them the paper's: brute force, starts, handles and limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from pyomo.environ import value

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.arrays import to_arrays
from opweave.formulations.modeling.pyomo import load_values
from opweave.formulations.placement.moirai import Moirai
from opweave.formulations.placement.programs import Disjunctive
from opweave.problems.errors import (
    LimitExceededError,
    UnsupportedConstraintError,
    UnsupportedFeatureError,
)
from tests.formulations.placement.instances import (
    PLAIN,
    Inexpressible,
    agrees,
    fork,
)
from tests.oracles.placement import best_placement
from tests.strategies.specs import placements, planned_placements
from tests.tiny import graph_of

EXTENDED = BuildContext(extended=True)


def solved(problem: ow.Placement, formulation: str | None = None, **arguments: object) -> ow.Result:
    """HiGHS without the list schedules and the bound that could spare it the work."""
    return ow.solve(problem, solver="highs", formulation=formulation, options=PLAIN, **arguments)


@settings(max_examples=20)
@given(problem=placements(4, 3, precedes=True))
def test_the_papers_program_agrees_with_brute_force(problem):
    problem = problem.model_copy(update={"transfers": "one_port_edge"})
    assert agrees(solved(problem, "moirai"), best_placement(problem)[0])


@pytest.mark.parametrize("kind", [Disjunctive, Moirai])
@pytest.mark.parametrize("context", ["ceiling", "extended"])
@settings(max_examples=20)
@given(planned=planned_placements(5, 3))
def test_a_start_obeys_the_model_and_comes_back_no_longer(kind, context, planned):
    problem, schedule = planned
    if kind is Moirai and problem.transfers != "one_port_edge":
        return
    length = problem.evaluate(schedule).objective
    formulation = kind(BuildContext(ceiling=length) if context == "ceiling" else EXTENDED)
    model = formulation.build(problem)
    values = formulation.start(model, schedule)
    if kind is Moirai:
        program = model.opweave.program()
        assert program.broken(program.engine_values(values)) is None
        load_values(model.opweave.variables, values)
    else:
        assert to_arrays(model).broken(values) is None

    def at(handle):
        return value(handle) if kind is Moirai else handle.at(values)

    assert not formulation.separate(model, values)
    back = problem.evaluate(formulation.extract(model, values))
    assert back.feasible
    assert back.objective <= length * (1 + 1e-9)
    for op in problem.graph.operators:
        begin, end = problem.intervals(schedule)[op.id]
        assert at(model.start(op.id)) == pytest.approx(begin)
        assert at(model.end(op.id)) == pytest.approx(end)
        where = [device.name for device in problem.cluster.devices if at(model.on(op.id, device.name)) > 0.5]
        assert where == [schedule.device[op.id]]


def test_what_nobody_can_express_is_refused():
    with pytest.raises(UnsupportedConstraintError, match="Inexpressible"):
        Disjunctive().build(fork(constraints=[Inexpressible()]))
    with pytest.raises(UnsupportedFeatureError, match="'disjunctive' supports all of them"):
        Moirai().build(fork())


@pytest.mark.parametrize("kind", [Disjunctive, Moirai])
def test_a_model_that_is_too_large_is_refused(kind):
    small = BuildContext(limits=ow.Limits(model_rows=5))
    with pytest.raises(LimitExceededError, match=r"Limits\.model_rows"):
        kind(small).build(fork(transfers="one_port_edge"))


def test_windows_that_just_meet_leave_room_for_the_order():
    """In units the only order of two operators misses its window by rounding; it must stay."""
    names = ("o0", "o1", "o2", "o3")
    graph = graph_of(dict.fromkeys(names, 2), dict(zip(names, ("", "o0", "o0", "o1"), strict=True)))
    table = {name: {"d": seconds} for name, seconds in zip(names, (2.0, 5.0, 0.5, 1.0), strict=True)}
    cluster = ow.Cluster(devices=[ow.Device(name="d")])
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table))
    schedule = ow.Schedule(device=dict.fromkeys(names, "d"), start={"o0": 0.0, "o1": 2.5, "o2": 2.0, "o3": 7.5})
    formulation = Disjunctive(EXTENDED)
    model = formulation.build(problem)
    assert to_arrays(model).broken(formulation.start(model, schedule)) is None
