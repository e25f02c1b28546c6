"""Handles: one function of a user's runs on every engine, and a missing handle says where there is one."""

from __future__ import annotations

import math

import pytest

import opweave as ow
from opweave.formulations.build import build_model
from opweave.formulations.expressions import express
from opweave.formulations.modeling.handles import OLDER_WORDS, WORDS, Handles
from tests.problems.pipeline.test_spec import four
from tests.tiny import PROBLEMS

ENGINES = ["highs", "scip", "cbc", "cp-sat"]


def available(problem: ow.Problem) -> list[str]:
    return [row.name for row in ow.list_solvers(problem.kind) if row.available and row.name in ENGINES]


ROWS = {
    "pipeline": (ow.Pin(op="a", device="e"), lambda model: model.on("a", "e") >= 1),
    "slicing": (ow.Pin(op="a", device="e"), lambda model: model.on("a", "d") <= 0),
    "batched_mapping": (ow.Pin(op="a", device="e"), lambda model: model.batch("a", "e") == 2),
    "memory_ordering": (ow.Precede(before="b", after="a"), lambda model: model.before("b", "a") == 1),
}
"""A row of a user's own, and the constraint that means the same."""


@pytest.mark.parametrize("kind", ROWS)
def test_one_function_runs_on_every_engine(kind: str) -> None:
    problem, (constraint, row) = PROBLEMS[kind], ROWS[kind]
    pinned = ow.solve(problem.model_copy(update={"constraints": (constraint,)}))

    def extend(model, problem) -> None:
        model.add(row(model))

    found = {engine: ow.solve(problem, solver=engine, extend=extend) for engine in available(problem)}
    assert {"highs", "cp-sat"} <= found.keys()
    for result in found.values():
        assert result.status is ow.Status.OPTIMAL
        assert math.isclose(result.objective, pinned.objective, rel_tol=1e-6)


def test_a_constraint_of_ones_own_is_written_with_handles() -> None:
    class NotTogether(ow.Constraint):
        first: str
        second: str

        def violations(self, problem, solution):
            devices = solution.devices_by_operator()
            if devices[self.first] == devices[self.second]:
                yield self.broken(f"{self.first!r} and {self.second!r} are on one device")

    @express(NotTogether, "flow")
    @express(NotTogether, "circuit")
    def _not_together(_formulation, model, constraint) -> None:
        for device in "abc":
            model.add(model.on(constraint.first, device) + model.on(constraint.second, device) <= 1)

    apart = ow.solve(four(constraints=[ow.Separate(ops=["P", "Q"])]), solver="highs")
    for engine in ("highs", "cp-sat"):
        result = ow.solve(four(constraints=[NotTogether(first="P", second="Q")]), solver=engine)
        assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(apart.objective))


def test_a_missing_handle_says_where_there_is_one() -> None:
    model = build_model(PROBLEMS["pipeline"])
    with pytest.raises(
        ow.UnsupportedFeatureError, match=r"no handle 'start' \(it has 'on', 'uses', 'stages'\); no formulation"
    ):
        model.start("a")
    with pytest.raises(ow.OpweaveError, match="'share'"):
        model.share("a", "d")


def test_all_words_are_defined() -> None:
    assert all(callable(getattr(Handles, word)) for word in (*WORDS, *OLDER_WORDS))
    assert Handles.words() == ()
