"""What problems are lowered to is remembered by the object, not by its value, and not beyond its life."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.derived import once
from opweave.formulations.on_cluster import capacity_of, left_to_run_on, permitted, tied, too_large
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import NO_LIMIT
from tests.solvers.placement.instances import small_problem


def test_the_same_object_is_worked_out_once() -> None:
    asked = []

    @once
    def names(problem: ow.Placement) -> int:
        asked.append(problem)
        return len(problem.graph.operators)

    first = small_problem(0)
    assert names(first) == names(first)
    assert len(asked) == 1
    assert names(first.model_copy()) == names(first)
    assert len(asked) == 2


def test_nothing_outlives_its_problem() -> None:
    problem = small_problem(0)
    instance = weakref.ref(lower(problem).seconds)
    assert lower(problem).seconds is instance()
    del problem
    gc.collect()
    assert instance() is None


def test_pins_forbids_and_ties_by_hand() -> None:
    graph = ow.OpGraph(tensors=[], operators=[ow.Operator(id=name) for name in "pqr"])
    rules = [ow.Pin(op="p", device="a"), ow.Forbid(op="q", device="a"), ow.Colocate(ops=["q", "r"])]
    allowed = permitted(graph.operator_index, ["a", "b"], rules)
    assert allowed.tolist() == [[True, False], [False, True], [True, True]]
    known, group = np.ones((3, 2), dtype=bool), tied(graph, rules)
    assert group[1] == group[2] != group[0]
    assert left_to_run_on(graph, ["a", "b"], known, group, rules).tolist() == [
        [True, False],
        [False, True],
        [False, True],
    ]
    with pytest.raises(ContradictionError, match="'q', 'r' must share a device, but have no device left"):
        left_to_run_on(graph, ["a", "b"], known, group, [*rules, ow.Pin(op="r", device="a")])


def test_what_is_too_large() -> None:
    capacity = capacity_of([3, 5, None])
    assert capacity.tolist() == [3, 5, NO_LIMIT]

    def said(needed: int, *able: bool) -> str | None:
        return too_large("p needs 9", needed, np.array(able), capacity, "abc")

    assert said(9, True, True, False) == "p needs 9; 'b', the largest device that may run it, holds 5: 4 bytes short"
    assert said(9, True, False, True) is said(5, True, True, False) is said(9, False, False, False) is None
