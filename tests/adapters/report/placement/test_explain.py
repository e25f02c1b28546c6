"""What is said of a plan is what the numbers say."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.report.views import show
from opweave.adapters.report.wording import Alone
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from tests.adapters.report.placement.conftest import LEFT_ON_B, NAMES, fork, result_of
from tests.adapters.report.placement.schedules import schedule_on


def changed(**fields: object) -> Placement:
    return Placement.model_validate({**fork().model_dump(), **fields})


def test_splitting_that_pays(problem: Placement, result: Result[Schedule]) -> None:
    text = ow.explain(problem, result)
    assert "The plan takes 15 ms on 2 of 3 devices." in text
    assert "Splitting pays: device 'a' alone takes 20 ms, so the plan is 1.33 times as fast." in text
    assert "The bottleneck is device 'a', which computes for 93.3 % of the time." in text
    assert "60 % computing on 'b'" in text
    assert "13.3 % sending" in text
    assert "No placement can be more than 20 % shorter (by hand)." in text


def test_one_device_is_the_best(problem: Placement) -> None:
    alone = result_of(problem, schedule_on(problem, dict.fromkeys(NAMES, "a")), bound=0.02)
    text = ow.explain(problem, alone.model_copy(update={"bound": alone.objective, "status": ow.Status.OPTIMAL}))
    assert "Splitting was not found to pay: everything runs on 'a', the best single device." in text
    assert "It is proved that no placement is shorter." in text


def test_splitting_that_does_not_pay(problem: Placement) -> None:
    split = result_of(problem, schedule_on(problem, {name: "ab"[i % 2] for i, name in enumerate(NAMES)}))
    text = ow.explain(problem, split)
    assert "Splitting does not pay here: device 'a' alone takes 20 ms" in text
    assert "Nothing is proved" in text


def test_a_port_that_holds_everything_up() -> None:
    slow = fork().cluster.model_dump() | {"bandwidth": [[0, 1e4, 1e4], [1e4, 0, 1e4], [1e4, 1e4, 0]]}
    problem = changed(cluster=slow)
    text = ow.explain(problem, result_of(problem, schedule_on(problem, LEFT_ON_B)))
    assert "The bottleneck is the critical path" in text
    every_second = {name: "ab"[i % 2] for i, name in enumerate(NAMES)}
    text = ow.explain(problem, result_of(problem, schedule_on(problem, every_second)))
    assert "sending" in text
    assert "waits for a port" in text


def test_memory_that_is_full_is_named() -> None:
    devices = fork().cluster.model_dump()["devices"]
    devices[0]["memory_bytes"] = 21_000
    problem = changed(cluster=fork().cluster.model_dump() | {"devices": devices})
    text = ow.explain(problem, result_of(problem, schedule_on(problem, LEFT_ON_B)))
    assert "Memory binds on 'a': 20.51 KiB of 20.51 KiB (100 %)." in text
    assert "No single device may run the whole model" in text  # a and b are too small, and times on c are unknown


def alone_in(problem: Placement) -> Alone | None:
    return show(problem, Result(problem="placement", status="unknown", termination="completed", solver="fake")).alone


def test_the_best_single_device_obeys_the_rules(problem: Placement) -> None:
    assert alone_in(problem) == ("a", pytest.approx(0.02))
    roomy = fork().cluster.model_dump()
    roomy["devices"][1]["memory_bytes"] = 40_000
    forbidden = changed(cluster=roomy, constraints=[ow.Forbid(op="stem", device="a")])
    assert alone_in(forbidden) == ("b", pytest.approx(0.03))
    ordered = changed(constraints=[ow.Precede(before="right 5", after="left 1")])
    assert alone_in(ordered) == ("a", pytest.approx(0.02))
    circle = changed(constraints=[ow.Precede(before="join", after="stem")])
    assert alone_in(circle) is None


def test_why_nothing_fits() -> None:
    tight = fork().cluster.model_dump()
    for device in tight["devices"]:
        device["memory_bytes"] = 2_000
    problem = changed(cluster=tight)
    nothing = Result[Schedule](problem="placement", status="infeasible", termination="completed", solver="fake")
    assert ow.explain(problem, nothing).startswith("No placement obeys all rules. ow.conflict(problem) names")
    said = nothing.model_copy(update={"reason": "the solver's own words"})
    assert "No placement obeys all rules: the solver's own words. ow.conflict" in ow.explain(problem, said)
    unknown = Result[Schedule](problem="placement", status="unknown", termination="time_limit", solver="fake")
    assert ow.explain(fork(), unknown) == "No placement was found (time limit)."
