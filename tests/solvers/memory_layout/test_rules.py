"""Rules by name and local search: small layouts by hand, and valid layouts on everything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from tests.oracles.memory_layout import best_layout
from tests.strategies.memory_layout import memory_layouts

RULES = ["first_fit", "tflm", "by_size", "by_lifetime", "by_area", "by_breadth", "onnxruntime", "executorch"]


def problem(*rows: tuple[str, int, int, int]) -> ow.MemoryLayout:
    return ow.MemoryLayout(lifetimes=[ow.Lifetime(id=n, begin=b, end=e, bytes=size) for n, b, e, size in rows])


GAPS = problem(("a", 0, 9, 4), ("b", 0, 3, 6), ("c", 0, 9, 3), ("d", 0, 3, 3), ("e", 0, 9, 2), ("f", 4, 9, 3))
"""Once b and d have ended, there are gaps of six and three bytes."""


def test_first_gap_and_smallest_gap() -> None:
    online = ow.solve(GAPS, solver="onnxruntime").solution
    assert dict(online.offset) == {"a": 0, "b": 4, "c": 10, "d": 13, "e": 16, "f": 13}
    assert ow.solve(GAPS, solver="first_fit").solution.offset["f"] == 4
    assert dict(ow.solve(GAPS, solver="tflm").solution.offset) == {"b": 0, "a": 6, "c": 10, "d": 13, "f": 0, "e": 16}


def test_shared_objects_lie_one_after_another() -> None:
    """b and f share an object of six bytes; nothing shares an object of two others."""
    plan = ow.solve(GAPS, solver="executorch").solution
    assert dict(plan.offset) == {"b": 0, "a": 6, "c": 10, "d": 13, "f": 13, "e": 16}


@pytest.mark.parametrize("rule", [*RULES, "hill_climb", "annealing"])
@settings(max_examples=10)
@given(layout=memory_layouts(most=6))
def test_rules_find_valid_layouts(rule: str, layout: ow.MemoryLayout) -> None:
    least, _ = best_layout(layout)
    result = ow.solve(layout, solver=rule, options={"rounds": 5} if rule in {"hill_climb", "annealing"} else None)
    assert not result.violations
    if result.solution is not None:
        assert result.verified
        assert least is not None
        assert result.objective >= least
        assert result.bound is None or result.bound <= least


def test_hill_climb_mends_a_bad_order() -> None:
    """Longest first gives 9; the peak of 8 needs another order."""
    layout = problem(("a", 0, 4, 1), ("b", 0, 2, 3), ("c", 2, 6, 3), ("d", 4, 8, 2), ("e", 1, 3, 4), ("f", 6, 9, 5))
    plain, climbed = ow.solve(layout, solver="by_lifetime"), ow.solve(layout, solver="hill_climb", time_limit=2.0)
    assert climbed.objective <= plain.objective
    assert climbed.status is ow.Status.OPTIMAL
