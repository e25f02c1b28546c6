"""The programs of memory layout: brute force, layouts as values and back, rows of one's own, Pyomo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.memory_layout.instance import lower, pushed_down
from opweave.formulations.memory_layout.milp import Sides
from opweave.formulations.modeling.arrays import to_arrays
from opweave.problems.errors import InfeasibleError
from tests.oracles.memory_layout import best_layout
from tests.strategies.memory_layout import memory_layouts


def posed(*rows: tuple[int, int, int], **fields: object) -> ow.MemoryLayout:
    """Storages a, b, c, ... by begin, end and bytes."""
    lifetimes = [
        ow.Lifetime(id=name, begin=begin, end=end, bytes=size)
        for name, (begin, end, size) in zip("abc", rows, strict=False)
    ]
    return ow.MemoryLayout(lifetimes=lifetimes, **fields)


THREE = posed((0, 2, 4), (1, 3, 2), (2, 4, 4))
BANKS = THREE.model_copy(update={"pools": (ow.Pool(name="fast", bytes=6), ow.Pool(name="slow", speed=2.0))})


@pytest.mark.parametrize("pools", [1, 3])
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_layout_as_values_obeys_the_program_and_comes_back(pools: int, data: st.DataObject) -> None:
    problem = data.draw(memory_layouts(5, pools=pools))
    value, plan = best_layout(problem)
    assume(plan is not None)
    written = Sides()
    model = written.build(problem)
    values = written.start(model, plan)
    assert to_arrays(model).broken(values) is None
    judged = problem.evaluate(written.extract(model, values))
    assert judged.violations == ()
    assert judged.objective == pytest.approx(value)
    reached = model.cost.at(values)
    assert written.objective_bound(problem, reached) <= value * (1 + 1e-9)
    assert written.objective_bound(problem, reached) >= value * (1 - 1e-6) - 1e-6


def test_rows_of_ones_own() -> None:
    """b above 10 bytes; a and c may not both be in the fast pool."""
    result = ow.solve(THREE, solver="highs", extend=lambda model, _: model.add(model.offset("b") >= 9.5))
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 12)
    traffic = BANKS.model_copy(update={"objective": "traffic"})
    assert ow.solve(traffic, solver="highs").objective == 0.0

    def not_both(model: object, _: object) -> None:
        model.add(model.in_pool("a", "fast") + model.in_pool("c", "fast") <= 1)
        model.add(model.reserved("slow") >= 20)

    result = ow.solve(traffic, solver="highs", extend=not_both)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 4.0)


def test_what_fits_nowhere_says_so() -> None:
    problem = THREE.model_copy(update={"pools": (ow.Pool(name="tiny", bytes=3),)})
    with pytest.raises(InfeasibleError, match="storage 'a' of 4 bytes fits into none of its pools"):
        Sides().build(problem)
    result = ow.solve(problem, solver="highs")
    assert (result.status, result.reason) == (
        ow.Status.INFEASIBLE,
        "storage 'a' of 4 bytes fits into none of its pools",
    )


@pytest.mark.parametrize("pools", [1, 2])
def test_sizes_and_alignments_that_are_nothing_beside_the_largest_are_left_out(pools: int) -> None:
    sizes = {"a": (0, 2**50, 1), "b": (1, 3, 2), "c": (1, 2**50 - 1, 8)}
    problem = ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id=name, begin=at, end=at + 2, bytes=size, alignment=to)
            for name, (at, size, to) in sizes.items()
        ],
        pools=[ow.Pool(name=f"pool{k}", bytes=2**52) for k in range(pools)],
    )
    optimum, _ = best_layout(problem)
    result = ow.solve(problem, solver="highs", time_limit=2, options={"head_start": False})
    assert result.objective == pytest.approx(optimum)
    assert result.bound <= optimum


def test_seconds_are_told_apart_however_slow_a_pool_is_that_the_best_layout_leaves_empty() -> None:
    problem = ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id="a", begin=0, end=2, bytes=4, traffic=2),
            ow.Lifetime(id="b", begin=1, end=3, bytes=4, traffic=2),
        ],
        pools=[
            ow.Pool(name="slow", speed=1.0),
            ow.Pool(name="fast", speed=3e9, bytes=4),
            ow.Pool(name="near", speed=2e9),
        ],
        objective="traffic",
    )
    optimum, _ = best_layout(problem)
    result = ow.solve(problem, solver="highs")
    assert result.termination is ow.results.Termination.COMPLETED and result.reason is None
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(optimum))
    assert result.bound <= optimum


def test_what_does_not_fit_under_a_fixed_offset_stands_above_it() -> None:
    """An engine that counts large units takes the fixed offset of 8 bytes for 0."""
    problem = posed((0, 2, 16), (1, 3, 4), fixed={"b": 8})
    placed = pushed_down(lower(problem), np.asarray([0.0, 8.0]), np.zeros(2, dtype=np.int64))
    assert placed.tolist() == [12, 8]


@pytest.mark.parametrize("solver", ["auto", "highs"])
@pytest.mark.parametrize("limit", [300_004, None])
def test_rows_of_ones_own_leave_every_byte_where_units_are_larger(solver: str, limit: int | None) -> None:
    """Sizes are no multiples of a unit, which is some bytes for an arena of this size."""
    problem = posed((0, 2, 150_001), (1, 3, 150_003), pools=[ow.Pool(name="arena", bytes=limit)])

    def above(model: object, _: object) -> None:
        model.add(model.offset("b") >= model.offset("a"))

    result = ow.solve(problem, solver=solver, extend=above)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 300_004)
    assert result.solution.offset["b"] >= 150_001


def test_fixed_offsets_need_not_be_whole_units_where_rows_are_added() -> None:
    problem = posed((0, 2, 100_000), (1, 3, 100_000), fixed={"a": 64})
    result = ow.solve(problem, solver="highs", extend=lambda model, _: model.add(model.offset("b") >= 1))
    assert result.objective == 200_064


def test_an_alignment_far_below_a_unit_does_not_make_a_layout_impossible() -> None:
    problem = ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id="a", begin=1, end=9, bytes=2**50),
            ow.Lifetime(id="b", begin=0, end=9, bytes=2**30, alignment=4),
            ow.Lifetime(id="c", begin=0, end=1, bytes=2**50 - 1, alignment=4),
        ],
        pools=[ow.Pool(name="arena", alignment=2**20, speed=3e9)],
        in_place=[["b", "c"]],
        objective="traffic",
    )
    result = ow.solve(problem, solver="highs", time_limit=5)
    assert result.status is not ow.Status.INFEASIBLE and result.reason is None


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_rows_of_ones_own_may_ask_for_any_height(solver: str) -> None:
    """The gap is many times as high as everything that is stored."""
    problem = posed((0, 2, 9))
    result = ow.solve(problem, solver=solver, extend=lambda model, _: model.add(model.offset("a") >= 1000))
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 1009)


@pytest.mark.parametrize("solver", ["auto", "highs"])
@pytest.mark.parametrize(("begin", "size"), [(1, 9), (0, 0)])
def test_a_storage_that_takes_no_space_obeys_rows_of_ones_own(solver: str, begin: int, size: int) -> None:
    problem = posed((0, 2, 4), (begin, 1, size))
    result = ow.solve(problem, solver=solver, extend=lambda model, _: model.add(model.offset("b") >= 12))
    assert result.solution is not None and result.solution.offset["b"] >= 12
    assert result.status == "optimal"


def test_what_an_engine_lets_overlap_by_rounding_is_pushed_up() -> None:
    problem = ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id="a", begin=0, end=2, bytes=16),
            ow.Lifetime(id="b", begin=1, end=3, bytes=4, alignment=4),
        ]
    )
    asked = np.asarray([5.0, 20.0])
    placed = pushed_down(lower(problem), asked, np.zeros(2, dtype=np.int64), asked.astype(np.int64))
    assert placed.tolist() == [5, 24]
