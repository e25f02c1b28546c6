"""Rows of one's own that ask operators to wait: they make schedules longer, never impossible."""

from __future__ import annotations

import pytest

import opweave as ow
from tests.tiny import PROBLEMS

ENGINES = [
    ("placement", "highs", "disjunctive"),
    ("placement", "highs", "moirai"),
    ("placement", "cp-sat", None),
    ("batched_mapping", "highs", "identities"),
]


@pytest.fixture(params=ENGINES, ids=lambda row: "-".join(filter(None, row)))
def solve(request: pytest.FixtureRequest):
    kind, engine, formulation = request.param
    if engine == "cp-sat":
        pytest.importorskip("ortools")

    def with_rows(write) -> ow.Result:
        def extend(model, _problem) -> None:
            starts = model.start if kind == "placement" else lambda op: model.start(op, "d")
            rows = write(starts)
            for row in rows:
                model.add(row)

        changes = {"constraints": tuple(ow.Pin(op=op, device="d") for op in "ab")}
        if formulation == "moirai":
            changes["transfers"] = "one_port_edge"
        problem = PROBLEMS[kind].model_copy(update=changes)
        return ow.solve(problem, solver=engine, formulation=formulation, extend=extend)

    return with_rows


def start_of(result: ow.Result, op: str) -> float:
    if isinstance(result.solution, ow.Schedule):
        return result.solution.start[op]
    return min(batch.start for batch in result.solution.batches if batch.operator == op)


def test_a_late_start_makes_the_schedule_longer(solve) -> None:
    """All operators together take 5 or 10 seconds."""
    result = solve(lambda starts: [starts("a") >= 1000.0])
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert start_of(result, "a") == pytest.approx(1000.0, rel=1e-4)
    assert result.objective == pytest.approx(1000.0, rel=0.01)


def test_waits_add_up(solve) -> None:
    result = solve(lambda starts: [starts("b") >= starts("a") + 200.0, starts("a") >= 300.0])
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(500.0, rel=0.02)


def test_contradictions_are_still_proved(solve) -> None:
    result = solve(lambda starts: [starts("a") >= 1000.0, starts("a") <= 900.0])
    assert result.status is ow.Status.INFEASIBLE
    assert result.termination is ow.results.Termination.COMPLETED


def test_what_rows_of_other_shapes_ask_for_is_not_known(solve) -> None:
    result = solve(lambda starts: [starts("a") + starts("b") >= 1000.0, starts("a") <= 1.0, starts("b") <= 1.0])
    assert result.status is ow.Status.UNKNOWN
    assert "not a proof" in result.reason
