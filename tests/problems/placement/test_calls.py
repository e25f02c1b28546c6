"""Blocking calls: an example by hand, each rule broken on purpose, readings that are refused."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.measures import busy_seconds
from opweave.problems.timeline import ActivityKind

NAMES = ("a", "b", "c", "d")


def small() -> ow.Cluster:
    """Accelerators that hold less than everything."""
    devices = [ow.Device(name="gpu", memory_bytes=10), ow.Device(name="npu", memory_bytes=9), ow.Device(name="cpu")]
    return ow.Cluster(devices=devices, rates=[1.0, 1.0, 1e30])


def problem(**changes: object) -> ow.Placement:
    """A diamond: ``a`` feeds ``b`` and ``c``, which feed ``d``; a byte takes a second to or from an accelerator."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"of {name}", bytes=size) for name, size in zip(NAMES, (2, 3, 1, 5), strict=True)],
        operators=[
            ow.Operator(id="a", outputs=["of a"]),
            ow.Operator(id="b", inputs=["of a"], outputs=["of b"]),
            ow.Operator(id="c", inputs=["of a"], outputs=["of c"]),
            ow.Operator(id="d", inputs=["of b", "of c"], outputs=["of d"]),
        ],
    )
    devices = [ow.Device(name="gpu", memory_bytes=20), ow.Device(name="npu", memory_bytes=20), ow.Device(name="cpu")]
    fields = {
        "graph": graph,
        "cluster": ow.Cluster(devices=devices, rates=[1.0, 1.0, 1e30]),
        "costs": ow.Costs.from_table({name: {"gpu": 1.0, "npu": 2.0, "cpu": 10.0} for name in NAMES}),
        "transfers": "blocking",
        "host": "cpu",
    }
    return ow.Placement(**{**fields, **changes})


def plan(devices: str, *starts: float) -> ow.Schedule:
    return ow.Schedule(
        device=dict(zip(NAMES, devices.split(), strict=True)), start=dict(zip(NAMES, starts, strict=True))
    )


def broken(problem: ow.Placement, solution: ow.Schedule) -> set[str]:
    return {violation.rule for violation in problem.evaluate(solution).violations}


def test_a_call_brings_in_runs_and_returns() -> None:
    # cpu: a until 10, and c beside the call; gpu: "of a" in 2, b 1, "of b" out 3, until 16; cpu: d from 20
    judged = problem().evaluate(plan("cpu gpu cpu cpu", 0.0, 10.0, 10.0, 20.0))
    assert judged.feasible
    assert judged.objective == 30.0
    acts = judged.timeline.activities
    assert acts.end[acts.kind == ActivityKind.RUN].tolist() == [10.0, 13.0, 20.0, 30.0]
    assert busy_seconds(judged.timeline)[3:6].tolist() == [3.0, 0.0, 2.0]


def test_a_tensor_is_returned_once_and_brought_in_once_by_each_call() -> None:
    # gpu: a and b, returns "of a" and "of b": 1 + 1 + 2 + 3 = 7; npu: brings in both, c and d: 2 + 3 + 2 + 2
    judged = problem().evaluate(plan("gpu gpu npu npu", 0.0, 0.0, 7.0, 7.0))
    assert judged.feasible
    assert judged.objective == 16.0
    timeline = judged.timeline
    kinds = timeline.activities.kind[timeline.activities.resource != 2]
    assert [int((kinds == kind).sum()) for kind in (ActivityKind.RUN, ActivityKind.SEND)] == [4, 4]


@pytest.mark.parametrize(
    ("devices", "starts", "changes", "rule"),
    [
        ("cpu gpu cpu cpu", (0.0, 9.0, 10.0, 20.0), {}, "precedence"),  # the call begins before its input is made
        ("cpu gpu cpu cpu", (0.0, 10.0, 0.0, 15.0), {}, "precedence"),  # d begins before the call has ended
        ("gpu cpu gpu gpu", (0.0, 9.0, 0.0, 0.0), {}, "contiguous"),
        ("gpu gpu cpu gpu", (0.0, 0.0, 6.0, 30.0), {}, "calls"),
        ("gpu gpu cpu gpu", (0.0, 2.0, 6.0, 30.0), {"max_calls": 3}, "precedence"),
        ("cpu gpu gpu cpu", (0.0, 10.0, 11.0, 30.0), {"max_calls": 2}, "overlap"),
        ("gpu gpu gpu gpu", (0.0, 0.0, 0.0, 0.0), {"constraints": [ow.MemoryCap(device="gpu", bytes=9)]}, "memory_cap"),
        ("gpu gpu gpu gpu", (0.0, 0.0, 0.0, 0.0), {"cluster": small()}, "memory"),
        ("cpu gpu cpu cpu", (0.0, 10.0, 10.0, 20.0), {"constraints": [ow.Pin(op="b", device="npu")]}, "pin"),
    ],
)
def test_broken_rules_are_named(devices: str, starts: tuple[float, ...], changes: dict[str, object], rule: str) -> None:
    assert rule in broken(problem(**changes), plan(devices, *starts))


def test_a_circle_that_takes_no_time_is_no_plan() -> None:
    free = {name: {"gpu": 0.0, "npu": 0.0, "cpu": 0.0} for name in NAMES}
    graph = problem().graph
    tensors = [tensor.model_copy(update={"bytes": 0}) for tensor in graph.tensors]
    instant = problem(costs=ow.Costs.from_table(free), graph=graph.model_copy(update={"tensors": tuple(tensors)}))
    assert broken(instant, plan("gpu cpu gpu gpu", 0.0, 0.0, 0.0, 0.0)) == {"contiguous"}


def test_listed_transfers_and_missing_links_are_violations() -> None:
    sent = ow.results.Transfer(tensor="of a", source="cpu", target="gpu", start=10.0, end=12.0)
    listed = plan("cpu gpu cpu cpu", 0.0, 10.0, 10.0, 20.0).model_copy(update={"transfers": (sent,)})
    assert broken(problem(), listed) == {"transfer"}
    cluster = ow.Cluster(devices=problem().cluster.devices, rates=[0.0, 1.0, 1.0])
    assert broken(problem(cluster=cluster), plan("cpu gpu cpu cpu", 0.0, 10.0, 10.0, 20.0)) == {"no_link"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": None}, "needs host"),
        ({"host": "cp"}, "the cluster has 'gpu', 'npu', 'cpu'"),
        ({"transfers": "delay"}, "host is for transfers='blocking'"),
        ({"transfers": "delay", "host": None, "max_calls": 2}, "max_calls is for"),
        ({"constraints": [ow.Precede(before="b", after="c")]}, "Precede cannot be combined with"),
        ({"max_calls": 0}, "max_calls"),
    ],
)
def test_readings_that_do_not_fit_get_a_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=words):
        problem(**changes)
