"""Windows that constraint programming settles, against brute force."""

from __future__ import annotations

from time import time

import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds import settled
from opweave.solvers.placement.bounds.best import settle_in_child
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.bounds.settled import Stage, Step
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem

pytestmark = pytest.mark.skipif(not available(), reason="CP-SAT is not installed")

STEPS = (Step(0.9, 0.05), Step(0.999, 0.1))
SMALL_STAGES = (Stage(1, 0.5, STEPS), Stage(3, 0.5, STEPS), Stage(8, 0.95, STEPS))
"""Windows of sizes that occur in problems of a handful of operators."""


def _net(problem: Placement) -> PlacementArrays:
    return arrays_of(lower(problem), problem)


def _settled(problem: Placement) -> float:
    values: list[float] = []

    def send(value: object) -> None:
        assert isinstance(value, float)
        values.append(value)

    settled.settle((_net(problem), time() + 20.0), send)
    return max(values)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e7])
@pytest.mark.parametrize("seed", range(12))
def test_no_bound_exceeds_the_optimum(seed: int, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "STAGES", SMALL_STAGES)
    problem = small_problem(seed, most_operators=6, scale=scale)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert _settled(problem) <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("layers", [1, 2])
def test_layers_are_settled_almost_exactly(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "STAGES", SMALL_STAGES)
    optimum, _ = best_placement(layered_problem(1, 3))
    assert optimum is not None
    assert 0.998 * layers * optimum <= _settled(layered_problem(layers, 3)) <= layers * optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_only_lengths_without_a_plan_are_refuted(seed: int) -> None:
    problem = small_problem(seed, most_operators=6)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    if optimum > 0.0:
        assert settled.refutes(_net(problem), [], optimum * (1 + 1e-6), 1.0, 10.0) is False
        assert settled.refutes(_net(problem), [], optimum * 0.999, 1.0, 10.0) is True


def test_links_lead_as_far_as_their_chain() -> None:
    arrays = _net(layered_problem(3, 3))
    chain = milestones_of(arrays, (1,))
    for block in chain.blocks():
        for a in range(2):
            for b in range(2):
                block.learn(a, b, 0, block.refuted(a, b, 40, 1.0))
    joined = settled.joined_bound(arrays, settled.links_of(chain))
    assert joined >= max(chain.value() * (1 - 1e-12), longest(arrays, reach_of(arrays)))


def test_the_child_reports_what_it_proves() -> None:
    found: list[tuple[float, str]] = []
    settle_in_child(_net(layered_problem(4, 3)), Run(), lambda value, source: found.append((value, source)))
    optimum, _ = best_placement(layered_problem(1, 3))
    assert optimum is not None
    assert {source for _, source in found} == {"milestones"}
    assert max(value for value, _ in found) == pytest.approx(4 * optimum, rel=2e-3)
