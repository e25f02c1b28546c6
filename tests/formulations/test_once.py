"""What problems are lowered to is remembered by the object, not by its value, and not beyond its life."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.on_cluster import asked_of, capacity_of, left_to_run_on, permitted, room_of, tied, too_large
from opweave.formulations.once import once
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
    with pytest.raises(ContradictionError, match="'q' has no device left"):
        left_to_run_on(graph, ["a", "b"], known, group, [*rules, ow.Pin(op="r", device="a")])
    asked = asked_of("pqr", rules)
    assert [[asked[name].allow(device) for device in "ab"] for name in "pqr"] == allowed.tolist()


def test_room_and_what_is_too_large() -> None:
    assert capacity_of([3, None]).tolist() == [3, NO_LIMIT]
    assert room_of([3, 4]) == 7
    assert room_of([3, None]) is None
    limits = {"a": 3, "b": 5, "c": None}
    assert too_large("p needs 9", 9, ["a", "b"], limits) == (
        "p needs 9; 'b', the largest device that may run it, holds 5: 4 bytes short"
    )
    assert too_large("p needs 9", 9, ["a", "c"], limits) is None
    assert too_large("p needs 5", 5, ["a", "b"], limits) is None
    assert too_large("p needs 9", 9, [], limits) is None
