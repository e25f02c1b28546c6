"""Trivial bounds lie below the optimum of every instance, and every result has at least that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import opweave as ow
from opweave.solvers.trivial import trivial_bound
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.slicing import best_slicing
from tests.problems.slicing.test_spec import chain
from tests.strategies.batched_mapping import batched_mappings
from tests.strategies.pipeline import pipelines
from tests.strategies.slicing import slicings
from tests.strategies.specs import memory_orderings, placements

CASES: dict[str, tuple[SearchStrategy[ow.Problem], Callable[[ow.Problem], float | None]]] = {
    "ordering": (memory_orderings(5, limits=True, precedes=True), lambda p: best_ordering_by_states(p)[0]),
    "placement": (placements(4, precedes=True), lambda p: best_placement(p)[0]),
    "batched": (batched_mappings(3, 2, 3, precedes=True), lambda p: best_batched_mapping(p)[0]),
    "pipeline": (pipelines(5, 4), lambda p: best_pipeline(p)[0]),
    "slicing": (slicings(2, 2), lambda p: best_slicing(p)[0]),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_plan_is_below_the_bound(name: str, data: st.DataObject) -> None:
    strategy, best = CASES[name]
    problem = data.draw(strategy)
    bound, optimum = trivial_bound(problem), best(problem)
    assert bound is not None
    assert bound >= 0
    if optimum is not None:
        assert bound <= optimum


def test_it_counts_what_must_be_there_by_hand() -> None:
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in (("x", 3), ("y", 4), ("z", 5))]
    operators = [
        ow.Operator(id="p", inputs=["x"], outputs=["y"], workspace_bytes=10),
        ow.Operator(id="q", inputs=["y", "x"], outputs=["z"], inplace_ok=True),
    ]
    graph = ow.OpGraph(tensors=tensors, operators=operators, outputs=["z"])
    assert trivial_bound(ow.MemoryOrdering(graph=graph)) == 17
    assert trivial_bound(ow.MemoryOrdering(graph=graph, objective="total")) == 17 + 12
    assert trivial_bound(ow.MemoryOrdering(graph=graph, objective="total", in_place="any")) == 17 + 7
    assert trivial_bound(ow.MemoryOrdering(graph=graph, inputs="excluded")) == 14
    assert trivial_bound(ow.MemoryOrdering(graph=graph, objective="total", outputs="excluded")) == 17 + 7


def test_a_subclass_has_the_bound_of_its_parent() -> None:
    class Ours(ow.MemoryOrdering):
        pass

    graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=3)], operators=[ow.Operator(id="p", outputs=["x"])])
    assert trivial_bound(Ours(graph=graph)) == 3


OWN = """
import opweave as ow
graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=3)], operators=[ow.Operator(id="p", outputs=["x"])])
class Ours(ow.MemoryOrdering):
    pass
earlier = ow.trivial_bound.dispatch(ow.MemoryOrdering)
@ow.trivial_bound.register
def _(problem: {}):
    return earlier(problem) - 1
print(ow.trivial_bound(Ours(graph)), ow.solve(ow.MemoryOrdering(graph)).bound, ow.trivial_bound({}(graph)))
"""


@pytest.mark.parametrize(("name", "expected"), [("ow.MemoryOrdering", "2 3 2"), ("Ours", "2 3 2")])
def test_a_bound_of_ones_own_counts_although_it_came_before_opweaves(name: str, expected: str) -> None:
    """Bounds of opweave's are imported by the first call."""
    code = [sys.executable, "-c", OWN.format(name, name)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_slicing_shares_the_work_of_every_operator() -> None:
    assert trivial_bound(chain()) == pytest.approx(8.0)


@pytest.mark.parametrize("solver", ["one_device", "uniform", "geneflow"])
def test_solvers_without_bounds_report_it(solver: str) -> None:
    result = ow.solve(chain(), solver=solver, time_limit=0.5)
    assert result.bound_source == "trivial"
    assert result.bound == pytest.approx(8.0)
