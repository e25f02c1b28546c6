"""Rules are registered on the same terms for every problem."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.solvers import registry
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run
from tests.solvers.placement.instances import small_problem


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
