"""Rules are registered on the same terms for every problem."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.solvers import registry
from opweave.solvers.placement.baselines import RULES
from opweave.solvers.registry import list_solvers
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run
from tests.solvers.placement.instances import small_problem
from tests.tiny import PROBLEMS

BASELINES = {
    "memory_ordering": {"definition", "rpo", "lpmf", "bfs", "dfs"},
    "placement": {"one_device", "fill", "heft"},
    "batched_mapping": {"best_device", "data_parallel", "met", "greedy", "heft"},
    "pipeline": {"one_device", "by_memory", "filling", "greedy", "kpath", "random"},
    "slicing": {"one_device", "uniform", "proportional", "all_rows"},
}


@pytest.mark.parametrize("kind", BASELINES)
def test_baselines_are_rows_of_the_registry(kind: str) -> None:
    rows = [row for row in list_solvers(PROBLEMS[kind]) if row.baseline]
    assert {row.name for row in rows} == BASELINES[kind]
    assert all(row.kind == "algorithm" and row.available for row in rows)


def test_placement_calls_every_rule_by_its_own_name() -> None:
    assert [rule.__name__ for rule, _ in RULES.values()] == list(RULES)


def test_builders_without_a_plan_are_passed_over_and_none_is_called_too_early() -> None:
    called = []

    def build(number: int) -> int:
        called.append(number)
        if number % 2:
            raise NoPlanError("odd")
        return number

    plans = plans_of(lambda number=number: build(number) for number in range(4))
    assert next(plans) == 0
    assert called == [0]
    assert list(plans) == [2]


def test_a_rule_without_a_plan_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))

    def stuck(_problem: ow.Placement, _run: Run) -> None:
        raise NoPlanError("stuck at the first operator")

    register_rule(ow.Placement, "stuck", stuck, "finds nothing", supports=("assignment",), baseline=True)
    result = ow.solve(small_problem(0), solver="stuck")
    assert result.status is ow.Status.UNKNOWN
    assert result.solution is None
    assert "stuck at the first operator" in str(result.reason)
