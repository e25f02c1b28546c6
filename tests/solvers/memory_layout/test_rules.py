"""Rules by name: small layouts by hand, and valid layouts on everything."""

from __future__ import annotations

import opweave as ow


def problem(*rows: tuple[str, int, int, int]) -> ow.MemoryLayout:
    return ow.MemoryLayout(lifetimes=[ow.Lifetime(id=n, begin=b, end=e, bytes=size) for n, b, e, size in rows])


GAPS = problem(("a", 0, 9, 4), ("b", 0, 3, 6), ("c", 0, 9, 3), ("d", 0, 3, 3), ("e", 0, 9, 2), ("f", 4, 9, 3))
"""Once b and d have ended, there are gaps of six and three bytes."""


def test_first_gap_and_smallest_gap() -> None:
    online = ow.solve(GAPS, solver="onnxruntime").solution
    assert dict(online.offset) == {"a": 0, "b": 4, "c": 10, "d": 13, "e": 16, "f": 13}
    assert ow.solve(GAPS, solver="first_fit").solution.offset["f"] == 4
    assert dict(ow.solve(GAPS, solver="tflm").solution.offset) == {"b": 0, "a": 6, "f": 0, "d": 10, "c": 13, "e": 16}


def test_shared_objects_lie_one_after_another() -> None:
    """b and f share an object of six bytes in turns; all others have their own."""
    plan = ow.solve(GAPS, solver="executorch").solution
    assert dict(plan.offset) == {"b": 0, "a": 6, "f": 0, "d": 10, "c": 13, "e": 16}


def test_an_object_is_as_large_as_what_lives_in_it() -> None:
    """The largest storage never lives; what shares its object in turns still gets room of its own."""
    result = ow.solve(problem(("a", 2, 2, 9), ("b", 0, 4, 3), ("c", 0, 4, 2)), solver="executorch")
    assert result.verified
    assert result.objective == 5


def test_allocators_take_the_smallest_range_or_the_one_beside_what_ends_at_the_same_time() -> None:
    """Ranges of four and five bytes are free when e begins; d, which ends with e, stands above the larger one."""
    layout = problem(("a", 0, 5, 4), ("b", 0, 9, 1), ("c", 0, 5, 5), ("d", 0, 8, 1), ("e", 5, 8, 4))
    offset = dict(ow.solve(layout, solver="onnxruntime").solution.offset)
    assert offset["e"] == offset["a"]
    offset = dict(ow.solve(layout, solver="nearest_end").solution.offset)
    assert offset["e"] + 4 == offset["d"] or offset["d"] + 1 == offset["e"]


def test_given_offsets_have_a_plan_however_short_the_time() -> None:
    given_one = ow.MemoryLayout(lifetimes=GAPS.lifetimes, fixed={"c": 5})
    result = ow.solve(given_one, time_limit=1e-5)
    assert result.verified and result.solution.offset["c"] == 5
