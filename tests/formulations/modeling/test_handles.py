"""Handles: one function of a user's runs on every engine, and a missing handle says where there is one."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings

import opweave as ow
from opweave.formulations.build import build_model
from opweave.formulations.expressions import express
from opweave.formulations.modeling.linear import WORDS
from opweave.formulations.slicing.milp import Cuts
from tests.strategies.slicing import planned_slicings
from tests.tiny import PROBLEMS

ENGINES = ["highs", "scip", "cbc", "cp-sat"]


def available(problem: ow.extend.Problem) -> list[str]:
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
    assert "highs" in found
    for result in found.values():
        assert result.status is ow.Status.OPTIMAL
        assert math.isclose(result.objective, pinned.objective, rel_tol=1e-6)


def test_a_missing_handle_says_where_there_is_one() -> None:
    model = build_model(PROBLEMS["pipeline"])
    with pytest.raises(
        ow.UnsupportedFeatureError,
        match=r"no model variable 'start' \(it has 'on', 'stage', 'uses', 'stages'\); no formulation",
    ):
        model.start("a")
    with pytest.raises(ow.OpweaveError, match="'share'"):
        model.share("a", "d")


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(planned_slicings(max_operators=3, max_devices=3))
def test_shares_are_those_of_the_referee(case: tuple[ow.Slicing, ow.Slices]) -> None:
    problem, plan = case
    problem = problem.model_copy(update={"channel": "dedicated", "transfers": "refined", "order": plan.order})
    judged = problem.evaluate(plan)
    assert judged.details is not None
    made = Cuts()
    try:
        model = made.build(problem)
    except ow.OpweaveError:
        return
    values = made.start(model, plan)
    for step in judged.details.steps:
        for device in plan.devices:
            share = model.share(step.operator, device).at(values)
            assert share == pytest.approx(step.shares.get(device, 0.0))


def test_the_help_says_which_handles_no_formulation_has() -> None:
    models = [row.handles for row in ow.list_formulations()]
    lacking = [word for word in WORDS if not any(word in handles for handles in models)]
    said = f"No formulation has {' and '.join(f'``{word}``' for word in lacking)} yet."
    for function in (ow.solve, ow.express):
        words = " ".join((function.__doc__ or "").split())
        assert (said in words) if lacking else ("No formulation has" not in words)
        assert all(f"model.{word}(" in words for word in WORDS)


NAN = math.nan

WRONG = {
    "operator": (lambda model: model.on("aa", "d") <= 1, "operator 'aa', which the problem does not have"),
    "near": (lambda model: model.on("a", "D") <= 1, r"device 'D', which .*; did you mean 'd'\?"),
    "keyword": (lambda model: model.uses(device="phone") <= 1, "device 'phone'"),
    "product": (lambda model: model.on("a", "d") * model.on("b", "d") <= 1, "linear"),
    "strict": (lambda model: model.on("a", "d") < 1, "<=|'<'"),
    "nan": (lambda model: model.on("a", "d") <= NAN, "not a number|not finite"),
    "coefficient": (lambda model: model.on("a", "d") * NAN <= 1, "not a finite number|not finite"),
    "text": (lambda model: model.on("a", "d") == "x", "each other and with numbers|model.add takes a constraint"),
    "truth": (lambda model: model.on("a", "d") and model.on("b", "d"), "has no value for|to bool"),
    "objective": (lambda model: model.objective >= 1e9, "from below"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize(
    ("kind", "engine"),
    [*((kind, "highs") for kind in ("placement", "batched_mapping", "pipeline", "slicing")), ("placement", "cp-sat")],
)
def test_wrong_rows_are_refused_in_a_sentence(kind: str, engine: str, what: str) -> None:
    row, message = WRONG[what]
    with pytest.raises(ow.OpweaveError, match=message):
        ow.solve(PROBLEMS[kind], solver=engine, extend=lambda model, _: model.add(row(model)))


@pytest.mark.parametrize("kind", ["placement", "memory_ordering"])
def test_plain_pyomo_checks_names_as_well(kind: str) -> None:
    formulation = {"placement": "moirai", "memory_ordering": "time_indexed"}[kind]
    changes = {"transfers": "one_port_edge"} if kind == "placement" else {}
    model = build_model(PROBLEMS[kind].model_copy(update=changes), formulation)
    with pytest.raises(ow.InvalidInputError, match="operator 'nine'"):
        model.before("nine", "a") if kind == "memory_ordering" else model.on("nine", "d")


def test_an_objective_of_decisions_alone_is_limited_from_below() -> None:
    """The latency of a pipeline is a sum of what is decided, so the plan costs what the row says."""
    problem = PROBLEMS["pipeline"].model_copy(update={"objective": "latency"})
    best = ow.solve(problem).objective

    def worse(model, problem) -> None:
        model.add(model.objective >= 1.05 * best)

    result = ow.solve(problem, solver="highs", extend=worse)
    assert result.objective >= 1.05 * best * (1 - 1e-6)


def test_rows_that_are_returned_are_added() -> None:
    problem = PROBLEMS["placement"]
    expected = ow.solve(problem, extend=lambda model, _: model.add(model.on("a", "e") == 1)).objective
    one, many = lambda model, _: model.on("a", "e") == 1, lambda model, _: [model.on("a", "e") == 1]
    for engine, extend in (("highs", one), ("cp-sat", many), ("auto", many)):
        assert ow.solve(problem, solver=engine, extend=extend).objective == pytest.approx(expected)


def test_columns_are_found_by_their_names_as_in_pyomo() -> None:
    for engine in ("highs", "cp-sat"):
        result = ow.solve(
            PROBLEMS["placement"], solver=engine, extend=lambda model, _: model.add(model.x["a", "e"] == 1)
        )
        assert result.solution.device["a"] == "e"
    with pytest.raises(ow.RuleError, match="no attribute 'y_z'"):
        ow.solve(PROBLEMS["placement"], solver="highs", extend=lambda model, _: model.add(model.y_z == 1))


def test_expressions_of_something_else_are_refused() -> None:
    with pytest.raises(ow.InvalidInputError, match="derived from Constraint"):
        express(int, "model")
    with pytest.raises(ow.InvalidInputError, match="no target 'order_arc'; did you mean 'order_arcs'"):
        express(ow.Pin, "order_arc")
