"""Conflicts of problems that other tests found infeasible: explained completely, and fast."""

from __future__ import annotations

import time
from typing import Any

import pytest

import opweave as ow
from benchmarks.conflicts import infeasible_problems

SECONDS = 5.0
PER_TEST = 1


def cases() -> list[Any]:
    """The first problems of every test; the benchmark takes all of them."""
    found: dict[tuple[str, str], list[ow.Problem]] = {}
    for name, problem in infeasible_problems():
        found.setdefault((name, problem.kind), []).append(problem)
    return [
        pytest.param(problem, id=f"{kind}-{name.partition('::')[2]}-{number}")
        for (name, kind), several in found.items()
        for number, problem in enumerate(several[:PER_TEST])
    ]


@pytest.mark.parametrize("problem", cases())
def test_it_is_explained_in_time(problem: ow.Problem) -> None:
    began = time.process_time()
    found = ow.conflict(problem)
    assert time.process_time() - began < SECONDS
    assert (found.status, found.irreducible) == ("conflict", True)
    for mend in found.mends:
        assert mend.problem.evaluate(mend.plan).feasible
        assert mend.least or mend.requirement.startswith("batch=")  # batch sizes may have gaps
