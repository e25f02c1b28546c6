"""Backbones, contracted chains and long coolings: what is left out, and that plans of a part are plans of the whole."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.anneal import order_for
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.backbone import backbone_of, whole_plan
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.windows import modules
from opweave.solvers.placement.cooling import contraction_of, cool_down
from opweave.solvers.placement.local import empty_search
from opweave.solvers.placement.plans import plan_of, schedule_of
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import small_problem


def rotary_problem(layers: int, room: int | None = None, late: bool = False, steps: int = 0) -> Placement:
    """Layers of two branches and a sum; each reads a mask that a chain of two makes, and a constant of its own.

    With ``steps``, a layer makes its constant from what the mask is made of, in so many steps.
    """
    tensors, operators, table = [ow.Tensor(id="x", bytes=4)], [], {}

    def run(name: str, inputs: list[str], size: int, seconds: tuple[float, float], weights: int = 0) -> str:
        tensors.append(ow.Tensor(id=name, bytes=size))
        held = [f"{name}.w"] if weights else []
        operators.append(ow.Operator(id=name, inputs=inputs, outputs=[name], parameters=held))
        table[name] = dict(zip(("a", "b"), seconds, strict=True))
        return name

    state = run("embed", ["x"], 4, (1.0, 2.0))
    mask = run("mask", [run("range", [], 1, (0.1, 0.1))], 1, (0.1, 0.1))
    for layer in range(layers):
        at = f"l{layer}."
        reads = [state, mask, *([run(at + "constant", [], 1, (0.0, 0.0))] if late else [])]
        table_of_layer = "range"
        for step in range(steps):
            table_of_layer = run(f"{at}table{step}", [table_of_layer], 1, (0.0, 0.0))
        reads += [table_of_layer] if steps else []
        left = run(at + "left", reads, 4, (3.0, 4.0), weights=5)
        right = run(at + "right", [state], 4, (2.0, 5.0), weights=3)
        state = run(at + "sum", [left, right], 4, (1.0, 1.0))
    graph = ow.OpGraph(
        tensors=tensors,
        operators=operators,
        parameters=[
            ow.Parameter(id=f"l{k}.{name}.w", bytes=size)
            for k in range(layers)
            for name, size in (("left", 5), ("right", 3))
        ],
    )
    devices = [ow.Device(name=name, memory_bytes=room) for name in ("a", "b")]
    return Placement(
        graph=graph,
        cluster=ow.Cluster(devices=devices, shared=2.0),
        costs=ow.Costs.from_table(table),
        memory="parameters",
    )


def lowered(problem: Placement) -> tuple[PlacementInstance, PlacementArrays]:
    instance = lower(problem)
    return instance, arrays_of(instance, problem)


@pytest.mark.parametrize("late", [False, True])
def test_a_mask_that_all_layers_read_hides_no_layer(late: bool) -> None:
    instance, arrays = lowered(rotary_problem(30, late=late))
    assert max(len(window.inner) for window in modules(arrays)[1]) > 60
    within = backbone_of(instance, arrays)
    assert within is not None
    sizes = [len(window.inner) for window in modules(within.arrays)[1]]
    assert sorted(sizes)[-2] == 2
    assert sizes.count(2) >= 24  # the first layers read the mask nearby
    lost = set(instance.names) - set(within.instance.names)
    assert all(name.endswith("constant") for name in lost)
    assert len(lost) >= 24 if late else not lost
    crossing = within.instance.tensors.index("mask")
    assert (within.instance.tensor == crossing).sum() <= 13  # the others passed the first reader by far


def test_tables_that_layers_make_for_themselves_hide_no_layer() -> None:
    """The steps of one table begin near the first reader and end far behind it; none of them may become a dead end."""
    instance, arrays = lowered(rotary_problem(30, steps=7))
    within = backbone_of(instance, arrays)
    assert within is not None
    sizes = [len(window.inner) for window in modules(within.arrays)[1]]
    assert sizes.count(2) >= 26
    ends = np.flatnonzero(np.diff(within.arrays.after_start) == 0)
    assert len(ends) == 1


def test_a_chain_needs_no_backbone() -> None:
    problem = rotary_problem(30)
    graph = problem.graph
    operators = [
        op.model_copy(update={"inputs": tuple(name for name in op.inputs if name != "mask")})
        for op in graph.operators
        if op.id not in ("mask", "range")
    ]
    tensors = [tensor for tensor in graph.tensors if tensor.id not in ("mask", "range")]
    plain = ow.OpGraph(tensors=tensors, operators=operators, parameters=graph.parameters)
    instance, arrays = lowered(problem.model_copy(update={"graph": plain}))
    assert backbone_of(instance, arrays) is None


def test_a_plan_of_the_backbone_becomes_a_plan_of_the_whole() -> None:
    problem = rotary_problem(30, late=True)
    instance, arrays = lowered(problem)
    within = backbone_of(instance, arrays)
    assert within is not None
    rng = np.random.default_rng(0)
    device = rng.integers(0, 2, len(within.operators)).astype(np.int64)
    order = operator_order(within.arrays)
    short = plan_of(within.arrays, order, device)
    everything, everywhere = whole_plan(instance, arrays, within, order, device)
    assert (everywhere[within.operators] == device).all()
    long = plan_of(arrays, everything, everywhere)
    judged = problem.evaluate(schedule_of(instance, arrays, everything, everywhere))
    assert judged.feasible
    assert judged.objective == pytest.approx(long.makespan)
    assert short.makespan > 0.0


@pytest.mark.parametrize("room", [None, 130])
def test_layers_behind_a_mask_are_planned_as_equal_units(room: int | None) -> None:
    result = ow.solve(rotary_problem(30, room), solver="units", time_limit=20)
    assert result.verified
    assert result.bound is not None
    assert result.gap is not None
    assert result.gap < 0.12


@pytest.mark.parametrize("light", [0.0, 0.25, 100.0])
@pytest.mark.parametrize("seed", range(30))
def test_a_plan_of_the_chains_is_a_plan_of_the_operators(seed: int, light: float) -> None:
    """It lasts as long at most, whether only chains are joined or trees as well."""
    problem = small_problem(seed, most_operators=7)
    instance, arrays = lowered(problem)
    chains = contraction_of(arrays, instance.cluster, light)
    able = np.isfinite(chains.arrays.seconds)
    if not able.any(axis=1).all():
        return
    device = np.where(able, chains.arrays.seconds, np.inf).argmin(axis=1).astype(np.int64)
    order = np.empty(len(device), dtype=np.int64)
    order_for.py_func(chains.arrays, device, order)
    together = plan_of(chains.arrays, order, device)
    apart = plan_of(arrays, *chains.expanded(order, device))
    assert apart.makespan <= together.makespan * (1 + 1e-9)
    again, where = chains.contracted(*chains.expanded(order, device))
    assert (where == device).all()
    assert (again == order).all()
    assert sorted(chains.members.items.tolist()) == list(range(instance.operators))


def test_light_operators_join_their_only_reader() -> None:
    """Sending takes 5 s, so 1.25 s is light here: neither the heavy one joins the sum, nor the one that two read."""
    seconds = {"light": 0.1, "lighter": 0.2, "heavy": 3.0, "shared": 0.1, "sum": 0.1, "other": 0.1}
    feeds = {"sum": ("light", "lighter", "heavy", "shared"), "other": ("shared", "sum")}
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=10) for name in seconds],
        operators=[ow.Operator(id=name, inputs=feeds.get(name, ()), outputs=[name]) for name in seconds],
    )
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], shared=2.0)
    table = {name: dict.fromkeys("ab", value) for name, value in seconds.items()}
    instance, arrays = lowered(Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table)))
    joined = contraction_of(arrays, instance.cluster, 0.25)
    together = [{instance.names[v] for v in joined.members[row]} for row in range(len(joined.arrays.seconds))]
    assert sorted(map(sorted, together)) == [["heavy"], ["light", "lighter", "other", "sum"], ["shared"]]


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_long_cooling_improves_what_it_starts_from(seed: int) -> None:
    problem = small_problem(seed, most_operators=6)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    run = Run(time_limit=0.3)
    search = empty_search(problem, run)
    search.consider(operator_order(search.arrays), search.arrays.seconds.argmin(axis=1).astype(np.int64))
    first = search.makespan
    cool_down(search)
    assert run.objective is not None
    assert optimum * (1 - 1e-9) <= run.objective <= first
    assert run.objective < first or first <= optimum * 1.2
    assert problem.evaluate(run.best).objective == pytest.approx(run.objective)
