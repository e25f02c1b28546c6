"""What is said of a plan is what the numbers say."""

from __future__ import annotations

import opweave as ow
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from tests.adapters.report.placement.conftest import LEFT_ON_B, NAMES, fork, result_of, schedule_on


def changed(**fields: object) -> Placement:
    return Placement.model_validate({**fork().model_dump(), **fields})


def test_splitting_that_pays(problem: Placement, result: Result[Schedule]) -> None:
    text = ow.explain(problem, result)
    assert "The plan takes 15 ms on 2 of 3 devices." in text
    assert "Splitting pays: device 'a' alone takes 20 ms, so the plan is 1.33 times as fast." in text
    assert "The bottleneck is device 'a', which computes for 93.3 % of the time." in text
    assert "60 % computing on 'b'" in text
    assert "13.3 % sending" in text
    assert "No placement can be more than 20 % better (by hand)." in text


def test_one_device_is_the_best(problem: Placement) -> None:
    alone = result_of(problem, schedule_on(problem, dict.fromkeys(NAMES, "a")), bound=0.02)
    text = ow.explain(problem, alone.model_copy(update={"bound": alone.objective, "status": ow.Status.OPTIMAL}))
    assert "No split was found that pays: everything runs on 'a', the best single device." in text
    assert "It is proved that no placement is better." in text


def test_splitting_that_does_not_pay(problem: Placement) -> None:
    split = result_of(problem, schedule_on(problem, {name: "ab"[i % 2] for i, name in enumerate(NAMES)}))
    text = ow.explain(problem, split)
    assert "Splitting does not pay here: device 'a' alone takes 20 ms" in text
    assert "Nothing is proved" in text


def test_memory_that_is_full_is_named() -> None:
    devices = fork().cluster.model_dump()["devices"]
    devices[0]["memory_bytes"] = 21_000
    problem = changed(cluster=fork().cluster.model_dump() | {"devices": devices})
    text = ow.explain(problem, result_of(problem, schedule_on(problem, LEFT_ON_B)))
    assert "Memory is nearly full on 'a': 20.51 KiB of 20.51 KiB (100 %)." in text
    assert "No single device may run the whole model" in text  # a and b are too small, and times on c are unknown


def test_why_nothing_fits() -> None:
    tight = fork().cluster.model_dump()
    for device in tight["devices"]:
        device["memory_bytes"] = 2_000
    problem = changed(cluster=tight)
    nothing = Result[Schedule](problem="placement", status="infeasible", termination="completed", solver="fake")
    assert ow.explain(problem, nothing).startswith("No placement meets all requirements. ow.conflict(problem) names")
    said = nothing.model_copy(update={"reason": "the solver's own words"})
    assert "No placement meets all requirements: the solver's own words. ow.conflict" in ow.explain(problem, said)
    unknown = Result[Schedule](problem="placement", status="unknown", termination="time_limit", solver="fake")
    assert ow.explain(fork(), unknown) == "No placement was found (time limit)."
