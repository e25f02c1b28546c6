"""What problems are lowered to is remembered by the object, not by its value, and not beyond its life."""

from __future__ import annotations

import gc
import weakref

import opweave as ow
from opweave.formulations.derived import once
from opweave.formulations.placement.instance import lower
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
