"""Who holds what: bytes and seconds add up to those of the referee."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.llm.held import holdings
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.workload import Workload
from tests.solvers.language.test_questions import model_of, rig_of


@pytest.mark.parametrize("experts", [True, False])
def test_they_add_up(experts: bool) -> None:
    model, rig, work = model_of(5, experts=experts), rig_of(400, 90, 70), Workload(context=1024)
    problem = fastest_pass(model, rig, work)
    result = ow.solve(problem, solver="layers")
    found = holdings(model, rig, work, problem, result.solution)
    held = problem.memory_by_device(result.solution)
    assert {each.device: each.used for each in found} == held
    assert sum(each.used for each in found) == model.parameter_bytes + model.cache_bytes(1024)
    assert sum(sum(each.seconds.values()) for each in found) == pytest.approx(result.objective)
