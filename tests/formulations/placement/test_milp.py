"""The mixed-integer programs of placement: by hand, against brute force, their starts, handles and limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.arrays import to_arrays
from opweave.formulations.placement.moirai import Moirai
from opweave.formulations.placement.programs import Disjunctive
from opweave.problems.errors import (
    InfeasibleError,
    LimitExceededError,
    UnsupportedConstraintError,
    UnsupportedFeatureError,
)
from tests.formulations.placement.instances import (
    PLAIN,
    TRANSFERS,
    Inexpressible,
    agrees,
    fork,
)
from tests.oracles.placement import best_placement
from tests.strategies.specs import placements, planned_placements

EXTENDED = BuildContext(extended=True)


def solved(problem: ow.Placement, formulation: str | None = None, **arguments: object) -> ow.Result:
    """HiGHS without the list schedules and the bound that could spare it the work."""
    return ow.solve(problem, solver="highs", formulation=formulation, options=PLAIN, **arguments)


@pytest.mark.parametrize("transfers", TRANSFERS)
def test_a_fork_by_hand(transfers):
    assert agrees(solved(fork(transfers=transfers)), 6.0)
    assert agrees(solved(fork(transfers=transfers, constraints=[ow.MaxDevices(count=1)])), 9.0)


def test_sending_once_or_for_each_reader():
    """Both readers away from their producer: the tensor travels once, or twice through the same port."""
    pins = [ow.Pin(op="make", device="a"), ow.Pin(op="left", device="b"), ow.Pin(op="right", device="b")]
    for transfers, optimum in (("one_port_tensor", 10.0), ("one_port_edge", 10.0), ("delay", 10.0)):
        result = solved(fork(transfers=transfers, constraints=pins))
        assert agrees(result, optimum)
        assert len(result.solution.transfers) == (2 if transfers == "one_port_edge" else 1)


@settings(max_examples=20)
@given(problem=placements(4, 3, precedes=True))
def test_the_papers_program_agrees_with_brute_force(problem):
    problem = problem.model_copy(update={"transfers": "one_port_edge"})
    assert agrees(solved(problem, "moirai"), best_placement(problem)[0])


@pytest.mark.parametrize("context", ["ceiling", "extended"])
@settings(max_examples=20)
@given(planned=planned_placements(5, 3))
def test_a_start_obeys_the_model_and_comes_back_no_longer(context, planned):
    problem, schedule = planned
    length = problem.evaluate(schedule).objective
    known = BuildContext(ceiling=length) if context == "ceiling" else EXTENDED
    formulation = Disjunctive(known)
    model = formulation.build(problem)
    values = formulation.start(model, schedule)
    assert to_arrays(model).broken(values) is None
    assert not formulation.separate(model, values)
    back = problem.evaluate(formulation.extract(model, values))
    assert back.feasible
    assert back.objective <= length * (1 + 1e-9)
    for op in problem.graph.operators:
        begin, end = problem.intervals(schedule)[op.id]
        assert model.start(op.id).at(values) == pytest.approx(begin)
        assert model.end(op.id).at(values) == pytest.approx(end)
        where = [device.name for device in problem.cluster.devices if model.on(op.id, device.name).at(values) > 0.5]
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


def test_reasons_of_infeasibility():
    pins = [ow.Pin(op="left", device="a"), ow.Pin(op="right", device="b"), ow.Colocate(ops=["left", "right"])]
    with pytest.raises(InfeasibleError, match="must share a device, but have no device left to run on"):
        Disjunctive().build(fork(constraints=pins))
    result = solved(fork(constraints=[ow.MemoryCap(device=name, bytes=10) for name in "ab"]))
    assert result.status is ow.Status.INFEASIBLE
    assert "need 30 bytes together, but there is room for 20: 10 bytes short" in result.reason


def test_a_byte_too_many_is_seen():
    """Sizes that an engine's tolerance does not tell apart: 2**50 bytes each, one byte short of holding both."""
    problem = fork()
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in (("t", 10), ("u", 2**50), ("v", 2**50 + 1))]
    graph = ow.OpGraph(tensors=tensors, operators=problem.graph.operators)
    caps = [ow.MemoryCap(device="a", bytes=2**51 + 10), ow.MemoryCap(device="b", bytes=2**51 + 10)]
    small = problem.model_copy(update={"graph": graph, "constraints": tuple(caps), "transfers": "delay"})
    slow = small.model_copy(update={"cluster": ow.Cluster(devices=problem.cluster.devices, bandwidth=[[0, 1], [1, 0]])})
    assert agrees(solved(slow), best_placement(slow)[0])


def test_windows_that_just_meet_leave_room_for_the_order():
    """In units the only order of two operators misses its window by rounding; it must stay."""
    names = ("o0", "o1", "o2", "o3")
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{k}", bytes=2) for k in range(4)],
        operators=[
            ow.Operator(id=name, inputs=inputs, outputs=[f"t{k}"])
            for k, (name, inputs) in enumerate(zip(names, ([], ["t0"], ["t0"], ["t1"]), strict=True))
        ],
    )
    table = {name: {"d": seconds} for name, seconds in zip(names, (2.0, 5.0, 0.5, 1.0), strict=True)}
    cluster = ow.Cluster(devices=[ow.Device(name="d")])
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table))
    schedule = ow.Schedule(device=dict.fromkeys(names, "d"), start={"o0": 0.0, "o1": 2.5, "o2": 2.0, "o3": 7.5})
    formulation = Disjunctive(EXTENDED)
    model = formulation.build(problem)
    assert to_arrays(model).broken(formulation.start(model, schedule)) is None
