"""What every problem offers: fields without names, and the functions that people look for as methods."""

from __future__ import annotations

import inspect

import pytest

import opweave as ow

GRAPH = ow.OpGraph(
    tensors=[ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=8)],
    operators=[ow.Operator(id="p", inputs=["x"], outputs=["y"]), ow.Operator(id="q", inputs=["y"])],
)
TWO = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1e9)
COSTS = ow.Costs.from_table({name: {"a": 2.0, "b": 1.0} for name in "pq"})


@pytest.mark.parametrize("kind", [ow.Placement, ow.BatchedMapping, ow.Pipeline, ow.Slicing])
def test_graph_cluster_and_costs_need_no_names(kind: type) -> None:
    assert kind(GRAPH, TWO, COSTS) == kind(graph=GRAPH, cluster=TWO, costs=COSTS)
    assert [*inspect.signature(kind).parameters][:3] == ["graph", "cluster", "costs"]


def test_constraints_need_no_names_and_what_is_printed_can_be_typed() -> None:
    rules = [
        ow.Pin("p", "a"), ow.Forbid("p", "b"), ow.Precede("p", "q"), ow.Colocate(["p", "q"]), ow.Separate(["p", "q"]),
        ow.MaxDevices(1), ow.MemoryCap("a", "1 GB"), ow.Share("p", "a", 1),
    ]  # fmt: skip
    assert rules[0] == ow.Pin(op="p", device="a")
    assert rules[6] == ow.MemoryCap(device="a", bytes=10**9)
    for each in (*rules, TWO.devices[0], GRAPH.tensors[0]):
        assert eval(repr(each), vars(ow)) == each


def test_problems_are_solved_and_written_by_their_methods() -> None:
    problem = ow.Placement(GRAPH, TWO, COSTS, constraints=[ow.Pin("p", "a")])
    assert problem.solve(solver="highs").objective == ow.solve(problem).objective
    assert problem.to_pyomo().name == ow.build_model(problem).name
    pytest.importorskip("pymoo")
    assert problem.to_pymoo().n_var == ow.pymoo_problem(problem).n_var


class Untyped(ow.extend.Problem):
    """A problem that names neither the class of its solutions nor a unit."""

    def measure(self, solution: ow.extend.Solution, _timeline: object) -> int:
        return len(solution.order)


def test_a_problem_need_not_name_the_class_of_its_solutions() -> None:
    assert Untyped(GRAPH).evaluate(ow.Ordering(order=["p", "q"])).objective == 2
    with pytest.raises(ow.InvalidInputError, match="type Solution, not list"):
        Untyped(GRAPH).evaluate(["p", "q"])
