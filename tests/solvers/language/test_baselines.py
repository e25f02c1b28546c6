"""Splits of runtimes: what each does by hand, and that none beats the counted plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.problems.placement.spec import Placement
from opweave.solvers.language.baselines import other_splits
from tests.solvers.language.models import DENSE, EXPERTS, model_of, placed, small_problems

LINK = [[0, 1e6, 1e6], [1e6, 0, 1e6], [1e6, 1e6, 0]]
TEN = model_of([DENSE] * 10, {"attention": 4, "feed_forward": 6, "embedding": 5, "head": 5}, cache=0)


def layers_of(problem: Placement, solver: str) -> list[int]:
    """How many layers every device has."""
    result = ow.solve(problem, solver=solver)
    assert result.reason is None, result.reason
    placed_on = [result.solution.device[f"layers.{k}.attention"] for k in range(10)]
    return [placed_on.count(device.name) for device in problem.cluster.devices]


@pytest.mark.parametrize(
    ("solver", "memory", "expected"),
    [("layers_equal", [50, 70, 100], [4, 3, 3]), ("layers_by_free_memory", [50, 70, 100], [3, 3, 4])],
)
def test_layers_by_hand(solver: str, memory: list[int], expected: list[int]) -> None:
    """Speeds of 8, 2 and 1, ten layers of 10 bytes; llama.cpp counts the head as an eleventh layer at the end."""
    assert layers_of(placed(TEN, memory, [8, 2, 1], LINK), solver) == expected


def test_fit_fills_from_the_back_and_leaves_the_front_with_the_host() -> None:
    """The slowest device is the host. The last accelerator takes the head and 3 layers, the first one 2 layers."""
    problem = placed(TEN, [29, 39, 1000], [8, 8, 1], LINK)
    result = ow.solve(problem, solver="llama_fit")
    homes = [result.solution.device[f"layers.{k}.feed_forward"] for k in range(10)]
    assert homes == ["d2"] * 5 + ["d0"] * 2 + ["d1"] * 3
    assert (result.solution.device["head"], result.solution.device["embedding"]) == ("d1", "d2")


def test_fit_keeps_experts_with_the_host_until_the_rest_fits() -> None:
    """All attention (4 bytes) fits the accelerator with the head; then two layers get their experts (40 bytes) back."""
    model = model_of([EXPERTS] * 5, {"attention": 4, "experts": 40, "head": 10}, cache=0)
    result = ow.solve(placed(model, [119, 1000], [9, 1], [[0, 1e6], [1e6, 0]]), solver="llama_fit")
    assert [result.solution.device[f"layers.{k}.experts"] for k in range(5)] == ["d0"] * 2 + ["d1"] * 3
    assert all(result.solution.device[f"layers.{k}.attention"] == "d0" for k in range(5))


@settings(max_examples=8, deadline=None)
@given(problem=small_problems())
def test_none_beats_the_plan(problem: Placement) -> None:
    best = ow.solve(problem, solver="layers")
    for split in other_splits(problem):
        if split.seconds is None:
            assert split.reason
        else:
            assert problem.evaluate(split.schedule).feasible
            assert split.seconds >= best.objective * (1 - 1e-9)
