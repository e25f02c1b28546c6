"""Trivial bounds by hand; tests.test_conformance compares them with brute force, as every result has at least them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import opweave as ow
from opweave.solvers.trivial import trivial_bound
from tests.problems.slicing.test_spec import chain


def test_it_counts_what_must_be_there_by_hand() -> None:
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in (("x", 3), ("y", 4), ("z", 5))]
    operators = [
        ow.Operator(id="p", inputs=["x"], outputs=["y"], workspace_bytes=10),
        ow.Operator(id="q", inputs=["y", "x"], outputs=["z"], inplace_ok=True),
    ]
    graph = ow.OpGraph(tensors=tensors, operators=operators, outputs=["z"])
    assert trivial_bound(ow.MemoryOrdering(graph=graph)) == 17
    assert trivial_bound(ow.MemoryOrdering(graph=graph, objective="total")) == 17 + 12
    assert trivial_bound(ow.MemoryOrdering(graph=graph, objective="total", in_place="any")) == 17 + 12
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
earlier = ow.extend.trivial_bound.dispatch(ow.MemoryOrdering)
@ow.extend.trivial_bound.register
def _(problem: {}):
    return earlier(problem) - 1
bound = ow.extend.trivial_bound
print(bound(Ours(graph)), ow.solve(ow.MemoryOrdering(graph)).bound, bound({}(graph)))
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
