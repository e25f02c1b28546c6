"""From plans to layout problems: lifetimes by hand, and what must hold for every plan."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from tests.oracles.placement import best_placement
from tests.strategies.specs import placements
from tests.tiny import PROBLEMS


def rows(layout: ow.MemoryLayout) -> dict[str, tuple[float, float, int]]:
    return {each.id: (each.begin, each.end, each.bytes) for each in layout.lifetimes}


def test_an_order_by_hand() -> None:
    """x is there before the first step, and read by a and b; c is a result and stays."""
    problem = PROBLEMS["memory_ordering"]
    layout = ow.MemoryLayout.of(problem, ow.Ordering(order=["b", "a", "c"]))
    assert rows(layout) == {"x": (-1, 2, 2), "a": (1, 3, 8), "b": (0, 3, 4), "c": (2, 3, 1)}
    (x,) = (each for each in layout.lifetimes if each.id == "x")
    assert (x.operators, x.traffic) == (("a", "b"), 4)
    fast = ow.MemoryLayout.of(problem, ow.solve(problem), pools=[ow.Pool(name="fast", bytes=8), ow.Pool(name="slow")])
    assert [pool.name for pool in fast.pools] == ["fast", "slow"]


def test_a_placement_by_hand() -> None:
    """a runs on d from 0 to 1 and reads x; b comes from e, c reads both and stays."""
    problem = PROBLEMS["placement"]
    result = ow.solve(problem)
    where = dict(result.solution.device)
    assert where == {"a": "d", "b": "e", "c": "d"}
    layout = ow.MemoryLayout.of(problem, result, device="d")
    sent = result.solution.transfers[0]
    end = result.objective
    assert rows(layout) == {"x": (0, 1, 2), "a": (0, end, 8), "b": (sent.start, end, 4), "c": (sent.end, end, 1)}
    assert layout.pools[0].bytes == 40
    assert rows(ow.MemoryLayout.of(problem, result, device="e")) == {"x": (0, 1, 2), "b": (0, sent.end, 4)}


def test_parameters_and_workspaces_have_places_too() -> None:
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=4) for name in ("x", "y", "view")],
        operators=[
            ow.Operator(id="y", inputs=["x"], outputs=["y"], parameters=["w"], workspace_bytes=9),
            ow.Operator(id="q", inputs=["y"], outputs=["view"]),
        ],
        parameters=[ow.Parameter(id="w", bytes=100)],
        outputs=["view"],
    )
    made = ow.MemoryLayout.of(ow.MemoryOrdering(graph), ow.Ordering(order=["y", "q"]))
    assert rows(made)["y (workspace)"] == (0, 1, 9)
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name="d")], bandwidth=[[0]]),
        costs=ow.Costs.from_table({"y": {"d": 1.0}, "q": {"d": 2.0}}),
    )
    found = rows(ow.MemoryLayout.of(problem, ow.solve(problem), device="d"))
    assert found == {"x": (0, 1, 4), "y": (0, 3, 4), "view": (1, 3, 4), "y (workspace)": (0, 1, 9), "w": (0, 3, 100)}


def test_what_has_no_storages_is_refused() -> None:
    slicing = PROBLEMS["slicing"]
    with pytest.raises(ow.InvalidInputError, match="a Slicing has no lifetimes; use MemoryOrdering"):
        ow.MemoryLayout.of(slicing, ow.solve(slicing))
    placement = PROBLEMS["placement"]
    for device, said in ((None, "name one with device="), ("f", "there is no 'f'")):
        with pytest.raises(ow.InvalidInputError, match=said):
            ow.MemoryLayout.of(placement, ow.solve(placement), device=device)
    with pytest.raises(ow.InvalidInputError, match="cannot be carried out: 'c' never runs"):
        ow.MemoryLayout.of(PROBLEMS["memory_ordering"], ow.Ordering(order=["a", "b"]))


@settings(suppress_health_check=list(HealthCheck), max_examples=15)
@given(problem=placements(4))
def test_a_device_holds_no_more_than_all_it_ever_has(problem: ow.Placement) -> None:
    _, plan = best_placement(problem)
    assume(plan is not None and problem.evaluate(plan).feasible)
    graph = problem.graph
    for device in problem.cluster.devices:
        layout = ow.MemoryLayout.of(problem, plan, device=device.name)
        own = {op for op, where in plan.device.items() if where == device.name}
        storages = {each.id.rstrip("'") for each in layout.lifetimes}
        made = {name for op in graph.operators if op.id in own for name in op.outputs}
        assert {name for name in made if graph.owned_bytes[name]} <= storages
        assert all(0 <= each.begin <= each.end for each in layout.lifetimes)
        assert layout.live_peak <= sum(each.bytes for each in layout.lifetimes)


def test_the_layout_of_an_order_holds_what_is_written_in_place_and_refuses_too_much() -> None:
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=2**40) for name in "xyz"],
        operators=[
            ow.Operator(id="p", inputs=["x"], outputs=["y"], inplace_ok=True, workspace_bytes=3),
            ow.Operator(id="q", inputs=["y"], outputs=["z"]),
        ],
        outputs=["z"],
    )
    made = ow.MemoryLayout.of(ow.MemoryOrdering(graph, in_place="any"), ow.Ordering(order=("p", "q")))
    assert made.in_place
    assert made == ow.MemoryLayout.model_validate_json(made.model_dump_json())
    names = [str(k) for k in range(520)]
    many = ow.OpGraph(tensors=[], operators=[ow.Operator(id=name, workspace_bytes=1) for name in names])
    pool = ow.Pool(name="arena", alignment=2**53)
    with pytest.raises(ow.InvalidInputError, match=r"2\*\*62"):
        ow.MemoryLayout.of(ow.MemoryOrdering(many), ow.Ordering(order=names), pools=[pool])
