"""Placements in consecutive stages, against every way to cut a row of operators."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import pytest

import opweave as ow
from tests.tiny import row_of

SECONDS = [[1.0, 2.0, 4.0]] * 6
BYTES = 10


def row(memory: tuple[int, ...], rate: float, constraints: tuple[ow.Constraint, ...] = ()) -> ow.Placement:
    """Six operators of ten bytes in a row, on devices that get slower."""
    devices = [ow.Device(name=name, memory_bytes=size) for name, size in zip("abc", memory, strict=True)]
    costs = ow.Costs(operators=[f"o{i}" for i in range(6)], devices=["a", "b", "c"], table=SECONDS)
    cluster = ow.Cluster(devices=devices, shared=rate)
    return ow.Placement(row_of(6, *[BYTES] * 6), cluster, costs, memory="parameters", constraints=constraints)


def best_in_stages(problem: ow.Placement) -> float | None:
    """The least latency over all cuts and all sequences of devices, judged by the referee's own schedule."""
    names = [each.id for each in problem.graph.operators]
    found = []
    for count in range(1, len(problem.cluster.devices) + 1):
        for cuts in combinations(range(1, len(names)), count - 1):
            ends = [0, *cuts, len(names)]
            for devices in permutations([device.name for device in problem.cluster.devices], count):
                where = {
                    name: device for device, (a, b) in zip(devices, pairwise(ends), strict=True) for name in names[a:b]
                }
                start, clock = {}, 0.0
                for i, name in enumerate(names):
                    clock += float(i > 0 and where[name] != where[names[i - 1]]) / problem.cluster.shared
                    start[name] = clock
                    clock += SECONDS[i]["abc".index(where[name])]
                held = {device: BYTES * list(where.values()).count(device) for device in devices}
                allowed = {device.name: device.memory_bytes for device in problem.cluster.devices}
                if all(held[device] <= allowed[device] for device in devices):
                    found.append(clock)
    return min(found, default=None)


@pytest.mark.parametrize("memory", [(20, 20, 20), (30, 20, 60), (10, 40, 20), (60, 60, 60), (20, 20, 10)])
@pytest.mark.parametrize("rate", [0.1, 1.0, 100.0])
def test_stages_are_the_best_consecutive_ones(memory: tuple[int, ...], rate: float) -> None:
    problem = row(memory, rate)
    result, best = ow.solve(problem, solver="stages"), best_in_stages(problem)
    if best is None:
        assert result.solution is None
        assert result.reason
        return
    assert result.verified
    assert result.objective == pytest.approx(best)
    assert ow.solve(problem).objective <= result.objective * (1 + 1e-9)


def test_rules_of_the_placement_hold_or_the_solver_says_why_not() -> None:
    pinned = ow.solve(row((40, 40, 40), 1.0, (ow.Pin(op="o5", device="c"),)), solver="stages")
    assert pinned.verified
    assert pinned.solution.device["o5"] == "c"
    first = ow.solve(row((40, 40, 40), 1.0, (ow.Precede(before="o0", after="o5"),)), solver="stages")
    assert first.solution is not None or "pipeline" in (first.reason or "")
