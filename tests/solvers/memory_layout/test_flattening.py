"""Flattened orders: legal, never above the cap, and with less that is close to it."""

from __future__ import annotations

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.memory_ordering.spec import given_order
from opweave.solvers.memory_layout.flattening import Flattening
from tests.solvers.memory_layout.test_ordered import drawn


@pytest.mark.parametrize("seed", range(6))
def test_moves_keep_the_order_legal_and_its_peak_within_the_cap(seed: int) -> None:
    problem = ow.MemoryOrdering(graph=drawn(seed, 40))
    instance, first = lower(problem), given_order(problem)
    peak = problem.evaluate(first).objective
    flat = Flattening(instance, instance.positions(first), peak, peak // 10, seed)
    assert flat.profile(flat.order).max() == peak
    close = np.maximum(0, flat.profile(flat.order) - (peak - peak // 10))
    flat.move(400)
    judged = problem.evaluate(instance.ordering(flat.order))
    assert judged.feasible and judged.objective <= peak
    assert flat.profile(flat.order).max() == judged.objective
    less = np.maximum(0, flat.profile(flat.order) - (peak - peak // 10))
    assert (less.astype(float) ** 3).sum() <= (close.astype(float) ** 3).sum()


def test_a_result_that_is_written_over_an_input_may_count_twice() -> None:
    problem = ow.MemoryOrdering(graph=ow.load("tests/data/MobileNetV2.json.gz"), in_place="any")
    instance, first = lower(problem), given_order(problem)
    peak = problem.evaluate(first).objective
    flat = Flattening(instance, instance.positions(first), peak, peak // 10, 0)
    flat.move(50)
    assert problem.evaluate(instance.ordering(flat.order)).feasible
