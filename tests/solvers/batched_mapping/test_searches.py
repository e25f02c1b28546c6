"""Decoder, list schedules, searches and splitting: plans are what they claim, and no worse than what they contain."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.servers import on_servers
from benchmarks.stacked import Stack, stacked
from opweave.formulations.batched_mapping.instance import lower
from opweave.solvers.batched_mapping.anneal import DRAWS, anneal, new_walk
from opweave.solvers.batched_mapping.arrays import arrays_of, no_strings
from opweave.solvers.batched_mapping.baselines import all_strings, attempts, groups_of
from opweave.solvers.batched_mapping.modules import modules_of
from opweave.solvers.batched_mapping.plans import granules_of, order_by_start, plan_of, solution_of
from opweave.solvers.batched_mapping.search import search_of
from opweave.solvers.batched_mapping.split import Split, solve_part
from opweave.solvers.batched_mapping.workers import workers
from opweave.solvers.run import Run
from tests.strategies.batched_mapping import batched_mappings, planned_batched_mappings

NO_DRAWS = (np.zeros((0, DRAWS)), np.zeros(0))

LISTS = ("best_device", "data_parallel", "met", "greedy", "heft")
SMALL = Stack(modules=3, nodes=4)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(planned_batched_mappings())
def test_decoding_a_plan_in_its_own_order_is_no_later(planned):
    problem, plan = planned
    instance = lower(problem)
    read = granules_of(instance, plan)
    if read is None:
        return  # inputs of one granule went different ways
    again = plan_of(arrays_of(instance), read.where, order_by_start(instance, read.where, read.end))
    judged = problem.evaluate(solution_of(instance, again))
    assert judged.feasible, judged.violations
    assert judged.objective == pytest.approx(again.makespan)
    assert again.makespan <= problem.evaluate(plan).objective * (1 + 1e-9)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(batched_mappings(4, 3, 4), st.integers(0, 9))
def test_annealing_knows_the_length_of_its_plans(problem, seed):
    """Moves decode only what they change; plans that are decoded from the beginning are equally long."""
    try:
        search = search_of(problem, Run())
    except Exception:
        return
    search.list_schedules()
    if search.best is None:
        return

    def annealed(where, order, draws, heat):
        best = where.copy(), order.copy()
        fixed = search.arrays, no_strings(search.arrays, where), order, search.tail, search.strings
        return best, anneal.py_func(*fixed, draws, heat, *best, new_walk(search.arrays, where.shape[1]))

    where, order = search.best.where.copy(), search.best.order.copy()
    draws = np.random.default_rng(seed).random((200, DRAWS))
    best, (least, current) = annealed(where, order, draws, np.full(200, 0.05 * search.makespan))
    assert annealed(where, order, *NO_DRAWS)[1] == (current, current)
    assert annealed(*best, *NO_DRAWS)[1] == (least, least)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(batched_mappings(3, 3, 4))
def test_list_schedules_are_valid_by_their_own_account(problem):
    try:
        instance = lower(problem)
    except Exception:
        return
    for plan in attempts(instance, arrays_of(instance), all_strings(instance, groups_of(problem))):
        judged = problem.evaluate(solution_of(instance, plan))
        others = {violation.rule for violation in judged.violations} - {"colocate", "separate", "max_devices"}
        assert not others
        assert judged.objective == pytest.approx(plan.makespan)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(batched_mappings(2, 3, 4))
def test_data_parallel_takes_the_best_of_all_shares(problem):
    """Against every way to deal the batch to the devices, each running the whole model."""
    if problem.constraints:
        return
    found = ow.solve(problem, solver="data_parallel")
    names = list(problem.cluster.device_index)
    operators = list(problem.known_seconds)
    best = None
    for counts in product(range(problem.batch + 1), repeat=len(names)):
        chosen = [(name, count) for name, count in zip(names, counts, strict=True) if count]
        if sum(counts) != problem.batch or not all(
            count in problem.known_seconds[op].get(name, {}) for name, count in chosen for op in operators
        ):
            continue
        limits = problem.memory_limits
        loads = [(limits[name], problem.memory_of(dict.fromkeys(operators, count))) for name, count in chosen]
        if any(limit is not None and load > limit for limit, load in loads):
            continue
        latest = max(sum(problem.known_seconds[op][name][count] for op in operators) for name, count in chosen)
        best = latest if best is None else min(best, latest)
    assert found.objective == (None if best is None else pytest.approx(best))


@pytest.mark.parametrize("growth", ["A", "C"])
def test_auto_is_never_worse_than_any_list_schedule(growth):
    problem = stacked(SMALL, 8, growth)
    best = ow.solve(problem, time_limit=1.0)
    assert best.verified
    assert best.bound <= best.objective
    for name in LISTS:
        assert best.objective <= ow.solve(problem, solver=name).objective


def test_auto_proves_small_problems_well_before_their_time_is_up():
    """Searches alone end at 7 here, with a bound of 4.41 at most: the program has to have its turn."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=10) for name in "xyz"],
        operators=[ow.Operator(id="p", inputs=["x"], outputs=["y"]), ow.Operator(id="q", inputs=["y"], outputs=["z"])],
    )
    table = {
        "p": {"a": {1: 2.0, 2: 4.0, 3: 6.0, 4: 8.0, 6: 12.0}, "b": {1: 2.5, 2: 4.5, 3: 6.5, 4: 8.5, 6: 12.5}},
        "q": {"a": {1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0, 6: 7.0}, "b": {1: 3.0, 2: 5.0, 3: 7.0, 4: 9.0, 6: 13.0}},
    }
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, 5], [2, 0]])
    costs = ow.Costs.from_table(table)
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=6, transfers="delay_per_input")
    result = ow.solve(problem, time_limit=60.0)
    assert result.status is ow.Status.OPTIMAL
    assert result.timings.solve < 30.0


@pytest.mark.parametrize("solver", ["local", "split"])
def test_searches_improve_and_repeat(solver):
    problem = stacked(Stack(modules=1, nodes=5), 4)
    first, second = (ow.solve(problem, solver=solver, seed=3) for _ in range(2))
    assert first.verified
    assert first.solution == second.solution
    assert first.objective <= ow.solve(problem, solver="met").objective


def test_searches_keep_within_memory():
    problem = stacked(SMALL, 4)
    free = ow.solve(problem, solver="local").solution
    used = problem.memory_by_device(free)
    devices = [
        device.model_copy(update={"memory_bytes": int(0.9 * used[device.name])})
        for device in problem.cluster.devices[:1]
    ]
    cluster = problem.cluster.model_copy(update={"devices": (*devices, *problem.cluster.devices[1:])})
    tight = problem.model_copy(update={"cluster": cluster})
    result = ow.solve(tight, solver="local")
    assert result.verified
    assert tight.memory_by_device(result.solution)["cpu"] <= devices[0].memory_bytes


def test_modules_of_stacked_networks():
    instance = lower(stacked(Stack(modules=4, nodes=6)))
    modules = modules_of(instance, 1)
    assert sum(len(module.operators) for module in modules) == instance.operators
    assert len(modules) >= 4
    assert all(len(module.leaves) == 1 for module in modules[:-1])
    wide = lower(stacked(Stack(modules=4, nodes=6, channels=2, dependency="wdep")))
    assert all(len(module.leaves) <= 2 for module in modules_of(wide, 2))


def test_one_input_over_one_channel_is_split_exactly():
    problem = stacked(SMALL)
    split, whole = ow.solve(problem, solver="split"), ow.solve(problem, time_limit=60)
    assert split.status is ow.Status.OPTIMAL
    assert "split" in split.bound_source
    assert split.objective == pytest.approx(whole.objective)


def test_any_engine_solves_the_modules():
    problem = stacked(Stack(modules=2, nodes=3))
    exact = ow.solve(problem, solver="split")
    highs = ow.solve(problem, solver="split", options={"module_solver": "highs"})
    assert highs.objective == pytest.approx(exact.objective)


def test_modules_with_open_ends_bound_every_part():
    problem = stacked(SMALL)
    work = Split(problem, Run(), 1)
    work.write()
    bound, _ = work.join("bound")
    work.solve()
    exact, _ = work.join("objective")
    assert bound <= exact * (1 + 1e-9)
    assert bound >= 0.98 * exact  # transfers between modules are all that it leaves out


@pytest.mark.parametrize("batch", [1, 4])
def test_split_over_several_channels_is_valid(batch):
    problem = stacked(Stack(modules=3, nodes=4, channels=2, dependency="wdep"), batch)
    result = ow.solve(problem, solver="split", options={"channels": 2})
    assert result.verified
    assert result.objective <= ow.solve(problem, solver="heft").objective


def test_equal_modules_are_solved_once(monkeypatch):
    asked = []

    def counted(problem, *rest):
        asked.append(problem)
        return solve_part(problem, *rest)

    monkeypatch.setattr("opweave.solvers.batched_mapping.split.solve_part", counted)
    names = [f"o{i}" for i in range(24)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=8) for i in range(24)],
        operators=[
            ow.Operator(id=name, inputs=[f"t{i - 1}"] if i else [], outputs=[f"t{i}"]) for i, name in enumerate(names)
        ],
    )
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0, 8], [8, 0]])
    costs = ow.Costs.from_table({name: {"a": 1.0, "b": 2.0} for name in names})
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs)
    result = ow.solve(problem, solver="split")
    assert result.objective == 24.0
    assert len(asked) <= 4 + 2 + 2 + 3  # inner modules, the first and the last, between two devices; free ends


def test_memory_does_not_make_bounds_of_modules_wrong():
    """One tensor with two readers, room for it once: counted by edges it would not fit."""
    reads = {"s0": ["x"], "a0": ["s0"], "b0": ["s0"], "j0": ["a0", "b0"]}
    reads |= {"s1": ["j0"], "a1": ["s1"], "b1": ["s1"], "j1": ["a1", "b1"]}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=10 * (name == "s0")) for name in ("x", *reads)],
        operators=[ow.Operator(id=name.upper(), inputs=names, outputs=[name]) for name, names in reads.items()],
    )
    table = {name.upper(): {"fast": 1.0, "slow": 10.0 if name == "s0" else 1.0} for name in reads}
    devices = [ow.Device(name="fast", memory_bytes=15), ow.Device(name="slow")]
    cluster = ow.Cluster(devices=devices, bandwidth=[[0, 1000], [1000, 0]])
    costs = ow.Costs.from_table(table)
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs, memory="additive")
    optimum = ow.solve(problem, solver="highs").objective
    for solver in ("highs", ""):
        result = ow.solve(problem, solver="split", options={"module_solver": solver})
        assert result.verified
        assert result.objective == pytest.approx(optimum)
        assert result.bound <= optimum * (1 + 1e-9)


def test_modules_keep_to_the_side_constraints():
    names = [f"o{i}" for i in range(12)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=0) for i in range(12)],
        operators=[
            ow.Operator(id=name, inputs=[f"t{i - 1}"] if i else [], outputs=[f"t{i}"]) for i, name in enumerate(names)
        ],
    )
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in ("slow", "fast")], bandwidth=[[0, 1], [1, 0]])
    costs = ow.Costs.from_table({name: {"slow": {1: 3.0, 2: 4.0}, "fast": {1: 1.0, 2: 1.5}} for name in names})
    rules = [*(ow.Forbid(op=name, device="fast") for name in names[1:]), ow.Pin(op="o0", device="slow")]
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=2, constraints=rules)
    work = Split(problem, Run(), 1, "highs")
    work.write()
    work.solve()
    length, way = work.join("objective")
    where, _ = work.plan(way)
    assert length == pytest.approx(48.0)
    assert (where == 0).all()


def test_where_a_batch_cannot_be_split_placement_proves_it():
    problem = stacked(SMALL)
    result = ow.solve(problem, time_limit=200)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(ow.solve(problem, solver="split").objective)


def test_what_placement_rounds_up_to_a_common_measure_of_times_is_a_bound_here_too():
    """The critical path is bisected down to a rest, which only the measure of 1 s closes."""
    problem = ow.BatchedMapping(
        graph=ow.OpGraph(
            tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("a", 1), ("b", 2), ("c", 1))],
            operators=[
                ow.Operator(id="a", outputs=["a"]),
                ow.Operator(id="b", outputs=["b"]),
                ow.Operator(id="c", inputs=["a", "b"], outputs=["c"]),
            ],
        ),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "def"], rates=[1.0, 1.0, 1.0]),
        costs=ow.Costs.from_table(
            {"a": {"d": 2.0, "f": 2.0}, "b": {"d": 1.0, "e": 1.0, "f": 1.0}, "c": {"d": 0.0, "e": 0.0, "f": 1.0}}
        ),
    )
    result = ow.solve(problem)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 3.0)


def test_identities_stay_right_where_edges_close_circles():
    """A diamond whose two branches run on different devices for different inputs."""
    rng = np.random.default_rng(0)
    for seed in range(3):
        problem = stacked(Stack(modules=1, nodes=6, seed=seed), 4)
        assert ow.solve(problem, solver="local", seed=int(rng.integers(99))).verified


def test_one_servers_plan_on_every_server():
    problem = on_servers(1, 2, 2, 5)  # the second server gets two inputs, the first three
    result = ow.solve(problem, solver="replicated")
    assert result.verified
    inputs = result.solution.inputs_by_device()
    assert sum(count for (op, device), count in inputs.items() if op == "l0.norm" and device.startswith("s0")) == 3

    def reached(now: ow.results.Progress) -> bool:
        return now.objective is not None and now.objective <= result.objective

    assert ow.solve(problem, time_limit=60.0, callback=reached).objective <= result.objective
    single = ow.solve(stacked(SMALL, 4), solver="replicated")
    assert single.solution is None
    assert "equal servers" in single.reason


@pytest.mark.parametrize("batch", [1, 2])
def test_every_worker_alone(batch):
    """No worker claims more than the optimum allows."""
    problem = stacked(Stack(modules=1, nodes=2), batch)
    best = ow.solve(problem, time_limit=60)
    assert best.status is ow.Status.OPTIMAL
    for worker in workers(problem, Run()):
        run = Run(time_limit=2.0)
        while worker.work(run, math.inf):
            pass
        assert run.bound is None or run.bound <= best.objective * (1 + 1e-6)
        assert run.best is None or problem.evaluate(run.best).objective >= best.objective * (1 - 1e-6)
