"""Slicing as people see it: rows, sentences, plan, trace, pictures."""

from __future__ import annotations

import pytest

import opweave as ow
from tests.problems.slicing.test_spec import chain


@pytest.fixture(scope="module")
def solved() -> tuple[ow.Slicing, ow.Result]:
    problem = chain(memory=(90, 90))
    return problem, ow.solve(problem, time_limit=20)


def test_explanation_says_what_cutting_gains_and_what_is_proved(solved: tuple[ow.Slicing, ow.Result]) -> None:
    text = ow.explain(*solved)
    assert "One input takes 9 s on 2 of 2 devices" in text
    assert "proved that no plan is faster" in text
