"""The referee of placement: by hand, rule by rule."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import MemoryCap, Pin, Precede
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.measures import busy_seconds, critical_rows, moved_bytes
from opweave.problems.placement.spec import Placement, Schedule, Transfer

GRAPH = OpGraph(
    tensors=[Tensor(id=name, bytes=size) for name, size in {"x": 9, "t": 4, "u": 2, "y": 2, "o": 3, "z": 1}.items()],
    parameters=[Parameter(id="w", bytes=8)],
    operators=[
        Operator(id="src", inputs=["x"], outputs=["t", "u"]),
        Operator(id="p", inputs=["t", "u"], outputs=["y"], parameters=["w"]),
        Operator(id="q", inputs=["t"], outputs=["o"], parameters=["w"], workspace_bytes=5),
        Operator(id="r", inputs=["y", "x"], outputs=["z"], parameters=["w"]),
    ],
)
TABLE = {"src": {"a": 1.0}, "p": {"b": 2.0}, "q": {"a": 7.0, "b": 1.0}, "r": {"a": 1.0}}
WHERE = {"src": "a", "p": "b", "q": "b", "r": "a"}


def two(**fields):
    """Four operators on two devices: 2 bytes a second one way, 1 the other, half a second of latency."""
    cluster = Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 2], [1, 0]], latency=0.5)
    return Placement(**{"graph": GRAPH, "cluster": cluster, "costs": Costs.from_table(TABLE), **fields})


def sent(tensor, way, start, end, consumer=None):
    return Transfer(tensor=tensor, consumer=consumer, source=way[0], target=way[1], start=start, end=end)


# t takes 0.5 + 4 / 2 = 2.5 s from a to b, u takes 1.5 s, y takes 0.5 + 2 / 1 = 2.5 s from b to a.
#
#   a       src 0-1                                                        r 9.5-10.5
#   a -> b         t 1-3.5      u 3.5-5
#   b                           q 3.5-4.5   p 5-7
#   b -> a                                         y 7-9.5
BY_TENSOR = Schedule(
    device=WHERE,
    start={"src": 0, "q": 3.5, "p": 5, "r": 9.5},
    transfers=[sent("t", "ab", 1, 3.5), sent("u", "ab", 3.5, 5), sent("y", "ba", 7, 9.5)],
)

#   a       src 0-1                                                                      r 12-13
#   a -> b         t for p 1-3.5   t for q 3.5-6     u for p 6-7.5
#   b                                                q 6-7    p 7.5-9.5
#   b -> a                                                              y for r 9.5-12
BY_EDGE = Schedule(
    device=WHERE,
    start={"src": 0, "q": 6, "p": 7.5, "r": 12},
    transfers=[
        sent("t", "ab", 1, 3.5, "p"),
        sent("t", "ab", 3.5, 6, "q"),
        sent("u", "ab", 6, 7.5, "p"),
        sent("y", "ba", 9.5, 12, "r"),
    ],
)

#   a       src 0-1                                  r 8-9
#   a -> b         t 1-3.5, u 1-2.5
#   b                        p 3.5-5.5   q 5.5-6.5
#   b -> a                               y 5.5-8
AT_ONCE = Schedule(device=WHERE, start={"src": 0, "p": 3.5, "q": 5.5, "r": 8})

BY_HAND = [("one_port_tensor", BY_TENSOR, 10.5), ("one_port_edge", BY_EDGE, 13.0), ("delay", AT_ONCE, 9.0)]


@pytest.mark.parametrize(("transfers", "plan", "makespan"), BY_HAND)
def test_by_hand(transfers, plan, makespan):
    judged = two(transfers=transfers).evaluate(plan)
    assert judged.violations == ()
    assert judged.objective == judged.details.makespan == makespan


@pytest.mark.parametrize(("transfers", "plan", "makespan"), BY_HAND)
def test_one_model_refuses_the_schedules_of_another(transfers, plan, makespan):
    for other in {name for name, _, _ in BY_HAND} - {transfers, "delay"}:
        assert "transfer" in rules(two(transfers=other), plan)
    assert two(transfers="delay").evaluate(plan).feasible  # without ports there is room for all of them


def rules(problem, plan):
    return {violation.rule for violation in problem.evaluate(plan).violations}


def path_of(judged):
    """The names of the critical path, and what each step waited for."""
    timeline = judged.timeline
    return [(timeline.name(int(timeline.activities.what[rows[0]])), wait) for rows, wait in critical_rows(timeline)]


def test_measured_by_hand():
    judged = two().evaluate(BY_TENSOR)
    assert busy_seconds(judged.timeline).tolist() == [2.0, 3.0, 2.5 + 1.5, 2.5, 2.5, 2.5 + 1.5]
    assert moved_bytes(judged.timeline)[2:] == (6, 2, 2, 6)
    #                                           w + t + u + z          w once, y + o, q's workspace
    assert judged.details.memory_bytes == {"a": 8 + 4 + 2 + 1, "b": 8 + 2 + 3 + 5}
    steps = [("src", "nothing"), ("t", "data"), ("u", "send_port"), ("p", "data"), ("y", "data"), ("r", "data")]
    assert path_of(judged) == steps
    assert moved_bytes(two(transfers="one_port_edge").evaluate(BY_EDGE).timeline)[2:4] == (4 + 4 + 2, 2)
    at_once = two(transfers="delay").evaluate(AT_ONCE)
    assert moved_bytes(at_once.timeline)[2:4] == (6, 2)
    assert [name for name, _ in path_of(at_once)] == ["src", "t", "p", "y", "r"]
    assert two(memory="parameters").evaluate(BY_TENSOR).details.memory_bytes == {"a": 8, "b": 8}


def test_an_alias_owns_nothing_but_travels():
    graph = OpGraph(
        tensors=[Tensor(id="x", bytes=8), Tensor(id="v", bytes=6, alias_of="x"), Tensor(id="y", bytes=1)],
        operators=[Operator(id="view", inputs=["x"], outputs=["v"]), Operator(id="read", inputs=["v"], outputs=["y"])],
    )
    problem = two(graph=graph, costs=Costs.from_table({"view": {"a": 0.0}, "read": {"b": 1.0}}))
    plan = Schedule(
        device={"view": "a", "read": "b"}, start={"view": 0, "read": 3.5}, transfers=[sent("v", "ab", 0, 3.5)]
    )
    judged = problem.evaluate(plan)
    assert judged.feasible
    assert (judged.objective, judged.details.memory_bytes) == (4.5, {"a": 0, "b": 1})


def test_sending_and_receiving_overlap_and_so_does_computing():
    graph = OpGraph(
        tensors=[Tensor(id=name, bytes=4) for name in "st"],
        operators=[
            Operator(id="s1", outputs=["s"]),
            Operator(id="t1", outputs=["t"]),
            Operator(id="s2", inputs=["t"]),
            Operator(id="t2", inputs=["s"]),
            Operator(id="more"),
        ],
    )
    table = {"s1": {"a": 1}, "s2": {"a": 1}, "t1": {"b": 1}, "t2": {"b": 1}, "more": {"a": 3}}
    plan = Schedule(
        device={"s1": "a", "s2": "a", "t1": "b", "t2": "b", "more": "a"},
        start={"s1": 0, "t1": 0, "more": 1, "s2": 5.5, "t2": 3.5},
        transfers=[sent("s", "ab", 1, 3.5), sent("t", "ba", 1, 5.5)],
    )
    assert two(graph=graph, costs=Costs.from_table(table)).evaluate(plan).objective == 6.5


def bare(*seconds, **fields):
    """Operators without data, on one device."""
    graph = OpGraph(tensors=[], operators=[Operator(id=f"o{index}") for index in range(len(seconds))])
    table = {f"o{index}": {"a": each} for index, each in enumerate(seconds)}
    return Placement(graph=graph, cluster=Cluster(devices=[Device(name="a")]), costs=Costs.from_table(table), **fields)


def starts(*times):
    names = [f"o{index}" for index in range(len(times))]
    return Schedule(device=dict.fromkeys(names, "a"), start=dict(zip(names, times, strict=True)))


ONE_AT_A_TIME = [
    # seconds, starts, by how much they overlap (None: not at all)
    ((1, 2), (0, 1), None),
    ((1, 2), (2, 0), None),
    ((1, 2), (0, 0.75), 0.25),
    ((1, 2), (0, 0), 1.0),
    ((1, 3), (1, 0), 2.0),
    ((0, 2), (0, 0), None),
    ((0, 2), (2, 0), None),
    ((0, 2), (0.5, 0), 0.5),
    ((0, 0), (1, 1), None),
    ((2, 0, 0), (1, 1, 3), None),
    ((9, 1, 1), (0, 1, 2), 2.0),
    ((1, 2), (0, 1 - 1e-10), None),
    ((1, 2), (0, 1 - 1e-8), 1e-8),
]


@pytest.mark.parametrize(("seconds", "times", "excess"), ONE_AT_A_TIME)
def test_one_operator_at_a_time(seconds, times, excess):
    judged = bare(*seconds).evaluate(starts(*times))
    assert {violation.rule for violation in judged.violations} == (set() if excess is None else {"overlap"})
    if excess is not None:
        assert judged.violations[0].excess == pytest.approx(excess)


def test_every_operator_of_a_heap_is_named():
    judged = bare(*[1] * 5).evaluate(starts(*[0] * 5))
    assert len(judged.violations) == 4
    assert judged.violations[0].message == "device 'a' runs 'o0' and 'o1' at the same time"


def test_no_operators():
    judged = bare().evaluate(starts())
    assert judged.feasible
    assert (judged.objective, path_of(judged)) == (0.0, [])


def test_memory_limit():
    devices = [Device(name="a", memory_bytes=15), Device(name="b", memory_bytes=1_000)]
    cluster = Cluster(devices=devices, bandwidth=[[0, 2], [1, 0]], latency=0.5)
    assert two(cluster=cluster).evaluate(BY_TENSOR).feasible
    tight = Cluster(devices=[devices[0], Device(name="b", memory_bytes=17)], bandwidth=[[0, 2], [1, 0]], latency=0.5)
    judged = two(cluster=tight).evaluate(BY_TENSOR)
    assert [(broken.rule, broken.excess) for broken in judged.violations] == [("memory", 1.0)]
    assert judged.violations[0].message == "device 'b' holds 18 bytes: 1 over its memory of 17"
    assert judged.objective == 10.5
    assert two(cluster=tight, memory="parameters").evaluate(BY_TENSOR).feasible
    capped = two(cluster=cluster, constraints=[MemoryCap(device="b", bytes=17), MemoryCap(device="a", bytes=99)])
    assert rules(capped, BY_TENSOR) == {"memory_cap"}
    assert capped.memory_limits == {"a": 15, "b": 17}


def test_precede_counts_in_seconds():
    assert rules(two(constraints=[Precede(before="q", after="p")]), BY_TENSOR) == set()
    judged = two(constraints=[Precede(before="p", after="q")]).evaluate(BY_TENSOR)
    assert [(broken.rule, broken.excess) for broken in judged.violations] == [("precede", 3.5)]
    touching = two(transfers="delay", constraints=[Precede(before="p", after="q")])
    assert touching.evaluate(AT_ONCE).feasible
    rounded = AT_ONCE.model_copy(update={"start": {**AT_ONCE.start, "p": 3.5 + 1e-10}})
    assert touching.evaluate(rounded).feasible


def test_side_constraints_are_judged_even_where_the_plan_cannot_be_replayed():
    problem = two(constraints=[Pin(op="q", device="a"), Precede(before="q", after="p"), MemoryCap(device="a", bytes=0)])
    judged = problem.evaluate(Schedule(device={"q": "b", "ghost": "a", "p": "moon"}, start={"q": 0}))
    assert {broken.rule for broken in judged.violations} == {"unknown", "missing", "pin"}
    assert judged.objective is None


def test_the_reading_is_said_in_one_line():
    assert two().assumptions() == "makespan, transfers one_port_tensor, memory additive"


REFUSED = [
    ({"costs": {**TABLE, "ghost": {"a": 1.0}}}, "the costs name operator 'ghost', which the graph does not have"),
    ({"costs": {**TABLE, "q": {"b": 1.0, "moon": 1.0}}}, "the costs name device 'moon'; the cluster has 'a', 'b'"),
    ({"costs": {**TABLE, "q": {"b": None}}}, "operator 'q' has no known time"),
    ({"costs": {name: row for name, row in TABLE.items() if name != "q"}}, "operator 'q' has no known time"),
    ({"costs": {**TABLE, "q": {"b": {4: 1.0}}}}, "operator 'q' has no known time .batch size 1."),
    ({"constraints": [Pin(op="q", device="moon")]}, "Pin names device 'moon'; the cluster has 'a', 'b'"),
    ({"constraints": [Pin(op="ghost", device="a")]}, "Pin names operator 'ghost'"),
    ({"transfers": "instant"}, "transfers"),
    ({"memory": "none"}, "memory"),
    ({"cluster": None}, "cluster"),
    ({"limit_bytes": 3}, "limit_bytes"),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED)
def test_refused_fields(fields, sentence):
    if isinstance(fields.get("costs"), dict):
        fields = {"costs": Costs.from_table(fields["costs"])}
    with pytest.raises(ValidationError, match=sentence):
        two(**fields)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "0", True])
def test_refused_times(bad):
    with pytest.raises(ValidationError):
        Schedule(device={}, start={"p": bad})
    with pytest.raises(ValidationError):
        sent("t", "ab", 0.0, bad)


def test_nothing_comes_before_itself():
    """Even 0 seconds do not make a circle of rules one that can be obeyed: solvers and referee agree on that."""
    circle = [Precede(before="o0", after="o1"), Precede(before="o1", after="o0")]
    problem = bare(0.0, 0.0, constraints=circle)
    judged = problem.evaluate(starts(0.0, 0.0))
    assert not judged.feasible
    assert "operator 'o0' shall end before 'o1' begins" in judged.violations[0].message
    assert problem.turned_round == circle[0]
    assert bare(0.0, 0.0, constraints=circle[:1]).turned_round is None
    assert bare(0.0, 0.0, constraints=circle[:1]).evaluate(starts(0.0, 0.0)).feasible


def test_times_beyond_all_counting():
    with pytest.raises(ValidationError, match=r"slowest runs add up to 1\.2e\+15 seconds"):
        bare(6e14, 6e14)
    with pytest.raises(ValidationError, match=r"the slowest transfers to .*0 means no link"):
        two(cluster=Cluster(devices=[Device(name="a"), Device(name="b")], shared=1e-300))
    late = bare(1.0).evaluate(starts(1e15))
    assert [violation.message for violation in late.violations] == [
        "'o0' ends after 1e+15 s, which is beyond the range of times"
    ]
