"""Code of a user's own that raises is named, in every problem and wherever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

import opweave as ow
from tests.tiny import PROBLEMS, under


class Broken(ow.Constraint):
    """Its ``violations`` raise, after a first objection."""

    def violations(self, problem, solution):
        yield self.broken("never mind")
        raise KeyError("b")


class Quiet(ow.Constraint):
    """It objects to nothing; its expressions raise."""

    def violations(self, problem, solution):
        return ()


def told(target: str, expression) -> type[Quiet]:
    """A rule that is expressed for one target."""
    rule = type(f"In_{target}", (Quiet,), {})
    ow.express(rule, target)(expression)
    return rule


def raise_late(problem, rule):
    yield "a", "c"
    raise ZeroDivisionError


InModels = told("model", lambda model, rule: 1 / 0)
InOrders = told("order_arcs", raise_late)
InSteps = told("step_rule", lambda problem, rule: lambda done, op: 1 / 0)
UnknownArc = type("UnknownArc", (Quiet,), {})
ow.express(UnknownArc, "order_arcs")(lambda problem, rule: [("a", "d")])


@pytest.mark.parametrize("arguments", [{"solver": "highs"}, {"solver": "auto", "threads": 2}], ids=str)
@pytest.mark.parametrize("kind", ["memory_ordering", "placement", "batched_mapping", "pipeline", "slicing"])
def test_a_rule_that_raises_is_named(kind: str, arguments: dict[str, object]) -> None:
    problem = under(PROBLEMS[kind], Broken())
    if (kind, arguments["solver"]) == ("slicing", "auto"):
        return  # the first objection is enough to refuse each of its few choices of devices
    with pytest.raises(ow.RuleError, match=r"Broken\.violations raised KeyError: 'b'") as caught:
        ow.solve(problem, **arguments)
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_referee_names_it_too() -> None:
    plan = ow.solve(PROBLEMS["pipeline"]).solution
    with pytest.raises(ow.RuleError, match=r"Broken\.violations raised KeyError"):
        under(PROBLEMS["pipeline"], Broken()).evaluate(plan)
    row = ow.compare(under(PROBLEMS["pipeline"], Broken()), ["highs"]).rows[0]
    assert row.refusal is not None
    assert "Broken.violations raised KeyError" in row.refusal


@pytest.mark.parametrize(
    ("rule", "kind", "solver"),
    [
        (InModels(), "pipeline", "highs"),
        (InModels(), "slicing", "highs"),
        (InOrders(), "placement", "heft"),
        (InOrders(), "memory_ordering", "auto"),
        (InSteps(), "memory_ordering", "btsearch"),
    ],
    ids=str,
)
def test_an_expression_that_raises_is_named(rule: ow.Constraint, kind: str, solver: str) -> None:
    with pytest.raises(ow.RuleError, match=f"of {type(rule).__name__}.* raised ZeroDivisionError") as caught:
        ow.solve(under(PROBLEMS[kind], rule), solver=solver)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("kind", ["memory_ordering", "placement", "slicing"])
def test_arcs_name_operators_of_the_graph(kind: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=r"UnknownArc for 'order_arcs' gave \('a', 'd'\)"):
        ow.solve(under(PROBLEMS[kind], UnknownArc()))


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_a_function_that_adds_rows_and_raises_is_named(solver: str, tmp_path: Path) -> None:
    def rows(model, problem) -> None:
        model.add(model.on("a", {}["d"]) <= 1)

    with pytest.raises(ow.RuleError, match=r"extend \('rows'\) raised KeyError: 'd'"):
        ow.solve(PROBLEMS["pipeline"], solver=solver, extend=rows)
    with pytest.raises(ow.RuleError, match=r"extend \('rows'\) raised KeyError: 'd'"):
        ow.write_model(PROBLEMS["pipeline"], tmp_path / "p.mps", extend=rows)
