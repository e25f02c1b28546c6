"""Windows that constraint programming settles, against brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds import best, settled
from opweave.solvers.placement.bounds.best import settle_in_child
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.bounds.rolling import Sweep
from opweave.solvers.placement.bounds.settled import Stage, Step
from opweave.solvers.placement.module_intervals import available, shortest_alone
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem
from tests.solvers.placement.settled_child import refute_all, roll_all, settle_all

pytestmark = pytest.mark.skipif(not available(), reason="CP-SAT is not installed")

STEPS = (Step(0.6, 0.05), Step(0.99, 0.1), Step(0.99, 0.1))
SMALL_STAGES = tuple(Stage(most, STEPS) for most in (1, 3, 8))
"""Windows of sizes that occur in problems of a handful of operators."""


SMALL = [small_problem(seed, most_operators=6, scale=scale) for seed in range(6) for scale in (1.0, 1e-9, 1e7)]
LINKED = [small_problem(seed, most_operators=12) for seed in (101, 104, 110)]
ROLLED = [small_problem(seed, most_operators=6, scale=10.0 ** (seed - 3)) for seed in range(8)]


def _optimum(problem: Placement) -> float:
    optimum, _ = best_placement(problem)
    assert optimum is not None
    return optimum


REFUTED = [each for each in (small_problem(seed, most_operators=6) for seed in range(8)) if _optimum(each) > 0.0]


def _net(problem: Placement) -> PlacementArrays:
    return arrays_of(lower(problem), problem)


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Any]]:
    """What windows prove of all problems below; one child answers, because importing takes it longer than solving."""
    work = [
        ("small", settle_all, [(_net(each), SMALL_STAGES) for each in SMALL]),
        (
            "linked",
            settle_all,
            [(_net(each), tuple(Stage(most, STEPS) for most in (1, 3, 6, 12))) for each in LINKED],
        ),
        ("layers", settle_all, [(_net(layered_problem(layers, 3)), SMALL_STAGES) for layers in (1, 2)]),
        (
            "rolled",
            roll_all,
            [(_net(each), SMALL_STAGES[:1], (Sweep(2, 1, 0.05), Sweep(4, 2, 0.1))) for each in ROLLED],
        ),
        ("whole", roll_all, [(_net(layered_problem(2, 3)), (), (Sweep(20, 1, 0.1), Sweep(20, 1, 0.1)))]),
        ("possible", refute_all, [(_net(each), _optimum(each) * (1 + 1e-6)) for each in REFUTED]),
        ("impossible", refute_all, [(_net(each), _optimum(each) * 0.999) for each in REFUTED]),
    ]
    found: dict[str, list[Any]] = {name: [] for name, _, _ in work}
    home = "tests.solvers.placement.settled_child"
    run_in_child("cp-sat", f"{home}:answer_all", work, ChildLimits(), hear=lambda told: found[told[0]].append(told[1]))
    return found


def test_no_bound_exceeds_the_optimum(answers: dict[str, list[Any]]) -> None:
    for problem, bound in zip(SMALL, answers["small"], strict=True):
        assert bound <= _optimum(problem) * (1 + 1e-9)


def test_links_inside_windows_keep_the_bound_below_the_optimum(answers: dict[str, list[Any]]) -> None:
    for problem, bound in zip(LINKED, answers["linked"], strict=True):
        found = search_module(_net(problem), shortest_alone(_net(problem)), 0.0, 400_000)
        assert found.proved
        assert bound <= found.makespan * (1 + 1e-9)


def test_no_rolled_bound_exceeds_the_optimum(answers: dict[str, list[Any]]) -> None:
    for problem, bound in zip(ROLLED, answers["rolled"], strict=True):
        assert bound <= _optimum(problem) * (1 + 1e-9)


def test_windows_that_hold_all_ancestors_are_rolled_to_the_optimum(answers: dict[str, list[Any]]) -> None:
    problem, (bound,) = layered_problem(2, 3), answers["whole"]
    found = search_module(_net(problem), shortest_alone(_net(problem)), 0.0, 400_000)
    assert found.proved
    assert 0.99 * found.makespan <= bound <= found.makespan * (1 + 1e-9)


def test_layers_are_settled_almost_exactly(answers: dict[str, list[Any]]) -> None:
    optimum = _optimum(layered_problem(1, 3))
    for layers, bound in zip((1, 2), answers["layers"], strict=True):
        assert 0.998 * layers * optimum <= bound <= layers * optimum * (1 + 1e-9)


def test_only_lengths_without_a_plan_are_refuted(answers: dict[str, list[Any]]) -> None:
    assert len(REFUTED) > 4
    assert answers["possible"] == [False] * len(REFUTED)
    assert answers["impossible"] == [True] * len(REFUTED)


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


def test_little_time_starts_no_child() -> None:
    found: list[float] = []
    settle_in_child(_net(layered_problem(4, 3)), Run(time_limit=1.0), lambda value, _: found.append(value))
    assert not found


def test_the_child_ends_where_the_bound_no_longer_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, now = list[float](), [0.0]
    patience = best.STALE_SHARE * best.LONGEST_SETTLED

    def child(*_: object, hear: Callable[[float], None], should_stop: Callable[[], bool]) -> None:
        for value in (1.0, 2.0):
            now[0] += 0.9 * patience
            assert not should_stop()
            hear(value)
        now[0] += 0.9 * patience
        hear(2.0)
        now[0] += 0.2 * patience
        assert should_stop()

    monkeypatch.setattr(best, "run_in_child", child)
    monkeypatch.setattr(Run, "elapsed", lambda _: now[0])
    settle_in_child(_net(layered_problem(4, 3)), Run(), lambda value, _: heard.append(value))
    assert heard == [1.0, 2.0, 2.0]
