"""Decoder, list schedules, searches and splitting: plans are what they claim, and no worse than what they contain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.formulations.batched_mapping.instance import lower
from opweave.solvers.batched_mapping.anneal import DRAWS, anneal, new_walk
from opweave.solvers.batched_mapping.arrays import arrays_of, no_strings
from opweave.solvers.batched_mapping.plans import granules_of, order_by_start, plan_of, solution_of
from opweave.solvers.batched_mapping.search import search_of
from opweave.solvers.batched_mapping.workers import workers
from opweave.solvers.run import Run
from tests.strategies.batched_mapping import batched_mappings, planned_batched_mappings
from tests.tiny import graph_of

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
        fixed, walk = (search.arrays, no_strings(search.arrays, where), order), new_walk(search.arrays, where)
        found = anneal.py_func(*fixed, search.tail, search.strings, draws, heat, walk)
        return (walk.best_where, walk.best_order), found

    where, order = search.best.where.copy(), search.best.order.copy()
    draws = np.random.default_rng(seed).random((200, DRAWS))
    best, (least, current) = annealed(where, order, draws, np.full(200, 0.05 * search.makespan))
    assert annealed(where, order, *NO_DRAWS)[1] == (current, current)
    assert annealed(*best, *NO_DRAWS)[1] == (least, least)


@pytest.mark.parametrize("growth", ["A", "C"])
def test_auto_is_never_worse_than_any_list_schedule(growth):
    problem = stacked(SMALL, 8, growth)
    best = ow.solve(problem, time_limit=0.5)
    assert best.verified
    assert best.bound <= best.objective
    for name in LISTS:
        assert best.objective <= ow.solve(problem, solver=name).objective


def test_auto_proves_small_problems_well_before_their_time_is_up():
    """Searches alone end at 7 here, with a bound of 4.41 at most: the program has to have its turn."""
    graph = graph_of(dict.fromkeys("xpq", 10), {"p": "x", "q": "p"})
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


def test_one_input_over_one_channel_is_split_exactly():
    problem = stacked(SMALL)
    split, whole = ow.solve(problem, solver="split"), ow.solve(problem, time_limit=60)
    assert split.status is ow.Status.OPTIMAL
    assert "split" in split.bound_source
    assert split.objective == pytest.approx(whole.objective)


@pytest.mark.parametrize("batch", [1, 2])
def test_split_over_several_channels_is_valid(batch):
    problem = stacked(Stack(modules=2, nodes=3, channels=2, dependency="wdep"), batch)
    result = ow.solve(problem, solver="split", options={"channels": 2})
    assert result.verified
    assert result.objective <= ow.solve(problem, solver="heft").objective


def test_memory_does_not_make_bounds_of_modules_wrong():
    """One tensor with two readers, room for it once: counted by edges it would not fit."""
    reads = {"s0": "x", "a0": "s0", "b0": "s0", "j0": "a0 b0", "s1": "j0", "a1": "s1", "b1": "s1", "j1": "a1 b1"}
    graph = graph_of({name: 10 * (name == "s0") for name in ("x", *reads)}, reads)
    table = {name: {"fast": 1.0, "slow": 10.0 if name == "s0" else 1.0} for name in reads}
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


def test_what_placement_rounds_up_to_a_common_measure_of_times_is_a_bound_here_too():
    """The critical path is bisected down to a rest, which only the measure of 1 s closes."""
    problem = ow.BatchedMapping(
        graph=graph_of({"a": 1, "b": 2, "c": 1}, {"a": "", "b": "", "c": "a b"}),
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in "def"], rates=[1.0, 1.0, 1.0]),
        costs=ow.Costs.from_table(
            {"a": {"d": 2.0, "f": 2.0}, "b": {"d": 1.0, "e": 1.0, "f": 1.0}, "c": {"d": 0.0, "e": 0.0, "f": 1.0}}
        ),
    )
    result = ow.solve(problem)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 3.0)


@pytest.mark.parametrize("batch", [1, 2])
def test_every_worker_alone(batch):
    """No worker claims more than the optimum allows."""
    problem = stacked(Stack(modules=1, nodes=2), batch)
    best = ow.solve(problem, time_limit=60)
    assert best.status is ow.Status.OPTIMAL
    for worker in workers(problem, Run()):
        run = Run(time_limit=0.5)
        while worker.work(run, math.inf):
            pass
        assert run.bound is None or run.bound <= best.objective * (1 + 1e-6)
        assert run.best is None or problem.evaluate(run.best).objective >= best.objective * (1 - 1e-6)
