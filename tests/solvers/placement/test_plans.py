import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opweave.formulations.placement.instance import lower
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.placement.spec import Placement, Transfer
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.plans import memory_used, order_by_start, plan_of, schedule_of
from tests.strategies.specs import placements


def fan(transfers: str, memory: int | None = None) -> Placement:
    """One operator on a, two readers of its tensor, sharing a parameter."""
    return Placement(
        graph=OpGraph(
            tensors=[Tensor(id="t", bytes=6)],
            parameters=[Parameter(id="w", bytes=10)],
            operators=[
                Operator(id="make", outputs=["t"]),
                Operator(id="left", inputs=["t"], parameters=["w"]),
                Operator(id="right", inputs=["t"], parameters=["w"]),
            ],
        ),
        cluster=Cluster(
            devices=[Device(name=name, memory_bytes=memory) for name in "ab"], bandwidth=[[0, 3], [3, 0]], latency=1.0
        ),
        costs=Costs.from_table({name: {"a": 1.0, "b": 2.0} for name in ("make", "left", "right")}),
        transfers=transfers,
    )


@pytest.mark.parametrize(
    ("transfers", "consumers", "objective"),
    [("one_port_tensor", [None], 8.0), ("one_port_edge", ["left", "right"], 9.0), ("delay", [None], 8.0)],
)
def test_a_tensor_is_sent_once_or_for_every_reader(transfers, consumers, objective):
    problem = fan(transfers)
    instance = lower(problem)
    schedule = schedule_of(instance, arrays_of(instance, problem), np.array([0, 1, 2]), np.array([0, 1, 1]))
    assert [each.consumer for each in schedule.transfers] == consumers
    assert schedule.transfers[0] == Transfer(
        tensor="t", consumer=consumers[0], source="a", target="b", start=1.0, end=4.0
    )
    judged = problem.evaluate(schedule)
    assert judged.feasible
    assert judged.objective == objective


@given(placements(max_operators=6, free=True), st.data())
def test_any_order_and_devices_give_a_schedule_that_the_referee_accepts(problem, data):
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    count, devices = arrays.seconds.shape
    device = np.array(data.draw(st.lists(st.integers(0, devices - 1), min_size=count, max_size=count)), dtype=np.int64)
    rank = np.array(data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), dtype=np.float64)
    plan = plan_of(arrays, order_by_start(instance, -rank), device)
    schedule = schedule_of(instance, arrays, plan.order, device)
    judged = problem.evaluate(schedule)
    assert judged.violations == ()
    assert judged.objective == pytest.approx(plan.makespan)
    used = problem.memory_by_device(schedule)
    assert memory_used(arrays, device).tolist() == [used[device.name] for device in problem.cluster.devices]


def test_operators_come_after_those_they_wait_for_whatever_rounding_says():
    """An order against the data made the compiled searches write beyond their arrays."""
    graph = OpGraph(
        tensors=[Tensor(id=name, bytes=1) for name in "tu"],
        operators=[
            Operator(id="last", inputs=["u"]),
            Operator(id="quick", inputs=["t"], outputs=["u"]),
            Operator(id="first", outputs=["t"]),
        ],
    )
    table = {"last": {"a": 0.7}, "quick": {"a": 0.0}, "first": {"a": 1 / 3}}
    problem = Placement(graph=graph, cluster=Cluster(devices=[Device(name="a")]), costs=Costs.from_table(table))
    instance = lower(problem)
    starts = np.array([1 / 3 - 1e-16, 1 / 3, 0.0])
    assert starts[0] < starts[1]
    order = order_by_start(instance, starts)
    assert order.tolist() == [2, 1, 0]
    assert plan_of(arrays_of(instance, problem), order, np.zeros(3, dtype=np.int64)).makespan == pytest.approx(
        1 / 3 + 0.7
    )
    assert order_by_start(instance, np.array([2.0, 1.0, 0.0])).tolist() == [2, 1, 0]
