"""The referee of placement on random plans: those broken in each way a plan can be broken are caught."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.measures import busy_seconds, critical_rows, moved_bytes
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.problems.timeline import ActivityKind
from tests.strategies.specs import planned_placements, renamed

PLANS = planned_placements()
PORTED = planned_placements(transfers=True)


def rules(problem, plan):
    """Which rules a plan breaks."""
    return {violation.rule for violation in problem.evaluate(plan).violations}


def changed(mapping, **entries):
    return type(mapping)({**mapping, **entries})


def replaced(plan, old, **fields):
    """The plan with one transfer changed."""
    new = old.model_copy(update=fields)
    return plan.model_copy(update={"transfers": tuple(new if each is old else each for each in plan.transfers)})


def ends(problem, plan):
    return {name: end for name, (_, end) in problem.intervals(plan).items()}


@given(pair=PLANS)
def test_what_starts_when_it_can_is_valid(pair):
    problem, plan = pair
    judged = problem.evaluate(plan)
    assert judged.violations == ()
    assert judged.objective == max(ends(problem, plan).values())


# ---- a valid plan, broken in each way a plan can be broken


@given(data=st.data(), pair=PLANS)
def test_an_operator_without_device_or_start(data, pair):
    problem, plan = pair
    gone = data.draw(st.sampled_from(sorted(plan.device)))
    for field, what in (("device", "device"), ("start", "start")):
        rest = {name: value for name, value in getattr(plan, field).items() if name != gone}
        judged = problem.evaluate(plan.model_copy(update={field: rest}))
        assert [broken.message for broken in judged.violations] == [f"{gone!r} has no {what}"]
        assert judged.violations[0].rule == "missing"
        assert (judged.objective, judged.details) == (None, None)


@given(data=st.data(), pair=PLANS)
def test_unknown_names(data, pair):
    problem, plan = pair
    some = data.draw(st.sampled_from(sorted(plan.device)))
    where = plan.device[some]
    tensor = problem.graph.tensors[0].id if problem.graph.tensors else "ghost"
    good = {"tensor": tensor, "source": where, "target": where, "start": 0.0, "end": 0.0}
    strange = [
        plan.model_copy(update={"device": changed(plan.device, ghost=where)}),
        plan.model_copy(update={"start": changed(plan.start, ghost=0.0)}),
        plan.model_copy(update={"device": changed(plan.device, **{some: "moon"})}),
        *(
            plan.model_copy(update={"transfers": (*plan.transfers, Transfer(**{**good, field: "ghost"}))})
            for field in ("tensor", "consumer", "source", "target")
        ),
    ]
    for broken in strange:
        judged = problem.evaluate(broken)
        assert {violation.rule for violation in judged.violations} == {"unknown"}
        assert judged.objective is None


@given(data=st.data(), pair=PLANS)
def test_a_device_that_does_not_know_the_time(data, pair):
    problem, plan = pair
    assume(len(problem.cluster.devices) > 1)
    some = data.draw(st.sampled_from(sorted(plan.device)))
    known = {name: dict(row) for name, row in problem.known_seconds.items()}
    del known[some][plan.device[some]]
    assert rules(with_(problem, costs=Costs.from_table(known)), plan) == {"device"}


@given(data=st.data(), pair=PLANS)
def test_an_operator_before_its_data(data, pair):
    problem, plan = pair
    arcs = [arc for arc in problem.graph.digraph.edges if ends(problem, plan)[arc[0]] > 0]
    assume(arcs)
    before, after = data.draw(st.sampled_from(arcs))
    share = data.draw(st.floats(0, 0.999))
    early = plan.model_copy(update={"start": changed(plan.start, **{after: share * ends(problem, plan)[before]})})
    assert "precedence" in rules(problem, early)


@given(data=st.data(), pair=PORTED)
def test_an_operator_before_its_transfer_ends(data, pair):
    problem, plan = pair
    sent = data.draw(st.sampled_from(plan.transfers))
    assume(sent.end > 0)
    readers = [op.id for op in problem.graph.operators if sent.tensor in op.inputs]
    reader = sent.consumer or next(name for name in readers if plan.device[name] == sent.target)
    early = plan.model_copy(update={"start": changed(plan.start, **{reader: 0.999 * sent.end})})
    judged = problem.evaluate(early)
    assert any(
        broken.rule == "precedence" and f"input {sent.tensor!r}" in broken.message for broken in judged.violations
    )


@given(data=st.data(), pair=PLANS)
def test_two_operators_at_once(data, pair):
    problem, plan = pair
    when = problem.intervals(plan)
    long = [name for name, (start, end) in when.items() if end > start]
    pairs = [(one, other) for one, other in combinations(long, 2) if plan.device[one] == plan.device[other]]
    assume(pairs)
    one, other = data.draw(st.sampled_from(pairs))
    share = data.draw(st.floats(0, 0.999))
    start, end = when[one]
    heaped = plan.model_copy(update={"start": changed(plan.start, **{other: start + share * (end - start)})})
    assert "overlap" in rules(problem, heaped)


@settings(max_examples=40)
@given(data=st.data(), pair=PORTED)
def test_two_transfers_at_one_port(data, pair):
    problem, plan = pair
    long = [sent for sent in plan.transfers if sent.end > sent.start]
    pairs = [
        (one, other) for one, other in combinations(long, 2) if one.source == other.source or one.target == other.target
    ]
    assume(pairs)
    one, other = data.draw(st.sampled_from(pairs))
    heaped = replaced(plan, other, start=one.start, end=one.start + other.end - other.start)
    assert "port" in rules(problem, heaped)
    at_once = with_(problem, transfers="delay")
    assert "port" not in rules(at_once, heaped)


@given(data=st.data(), pair=PORTED)
def test_wrong_transfers(data, pair):
    problem, plan = pair
    sent = data.draw(st.sampled_from(plan.transfers))
    rest = tuple(each for each in plan.transfers if each is not sent)
    assert rules(problem, plan.model_copy(update={"transfers": rest})) == {"transfer"}
    assert "transfer" in rules(problem, plan.model_copy(update={"transfers": (*plan.transfers, sent)}))
    assert "transfer" in rules(problem, replaced(plan, sent, end=sent.end + 0.01))
    assert "transfer" in rules(problem, replaced(plan, sent, source=sent.target, target=sent.source))
    other = None if sent.consumer else next(iter(plan.device))
    assert "transfer" in rules(problem, replaced(plan, sent, consumer=other))
    if sent.end > sent.start:
        assert "transfer" in rules(problem, replaced(plan, sent, end=(sent.start + sent.end) / 2))


@given(data=st.data(), pair=PORTED)
def test_a_transfer_before_its_tensor_is_there(data, pair):
    problem, plan = pair
    sent = data.draw(st.sampled_from(plan.transfers))
    made = ends(problem, plan)[problem.graph.producer[sent.tensor]]
    assume(made > 0)
    early = replaced(plan, sent, start=0.9 * made, end=0.9 * made + sent.end - sent.start)
    assert "precedence" in rules(problem, early)
    assert "precedence" in rules(with_(problem, transfers="delay"), early)


@given(data=st.data(), pair=PLANS)
def test_needless_transfers(data, pair):
    problem, plan = pair
    names = st.sampled_from([device.name for device in problem.cluster.devices])
    assume(problem.graph.tensors)
    tensor = data.draw(st.sampled_from(problem.graph.tensors)).id
    source, target = data.draw(names), data.draw(names)
    readers = {plan.device[op.id] for op in problem.graph.operators if tensor in op.inputs}
    maker = problem.graph.producer.get(tensor)
    assume(maker is None or source != plan.device[maker] or target not in readers - {source})
    extra = Transfer(tensor=tensor, source=source, target=target, start=0.0, end=0.0)
    judged = problem.evaluate(plan.model_copy(update={"transfers": (*plan.transfers, extra)}))
    message = f"no reader needs tensor {tensor!r} from {source!r} to {target!r}"
    assert ("transfer", message) in [(broken.rule, broken.message) for broken in judged.violations]


@given(data=st.data(), pair=PLANS)
def test_memory_exceeded(data, pair):
    problem, plan = pair
    used = problem.evaluate(plan).details.memory_bytes
    device = data.draw(st.sampled_from(sorted(used)))
    assume(used[device] > 0)
    assert rules(with_memory(problem, device, used[device]), plan) == set()
    assert rules(with_memory(problem, device, used[device] - 1), plan) == {"memory"}


@given(pair=PLANS)
def test_no_link(pair):
    problem, plan = pair
    cut = Cluster(devices=problem.cluster.devices, shared=0.0)
    sent = problem.play(plan).activities.kind == ActivityKind.SEND
    judged = with_(problem, cluster=cut).evaluate(plan)
    assert [violation.rule for violation in judged.violations] == ["no_link"] * int(sent.sum())


# ---- what is measured


@given(pair=PLANS)
def test_the_critical_path_is_whole(pair):
    problem, plan = pair
    judged = problem.evaluate(plan)
    acts, path = judged.timeline.activities, critical_rows(judged.timeline)
    assert (acts.start[path[0][0][0]], path[0][1]) == (0.0, "nothing")
    assert acts.end[path[-1][0][0]] == judged.objective
    for (before, _), (after, wait) in pairwise(path):
        assert acts.end[before[0]] == acts.start[after[0]]  # everything starts as early as it can
        if wait != "data":
            shared = set(acts.resource[list(before)]) & set(acts.resource[list(after)])
            assert wait in {judged.timeline.resources[row].kind for row in shared}


@given(pair=PLANS)
def test_what_is_measured_is_consistent(pair):
    problem, plan = pair
    judged, count = problem.evaluate(plan), len(problem.cluster.devices)
    busy, moved = busy_seconds(judged.timeline), moved_bytes(judged.timeline)
    costs = [problem.known_seconds[name][device] for name, device in plan.device.items()]
    assert sum(busy[:count]) == pytest.approx(sum(costs))
    assert sum(moved[count : 2 * count]) == sum(moved[2 * count :])
    assert sum(busy[count : 2 * count]) == pytest.approx(sum(busy[2 * count :]))
    assert judged.details.memory_bytes == problem.memory_by_device(plan)
    if problem.transfers != "delay":
        assert sum(busy[count : 2 * count]) == pytest.approx(sum(t.end - t.start for t in plan.transfers))


def with_(problem, **fields):
    """The same problem with some fields changed, checked again."""
    kept = {name: getattr(problem, name) for name in ("graph", "cluster", "costs", "transfers", "memory")}
    return Placement(**{**kept, **fields})


def with_memory(problem, name, size):
    devices = [
        each.model_copy(update={"memory_bytes": size}) if each.name == name else each
        for each in problem.cluster.devices
    ]
    return with_(problem, cluster=problem.cluster.model_copy(update={"devices": tuple(devices)}))


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


@settings(max_examples=30)
@given(data=st.data(), pair=PLANS, broken=st.booleans())
def test_names_and_listing_order_do_not_matter(data, pair, broken):
    problem, plan = pair
    if broken:
        plan = stretched(plan, data.draw(st.sampled_from([0.5, 0.9])))
    rename, ends = "new {}".format, ("tensor", "consumer", "source", "target")
    cluster, order = problem.cluster, data.draw(st.permutations(range(len(problem.cluster.devices))))
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
    other = with_(problem, graph=renamed(data, problem.graph, rename), cluster=mixed, costs=Costs.from_table(table))
    moved = Schedule(
        device={rename(name): rename(device) for name, device in plan.device.items()},
        start={rename(name): start for name, start in plan.start.items()},
        transfers=[
            each.model_copy(update={end: (name := getattr(each, end)) and rename(name) for end in ends})
            for each in data.draw(st.permutations(plan.transfers))
        ],
    )
    again = other.evaluate(moved)
    once = problem.evaluate(plan)
    assert again.objective == once.objective
    assert {violation.rule for violation in again.violations} == {violation.rule for violation in once.violations}
    assert again.details.memory_bytes == {rename(name): used for name, used in once.details.memory_bytes.items()}
