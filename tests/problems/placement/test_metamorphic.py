"""The referee of placement on changed plans: what must not matter does not, and the rest matters in a known way."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph
from opweave.problems.placement.spec import Placement, Schedule
from tests.problems.placement.test_properties import PLANS, PORTED, replaced, rules, with_
from tests.strategies.specs import placements


def stretched(plan, factor, shift=0.0):
    """All times of a plan, multiplied and moved."""
    moved = [
        sent.model_copy(update={"start": shift + factor * sent.start, "end": shift + factor * sent.end})
        for sent in plan.transfers
    ]
    when = {name: shift + factor * start for name, start in plan.start.items()}
    return Schedule(device=plan.device, start=when, transfers=moved)


def slower(problem, factor):
    """The same problem with all durations multiplied."""
    cluster = problem.cluster
    rate = [[0.0 if value == float("inf") else value / factor for value in row] for row in cluster.effective_bandwidth]
    latency = [[value * factor for value in row] for row in cluster.effective_latency]
    table = {
        name: {device: value * factor for device, value in row.items()} for name, row in problem.known_seconds.items()
    }
    slow = Cluster(devices=cluster.devices, bandwidth=rate, latency=latency)
    return with_(problem, cluster=slow, costs=Costs.from_table(table))


@given(pair=PLANS, factor=st.sampled_from([0.125, 3.0, 1e-6, 1e6]))
def test_scaling_all_times_scales_the_makespan(pair, factor):
    problem, plan = pair
    judged = slower(problem, factor).evaluate(stretched(plan, factor))
    assert judged.violations == ()
    assert judged.objective == pytest.approx(factor * problem.evaluate(plan).objective)


@given(pair=PLANS, shift=st.floats(0.01, 100))
def test_starting_later_ends_later(pair, shift):
    problem, plan = pair
    judged = problem.evaluate(stretched(plan, 1.0, shift))
    assert judged.violations == ()
    assert judged.objective == pytest.approx(shift + problem.evaluate(plan).objective)


@given(data=st.data(), pair=PORTED)
def test_tolerance(data, pair):
    problem, plan = pair
    makespan = problem.evaluate(plan).objective
    assume(makespan > 0)
    noise = st.floats(-4e-10, 4e-10).map(lambda share: share * makespan)
    shaken = plan.model_copy(
        update={
            "start": {name: max(0.0, start + data.draw(noise)) for name, start in plan.start.items()},
            "transfers": tuple(
                sent.model_copy(update={"start": start, "end": max(start, sent.end + data.draw(noise))})
                for sent in plan.transfers
                for start in [max(0.0, sent.start + data.draw(noise))]
            ),
        }
    )
    assert rules(problem, shaken) == set()
    sent = data.draw(st.sampled_from(plan.transfers))
    assert rules(problem, replaced(plan, sent, end=sent.end + 1e-8 * makespan)) >= {"transfer"}


@given(pair=PLANS)
def test_another_device_changes_nothing(pair):
    problem, plan = pair
    cluster, count = problem.cluster, len(problem.cluster.devices)
    delays = [[0.0 if value == float("inf") else value for value in row] for row in cluster.direct_latency]
    wider = Cluster(
        devices=[*cluster.devices, Device(name="new")],
        bandwidth=[*([*row, 0.0] for row in cluster.direct_bandwidth), [0.0] * (count + 1)],
        latency=[*([*row, 0.0] for row in delays), [0.0] * (count + 1)],
    )
    judged = with_(problem, cluster=wider).evaluate(plan)
    assert judged.violations == ()
    assert judged.objective == problem.evaluate(plan).objective


@given(pair=PORTED)
def test_without_ports_the_same_plan_stays_valid(pair):
    problem, plan = pair
    free = with_(problem, transfers="delay")
    for some in (plan, plan.model_copy(update={"transfers": ()})):
        assert free.evaluate(some).feasible
        assert free.evaluate(some).objective == problem.evaluate(plan).objective


@settings(max_examples=60)
@given(data=st.data(), pair=PLANS, broken=st.booleans())
def test_names_and_listing_order_do_not_matter(data, pair, broken):
    problem, plan = pair
    if broken:
        plan = stretched(plan, data.draw(st.sampled_from([0.5, 0.9])))
    rename = "new {}".format
    graph, cluster = problem.graph, problem.cluster
    order = data.draw(st.permutations(range(len(cluster.devices))))
    renamed = OpGraph(
        operators=[
            op.model_copy(
                update={
                    "id": rename(op.id),
                    **{field: tuple(map(rename, getattr(op, field))) for field in ("inputs", "outputs", "parameters")},
                }
            )
            for op in data.draw(st.permutations(graph.operators))
        ],
        tensors=[
            tensor.model_copy(update={"id": rename(tensor.id), "alias_of": tensor.alias_of and rename(tensor.alias_of)})
            for tensor in data.draw(st.permutations(graph.tensors))
        ],
        parameters=[each.model_copy(update={"id": rename(each.id)}) for each in graph.parameters],
        outputs=[rename(name) for name in graph.outputs],
    )
    rates, delays = cluster.effective_bandwidth, cluster.effective_latency
    mixed = Cluster(
        devices=[cluster.devices[i].model_copy(update={"name": rename(cluster.devices[i].name)}) for i in order],
        bandwidth=[[0.0 if i == j else rates[i, j] for j in order] for i in order],
        latency=[[delays[i, j] for j in order] for i in order],
    )
    table = {
        rename(name): {rename(device): value for device, value in row.items()}
        for name, row in problem.known_seconds.items()
    }
    again = with_(problem, graph=renamed, cluster=mixed, costs=Costs.from_table(table)).evaluate(
        Schedule(
            device={rename(name): rename(device) for name, device in plan.device.items()},
            start={rename(name): start for name, start in plan.start.items()},
            transfers=[
                sent.model_copy(
                    update={
                        "tensor": rename(sent.tensor),
                        "consumer": sent.consumer and rename(sent.consumer),
                        "source": rename(sent.source),
                        "target": rename(sent.target),
                    }
                )
                for sent in data.draw(st.permutations(plan.transfers))
            ],
        )
    )
    once = problem.evaluate(plan)
    assert again.objective == once.objective
    assert {violation.rule for violation in again.violations} == {violation.rule for violation in once.violations}
    assert again.details.memory_bytes == {rename(name): used for name, used in once.details.memory_bytes.items()}


@given(problem=placements(), pair=PLANS)
def test_json_round_trip(problem, pair):
    assert Placement.model_validate_json(problem.model_dump_json()) == problem
    judged = pair[0].evaluate(pair[1])
    again = Schedule.model_validate_json(pair[1].model_dump_json())
    assert again == pair[1]
    assert pair[0].evaluate(again) == judged
    assert type(judged.details).model_validate_json(judged.details.model_dump_json()) == judged.details
