"""Thresholds where devices may have several stages: never a false proof; annealed layouts are priced as judged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.pipeline.instance import lower
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.pipeline.blocks import BlockMaker
from opweave.solvers.pipeline.layouts import MIXED, LayoutArrays, anneal_layout, price
from opweave.solvers.pipeline.revisits import FOUND, NOTHING, Revisits
from opweave.solvers.pipeline.walks import without_ties
from opweave.solvers.run import never
from tests.oracles.pipeline import best_pipeline
from tests.solvers.pipeline.test_walks import ring
from tests.strategies import choices as st
from tests.strategies.pipeline import wide_pipelines

USUAL = {"cuts": "prefix", "delivery": "relay", "load": "overlap", "max_replicas": 1, "stateful": []}
THRESHOLDS = {"objective": "bottleneck", "channel": "dedicated"}


def of(problem: Pipeline, **fields: object) -> Pipeline:
    """The problem with other fields, checked."""
    return Pipeline.model_validate(problem.model_dump() | USUAL | {"max_visits": 2} | fields)


@settings(max_examples=20, deadline=None)
@given(problem=wide_pipelines(), shares=st.integers(1, 50))
def test_a_threshold_that_a_plan_keeps_is_never_refuted(problem: Pipeline, shares: int) -> None:
    problem = of(problem, **THRESHOLDS)
    optimum = best_pipeline(problem)[0]
    if optimum:
        tests = Revisits(BlockMaker(problem, lower(without_ties(problem))), never())
        assert tests.test(optimum, shares)[0] != NOTHING
        assert tests.test(optimum * 1.5, shares)[0] != NOTHING


@settings(max_examples=15, deadline=None)
@given(problem=wide_pipelines().filter(lambda each: each.max_replicas == 1))
def test_loads_shared_out_are_a_bound_for_every_reading(problem: Pipeline) -> None:
    problem = Pipeline.model_validate(problem.model_dump() | {"objective": "bottleneck"})
    optimum = best_pipeline(problem)[0]
    if optimum:
        blocks = BlockMaker(problem, lower(without_ties(problem)))
        assert blocks.shared_out(optimum) <= optimum


def test_what_a_shared_parameter_takes_is_counted_on_every_device_that_reads_it() -> None:
    """All operators hold 2 bytes, and both ends read 4 more: of two devices, one holds 8."""
    read = ow.Parameter(id="w", bytes=4)
    parameters = [read, *(ow.Parameter(id=f"p{i}", bytes=2) for i in range(3))]
    operators = [
        ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"], parameters=[f"p{i}", *(["w"] * (i != 1))])
        for i in range(3)
    ]
    tensors = [ow.Tensor(id=f"t{i}", bytes=1) for i in range(4)]
    for memory, answer in ((8, FOUND), (7, NOTHING)):
        devices = [ow.Device(name=name, memory_bytes=memory) for name in "ab"]
        problem = Pipeline(
            graph=ow.OpGraph(tensors=tensors, operators=operators, parameters=parameters),
            cluster=ow.Cluster(devices=devices, shared=1.0),
            costs=ow.Costs.from_table({f"o{i}": dict.fromkeys("ab", 1.0) for i in range(3)}),
            memory="parameters",
            max_visits=2,
        )
        tests = Revisits(BlockMaker(problem, lower(without_ties(problem))), never())
        assert tests.test(2.0, 2000)[0] == answer
        assert (best_pipeline(problem)[0] is None) == (answer == NOTHING)


def test_a_threshold_just_below_the_optimum_is_refuted() -> None:
    """Six equal operators on three devices, first and last one tied: two for each device, and no faster."""
    problem = ring(constraints=[ow.Colocate(ops=["o0", "o5"])])
    tests = Revisits(BlockMaker(problem, lower(without_ties(problem))), never())
    assert tests.test(1.99, 2000)[0] == NOTHING
    answer, layout = tests.test(2.0, 2000)
    assert answer == FOUND
    assert layout[-1][0] == 6
    assert layout[0][1] == layout[-1][1]


def test_without_a_limit_runs_are_the_same_compiled_and_not(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {f"o{k}": {name: 1.0 + (3 * k + 2 * v) % 5 for v, name in enumerate("abc")} for k in range(8)}
    problem = ring(8, costs=ow.Costs.from_table(seconds), constraints=[ow.Colocate(ops=["o0", "o7"])])
    found = []
    for choice in ("", "never"):
        monkeypatch.setenv("OPWEAVE_COMPILE", choice)
        result = ow.solve(problem, solver="visits", seed=3)
        found.append((result.solution, result.bound, [each.objective for each in result.incumbents]))
    assert found[0] == found[1]


def test_what_no_link_carries_in_time_stays_together() -> None:
    """Tensors take .25 s: below that nothing is cut, and one device needs 6 s."""
    problem = ring()
    tests = Revisits(BlockMaker(problem, lower(without_ties(problem))), never())
    first, groups = tests.blocks.together(0.2)
    assert (first.tolist(), groups.tolist()) == ([0], [0] * 6)


def test_layouts_that_bring_separate_operators_together_are_priced_as_broken() -> None:
    problem = ring()
    apart = problem.model_copy(update={"constraints": (ow.Separate(ops=("o0", "o4")),)})
    ends, devices = np.array([2, 4, 6]), np.array([0, 1, 0])
    for each, broken in ((problem, False), (apart, True)):
        arrays = LayoutArrays.of(each, lower(without_ties(each)))
        found = price(arrays, ends, devices, 3, math.inf, 1e30, np.zeros((2, 3 + len(arrays.rate))))
        assert (found >= 1e29) == broken


@settings(max_examples=40, deadline=None)
@given(problem=wide_pipelines(), seed=st.integers(0, 10**6))
def test_layouts_are_priced_as_the_referee_judges_them(problem: Pipeline, seed: int) -> None:
    problem = of(problem)
    instance = lower(without_ties(problem))
    if not instance.last or not instance.devices:
        return
    rng = np.random.default_rng(seed)
    ends = [*sorted(rng.choice(instance.last, size=min(3, instance.last), replace=False).tolist()), instance.last]
    ends = [end for end in ends if end > 0]
    devices = rng.integers(len(instance.devices), size=len(ends))
    devices = [int(v) for k, v in enumerate(devices) if k == 0 or v != devices[k - 1]]
    ends = [*ends[: len(devices) - 1], instance.last]
    arrays = LayoutArrays.of(problem, instance)
    found = price(
        arrays,
        np.array(ends),
        np.array(devices),
        len(ends),
        math.inf,
        1e30,
        np.zeros((2, len(ends) + len(arrays.rate))),
    )
    position = [0, *instance.position[ends].tolist()]
    stages = [
        Stage(device=instance.devices[v], operators=instance.names[a:b])
        for v, a, b in zip(devices, position[:-1], position[1:], strict=True)
    ]
    judged = problem.evaluate(Stages(stages=stages))
    if judged.feasible:
        assert judged.objective <= found * (1 + 1e-9)
        assert found <= judged.objective * (1 + MIXED + 1e-9) + 1e-12
    else:
        assert found >= 1e29


def test_annealing_keeps_ties() -> None:
    """Twelve layers with backward passes on three devices, from one device: all layers stay with their passes."""
    ties = tuple(ow.Colocate(ops=[f"o{k}", f"o{23 - k}"]) for k in range(12))
    problem = ring(24, constraints=ties)
    arrays = LayoutArrays.of(problem, lower(without_ties(problem)))
    ends, devices = np.zeros((2, 7), dtype=np.int64)
    ends[:5], devices[:5] = [2, 4, 20, 22, 24], [0, 1, 2, 1, 0]
    heat = np.array([0.5, 100.0, 3000.0])
    value, count = anneal_layout(arrays, ends, devices, 5, heat, 3, never())
    assert value == pytest.approx(8.0, rel=0.01)
    assert sorted(np.bincount(np.repeat(devices[:count], np.diff([0, *ends[:count]]))).tolist()) == [8, 8, 8]
