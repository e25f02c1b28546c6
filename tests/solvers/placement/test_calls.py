"""Solvers of blocking calls: against brute force, under hostile numbers, and on instances as published."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import opweave as ow
from benchmarks.readers import read_calls
from opweave.formulations.placement.calls import lower_calls
from opweave.solvers.placement.blocking.search import prove
from opweave.solvers.run import Run
from tests.oracles.calls import best_calls, makespan
from tests.strategies.calls import call_placements

SOLVERS = ("auto", "one_device", "calls")
RELATIVE = 1e-6


def check(problem: ow.Placement, solver: str, optimum: float | None) -> None:
    result = ow.solve(problem, solver=solver, time_limit=0.5)
    if result.solution is not None:
        assert optimum is not None
        assert result.verified
        assert result.objective >= optimum * (1 - RELATIVE)
    if optimum is not None and result.bound is not None:
        assert result.bound <= optimum * (1 + RELATIVE)
    assert optimum is None or result.status is not ow.Status.INFEASIBLE


@settings(max_examples=7, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(call_placements(4, 3))
def test_solvers_agree_with_brute_force(problem: ow.Placement) -> None:
    optimum = best_calls(problem)
    for solver in SOLVERS:
        if solver != "auto" and any(isinstance(each, ow.Separate | ow.MaxDevices) for each in problem.constraints):
            continue
        check(problem, solver, optimum)


@settings(max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(call_placements(4, 3, free=True))
def test_bounds_over_paths_hold(problem: ow.Placement) -> None:
    run = Run()
    prove(lower_calls(problem), run)
    assert run.bound <= best_calls(problem) * (1 + RELATIVE)


def instance(seed: int, nodes: int = 24, accelerators: int = 3) -> dict[str, object]:
    """A random instance in the published layout: a chain with branches and weights, and memory for a part of it."""
    rng = random.Random(seed)
    rows = [
        {
            "id": v,
            "fpgaLatency": rng.uniform(0.5, 2.0),
            "cpuLatency": rng.uniform(5.0, 20.0),
            "size": float(rng.randint(1, 9)),
            "supportedOnFpga": rng.random() > 0.05,
            "colorClass": v // 2 if rng.random() < 0.3 else 1000 + v,
        }
        for v in range(nodes)
    ]
    pairs = {(max(0, v - rng.randint(1, 4)), v) for v in range(1, nodes) for _ in range(2)}
    cost = [rng.uniform(0.1, 3.0) for _ in range(nodes)]
    room = sum(row["size"] for row in rows) / (accelerators - 0.5)
    edges = [{"sourceId": u, "destId": v, "cost": cost[u]} for u, v in sorted(pairs)]
    return {"maxFPGAs": accelerators, "maxCPUs": 1, "maxSizePerFPGA": room, "nodes": rows, "edges": edges}


def calls_in(solution: ow.Schedule, host: str) -> dict[str, tuple[str, int]]:
    """The step of every operator, as the oracle takes them."""
    host_steps = {name: position for position, name in enumerate(solution.device)}
    starts = {
        device: sorted({solution.start[n] for n, d in solution.device.items() if d == device})
        for device in set(solution.device.values())
    }
    return {
        name: (device, host_steps[name] if device == host else starts[device].index(solution.start[name]))
        for name, device in solution.device.items()
    }


@pytest.mark.parametrize("seed", range(2))
def test_published_instances_are_counted_as_there_and_searched_below_the_greedy(seed: int) -> None:
    problem = read_calls(instance(seed))
    greedy, best = (ow.solve(problem, solver=name, time_limit=0.5) for name in ("one_device", "auto"))
    assert best.verified
    assert best.bound <= best.objective
    if greedy.objective is not None:
        assert best.objective <= greedy.objective * (1 + RELATIVE)
    assert makespan(problem, calls_in(best.solution, problem.host)) == pytest.approx(best.objective)
    more = ow.solve(problem.model_copy(update={"max_calls": 2}), start=best.solution, time_limit=0.5)
    assert more.objective <= best.objective * (1 + RELATIVE)


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = read_calls(instance(5, nodes=45))
    first, second = (ow.solve(problem, solver="calls", seed=3) for _ in range(2))
    assert first.solution == second.solution


HOSTILE = (0.0, 1e-12, 1.0, 1e12)


@pytest.mark.parametrize(("fast", "slow"), list(itertools.product(HOSTILE, repeat=2)))
def test_hostile_numbers_give_no_false_bound(fast: float, slow: float) -> None:
    names = ("a", "b", "c")
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="x", bytes=2**50), ow.Tensor(id="y", bytes=0), ow.Tensor(id="z", bytes=1)],
        operators=[
            ow.Operator(id="a", outputs=["x"], workspace_bytes=2**50),
            ow.Operator(id="b", inputs=["x"], outputs=["y"]),
            ow.Operator(id="c", inputs=["x", "y"], outputs=["z"]),
        ],
    )
    devices = [ow.Device(name="gpu", memory_bytes=2**52), ow.Device(name="slow"), ow.Device(name="cpu")]
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=devices, rates=[1e30, 1e3, 1e9]),
        costs=ow.Costs.from_table({name: {"gpu": fast, "slow": slow, "cpu": 1.0} for name in names}),
        transfers="blocking",
        host="cpu",
        max_calls=None,
    )
    optimum = best_calls(problem)
    for solver in ("auto", "calls"):
        result = ow.solve(problem, solver=solver, time_limit=0.5)
        assert result.verified
        assert result.bound <= optimum * (1 + RELATIVE)
        assert result.objective >= optimum * (1 - RELATIVE)


def test_solvers_and_formulations_of_other_readings_refuse() -> None:
    problem = read_calls(instance(1))
    for name in ("heft", "local", "cp-sat", "decompose"):
        with pytest.raises(ow.UnsupportedFeatureError, match="blocking"):
            ow.solve(problem, solver=name)
    with pytest.raises(ow.UnsupportedFeatureError, match="does not know transfers='blocking'"):
        ow.build_model(problem, "disjunctive")
    assert [row.name for row in ow.list_solvers(problem) if row.baseline] == ["one_device"]


def test_rows_of_a_users_own_and_limits_on_devices_are_obeyed() -> None:
    problem = read_calls(instance(2, nodes=5))

    def extend(model: object, problem: ow.Placement) -> None:
        model.add(model.on("3", "host 1") == 1)

    result = ow.solve(problem, extend=extend, time_limit=1)
    assert result.verified
    assert result.solution.device["3"] == "host 1"
    few = problem.model_copy(update={"constraints": (*problem.constraints, ow.MaxDevices(count=1))})
    alone = ow.solve(few, time_limit=1)
    assert len(set(alone.solution.device.values())) == 1
