"""The list of formulations says what is true: names, defaults, engines, handles, sources."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.formulations.formulation import formulation_names
from opweave.formulations.modeling.intervals import IntervalModel
from tests.tiny import NEEDS, PROBLEMS

ROWS = ow.list_formulations()
WITH = {
    "on": "ad",
    "uses": "d",
    "held": "d",
    "before": "ab",
    "batch": "ad",
    "share": "ad",
    "inputs": "ad",
    "stages": "",
    "in_pool": "ad",
    "reserved": "d",
}
"""The arguments of handles; others take an operator."""


def test_all_formulations_are_listed_and_the_defaults_come_first() -> None:
    for kind in PROBLEMS:
        rows = ow.list_formulations(kind)
        linear, whole = formulation_names(kind), formulation_names(kind, IntervalModel)
        assert {row.name for row in rows} == {*linear, *whole}
        defaults = [linear[0], *whole[:1]]
        assert [row.name for row in rows if row.default][: len(defaults)] == defaults
        assert [row.name for row in rows[: len(defaults)]] == defaults
        assert list(rows) == [row for row in ROWS if row.problem == kind]
        assert list(ow.list_formulations(PROBLEMS[kind])) == list(rows)
    with pytest.raises(ow.InvalidInputError, match="no problem is called 'plcement'; did you mean 'placement'"):
        ow.list_formulations("plcement")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.problem}-{row.name}")
def test_its_engines_solve_it_and_its_handles_are_there(row: ow.results.FormulationInfo) -> None:
    engines = {each.name: each for each in ow.list_solvers(row.problem) if each.kind == "engine"}
    assert set(row.available) <= set(row.engines) <= set(engines)
    assert set(row.available) == {name for name in row.engines if engines[name].available}
    assert row.about
    assert "`" not in row.about
    assert row.source
    problem = PROBLEMS[row.problem].model_copy(update=NEEDS.get(row.name, {}))
    model = ow.build_model(problem, row.name)
    assert isinstance(model, IntervalModel) == (row.kind == "constraint program")
    for word in row.handles:
        handle = getattr(model, word)
        arguments: list[object] = list(WITH.get(word, "a"))
        if word in ("start", "end") and row.problem == "batched_mapping":
            arguments.append("d")
        if word == "runs":
            arguments.append(0)
        assert callable(handle), word
        model.add(handle(*arguments) <= 1e6)


def test_what_a_formulation_needs_is_what_it_refuses_otherwise() -> None:
    (row,) = (row for row in ROWS if row.name == "moirai")
    assert row.requires == "transfers='one_port_edge'"
    with pytest.raises(ow.UnsupportedFeatureError, match="one_port_edge"):
        ow.build_model(PROBLEMS["placement"], "moirai")
    paper = PROBLEMS["slicing"].model_copy(update={"transfers": "paper"})
    assert next(row for row in ROWS if row.name == "cut_program").requires == "transfers='refined'"
    with pytest.raises(ow.UnsupportedFeatureError, match="refined"):
        ow.build_model(paper, "cut_program")
